"""What learners get wrong in both forms of attention, each with the checks that catch it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from grader.checks.catalogue import misconception
from solutions.encoder_decoder.step19_additive.misconceptions.pieces import Additive, Attending, Single


def in_both(additive: str, joined: str) -> Callable[[type], type]:
    """Marks a wrong way of what both forms do: one misconception of each, caught by the check of this name.

    They are called `additive_…` and `joined_…`, and are attributes of what is marked.
    """

    def mark(pieces: type) -> type:
        for kind, form, caught_by in (("additive", Additive, additive), ("joined", Single, joined)):
            wrong = type(f"{kind}_{pieces.__name__}", (pieces, form), {"__doc__": pieces.__doc__})
            misconception(replaces=form.__bases__[1].__name__, caught_by=caught_by)(wrong)
            globals()[wrong.__name__] = wrong
            setattr(pieces, kind, wrong)
        return pieces

    return mark


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class softmax_over_batch(Attending):
    """The softmax was taken over the batch.

    The weights of one sequence then depend on the others, and do not sum to 1 over its own positions.

    Which dimension of the scores counts the positions?
    """

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.hide(scores, mask).softmax(dim=0)


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class softmax_over_dimension_of_one(Attending):
    """The softmax was taken over the last dimension of the score layer's output, whose size is 1.

    A softmax over a single number is 1. So every position got weight 1, and the context is the plain sum.

    What shape do the scores have at your softmax, and which dimension counts the positions?
    """

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores.unsqueeze(-1).softmax(dim=-1).squeeze(-1)


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class masked_softmax_over_dimension_of_one(softmax_over_dimension_of_one):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weigh(self.hide(scores, mask), None)


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class weights_keep_a_dimension(Attending):
    """The weights were returned as `(B, S, 1)`.

    The score layer's output has a last dimension of size 1, which is good for the product with the states, and in the
    way in the result.

    Which dimension is left over, and what takes it away?
    """

    def give(self, context: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return context, weights.unsqueeze(-1)


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class weights_as_one_row(Attending):
    """The weights were returned as `(B, 1, S)`.

    A matrix product with the states needs them like that, and in the result the dimension is left over.

    Which dimension is left over, and what takes it away?
    """

    def give(self, context: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return context, weights.unsqueeze(1)


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class context_keeps_a_dimension(Attending):
    """The context was returned as `(B, 1, width)`.

    A matrix product of one row of weights and the states leaves a dimension of size 1 behind.

    Which dimension is left over, and what takes it away?
    """

    def give(self, context: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return context.unsqueeze(1), weights


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class every_dimension_of_one_squeezed(Attending):
    """`squeeze()` without a dimension took away every dimension of size 1.

    Behind the score layer it is meant for the last one. With one sequence or one position it takes those as well.

    Which argument of `squeeze` says which dimension is meant?
    """

    def give(self, context: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return context.squeeze(), weights.squeeze()


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class pair_in_other_order(Attending):
    """The weights were returned first and the context second.

    The pair is (context, weights), here and in the other steps.

    What does the arrow in the contract give, in which order?
    """

    def give(self, context: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return weights, context


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class only_the_context(Attending):
    """Only the context was returned.

    The weights are wanted too: they are what the pictures of these papers show.

    How many values does the contract's arrow give?
    """

    def give(self, context: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return context


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class scores_returned(Attending):
    """The scores were returned in place of the weights.

    Weights are what the softmax makes of the scores: between 0 and 1, with the sum 1.

    Which of your variables is used for the context, and which one is returned?
    """

    def give(self, context: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return context, scores


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class masked_scores_returned(scores_returned):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        self.masked = self.hide(scores, mask)
        return self.masked.softmax(dim=-1)

    def give(self, context: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return context, self.masked


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class context_from_scores(Attending):
    """The context was made with the scores, before the softmax.

    The context is an average, so that its weights have to be positive and sum to 1.

    Which of your variables should multiply the states?
    """

    def attend(self, states: Tensor, state: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = self.score(states, state)
        return self.gather(self.hide(scores, mask), states), self.weigh(scores, mask)


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class context_averaged(Attending):
    """The weighted states were averaged over the positions, not summed.

    The weights sum to 1 already, so their sum is the average. Dividing once more makes it S times too small.

    What do the weights of a row sum to?
    """

    def gather(self, weights: Tensor, states: Tensor) -> Tensor:
        return super().gather(weights, states) / states.shape[1]


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class context_not_summed(Attending):
    """The weighted states were returned, and not their sum over the positions.

    The context is one vector for each sequence, whatever its length.

    Which dimension has to go on the way from `(B, S, width)` to `(B, width)`?
    """

    def gather(self, weights: Tensor, states: Tensor) -> Tensor:
        return weights.unsqueeze(-1) * states


@in_both("test_additive_agrees_with_fresh_draws", "test_single_head_agrees_with_fresh_draws")
class divided_without_exponentials(Attending):
    """The scores were divided by their sum, without exponentials.

    Scores may be negative, and then such weights are too. The softmax takes exponentials first.

    Which function makes a positive number of any number?
    """

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        scores = scores if mask is None else scores * mask
        return scores / scores.sum(dim=-1, keepdim=True)


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class sigmoid_instead_of_softmax(Attending):
    """Each weight is the sigmoid of its score, and no softmax was taken over the positions.

    Sigmoids look at one position each and do not sum to 1.

    What do the weights of a row have to sum to?
    """

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return torch.sigmoid(self.hide(scores, mask))


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class hard_choice(Attending):
    """The position with the largest score got all of the weight.

    That is hard attention, which has no gradient. The softmax is the soft form of it.

    Which function shares the weight out among all positions?
    """

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        scores = self.hide(scores, mask)
        return nn.functional.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores.dtype)


@in_both("test_additive_mask", "test_single_head_mask")
class mask_inverted(Attending):
    """The mask was read the other way round: the positions that may be attended to were hidden.

    True means "may attend" in this course.

    Where does your code fill with -inf: where the mask is True, or where it is False?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores.masked_fill(mask, -torch.inf)


@in_both("test_additive_mask", "test_single_head_mask")
class mask_ignored(Attending):
    """The mask was not used.

    Padding then gets weight like real words, and its states end up in the context.

    What does your code do when `mask` is not None?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores


@in_both("test_additive_mask", "test_single_head_mask")
class mask_after_softmax(Attending):
    """The hidden weights were set to 0 after the softmax, and the others left as they were.

    The hidden positions have taken their share by then: what is left sums to less than 1.

    What has to be hidden before the softmax so that it shares out only among the visible positions?
    """

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        weights = scores.softmax(dim=-1)
        return weights if mask is None else weights * mask


@in_both("test_additive_mask", "test_single_head_mask")
class scores_times_mask(Attending):
    """Hidden scores were set to 0, or multiplied by the mask.

    A score of 0 is not no weight: its exponential is 1, which may well be the largest in the row.

    Which score gets weight 0 in a softmax?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores * mask


@in_both("test_additive_mask", "test_single_head_mask")
class masked_with_minus_ten(Attending):
    """Hidden scores were set to -10 in place of minus infinity.

    exp(-10) is small, but not 0: hidden positions must get weight exactly 0.

    How far below the others must a score be so that its exponential is 0 in float32?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores.masked_fill(~mask, -10.0)


@in_both("test_additive_mask", "test_single_head_mask")
class only_states_masked(Attending):
    """The hidden states were set to 0, and their scores left as they were.

    They still take their share of the weight, and what is left for the others is too small.

    Which tensor decides who gets how much weight?
    """

    def attend(self, states: Tensor, state: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = self.score(states, state)
        weights = self.weigh(scores, None)
        shown = states if mask is None else states * mask.unsqueeze(-1)
        return self.give(self.gather(weights, shown), weights, scores)


@in_both("test_other_dtypes", "test_other_dtypes")
class whole_score_in_float32(Attending):
    """The scores were computed as float32 and the weights left so.

    The result has to have the dtype of what came in.

    Which dtype do your weights have when the states are float64?
    """

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.hide(scores.float(), mask).softmax(dim=-1)


@in_both("test_follows_device", "test_follows_device")
class zeros_made_on_the_cpu(Attending):
    """A tensor was made in `forward` without saying on which device.

    It lies on the CPU, wherever the module and its inputs are.

    Which tensor has the right device, so that a new one can be made like it?
    """

    def gather(self, weights: Tensor, states: Tensor) -> Tensor:
        context = torch.zeros(states.shape[0], states.shape[2], dtype=states.dtype)
        for position in range(states.shape[1]):
            context = context + weights[:, position, None] * states[:, position]
        return context


@in_both("test_additive_agrees_with_fresh_draws", "test_single_head_agrees_with_fresh_draws")
class states_overwritten(Attending):
    """The states were multiplied by their weights in place.

    What the caller gave is changed by that, for all who use it later.

    Which operation makes a new tensor, and which one writes into the old?
    """

    def gather(self, weights: Tensor, states: Tensor) -> Tensor:
        return states.mul_(weights.unsqueeze(-1)).sum(dim=1)


@in_both("test_additive_gradients", "test_single_head_agrees_with_fresh_draws")
class weights_detached(Attending):
    """The weights were cut off from the graph before they multiplied the states.

    The context then teaches the score nothing: its parameters get no gradient from it.

    Which of your calls (`detach`, `.data`, `no_grad`, `item`) ends the way back?
    """

    def gather(self, weights: Tensor, states: Tensor) -> Tensor:
        return super().gather(weights.detach(), states)


@in_both("test_additive_agrees_with_fresh_draws", "test_single_head_agrees_with_fresh_draws")
class states_of_other_sentences(Attending):
    """The decoder states were repeated in the wrong order: a position met the state of another sentence.

    `state.repeat(S, 1)` puts the whole batch one below the other, S times. Cut into rows of S it mixes the sentences.
    With a single sentence it does not show.

    With two sentences and three positions, which state stands in the second row of what you repeated?
    """

    def score(self, states: Tensor, state: Tensor) -> Tensor:
        batch, positions, width = states.shape
        mixed = state.repeat(positions, 1)  # (S * B, ·), which is read as (B * S, ·)
        one_by_one = super().score(states.reshape(batch * positions, 1, width), mixed)  # type: ignore[misc]  # a form's
        return one_by_one.reshape(batch, positions)


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class softmax_taken_twice(Attending):
    """The softmax was taken twice.

    The second one sees weights between 0 and 1 as its scores: whatever was clear becomes nearly even, and hidden
    positions get weight again.

    Which of your lines ends in weights already?
    """

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weigh(scores, mask).softmax(dim=-1)


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class scores_squeezed(every_dimension_of_one_squeezed):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.hide(scores.squeeze(), mask).softmax(dim=1)

    def give(self, context: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return context, weights


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class context_squeezed(every_dimension_of_one_squeezed):
    def give(self, context: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return context.squeeze(), weights


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class weights_squeezed(every_dimension_of_one_squeezed):
    def give(self, context: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return context, weights.squeeze()


@in_both("test_additive_by_hand", "test_single_head_by_hand")
class arguments_exchanged(Attending):
    """The arguments of `forward` stand in the other order: the state was taken for the encoder's outputs.

    They are handed over by their places, and the mask comes last.

    In which order does the contract name the arguments of this class?
    """

    def forward(self, states: Tensor, state: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return super().forward(state, states, mask)  # type: ignore[misc]  # a form's


@in_both("test_additive_mask", "test_single_head_mask")
class states_masked_before_the_score(only_states_masked):
    def attend(self, states: Tensor, state: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        return super().attend(states if mask is None else states * mask.unsqueeze(-1), state, None)


@in_both("test_additive_mask", "test_single_head_mask")
class mask_added(Attending):
    """The mask was added to the scores: visible positions got 1 more, and hidden ones nothing.

    A hidden position then has e times less weight, about a third, and not 0.

    Which number added to a score makes its exponential 0?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores + mask


@in_both("test_additive_mask", "test_single_head_mask")
class hidden_scores_raised(Attending):
    """Hidden scores were filled with a large positive number: a minus sign is missing.

    The largest score takes all the weight, so that only hidden positions were seen.

    Which score has an exponential of 0: a very large or a very small one?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores.masked_fill(~mask, 1e9)


@in_both("test_additive_mask", "test_single_head_mask")
class only_the_context_masked(Attending):
    """The context was made with masked weights, and the weights returned are those without the mask.

    The weights returned are those that met the states: a hidden position has weight 0 there.

    Which of your two tensors of weights is returned?
    """

    def attend(self, states: Tensor, state: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = self.score(states, state)
        return self.gather(self.weigh(scores, mask), states), self.weigh(scores, None)
