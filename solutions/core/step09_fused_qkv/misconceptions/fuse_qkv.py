"""What learners get wrong in `fuse_qkv`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_learns")
def fused_on_the_cpu(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The fused weight was filled into a tensor that was made on the CPU.

    When the three weights are on a GPU, the fused one stays behind.

    From what can the new tensor take the device?
    """
    size = len(query_weight)
    fused = torch.empty(3 * size, size, dtype=query_weight.dtype)
    for number, weight in enumerate((query_weight, key_weight, value_weight)):
        fused[number * size : (number + 1) * size] = weight
    return fused


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_learns")
def fused_in_float32(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The fused weight was filled into a float32 tensor, whatever the dtype of the three weights.

    Weights in float64 or bfloat16 come back in another dtype, and a product with their inputs is then an error.

    From what can the new tensor take the dtype?
    """
    size = len(query_weight)
    fused = torch.empty(3 * size, size, device=query_weight.device)
    for number, weight in enumerate((query_weight, key_weight, value_weight)):
        fused[number * size : (number + 1) * size] = weight
    return fused


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_by_hand")
def concatenated_as_columns(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The three weights were put next to each other, which gave the shape `(D, 3 * D)`.

    The weight of `nn.Linear(D, 3 * D)` has one row for each number that comes out, so it is `(3 * D, D)`.

    Print `nn.Linear(2, 6).weight.shape`. Which dimension has to grow?
    """
    return torch.cat([query_weight, key_weight, value_weight], dim=1)


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_by_hand")
def each_weight_transposed(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """Each of the three weights was transposed before they were put below each other.

    `nn.Linear` transposes its weight itself when it multiplies. What goes in are weights of `nn.Linear`, and what
    comes out is one too.

    Do the rows of an `nn.Linear` weight belong to what comes in, or to what goes out?
    """
    return torch.cat([query_weight.T, key_weight.T, value_weight.T], dim=0)


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_by_hand")
def stacked_on_a_new_dimension(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The three weights were stacked on a new dimension, which gave the shape `(3, D, D)`.

    A linear layer's weight has two dimensions: `(3 * D, D)`.

    What is the difference between `torch.stack` and `torch.cat`?
    """
    return torch.stack([query_weight, key_weight, value_weight])


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_by_hand")
def rows_interleaved(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The rows of the three weights were interleaved: one of the query, one of the key, one of the value, and so on.

    The output of `c_attn` is cut into three runs of D numbers, so the rows of the query must all come first.

    After stacking, which of the first two dimensions counts query, key and value? Which of them should come first?
    """
    return torch.stack([query_weight, key_weight, value_weight], dim=1).flatten(0, 1)


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_by_hand")
def fused_in_another_order(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The weights were fused in the order key, query, value.

    Attention that reads the first third as the query then asks with the keys.

    In which order does the name `qkv` list them?
    """
    return torch.cat([key_weight, query_weight, value_weight], dim=0)


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_learns")
def fused_weight_detached(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The fused weight was cut off from the three it was made of, by `detach`, `.data` or `nn.Parameter`.

    The numbers are right, but no gradient flows back to the three weights.

    Which of your operations makes a new tensor that knows nothing of where its numbers came from?
    """
    return torch.cat([query_weight.detach(), key_weight.detach(), value_weight.detach()], dim=0)


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_by_hand")
def fused_with_the_value_first(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The weights were fused with the value's first.

    Attention that reads the first third as the query then asks with the values.

    In which order does the name `qkv` list them?
    """
    return torch.cat([value_weight, key_weight, query_weight], dim=0)


@another_form(fused_with_the_value_first)
def fused_value_query_key(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    return torch.cat([value_weight, query_weight, key_weight], dim=0)


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_by_hand")
def fused_weight_transposed(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The fused weight came out transposed, `(D, 3 * D)`: as GPT-2's checkpoints hold it, and not as `nn.Linear` does.

    Hugging Face's GPT-2 uses a `Conv1D`, whose weight has the inputs as rows. A weight of `nn.Linear` has the outputs.

    Print `nn.Linear(2, 6).weight.shape`. Which of the two numbers comes first?
    """
    return torch.cat([query_weight.T, key_weight.T, value_weight.T], dim=1)
