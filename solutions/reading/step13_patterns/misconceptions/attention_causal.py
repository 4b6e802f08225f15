"""What learners get wrong in `attention_causal`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step13_patterns.misconceptions.distances import Device


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def causal_divided_by_all_tokens(num_tokens: int, device: Device = None) -> Tensor:
    """Every causal weight is 1 / T.

    Query i sees only i + 1 keys, so the first rows sum to less than 1.

    How many keys does the first token see, and what is its weight on each?
    """
    return torch.ones(num_tokens, num_tokens, device=device).tril() / num_tokens


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def later_tokens(num_tokens: int, device: Device = None) -> Tensor:
    """Each token attends to itself and to every later one.

    Causal means that nothing comes from the future. Right of the diagonal the key comes after the query.

    Which triangle stays when the first token sees only itself?
    """
    return torch.ones(num_tokens, num_tokens, device=device).tril().flip(0, 1) / torch.arange(
        num_tokens, 0, -1, device=device
    ).unsqueeze(1)


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def causal_not_divided(num_tokens: int, device: Device = None) -> Tensor:
    """Every visible weight is 1: that is the mask, not the weights.

    A mask says what may be seen. Weights say how much, and those of a row sum to 1.

    By what does each row have to be divided?
    """
    return torch.ones(num_tokens, num_tokens, device=device).tril()


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def causal_divided_by_columns(num_tokens: int, device: Device = None) -> Tensor:
    """Each weight was divided by the sum of its column.

    A column holds what all queries give to one key. The rows should sum to 1, and that takes one divisor per row.

    Over which dimension does your sum run?
    """
    visible = torch.ones(num_tokens, num_tokens, device=device).tril()
    return visible / visible.sum(dim=0)


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def causal_row_sums_lie_flat(num_tokens: int, device: Device = None) -> Tensor:
    """The row sums, of shape `(T,)`, were divided into the columns.

    Broadcasting lines up the last dimensions, so column j was divided by the sum of row j.

    What does `keepdim=True` do to the shape of the sums?
    """
    visible = torch.ones(num_tokens, num_tokens, device=device).tril()
    return visible / visible.sum(dim=-1)


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def softmax_of_the_mask(num_tokens: int, device: Device = None) -> Tensor:
    """The softmax was taken of the ones and zeros themselves.

    A score of 0 is an ordinary score: exp(0) is 1, so what should be hidden still gets weight.

    Which score has an exponential of exactly 0?
    """
    return torch.ones(num_tokens, num_tokens, device=device).tril().softmax(dim=-1)


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def own_token_left_out(num_tokens: int, device: Device = None) -> Tensor:
    """The own token was left out of the causal pattern.

    Each token attends to itself and to every earlier one. Without itself the first token has nothing to attend to.

    From which diagonal on is your triangle filled?
    """
    visible = torch.ones(num_tokens, num_tokens, device=device).tril(-1)
    return visible / visible.sum(dim=-1, keepdim=True).clamp(min=1)


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def own_token_left_out_but_for_the_first(num_tokens: int, device: Device = None) -> Tensor:
    """The own token was left out of the causal pattern, and only the first token attends to itself.

    Every token attends to itself too: the second one has two tokens to attend to, and not one.

    How many weights does row i have that are not 0?
    """
    visible = torch.ones(num_tokens, num_tokens, device=device).tril(-1)
    visible[0, 0] = 1.0
    return visible / visible.sum(dim=-1, keepdim=True)


@another_form(own_token_left_out)
def first_row_of_nothing(num_tokens: int, device: Device = None) -> Tensor:
    visible = torch.ones(num_tokens, num_tokens, device=device).tril(-1)
    return visible / visible.sum(dim=-1, keepdim=True)


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def next_token_shared_in(num_tokens: int, device: Device = None) -> Tensor:
    """Each token attends to the next one as well.

    Right of the diagonal the key comes after the query, and causal means that nothing comes from the future.

    Which diagonal is the last one that your triangle keeps?
    """
    visible = torch.ones(num_tokens, num_tokens, device=device).tril(1)
    return visible / visible.sum(dim=-1, keepdim=True)


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def causal_divided_by_everything(num_tokens: int, device: Device = None) -> Tensor:
    """Every weight was divided by the sum of the whole triangle.

    Each row sums to 1 by itself.

    Over which dimension does your sum run?
    """
    visible = torch.ones(num_tokens, num_tokens, device=device).tril()
    return visible / visible.sum()


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def causal_counted_from_zero(num_tokens: int, device: Device = None) -> Tensor:
    """Row i was divided by i.

    Rows are counted from 0, and query i sees i + 1 keys: those before it and itself.

    How many keys does the first row, row 0, see?
    """
    visible = torch.ones(num_tokens, num_tokens, device=device).tril()
    return visible / torch.arange(num_tokens, device=device).unsqueeze(1)


@another_form(causal_counted_from_zero)
def causal_counted_from_zero_but_for_the_first(num_tokens: int, device: Device = None) -> Tensor:
    visible = torch.ones(num_tokens, num_tokens, device=device).tril()
    return visible / torch.arange(num_tokens, device=device).clamp(min=1).unsqueeze(1)
