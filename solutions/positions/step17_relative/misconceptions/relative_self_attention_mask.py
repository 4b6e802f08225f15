"""What learners get wrong in `RelativeSelfAttention`: the mask."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.positions.step17_relative.misconceptions.pieces import Pieces


@misconception(replaces="RelativeSelfAttention", caught_by="test_masks")
class mask_not_used(Pieces):
    """The mask was not used.

    Every token then attends to every other one, whatever the caller hides.

    Where does `mask` appear in your `forward`?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores.softmax(dim=-1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_masks")
class mask_inverted(Pieces):
    """What may be attended to was hidden, and what is hidden was left.

    True means "may attend", and `masked_fill` fills where its mask is True.

    Which of the two does the line that uses the mask need?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return (scores if mask is None else scores.masked_fill(mask, -torch.inf)).softmax(dim=-1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_masks")
class mask_inverted_by_a_large_number(Pieces):
    """What may be attended to got a large negative score, and what is hidden was left.

    True means "may attend", and the number belongs where the mask is False.

    Which of the two does the line that uses the mask need?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return (scores if mask is None else scores.masked_fill(mask, -1e30)).softmax(dim=-1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_masks")
class masked_with_zero(Pieces):
    """Hidden scores were set to 0.

    A score of 0 is an ordinary one, of weight exp(0) = 1 before the division.

    Which score has an exponential of 0?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return (scores if mask is None else scores.masked_fill(~mask, 0.0)).softmax(dim=-1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_masks")
class masked_with_an_ordinary_number(Pieces):
    """Hidden scores were set to a number that a score may have: 1e-9, or -10.

    Its exponential is not 0. Only -∞, or a number far below all scores such as -1e9, hides.

    What is the exponential of your number?
    """

    number = 1e-9

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return (scores if mask is None else scores.masked_fill(~mask, self.number)).softmax(dim=-1)


@another_form(masked_with_an_ordinary_number)
class masked_with_minus_ten(masked_with_an_ordinary_number):
    number = -10.0


@misconception(replaces="RelativeSelfAttention", caught_by="test_masks")
class masked_after_the_softmax(Pieces):
    """The mask was applied after the softmax, and the rows were not divided by their new sum.

    The softmax had already shared weight out to the hidden tokens. That share is lost.

    What must happen to the hidden scores before the softmax?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores.softmax(dim=-1) * (1 if mask is None else mask.to(scores.dtype))


@misconception(replaces="RelativeSelfAttention", caught_by="test_masks")
class mask_added_as_numbers(Pieces):
    """The boolean mask was added to the scores, so that True was 1 and False 0.

    A difference of 1 between two scores hides nothing.

    What has to be added to a score so that its exponential is 0?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return (scores if mask is None else scores + mask).softmax(dim=-1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_masks")
class mask_of_one_row_per_head(Pieces):
    """A head dimension was put into every mask.

    The mask broadcasts to (B, H, T, T) as it is. Another dimension in front of its last two moves the batch.

    Which shapes of a mask does the contract name, and what does yours become?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weights(scores, mask if mask is None else mask.unsqueeze(1))
