"""What learners get wrong in `flash_forward`: the causal mask."""

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step29_triton.misconceptions.kernel import by

# --- the causal mask --------------------------------------------------------------------------------------------------


@misconception(replaces="flash_forward", caught_by="test_causal")
@by(VISIBLE="all", LAST_BLOCK="all")
def is_causal_ignored() -> None:
    """is_causal was not looked at: every query saw every key.

    A token would see what it is to predict.

    Where in your kernel does a position of a query meet a position of a key?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@by(VISIBLE="all")
def future_in_the_diagonal_block() -> None:
    """Later blocks of keys were left out, and within the last one nothing was hidden.

    In the block on the diagonal, half of the keys are later than the query.

    Which queries may see the last key of their own block?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@by(VISIBLE="one ahead")
def one_key_ahead() -> None:
    """Each query also saw the key after it.

    Query i attends to keys 0 to i, and key i + 1 is what it has to predict.

    Is the comparison of positions <= or <?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@by(VISIBLE="not itself")
def own_key_hidden() -> None:
    """Each query saw only the keys before its own.

    Query i attends to keys 0 to i. The first query has then nothing to see at all, and is NaN.

    Is the comparison of positions <= or <?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@by(VISIBLE="later", LAST_BLOCK="all")
def mask_turned_over() -> None:
    """Each query saw the later keys and not the earlier ones.

    The mask is the wrong way round: the past is hidden and the future visible.

    Which of the two positions is the larger one where a query may look?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@by(VISIBLE="within the block")
def positions_within_the_block() -> None:
    """Positions were counted from the start of the block, for queries and for keys.

    They are right in the first block only. A query of the second block then sees too little of the first.

    What has to be added to tl.arange to get positions in the text?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@by(LAST_BLOCK="before the diagonal")
def loop_ends_at_the_diagonal() -> None:
    """The loop over the keys ended before the block on the diagonal.

    A query's own block holds keys that it may see, its own first of all.

    Up to which key does the last query of the block look?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@by(LAST_BLOCK="counted in blocks of queries")
def loop_counts_other_blocks() -> None:
    """The number of the block of queries was taken for a number of blocks of keys where the loop ends.

    It fits where both blocks are of one size, and looks at too little, or too much, where they differ.

    How many keys come before the end of the second block of queries?
    """


@misconception(replaces="flash_forward", caught_by="test_causal")
@by(HIDDEN=0.0)
def hidden_by_zero() -> None:
    """The scores of later keys were set to 0.

    0 is a score like any other, and gets a weight above 0.

    Of which score is the exponential 0?
    """


@misconception(replaces="flash_forward", caught_by="test_large_scores")
@by(HIDDEN=-1000.0)
def hidden_by_a_finite_number() -> None:
    """Hidden scores were set to -1000.

    Where the visible scores of a row are near -1000 as well, what is hidden gets as much weight as they.

    Which number stays below every score?
    """


@misconception(replaces="flash_forward", caught_by="test_unequal_lengths_are_refused")
@by(refuses=False)
def unequal_lengths_accepted() -> None:
    """is_causal was accepted with different numbers of queries and keys.

    It is not said then which query stands beside which key.

    Which error does the docstring ask for?
    """


# --- the causal mask and the logsumexp, once more ---------------------------------------------------------------------


@another_form(mask_turned_over)
@by(VISIBLE="later", LAST_BLOCK="all", SAFE=True)
def hidden_blocks_add_nothing() -> None:
    """Blocks in which a query sees nothing add nothing."""


@another_form(positions_within_the_block)
@by(VISIBLE="keys within the block")
def keys_within_the_block() -> None:
    """Those of the keys alone."""


@another_form(positions_within_the_block)
@by(VISIBLE="queries within the block", LAST_BLOCK="all")
def queries_within_the_block() -> None:
    """Those of the queries alone."""


@another_form(one_key_ahead)
@by(VISIBLE="one ahead", LAST_BLOCK="all")
def one_key_ahead_in_any_block() -> None:
    """Blocks of later keys are gone through, too."""


@another_form(hidden_by_zero)
@by(HIDDEN=0.0, LAST_BLOCK="all")
def hidden_by_zero_in_any_block() -> None:
    """Blocks of later keys are gone through, too."""
