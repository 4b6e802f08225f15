"""What learners get wrong in step 19, each with the check that catches it."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from grader.checks.catalogue import misconception, together
from solutions.encoder_decoder.step19_additive import reference


class Attending(nn.Module):
    """What both forms do, cut into pieces, so that each misconception replaces one of them."""

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores.masked_fill(~mask, -torch.inf)

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.hide(scores, mask).softmax(dim=-1)

    def gather(self, weights: Tensor, states: Tensor) -> Tensor:
        return (weights.unsqueeze(-1) * states).sum(dim=1)

    def give(self, context: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return context, weights

    def attend(self, states: Tensor, state: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = self.score(states, state)
        weights = self.weigh(scores, mask)
        return self.give(self.gather(weights, states), weights, scores)


class Additive(Attending, reference.AdditiveAttention):
    """The reference of `AdditiveAttention` in pieces."""

    def project(self, state: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        return self.W_a(state), self.U_a(keys)

    def hidden(self, state: Tensor, keys: Tensor) -> Tensor:
        return torch.tanh(state.unsqueeze(1) + keys)

    def score(self, keys: Tensor, state: Tensor) -> Tensor:
        return self.v_a(self.hidden(*self.project(state, keys))).squeeze(-1)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.attend(keys, query, mask)


class Single(Attending, reference.SingleHeadCrossAttention):
    """The reference of `SingleHeadCrossAttention` in pieces."""

    def join(self, outputs: Tensor, state: Tensor) -> Tensor:
        return torch.cat([outputs, state.unsqueeze(1).expand(-1, outputs.shape[1], -1)], dim=-1)

    def score(self, outputs: Tensor, state: Tensor) -> Tensor:
        return self.attention_layer(self.join(outputs, state)).squeeze(-1)

    def forward(
        self, encoder_outputs: Tensor, decoder_hidden: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        return self.attend(encoder_outputs, decoder_hidden, mask)


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


# --- Bahdanau's score -------------------------------------------------------------------------------------------------


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand", misses_the_point=True)
class no_tanh(Additive):
    """The projected state and keys were added without a tanh.

    Without it the state's share of a score is the same at every position, and the softmax cancels it: whatever the
    decoder wants, it looks at the same places.

    What stands between the sum and `v_a` in the formula?
    """

    def hidden(self, state: Tensor, keys: Tensor) -> Tensor:
        return state.unsqueeze(1) + keys


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand", misses_the_point=True)
class tanh_of_each_part(Additive):
    """The tanh was taken of the projected state and of the projected key, each by itself, before they were added.

    The state's share of a score is then the same at every position again, and the softmax cancels it. Only a tanh of
    the sum lets the two act on each other.

    Which comes first in the formula, the plus or the tanh?
    """

    def hidden(self, state: Tensor, keys: Tensor) -> Tensor:
        return torch.tanh(state).unsqueeze(1) + torch.tanh(keys)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand", misses_the_point=True)
class parts_multiplied(Additive):
    """The projected state and the projected key were multiplied, not added.

    Multiplying them is another kind of attention. Bahdanau's is called additive because it adds the two.

    Which operation joins the outputs of `W_a` and `U_a`?
    """

    def hidden(self, state: Tensor, keys: Tensor) -> Tensor:
        return torch.tanh(state.unsqueeze(1) * keys)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class parts_subtracted(Additive):
    """The projected key was subtracted from the projected state.

    The network could learn that too, but with the same parameters it gives other scores.

    Which sign stands between the two projections?
    """

    def hidden(self, state: Tensor, keys: Tensor) -> Tensor:
        return torch.tanh(state.unsqueeze(1) - keys)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class tanh_of_the_score(Additive):
    """The tanh was taken of the score, behind `v_a`, and not of the sum in front of it.

    Up to there everything is linear, so that `v_a` could be multiplied into the two projections, and no score leaves
    the range from -1 to 1.

    On which tensor, `(B, S, hidden_dim)` or `(B, S, 1)`, does the tanh act?
    """

    def score(self, keys: Tensor, state: Tensor) -> Tensor:
        state, keys = self.project(state, keys)
        return torch.tanh(self.v_a(state.unsqueeze(1) + keys)).squeeze(-1)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class tanh_twice(Additive):
    """A second tanh was taken of the score, behind `v_a`.

    It squeezes the scores into the range from -1 to 1, and then no position can get much more weight than another.

    How many times does tanh stand in the formula?
    """

    def score(self, keys: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(super().score(keys, state))


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class relu_instead_of_tanh(Additive):
    """A ReLU was taken where the formula has a tanh.

    It is nonlinear too, but gives other scores: what is below 0 is lost, and what is above it is not held back.

    Which nonlinearity does the paper put around the sum?
    """

    def hidden(self, state: Tensor, keys: Tensor) -> Tensor:
        return torch.relu(state.unsqueeze(1) + keys)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class sigmoid_instead_of_tanh(Additive):
    """A sigmoid was taken where the formula has a tanh.

    It runs from 0 to 1 and not from -1 to 1, and rises half as steeply.

    Which nonlinearity does the paper put around the sum?
    """

    def hidden(self, state: Tensor, keys: Tensor) -> Tensor:
        return torch.sigmoid(state.unsqueeze(1) + keys)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class projections_exchanged(Additive):
    """`W_a` was applied to the keys and `U_a` to the decoder state.

    In the paper and in this contract `W_a` belongs to the decoder state and `U_a` to the encoder's outputs; some
    tutorials have them the other way round.

    Which width goes into each of the two layers?
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__(key_dim, query_dim, hidden_dim)

    def project(self, state: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        return self.U_a(state), self.W_a(keys)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_agrees_with_fresh_draws")
class projections_called_for_each_other(Additive):
    """`W_a` was called with the keys and `U_a` with the decoder state.

    They are made for the other one: where the two widths are equal nothing complains, and the wrong weights are used.

    Which width goes into each of the two layers?
    """

    def project(self, state: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        return self.U_a(state), self.W_a(keys)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_agrees_with_fresh_draws")
class state_added_across_the_batch(Additive):
    """The projected state was added as `(B, hidden_dim)` to keys of `(B, S, hidden_dim)`.

    Broadcasting aligns shapes at the right: the batch of the one falls on the positions of the other. That is an error,
    or, where both are of one size, silently wrong.

    Which shape must the state have so that each sequence's state meets all of its own positions?
    """

    def hidden(self, state: Tensor, keys: Tensor) -> Tensor:
        return torch.tanh(state + keys)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand", misses_the_point=True)
class state_left_out(Additive):
    """The decoder state was not used: the score came from the key alone.

    Then every step of the decoder looks at the same places.

    Where does `W_a(query)` enter the score?
    """

    def hidden(self, state: Tensor, keys: Tensor) -> Tensor:
        return torch.tanh(keys)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_agrees_with_fresh_draws")
class first_state_for_all(Additive):
    """The state of the first sequence was used for the whole batch.

    Each sequence has a decoder state of its own. With one sequence the mistake does not show.

    Which dimension of `query` counts the sequences, and what becomes of it in your code?
    """

    def hidden(self, state: Tensor, keys: Tensor) -> Tensor:
        return torch.tanh(state[:1].unsqueeze(1) + keys)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_agrees_with_fresh_draws")
class scaled_by_root_of_hidden(Additive):
    """The scores were divided by the root of `hidden_dim`.

    The scaling belongs to the dot product of 2017, whose size grows with the width. Here `v_a` learns how large a score
    should be.

    What is a score divided by in Bahdanau's formula?
    """

    def score(self, keys: Tensor, state: Tensor) -> Tensor:
        return super().score(keys, state) / math.sqrt(self.v_a.in_features)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class summed_instead_of_v_a(Additive):
    """The hidden values were summed, and `v_a` was not used.

    `v_a` weighs the hidden units: it is what decides how much each of them says about a position.

    Which layer makes one number of `hidden_dim` numbers?
    """

    def score(self, keys: Tensor, state: Tensor) -> Tensor:
        return self.hidden(*self.project(state, keys)).sum(dim=-1)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class context_from_projected_keys(Additive):
    """The context is the weighted sum of the projected keys, `U_a(keys)`.

    The projections are there for the score. The context has the encoder's outputs themselves, `key_dim` wide.

    Which tensor is `key_dim` wide: the one that came in, or the projected one?
    """

    def gather(self, weights: Tensor, states: Tensor) -> Tensor:
        return super().gather(weights, self.U_a(states))


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class context_from_hidden(Additive):
    """The context is the weighted sum of the hidden values behind the tanh.

    These are there for the score. The context has the encoder's outputs themselves, `key_dim` wide.

    Which tensor is `key_dim` wide: the one that came in, or the one behind the tanh?
    """

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        weights = self.weigh(self.score(keys, query), mask)
        return self.gather(weights, self.hidden(*self.project(query, keys))), weights


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class projections_with_a_bias(Additive):
    """Layers of the score were made with a bias.

    The contract has none: the tanh's inputs and the score are sums of products alone.

    Which argument of `nn.Linear` leaves the bias out?
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__(query_dim, key_dim, hidden_dim)
        self.W_a = nn.Linear(query_dim, hidden_dim)
        self.U_a = nn.Linear(key_dim, hidden_dim)
        self.v_a = nn.Linear(hidden_dim, 1)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class state_projected_with_a_bias(projections_with_a_bias):
    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        reference.AdditiveAttention.__init__(self, query_dim, key_dim, hidden_dim)
        self.W_a = nn.Linear(query_dim, hidden_dim)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class keys_projected_with_a_bias(projections_with_a_bias):
    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        reference.AdditiveAttention.__init__(self, query_dim, key_dim, hidden_dim)
        self.U_a = nn.Linear(key_dim, hidden_dim)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class score_layer_with_a_bias(Additive):
    """`v_a` was made with a bias.

    The softmax would cancel it, and the contract's parameters have none.

    Which argument of `nn.Linear` leaves the bias out?
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__(query_dim, key_dim, hidden_dim)
        self.v_a = nn.Linear(hidden_dim, 1)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class additive_layers_made_in_forward(Additive):
    """The layers were made in `forward`.

    Each call then has new random layers: nothing can be learned or loaded, and no answer is given twice.

    Which method runs once for a module, and which at every call?
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        nn.Module.__init__(self)
        self.dims = query_dim, key_dim, hidden_dim

    def score(self, keys: Tensor, state: Tensor) -> Tensor:
        query_dim, key_dim, hidden_dim = self.dims
        W_a, U_a = nn.Linear(query_dim, hidden_dim, bias=False), nn.Linear(key_dim, hidden_dim, bias=False)
        v_a = nn.Linear(hidden_dim, 1, bias=False)
        return v_a(torch.tanh(W_a(state).unsqueeze(1) + U_a(keys))).squeeze(-1)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class state_projected_by_a_new_layer(additive_layers_made_in_forward):
    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        reference.AdditiveAttention.__init__(self, query_dim, key_dim, hidden_dim)

    def score(self, keys: Tensor, state: Tensor) -> Tensor:
        self.W_a = nn.Linear(self.W_a.in_features, self.W_a.out_features, bias=False)
        return Additive.score(self, keys, state)


# --- the joined score -------------------------------------------------------------------------------------------------


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_by_hand")
class state_joined_first(Single):
    """The decoder state was joined in front of the encoder output.

    The columns of `attention_layer` belong to the encoder output first and to the state behind it. Joined the other way
    round, each number meets another weight.

    In which order does the contract name the two that are joined?
    """

    def join(self, outputs: Tensor, state: Tensor) -> Tensor:
        return torch.cat([state.unsqueeze(1).expand(-1, outputs.shape[1], -1), outputs], dim=-1)


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_by_hand")
class tanh_of_the_joined_score(Single):
    """A tanh was taken of the joined score.

    The contract's score is `attention_layer` alone. With a tanh it is squeezed into the range from -1 to 1.

    What is done to the output of `attention_layer` before the softmax?
    """

    def score(self, outputs: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(super().score(outputs, state))


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_agrees_with_fresh_draws")
class relu_of_the_joined_score(Single):
    """A ReLU was taken of the joined score.

    The contract's score is `attention_layer` alone. With a ReLU all scores below 0 are alike.

    What is done to the output of `attention_layer` before the softmax?
    """

    def score(self, outputs: Tensor, state: Tensor) -> Tensor:
        return torch.relu(super().score(outputs, state))


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_by_hand")
class context_from_the_joined(Single):
    """The context is the weighted sum of outputs and state joined.

    It is then `encoder_dim + decoder_dim` wide. The context is made of the encoder's outputs alone.

    How wide is the context in the contract?
    """

    def forward(
        self, encoder_outputs: Tensor, decoder_hidden: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        weights = self.weigh(self.score(encoder_outputs, decoder_hidden), mask)
        return self.gather(weights, self.join(encoder_outputs, decoder_hidden)), weights


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_by_hand")
class attention_layer_without_bias(Single):
    """`attention_layer` was made without a bias.

    The softmax cancels it, but the contract's parameters have it: without it a state dict does not fit.

    Which parameters does the contract name for this class?
    """

    def __init__(self, encoder_dim: int, decoder_dim: int) -> None:
        super().__init__(encoder_dim, decoder_dim)
        self.attention_layer = nn.Linear(encoder_dim + decoder_dim, 1, bias=False)


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_by_hand")
class single_layers_made_in_forward(Single):
    """`attention_layer` was made in `forward`.

    Each call then has a new random layer: nothing can be learned or loaded, and no answer is given twice.

    Which method runs once for a module, and which at every call?
    """

    def __init__(self, encoder_dim: int, decoder_dim: int) -> None:
        nn.Module.__init__(self)

    def score(self, outputs: Tensor, state: Tensor) -> Tensor:
        joined = self.join(outputs, state)
        return nn.Linear(joined.shape[-1], 1)(joined).squeeze(-1)


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_by_hand")
class joined_along_the_positions(Single):
    """The decoder state was joined behind the last position, and not behind each of them.

    It is then one position more. The layer needs it beside every encoder output, as further columns.

    Which dimension grows when the two are joined?
    """

    def score(self, outputs: Tensor, state: Tensor) -> Tensor:
        return self.attention_layer(torch.cat([outputs, state.unsqueeze(1)], dim=1)).squeeze(-1)


# --- both forms: Bahdanau's -------------------------------------------------------------------------------------------


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
    """The scores were multiplied by the mask.

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


@misconception(replaces="AdditiveAttention", caught_by="test_additive_agrees_with_fresh_draws")
class additive_one_sequence_at_a_time(Additive):
    """A loop ran over the batch, as many times as there are positions, where it should run over the positions.

    `states[j]` is sequence j; position j of every sequence is `states[:, j]`.

    What does the first index of `(B, S, width)` count?
    """

    def score(self, keys: Tensor, state: Tensor) -> Tensor:
        projected, keys = self.project(state, keys)
        return torch.stack([self.v_a(torch.tanh(projected + keys[j])).squeeze(-1) for j in range(keys.shape[1])], dim=1)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_agrees_with_fresh_draws")
class as_many_positions_as_sequences(Additive):
    """The loop over the positions ran as often as there are sequences in the batch.

    The first dimension of `(B, S, width)` counts the sequences, the second one the positions.

    Which number does your `range` get?
    """

    def score(self, keys: Tensor, state: Tensor) -> Tensor:
        return super().score(keys[:, : len(keys)], state)


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


# --- both forms: the joined one ---------------------------------------------------------------------------------------


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_agrees_with_fresh_draws")
class joined_one_sequence_at_a_time(Single):
    """A loop ran over the batch, as many times as there are positions, where it should run over the positions.

    `states[j]` is sequence j; position j of every sequence is `states[:, j]`.

    What does the first index of `(B, S, width)` count?
    """

    def score(self, outputs: Tensor, state: Tensor) -> Tensor:
        joined = [torch.cat([outputs[j], state], dim=-1) for j in range(outputs.shape[1])]
        return torch.stack([self.attention_layer(both).squeeze(-1) for both in joined], dim=1)


# --- two at once ------------------------------------------------------------------------------------------------------

SCORES = (no_tanh, tanh_of_each_part, parts_multiplied, scaled_by_root_of_hidden)
MASKS = [wrong.additive for wrong in (mask_inverted, mask_ignored, scores_times_mask)]
JOINED_MASKS = [wrong.joined for wrong in (mask_inverted, mask_ignored, scores_times_mask)]
RESULTS = [wrong.additive for wrong in (weights_keep_a_dimension, pair_in_other_order, scores_returned)]
PAIRS = [
    *together(SCORES, MASKS),
    *together(RESULTS, SCORES),
    *together(RESULTS, MASKS),
    *together((context_from_projected_keys,), (*SCORES, *MASKS)),
    *together((state_joined_first, tanh_of_the_joined_score), JOINED_MASKS),
]
