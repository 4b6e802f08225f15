"""What learners get wrong in `attention`: the mask."""

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.core.step03_attention import reference
from solutions.core.step03_attention.misconceptions.pieces import Attention, Pair, attending


@misconception(replaces=("attention",), caught_by="test_masks")
def mask_under_another_name() -> dict[str, object]:
    """The argument `mask` was given another name.

    Whoever writes `attention(query, key, value, mask=…)`, as the signature says, is stopped by an error.

    What is the last argument called in the signature of the file that you were given?
    """

    def attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None) -> Pair:
        return reference.attention(query, key, value, attn_mask)

    attention.__qualname__ = "attention"  # as Python's error calls it
    return {"attention": attention}


@misconception(replaces=attending, caught_by="test_mask_by_hand", misses_the_point=True)
class mask_ignored(Attention):
    """The mask was not used.

    Every query then sees every key, also those that are hidden from it.

    Where does the mask have to act, so that a hidden key gets weight 0?
    """

    def hidden(self, scores: Tensor) -> Tensor:
        return scores


@misconception(replaces=attending, caught_by="test_mask_by_hand", misses_the_point=True)
class mask_inverted(Attention):
    """The mask was read the other way round: True was taken for "hidden".

    In this kit, as in torch's own attention, True means "may attend".

    Which positions does `masked_fill` fill: those where its mask is True or those where it is False?
    """

    def hidden(self, scores: Tensor) -> Tensor:
        return scores if self.mask is None else scores.masked_fill(self.mask, -1e9)


@misconception(replaces=attending, caught_by="test_mask_by_hand")
class mask_inverted_with_infinity(Attention):
    """The mask was read the other way round: the keys that it shows were set to -inf.

    In this kit True means "may attend". A query that may attend to every key then sees none, and its row is NaN.

    Which positions does `masked_fill` fill: those where its mask is True or those where it is False?
    """

    def hidden(self, scores: Tensor) -> Tensor:
        return scores if self.mask is None else scores.masked_fill(self.mask, -torch.inf)


@misconception(replaces=attending, caught_by="test_mask_by_hand")
class hidden_scores_set_to_zero(Attention):
    """The hidden scores were set to 0, or to a number very near it, such as -1e-9.

    A score of 0 is an ordinary score: its exponential is 1, so the hidden key still gets weight.

    Which score has the exponential 0?
    """

    fill = 0.0


@misconception(replaces=attending, caught_by="test_mask_by_hand")
class mask_added_as_ones(Attention):
    """The boolean mask was added to the scores.

    True counts as 1 there, so visible keys gain 1 and hidden keys stay. Nothing is hidden by that.

    What would you have to add to a score so that its exponential becomes 0?
    """

    def hidden(self, scores: Tensor) -> Tensor:
        return scores if self.mask is None else scores + self.mask.to(scores.dtype)


@misconception(replaces=attending, caught_by="test_mask_by_hand")
class hidden_scores_not_low_enough(Attention):
    """The hidden scores were set to a number that is only a little below the others.

    A score of -5 is low, but its weight is not 0, so something of the hidden value comes through.

    How low must a score be so that its exponential is 0 beside any other?
    """

    fill = -5.0


@misconception(replaces=attending, caught_by="test_mask_by_hand")
class masked_after_softmax(Attention):
    """The mask was applied after the softmax, and the rows were not divided by their new sum.

    Each row has lost the weight of its hidden keys, so it no longer sums to 1.

    What must happen to the hidden scores before the softmax, so that their weight is 0 by itself?
    """

    def hidden(self, scores: Tensor) -> Tensor:
        return scores

    def weights(self) -> Tensor:
        weights = super().weights()
        return weights if self.mask is None else weights * self.mask


@misconception(replaces=attending, caught_by="test_mask_by_hand")
class zero_times_infinity(Attention):
    """The mask was turned into numbers and multiplied with minus infinity.

    At the visible keys this is 0 times infinity, which is not a number, and it spreads through the whole row.

    How can you write minus infinity at the hidden places without multiplying it with anything?
    """

    def hidden(self, scores: Tensor) -> Tensor:
        return scores if self.mask is None else scores + (~self.mask).to(scores.dtype) * -torch.inf


@misconception(replaces=attending, caught_by="test_mask_by_hand")
class values_masked_instead(Attention):
    """The mask was used for the context only, and the returned weights do not know of it.

    The two results contradict each other: the weights still show attention to hidden keys.

    From which tensor should the context be made, and which one do you return?
    """

    def given(self, context: Tensor, weights: Tensor) -> Pair:
        return context, self.shared(self.scores())


@misconception(replaces="attention", caught_by="test_mask_by_hand")
def mask_asked_for_its_truth(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The mask itself was used as the condition of an `if`, an `and` or an `or`.

    A tensor of many entries is neither true nor false, so torch stops there.

    How do you ask whether an argument was given at all?
    """
    if mask:
        return reference.attention(query, key, value, mask)
    return reference.attention(query, key, value)


@misconception(replaces="attention", caught_by="test_masks")
def one_mask_for_the_batch(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The mask of the first batch entry was used for the whole batch.

    Texts of a batch have different lengths, so each may have a mask of its own.

    What does broadcasting do with the leading dimensions of the mask when you leave them alone?
    """
    if mask is not None:
        mask = mask.reshape(-1, *mask.shape[-2:])[0] if mask.dim() > 1 else mask
    return reference.attention(query, key, value, mask)


@misconception(replaces="attention", caught_by="test_masks")
def mask_gets_a_head_dimension(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """A dimension was inserted into the mask.

    This is what code with several heads does. Here the mask broadcasts to the weights as it is, and with one dimension
    more its batch is lined up with another one.

    Which shape does the mask have to fit, according to the contract?
    """
    if mask is not None and mask.dim() > 2:
        mask = mask.unsqueeze(1)
    return reference.attention(query, key, value, mask)


@misconception(replaces="attention", caught_by="test_mask_by_hand")
def mask_transposed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The mask was transposed before it was used.

    Row i of the mask belongs to query i, as row i of the scores does. Transposed, it says who may look at a token, and
    not where the token may look.

    In which order do the dimensions of the scores stand, and in which order those of the mask?
    """
    if mask is not None and mask.dim() > 1:
        mask = mask.transpose(-2, -1)
    return reference.attention(query, key, value, mask)


@misconception(replaces=attending, caught_by="test_mask_by_hand")
class minus_sign_forgotten(Attention):
    """The hidden scores were set to a huge number without its minus sign.

    A softmax gives the most weight to the highest score, so the hidden keys took it all.

    On which side of all other scores does a hidden one have to lie?
    """

    fill = 1e9


@misconception(replaces=attending, caught_by="test_mask_by_hand")
class mask_subtracted_from_one(Attention):
    """The boolean mask was subtracted from 1.

    True and False are no numbers, so torch stops there. Where tutorials write `1 - mask`, the mask is one of numbers.

    Which operator inverts each entry of a boolean tensor by itself?
    """

    def hidden(self, scores: Tensor) -> Tensor:
        return scores if self.mask is None else scores + (1 - self.mask) * -1e9
