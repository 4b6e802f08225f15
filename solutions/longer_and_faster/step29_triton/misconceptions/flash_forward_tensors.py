"""What learners get wrong in `flash_forward`: the tensors."""

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.longer_and_faster.step29_triton.misconceptions.kernel import Both, by, run


@misconception(replaces="flash_forward", caught_by="test_halves_strides_and_inputs")
@by(dense=True)
def strides_taken_for_granted() -> None:
    """The kernel took every input for contiguous.

    Heads out of a split are transposed views: the next row is elsewhere than after the last column.

    What does query.stride() say, and does the kernel get it?
    """


@misconception(replaces="flash_forward", caught_by="test_any_lengths")
@by(EXCHANGED="batch and head")
def batch_and_head_exchanged() -> None:
    """The number of a program was split into batch and head in the wrong way.

    Programs then read one head and write another.

    In which order do the heads of the sequences lie in the output?
    """


@misconception(replaces="flash_forward", caught_by="test_halves_strides_and_inputs")
@by(dtype=torch.float32)
def output_always_float32() -> None:
    """The output was float32 also for a float16 input.

    Sums are float32, but what is given back has the dtype of the query.

    Where is the dtype of your output decided?
    """


@misconception(replaces="flash_forward", caught_by="test_halves_strides_and_inputs")
def logsumexp_in_the_inputs_dtype(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The logsumexp was float16 for a float16 input.

    It is float32 always: a backward pass takes exponentials of it.

    Which dtype does the docstring give for the logsumexp?
    """
    return run(query, key, value, is_causal, block_q, block_k, sum_dtype=query.dtype)


@misconception(replaces="flash_forward", caught_by="test_halves_strides_and_inputs")
def query_scaled_in_place(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The query was multiplied by the scale in place.

    It belongs to the caller, who may go on with it.

    Which of your lines writes into a tensor that you were given?
    """
    scale = query.shape[-1] ** -0.5
    return run(query.mul_(scale), key, value, is_causal, block_q, block_k, scale=1.0)


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
def output_alone(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Tensor:
    """Only the output was returned, without the logsumexp.

    A backward pass needs both: the logsumexp saves it a second pass over all scores.

    How many values does the docstring name behind the arrow?
    """
    return run(query, key, value, is_causal, block_q, block_k)[0]


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
def logsumexp_first(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The logsumexp came first and the output second.

    The pair is (output, logsumexp).

    In which order does the docstring name the two?
    """
    output, logsumexp = run(query, key, value, is_causal, block_q, block_k)
    return logsumexp, output


@misconception(replaces="flash_forward", caught_by="test_any_lengths")
def blocks_of_64_whatever_was_asked(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The kernel took 64 queries a program, and the grid had as many programs as block_q asks for.

    Where block_q is larger, the last queries belong to no program, and what was in their memory is returned.

    Which two of your lines have to agree on how many queries a program takes?
    """
    output, logsumexp = run(query, key, value, is_causal, 64, 64)
    reached = 64 * -(-query.shape[2] // block_q)
    output[:, :, reached:], logsumexp[:, :, reached:] = torch.nan, torch.nan
    return output, logsumexp
