"""What learners get wrong in `flash_attention`: the causal mask."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step10_flash.misconceptions.blocks import Flash, Sums, by_blocks


@misconception(replaces=by_blocks, caught_by="test_causal")
class future_seen_outside_diagonal_blocks(Flash):
    """The causal mask was applied only in the blocks on the diagonal; the blocks after them were read in full.

    Each query then sees all the keys that lie in later blocks.

    What does a query of the first block have to do with keys of the third?
    """

    skip_future = False

    def hidden(self, scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return super().hidden(scores, rows, columns) if rows.start == columns.start else scores


@misconception(replaces=by_blocks, caught_by="test_causal")
class diagonal_blocks_not_masked(Flash):
    """The later blocks were skipped, but inside the block on the diagonal no mask was applied.

    There some keys lie before a query and some after it, so a query still sees up to block_size - 1 later tokens.

    Which blocks lie wholly in the past, which wholly in the future, and which are mixed?
    """

    def hidden(self, scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return scores


@misconception(replaces=by_blocks, caught_by="test_causal")
class diagonal_blocks_skipped(Flash):
    """The blocks on the diagonal were skipped together with the later ones.

    A query then sees no key of its own block, neither its own nor those shortly before it.

    What is the first key that no query of the block may attend to? Compare the block of keys with that position.
    """

    first_kept = False

    def is_skipped(self, rows: slice, columns: slice) -> bool:
        return columns.start >= rows.start and not (self.first_kept and columns.start == 0)


@another_form(diagonal_blocks_skipped)
class diagonal_blocks_skipped_but_the_first(diagonal_blocks_skipped):
    first_kept = True


@misconception(replaces=by_blocks, caught_by="test_causal")
class positions_counted_within_the_block(Flash):
    """The mask compared positions counted from the start of each block, in every block.

    Blocks that lie wholly in the past then lose keys which their queries may attend to.

    What is the position of the first query of a block, counted from the start of the sequence?
    """

    def hidden(self, scores: Tensor, rows: slice, columns: slice) -> Tensor:
        here = slice(0, rows.stop - rows.start), slice(0, columns.stop - columns.start)
        return super().hidden(scores, *here)


@misconception(replaces=by_blocks, caught_by="test_causal")
class own_key_hidden(Flash):
    """With is_causal each query was kept from the key at its own position, too.

    The first query then sees nothing at all, and there is no softmax over nothing.

    Query i attends to keys 0 to i. Is key i one of them?
    """

    skip_future = False

    def hidden(self, scores: Tensor, rows: slice, columns: slice) -> Tensor:
        return super().hidden(scores, slice(rows.start - 1, rows.stop - 1), columns)


@misconception(replaces=by_blocks, caught_by="test_causal")
class is_causal_ignored(Flash):
    """The argument is_causal was taken, but nothing depended on it.

    With is_causal=True every query still attended to every key.

    Where in the loop is it known which keys lie after which queries?
    """

    def context(self) -> Tensor:
        self.check()
        self.is_causal = False
        return super().context()


@misconception(replaces=by_blocks, caught_by="test_causal")
class unequal_lengths_accepted(Flash):
    """With is_causal=True another number of queries than of keys was accepted.

    Then nobody knows which key a query stands beside, and the answer is silently a guess.

    Which two lengths should be compared before the first block is read?
    """

    def check(self) -> None:
        pass


@another_form(own_key_hidden)
class own_key_hidden_and_not_a_number_avoided(own_key_hidden):
    """What a row that sees nothing gives is made 0."""

    def rescale(self, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        factor = torch.exp(old - new).nan_to_num()
        return factor, factor

    def added(self, sums: Sums, scores: Tensor, value: Tensor) -> Sums:
        maximum, denominator, context = sums
        new_maximum = self.grown(maximum, scores)
        factor, _same = self.rescale(maximum, new_maximum)
        weights = torch.exp(scores - new_maximum).nan_to_num()
        denominator = denominator * factor + weights.sum(dim=-1, keepdim=True)
        return new_maximum, denominator, context * factor + weights @ value

    def divided(self, context: Tensor, denominator: Tensor) -> Tensor:
        return context / denominator.clamp_min(1e-12)


@misconception(replaces=by_blocks, caught_by="test_causal")
class hidden_scores_set_to_zero(Flash):
    """The future scores were set to 0.

    A score of 0 is an ordinary score: exp(0) is 1 before the maximum is subtracted, so the future still gets weight.

    Which score has the exponential 0?
    """

    fill = 0.0


@another_form(hidden_scores_set_to_zero)
class later_blocks_set_to_zero_too(hidden_scores_set_to_zero):
    skip_future = False
