"""What learners get wrong in `MultiHeadAttention`: masks."""

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.encoder_decoder.step20_cross_attention.misconceptions.pieces import Pieces


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class mask_inverted(Pieces):
    """The mask was read the other way round: what may be attended to was hidden.

    True means "may attend" in this course. `nn.MultiheadAttention` means the opposite by its `key_padding_mask`.

    Where does your code fill with -inf: where the mask is True, or where it is False?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores.masked_fill(mask, -torch.inf)


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class mask_ignored(Pieces):
    """The mask was not used.

    Padding then gets weight like real words, and a decoder sees the words that it is to predict.

    What does your code do when `mask` is not None?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class mask_after_softmax(Pieces):
    """The hidden weights were set to 0 after the softmax, and the others left as they were.

    The hidden keys have taken their share by then: what is left of a row sums to less than 1.

    What has to be hidden before the softmax so that it shares out only among the visible keys?
    """

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        weights = scores.softmax(dim=-1)
        return weights if mask is None else weights * mask


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class masked_with_zero(Pieces):
    """Hidden scores were set to 0, or multiplied by the mask.

    A score of 0 is not no weight: its exponential is 1, which may well be the largest in the row.

    Which score gets weight 0 in a softmax?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores.masked_fill(~mask, 0.0)


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class masked_with_minus_ten(Pieces):
    """Hidden scores were set to -10 in place of minus infinity.

    exp(-10) is small, but not 0: hidden positions must get weight exactly 0.

    How far below the others must a score be so that its exponential is 0 in float32?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores.masked_fill(~mask, -10.0)


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class mask_added(Pieces):
    """The mask was added to the scores as numbers 0 and 1.

    What may be attended to is then preferred a little, and what may not is still seen.

    Which number must be added to a score so that its weight is 0?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores + mask


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class values_masked(Pieces):
    """The hidden values were set to 0, and their scores left as they were.

    They still take their share of the weight, and what is left for the others is too small.

    Which tensor decides who gets how much weight?
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        query, key, value = self.split(*self.project(query, key, value))
        scores = query @ key.transpose(-2, -1) / self.scale(query)
        weights = self.weigh(scores, None)
        shown = weights if mask is None else weights * mask
        return self.give(self.mix(self.merge(self.gather(shown, value))), weights, scores)


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class mask_turned(Pieces):
    """The mask's last two dimensions changed places before it was used.

    Rows of the mask are queries and columns are keys, as in the scores. Turned, a causal mask shows the future.

    What do the last two dimensions of the mask count, and what those of the scores?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().hide(scores, None if mask is None else mask.transpose(-2, -1))


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class mask_given_one_more_dimension(Pieces):
    """The mask was given one dimension more before it was used.

    The mask already broadcasts to `(B, H, T_q, T_k)`, head dimension included. One more moves the batch away from where
    the scores have it.

    How many dimensions does the mask have when it comes in, and how many should it have?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().hide(scores, None if mask is None else mask.unsqueeze(1))


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class mask_of_first_sequence(Pieces):
    """The mask of the first sequence was used for the whole batch.

    Each sequence has its own padding. With one sequence the mistake does not show.

    Which dimension of the mask counts the sequences, and what becomes of it in your code?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().hide(scores, mask[:1] if mask is not None and mask.dim() == 4 else mask)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class always_causal(Pieces):
    """A causal mask was made inside, whatever the caller gave.

    This class is for every kind of attention. Who wants no look ahead hands over a mask.

    Without a mask, which positions does the contract hide?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        causal = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        return super().hide(scores, causal if mask is None else mask & causal)


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class rows_hidden_with_columns(Pieces):
    """The padding was hidden as a query too: its rows were filled with -inf as well as its columns.

    A row without a visible key has no weights: the softmax gives NaN there, or the query is lost.

    Which of T_q and T_k does a mask of `(B, 1, 1, T_k)` speak of?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        scores = super().hide(scores, mask)
        if mask is None or mask.shape[-2] != 1 or scores.shape[-2] != scores.shape[-1]:
            return scores
        return scores.masked_fill(~mask.transpose(-2, -1), -torch.inf)


@misconception(replaces="MultiHeadAttention", caught_by="test_other_masks")
class only_wide_masks(Pieces):
    """Masks were only taken with four dimensions.

    Any mask that broadcasts is right: a causal one is made as `(T_q, T_k)`, once for all sequences and heads.

    Which dimensions does `mask` have when the caller made it with `torch.tril`?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            mask = mask[:, :, :, :]
        return super().hide(scores, mask)
