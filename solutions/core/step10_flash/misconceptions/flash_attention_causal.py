"""What learners get wrong in `flash_attention`: the causal mask."""

from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.core.step10_flash.misconceptions.blocks import flash, mask


@misconception(replaces="flash_attention", caught_by="test_causal")
def future_seen_outside_diagonal_blocks(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The causal mask was applied only in the blocks on the diagonal; the blocks after them were read in full.

    Each query then sees all the keys that lie in later blocks.

    What does a query of the first block have to do with keys of the third?
    """

    def diagonal_only(scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return mask(scores, rows, columns) if rows.start == columns.start else scores

    return flash(query, key, value, is_causal, block_size, hide=diagonal_only, skip_future=False)


@misconception(replaces="flash_attention", caught_by="test_causal")
def diagonal_blocks_not_masked(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The later blocks were skipped, but inside the block on the diagonal no mask was applied.

    There some keys lie before a query and some after it, so a query still sees up to block_size - 1 later tokens.

    Which blocks lie wholly in the past, which wholly in the future, and which are mixed?
    """
    return flash(query, key, value, is_causal, block_size, hide=lambda scores, rows, columns: scores)


@misconception(replaces="flash_attention", caught_by="test_causal")
def positions_counted_within_the_block(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The mask compared positions counted from the start of each block, in every block.

    Blocks that lie wholly in the past then lose keys which their queries may attend to.

    What is the position of the first query of a block, counted from the start of the sequence?
    """

    def local(scores: Tensor, rows: slice, columns: slice) -> Tensor:
        here = slice(0, rows.stop - rows.start), slice(0, columns.stop - columns.start)
        return mask(scores, *here)

    return flash(query, key, value, is_causal, block_size, hide=local)


@misconception(replaces="flash_attention", caught_by="test_causal")
def own_key_hidden(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64) -> Tensor:
    """With is_causal each query was kept from the key at its own position, too.

    The first query then sees nothing at all, and a softmax over nothing is not a number.

    Query i attends to keys 0 to i. Is key i one of them?
    """

    def own_too(scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return mask(scores, slice(rows.start - 1, rows.stop - 1), columns)

    return flash(query, key, value, is_causal, block_size, hide=own_too, skip_future=False)


@misconception(replaces="flash_attention", caught_by="test_causal")
def is_causal_ignored(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """The argument is_causal was taken, but nothing depended on it.

    With is_causal=True every query still attended to every key.

    Where in the loop is it known which keys lie after which queries?
    """
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError("is_causal needs as many queries as keys")
    return flash(query, key, value, False, block_size)


@misconception(replaces="flash_attention", caught_by="test_causal")
def unequal_lengths_accepted(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
) -> Tensor:
    """With is_causal=True another number of queries than of keys was accepted.

    Then nobody knows which key a query stands beside, and the answer is silently a guess.

    Which two lengths should be compared before the first block is read?
    """
    return flash(query, key, value, is_causal, block_size, check_lengths=False)
