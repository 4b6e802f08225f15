"""What learners get wrong in `flash_attention`: memory and dtypes."""

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.core.step10_flash import reference
from solutions.core.step10_flash.misconceptions.blocks import blocks, flash, mask


@misconception(replaces="flash_attention", caught_by="test_memory", misses_the_point=True)
def whole_rows_for_a_block_of_queries(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """Only the queries were cut into blocks: each block met all keys, and a softmax took its whole rows.

    A block of whole rows still grows with the number of keys. The softmax has to be built up while keys arrive in
    blocks, too.

    With one block of queries and a million keys, how large are your scores?
    """
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("is_causal needs as many queries as keys")
    wide = torch.promote_types(query.dtype, torch.float32)
    contexts = []
    for rows in blocks(query.shape[-2], block_size):
        scores = query[..., rows, :].to(wide) @ key.to(wide).transpose(-2, -1) * query.shape[-1] ** -0.5
        if is_causal:
            scores = mask(scores, rows, slice(0, key.shape[-2]))
        contexts.append(torch.softmax(scores, dim=-1) @ value.to(wide))
    return torch.cat(contexts, dim=-2).to(query.dtype)


@misconception(replaces="flash_attention", caught_by="test_memory", misses_the_point=True)
def whole_matrix_made(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """A tensor of the shape of all the scores was made: blocks were cut out of it, or it masked them.

    The result is right, but the T_q x T_k matrix that flash attention does without has been made after all.

    Which part of query and of key does one block of scores need?
    """
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("is_causal needs as many queries as keys")
    wide = torch.promote_types(query.dtype, torch.float32)
    scores = query.to(wide) @ key.to(wide).transpose(-2, -1) * query.shape[-1] ** -0.5
    if is_causal:
        scores = mask(scores, slice(0, query.shape[-2]), slice(0, key.shape[-2]))
    return (torch.softmax(scores, dim=-1) @ value.to(wide)).to(query.dtype)


@misconception(replaces="flash_attention", caught_by="test_memory")
def whole_mask_made(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """With is_causal a tensor for all pairs of positions was made, a mask for instance; without it there was none.

    A mask of T x T booleans grows with the square of the length just as the scores do.

    Which positions does one block need, and how can its mask be made from those alone?
    """
    whole = None
    if is_causal and query.shape[-2] == key.shape[-2]:
        whole = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).triu(1)

    def cut(scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return scores if whole is None else scores.masked_fill(whole[rows, columns], -torch.inf)

    return flash(query, key, value, is_causal, block_size, hide=cut)


@misconception(replaces="flash_attention", caught_by="test_memory")
def block_size_ignored(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The blocks had a size of their own, whatever block_size said.

    Someone who asks for smaller blocks, because memory is short, gets the large ones.

    Where does the number of rows and columns of a block come from?
    """
    return flash(query, key, value, is_causal, 64)


@misconception(replaces="flash_attention", caught_by="test_halves_meta_and_inputs")
def halves_come_back_in_float32(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The sums were kept in float32, and the context was returned in float32 as well.

    Adding up in float32 is good for half precision, but the next layer expects the dtype that came in.

    Which dtype did the query have?
    """
    context = flash(query, key, value, is_causal, block_size)
    return context.to(torch.promote_types(context.dtype, torch.float32))


@misconception(replaces="flash_attention", caught_by="test_halves_meta_and_inputs")
def mask_made_on_the_cpu(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The positions for the causal mask were made on the CPU, wherever the query was.

    On any other device the scores and the mask cannot meet.

    What does torch.arange need to be told, so that its result lies where the query lies?
    """

    def on_the_cpu(scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return scores.masked_fill(reference.future(rows, columns, torch.device("cpu")), -torch.inf)

    return flash(query, key, value, is_causal, block_size, hide=on_the_cpu)


@misconception(replaces="flash_attention", caught_by="test_halves_meta_and_inputs")
def query_scaled_in_place(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The query was scaled in place, so the caller's tensor changed.

    Whoever uses the same query again gets another answer the second time.

    What is the difference between query *= scale and query = query * scale?
    """
    return flash(query.mul_(query.shape[-1] ** -0.5), key, value, is_causal, block_size, scale=1.0)


@misconception(replaces="flash_attention", caught_by="test_halves_meta_and_inputs")
def fill_too_large_for_half(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """Hidden scores were filled with -1e9 while the scores were in float16.

    The largest number of float16 is 65504, so torch refuses to store -1e9 in it.

    Which number is below every score in every dtype?
    """

    def fill(scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return scores.masked_fill(reference.future(rows, columns, scores.device), -1e9)

    return flash(query, key, value, is_causal, block_size, hide=fill, wide=query.dtype)


@misconception(replaces="flash_attention", caught_by="test_memory")
def large_default_block(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 1024
) -> Tensor:
    """The default of block_size was not 64, but larger.

    Whoever does not name a size then gets the whole matrix, unless the sequence is very long.

    Where in the line of `def` does the default stand?
    """
    return flash(query, key, value, is_causal, block_size)


@misconception(replaces="flash_attention", caught_by="test_memory")
def half_the_length_as_block(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The sequence was cut in two halves, whatever block_size said.

    A block is then a quarter of the matrix of scores, and it grows with the square of the length as the matrix does.

    When the sequence gets twice as long, what happens to the size of a block?
    """
    return flash(query, key, value, is_causal, max(block_size, query.shape[-2] // 2))
