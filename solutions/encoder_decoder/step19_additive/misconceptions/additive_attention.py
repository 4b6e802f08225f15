"""What learners get wrong in `AdditiveAttention`, each with the check that catches it."""

import math

import torch
from torch import Tensor, nn

from grader.checks.catalogue import misconception
from solutions.encoder_decoder.step19_additive import reference
from solutions.encoder_decoder.step19_additive.misconceptions.pieces import Additive

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


# --- both forms: Bahdanau's -------------------------------------------------------------------------------------------


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


# --- the score: more -----------------------------------------------------------------------------------------------


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class both_projected_with_a_bias(projections_with_a_bias):
    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        reference.AdditiveAttention.__init__(self, query_dim, key_dim, hidden_dim)
        self.W_a, self.U_a = nn.Linear(query_dim, hidden_dim), nn.Linear(key_dim, hidden_dim)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand")
class keys_left_out(Additive):
    """The keys were not used in the score: every position got the same one.

    Equal scores give equal weights, and the context is the plain mean of the keys.

    Where does `U_a(keys)` enter the score?
    """

    def hidden(self, state: Tensor, keys: Tensor) -> Tensor:
        return torch.tanh(state.unsqueeze(1) + 0 * keys)


@misconception(replaces="AdditiveAttention", caught_by="test_additive_by_hand", misses_the_point=True)
class dot_of_the_projections(Additive):
    """The score is the dot product of the projected state and the projected key.

    That is multiplicative attention, Luong's and that of 2017. Bahdanau's adds the two, and `v_a` scores the tanh of
    the sum.

    Where do tanh and `v_a` stand in the formula?
    """

    def score(self, keys: Tensor, state: Tensor) -> Tensor:
        state, keys = self.project(state, keys)
        return (state.unsqueeze(1) * keys).sum(dim=-1)
