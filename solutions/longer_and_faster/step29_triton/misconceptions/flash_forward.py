"""What learners get wrong in `flash_forward`, each with the check that catches it."""

from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step29_triton.misconceptions.kernel import Both, by, padded, require, run

# --- the running softmax ----------------------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
@by(CONTEXT_RESCALED=False)
def context_not_rescaled() -> None:
    """The output was not rescaled when the maximum grew.

    What was added up before is in units of a smaller maximum, and so counts too much beside what comes after.

    By which factor do the weights of the earlier blocks change when the maximum grows?
    """


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
@by(DENOMINATOR_RESCALED=False)
def denominator_not_rescaled() -> None:
    """The sum of the weights was not rescaled when the maximum grew.

    It then counts earlier keys in another unit than the output does, and the weights no longer sum to 1.

    Which two of your running values are sums of exponentials?
    """


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
@by(MAXIMUM="of each block")
def each_block_its_own_maximum() -> None:
    """Each block of keys was taken relative to its own maximum, and the blocks were added up as they were.

    Blocks whose maxima differ are then added in different units.

    What has to happen to the sums so far before a block with another maximum is added?
    """


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
@by(DIVIDED="in every block")
def divided_in_every_block() -> None:
    """The weights were divided by their sum in every block of keys.

    Each block then has a whole weight of 1, however small its scores are, and the output is the sum of the
    blocks' means.

    How often does a softmax over all keys divide?
    """


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
@by(DIVIDED="never")
def never_divided() -> None:
    """The output was never divided by the sum of the weights.

    It is then a sum of values and not a mean of them.

    What do the weights of a query have to sum to?
    """


@misconception(replaces="flash_forward", caught_by="test_large_scores")
@by(MAXIMUM="none")
def no_maximum() -> None:
    """No maximum was subtracted from the scores.

    The exponential of a score of 1000 is infinite in float32, and all of those of a row near -1000 are 0.

    What does exp give at 1000, and what at 0?
    """


@misconception(replaces="flash_forward", caught_by="test_large_scores")
@by(MAXIMUM="from zero")
def maximum_from_zero() -> None:
    """The running maximum started at 0.

    Where all scores are far below 0, their exponentials relative to 0 are all 0, and 0 / 0 is NaN.

    Which number is smaller than every score?
    """


@misconception(replaces="flash_forward", caught_by="test_large_scores")
@by(MAXIMUM="of the first block")
def maximum_of_the_first_block() -> None:
    """The maximum was taken from the first block of keys and kept for the others.

    A later key whose score is larger by 100 has an infinite exponential relative to it.

    What if the largest score is in the last block?
    """


@misconception(replaces="flash_forward", caught_by="test_large_scores")
@by(MAXIMUM="one for the block")
def one_maximum_for_the_block() -> None:
    """One maximum served all queries of a block.

    A query whose scores are all far below those of its neighbours loses all its weights.

    Along which axis of a block of scores is the maximum of a query?
    """


# --- the keys ---------------------------------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
@by(BEYOND_HIDDEN=False)
def keys_beyond_the_end_attended() -> None:
    """The places of a block that lie beyond the last key were attended.

    They are read as 0, which is a score like any other and gets a weight.

    What should the score of a key be that does not exist?
    """


@misconception(replaces="flash_forward", caught_by="test_any_lengths")
@by(WHOLE_BLOCKS_ONLY=True)
def last_block_dropped() -> None:
    """The last block of keys was left out where it was not full.

    Its keys count like all others.

    How many blocks of 16 do 35 keys need?
    """


@misconception(replaces="flash_forward", caught_by="test_any_lengths")
@by(whole_grid=False)
def queries_of_the_last_block_dropped() -> None:
    """The grid had no program for the last block of queries where that was not full.

    These rows of the output were never written.

    What is the difference between T // block and triton.cdiv(T, block)?
    """


@misconception(replaces="flash_forward", caught_by="test_any_widths")
@by(COLUMNS_MASKED=False)
def columns_not_masked() -> None:
    """Where the width is no power of two, the columns beyond it were read from what follows in memory.

    The next row begins there, and its numbers get into the scores.

    Which columns of the block does a row of width 20 fill, and what is read in the others?
    """


@misconception(replaces="flash_forward", caught_by="test_any_widths")
def only_powers_of_two(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The kernel worked only where the width is a power of two.

    tl.arange needs a power of two, and a head may be 20 or 80 wide.

    How can a block be wider than the row that it holds?
    """
    return run(query, key, value, is_causal, block_q, block_k, widths=(query.shape[-1], value.shape[-1]))


@misconception(replaces="flash_forward", caught_by="test_any_widths")
def narrow_widths_fail(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The kernel worked only for widths from 16.

    A matrix product of blocks on the GPU needs 16 of each, but a width may be smaller: then the block is to be
    filled up.

    What can stand in the columns from d to 16 so that no product changes?
    """
    if min(query.shape[-1], value.shape[-1]) < 16:
        raise AssertionError("Input shapes should have M >= 1, N >= 1 and K >= 16")
    return run(query, key, value, is_causal, block_q, block_k)


# --- the scores -------------------------------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
@by(scale=1.0)
def not_scaled() -> None:
    """The scores were not divided by the square root of d.

    Attention is scaled: without it the weights get sharper as the heads get wider.

    What does step 1 divide by?
    """


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
def scaled_by_the_width(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The scores were divided by d and not by its square root.

    They are then too small, and the weights too even.

    How does the spread of a sum of d products grow with d?
    """
    return run(query, key, value, is_causal, block_q, block_k, scale=1.0 / query.shape[-1])


@misconception(replaces="flash_forward", caught_by="test_any_widths")
def scaled_by_the_padded_width(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The scores were divided by the square root of the width of the block, which was filled up to a power of
    two.

    The zeros that were added to fill it change no score, and are not to change the scale either.

    How wide is the query that you were given?
    """
    return run(query, key, value, is_causal, block_q, block_k, scale=padded(query.shape[-1]) ** -0.5)


@misconception(replaces="flash_forward", caught_by="test_any_widths")
def scaled_by_the_width_of_value(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The scores were divided by the square root of d_v.

    Scores are products of queries and keys: their width counts, which may differ from the value's.

    Which of the inputs go into a score?
    """
    return run(query, key, value, is_causal, block_q, block_k, scale=value.shape[-1] ** -0.5)


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
@by(log2_e=1.0)
def exp2_without_log2_e() -> None:
    """exp2 was taken of the scores without multiplying them by log2(e).

    2 to the power of x is smaller than e to the power of x, for x above 0: the weights are too even.

    By what has x to be multiplied so that 2 to that power is e to the power of x?
    """


# --- the running softmax, once more -----------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_one_block_by_hand")
@by(RESCALED_BY="its inverse")
def rescaled_by_the_inverse() -> None:
    """The sums were rescaled by exp(new - old) where exp(old - new) is meant.

    When the maximum grows, what was added up before becomes smaller beside it. Before the first block the old maximum
    is -inf, so that the factor is infinite and the output NaN.

    What is the factor when the maximum grows by 3, above 1 or below?
    """


@misconception(replaces="flash_forward", caught_by="test_large_scores")
@by(MAXIMUM="of the newest block")
def maximum_of_the_newest_block() -> None:
    """The maximum was that of the newest block, and not the largest score so far.

    It falls again where a block has smaller scores: what came before is then scaled up, until it overflows.

    Which of the two maxima is to be kept, that of the sums so far or that of the new block?
    """


@another_form(maximum_of_the_newest_block)
@by(MAXIMUM="of the newest block", LAST_BLOCK="all")
def newest_maximum_of_hidden_blocks() -> None:
    """Blocks of later keys are gone through, too."""


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
@by(MAXIMUM="never kept")
def maximum_never_kept() -> None:
    """The new maximum was not kept for the next block: the running one stayed at -inf.

    Each block then takes itself for the first one, and everything before it is multiplied by exp(-inf), which is 0.

    Which of the running values have to be set at the end of the loop?
    """


@another_form(divided_in_every_block)
@by(DIVIDED="so far")
def context_divided_in_every_block() -> None:
    """What was added up so far is divided, again and again."""


@another_form(divided_in_every_block)
@by(DIVIDED="in every block", LAST_BLOCK="all")
def hidden_blocks_divided() -> None:
    """Blocks of later keys are gone through, too, and their sum is 0."""


@another_form(each_block_its_own_maximum)
@by(MAXIMUM="of each block", LAST_BLOCK="all")
def own_maximum_of_hidden_blocks() -> None:
    """Blocks of later keys are gone through, too."""


# --- what is read and written, once more ------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_any_lengths")
@by(KEYS_STEP=False)
def same_keys_in_every_block() -> None:
    """The keys of the first block were read again for every block.

    The loop counts on, but the addresses that it reads do not: they lack the block's first position.

    Which of your addresses depend on the position where a block of keys begins?
    """


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
@by(VALUES_STEP=False)
def same_values_in_every_block() -> None:
    """The values of the first block were read again for every block.

    Weights of later keys then meet the values of the first ones.

    Which of your addresses depend on the position where a block of keys begins?
    """


@misconception(replaces="flash_forward", caught_by="test_any_lengths")
@by(every_head=False)
def one_head_of_each_sequence() -> None:
    """The grid had no programs for the other heads: it counted sequences only.

    Their part of the result is never written, and holds whatever was in memory.

    How many pairs of sequence and head are there, and who works on each?
    """


@another_form(one_head_of_each_sequence)
@by(every_head=False, unwritten=0.0)
def other_heads_left_at_zero() -> None:
    """The result was made of zeros."""


@another_form(queries_of_the_last_block_dropped)
@by(whole_grid=False, unwritten=0.0)
def last_queries_left_at_zero() -> None:
    """The result was made of zeros."""


@another_form(only_powers_of_two)
def value_not_padded(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The width of the value alone."""
    return run(query, key, value, is_causal, block_q, block_k, widths=(padded(query.shape[-1]), value.shape[-1]))


@misconception(replaces="flash_forward", caught_by="test_any_widths")
def value_as_wide_as_the_key(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """The block of values was made as wide as that of the keys.

    d_v may be larger than d: the columns beyond are never written.

    Which of your blocks depend on d, and which on d_v?
    """
    return run(query, key, value, is_causal, block_q, block_k, widths=(padded(query.shape[-1]),) * 2)


@misconception(replaces="flash_forward", caught_by="test_any_widths")
@by(widths=(64, 64))
def width_always_64() -> None:
    """The blocks were 64 columns wide, whatever the width is.

    What lies beyond column 64 is neither read nor written, and d and d_v may be up to 128.

    How wide does a block have to be for d = 72?
    """


# --- the causal mask and the logsumexp, once more ---------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_two_blocks_by_hand")
def always_causal(
    query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
) -> Both:
    """Later keys were hidden without is_causal, too.

    Without it every query sees all keys, however many of them there are.

    What does the kernel do differently when is_causal is False?
    """
    require(query, key, is_causal)
    return run(query, key, value, True, block_q, block_k, refuses=False)


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@by(LOGSUMEXP="of the inverse")
def logarithm_subtracted() -> None:
    """The logarithm of the sum was subtracted from the maximum.

    The logsumexp is at least as large as the largest score, since every other key adds to the sum.

    What is log(exp(m) * s)?
    """
