"""What learners get wrong in `linear_attention_step`, each with the check that catches it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step26_linear.misconceptions.forms import require
from solutions.longer_and_faster.step26_linear.reference import feature_map, linear_attention
from solutions.longer_and_faster.step26_linear.reference import linear_attention_step as right_step

State = tuple[Tensor, Tensor] | None


# --- one token at a time --------------------------------------------------------------------------------------------


def _sums(key: Tensor, value: Tensor, state: State) -> tuple[Tensor, Tensor]:
    """The two sums with the token's own key and value added."""
    key = feature_map(key)
    products = key[..., :, None] * value[..., None, :]
    return (products, key) if state is None else (state[0] + products, state[1] + key)


def _context(query: Tensor, products: Tensor, keys: Tensor) -> Tensor:
    query = feature_map(query)
    return torch.einsum("bhd,bhdv->bhv", query, products) / (query * keys).sum(-1, keepdim=True)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_written_in_place(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The token was added to the state in place: the tensors of the caller changed.

    Whoever kept the state, to try two different next tokens, finds another one there.

    Which line makes a new tensor, and which writes into the old one?
    """
    if state is None:
        return right_step(query, key, value, state)
    products, keys = _sums(key, value, None)
    state[0].add_(products)
    state[1].add_(keys)
    return _context(query, *state), state


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_without_the_token(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The state that was returned is the one that came in: the token was not added to it.

    The next token then knows nothing of this one.

    Which sums does the next token have to start from?
    """
    output, new = right_step(query, key, value, state)
    return output, (torch.zeros_like(new[0]), torch.zeros_like(new[1])) if state is None else state


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def own_token_not_seen(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The output was made from the state before the token was added to it.

    A query attends to its own key too: the sums are over j <= i.

    What comes first: adding the token, or multiplying by the query?
    """
    new = _sums(key, value, state)
    if state is None:
        return torch.zeros_like(value), new
    return _context(query, *state), new


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_of_the_token_alone(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The state that came in was not used: the sums hold this token alone.

    A weighted mean over one key is that key's value.

    To what are the products of this token added?
    """
    return right_step(query, key, value)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_forgets(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The output was made with the state that came in, but the new state holds this token alone.

    From the third token on the first one is forgotten.

    Is the state that is returned the one that the output was made from?
    """
    return right_step(query, key, value, state)[0], _sums(key, value, None)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_grows(query: Tensor, key: Tensor, value: Tensor, state: State = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The state was a list of all keys and values so far.

    That is what ordinary attention needs. Here two sums of fixed size hold all there is to know of the past.

    How large should the state be after a thousand tokens?
    """
    keys, values = feature_map(key)[..., None, :], value[..., None, :]
    if state is not None:
        past = (
            state
            if state[0].dim() == 4 and state[0].shape[-1] == key.shape[-1]
            else (keys[..., :0, :], values[..., :0, :])
        )
        keys, values = torch.cat((past[0], keys), dim=-2), torch.cat((past[1], values), dim=-2)
    weights = feature_map(query)[..., None, :] @ keys.transpose(-2, -1)
    return (weights / weights.sum(-1, keepdim=True) @ values).squeeze(-2), (keys, values)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_transposed(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The first sum of the state was kept as (B, H, d_v, d).

    It is of phi(key) valueᵀ: the features of the key are its rows. Others' code reads the state in this layout.

    Which of the two vectors stands upright in an outer product k vᵀ?
    """
    turned = None if state is None else (state[0].transpose(-2, -1), state[1])
    output, (products, keys) = right_step(query, key, value, turned)
    return output, (products.transpose(-2, -1), keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_the_other_way_round(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The two sums of the state were exchanged: the one of the keys came first.

    The state is the pair of the sum of phi(key) valueᵀ and the sum of phi(key), in this order.

    Which of the two has four dimensions?
    """
    turned = None if state is None else (state[1], state[0])
    output, (products, keys) = right_step(query, key, value, turned)
    return output, (keys, products)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_of_one_tensor(query: Tensor, key: Tensor, value: Tensor, state: State = None) -> tuple[Tensor, Tensor]:
    """The state was the sum of phi(key) valueᵀ alone, without that of the keys.

    The denominator needs a sum of its own.

    What is the context divided by, and where does that number come from at the second token?
    """
    output, new = right_step(query, key, value, state)
    return output, new[0]


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_with_an_axis_too_many(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The sum of the keys kept an axis of length 1: (B, H, 1, d) or (B, H, d, 1).

    The state is passed on between one code and another, so that its shapes are part of the contract.

    Which shape should the sum of phi(key) have?
    """
    given = None if state is None else (state[0], state[1].reshape(key.shape))
    output, (products, keys) = right_step(query, key, value, given)
    return output, (products, keys[..., None, :])


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def step_without_normaliser(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The output was not divided by the sum of the weights.

    A context is a mean: without the division it grows with the number of tokens.

    If all values are 1, what should every output be?
    """
    products, keys = _sums(key, value, state)
    return torch.einsum("bhd,bhdv->bhv", feature_map(query), products), (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def step_without_features(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The feature map was not applied in the step.

    The state holds sums of phi(key), and what is added to it must be of the same kind.

    What is phi of a key, and is it what gets added to the state?
    """
    products = key[..., :, None] * value[..., None, :]
    keys = key
    if state is not None:
        products, keys = state[0] + products, state[1] + keys
    return torch.einsum("bhd,bhdv->bhv", query, products) / (query * keys).sum(-1, keepdim=True), (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def key_without_features(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The feature map was applied to the query and not to the key.

    Keys can be negative, and with them weights and their sum.

    Of which two tensors is the weight of a pair made?
    """
    products, keys = key[..., :, None] * value[..., None, :], key
    if state is not None:
        products, keys = state[0] + products, state[1] + keys
    return _context(query, products, keys), (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def query_without_features(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The feature map was applied to the key and not to the query.

    Queries can be negative, and with them weights and their sum.

    Of which two tensors is the weight of a pair made?
    """
    products, keys = _sums(key, value, state)
    return torch.einsum("bhd,bhdv->bhv", query, products) / (query * keys).sum(-1, keepdim=True), (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_fades(query: Tensor, key: Tensor, value: Tensor, state: State = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The state was made smaller before the token was added, or averaged with it.

    There are models that forget in this way. Here each token of the past counts in full.

    By what is the state multiplied before the next token is added to it?
    """
    return right_step(query, key, value, None if state is None else (0.9 * state[0], 0.9 * state[1]))


@misconception(replaces="linear_attention_step", caught_by="test_step_state")
def step_detaches_the_state(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The state that came in was detached: no gradient flows through it.

    A loss at a later token could then not reach the keys and values of earlier ones.

    Is the state data, or part of the computation?
    """
    return right_step(query, key, value, None if state is None else (state[0].detach(), state[1].detach()))


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def output_alone(query: Tensor, key: Tensor, value: Tensor, state: State = None) -> Tensor:
    """The output was returned without the state.

    The caller has to hand the state to the next step.

    How many things does the function return?
    """
    return right_step(query, key, value, state)[0]


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def first_state_is_float32(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Without a state the sums were made in float32, whatever the dtype of the input.

    torch.zeros makes float32 unless it is told otherwise: float64 inputs lose half of their digits.

    What does torch.zeros have to be told, or which function makes a tensor like another one?
    """
    if state is not None:
        return right_step(query, key, value, state)
    output, (products, keys) = right_step(query.float(), key.float(), value.float())
    return output, (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def keys_of_the_token_alone(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The products were added to the state, the keys were not: the denominator held this token alone.

    Both sums are over all tokens so far, else the output is no mean of the values.

    Which two tensors does the state hold, and are both added to?
    """
    products, keys = _sums(key, value, state)[0], feature_map(key)
    return _context(query, products, keys), (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def products_of_the_token_alone(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The keys were added to the state, the products were not: the numerator held this token alone.

    Both sums are over all tokens so far, else the output is no mean of the values.

    Which two tensors does the state hold, and are both added to?
    """
    products, _keys = _sums(key, value, None)
    keys = _sums(key, value, state)[1]
    return _context(query, products, keys), (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def keys_summed_without_features(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The sum of the keys was of the keys themselves, without the feature map.

    The denominator is the sum of the weights that the numerator uses: both are made of phi(key).

    Of what is the second tensor of the state the sum?
    """
    products = _sums(key, value, state)[0]
    keys = key if state is None else state[1] + key
    return _context(query, products, keys), (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def step_guard_too_large(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """In the step a guard of 0.001 or more stood beside the denominator.

    The sum of the weights can be small, after the first token above all: the guard then takes away part of the output.

    How small can the first token's weight be, and what is the guard beside it?
    """
    return _guarded(query, key, value, state, 1e-3)


@another_form(step_guard_too_large)
def step_guard_of_a_hundredth(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    return _guarded(query, key, value, state, 1e-2)


@another_form(step_guard_too_large)
def step_guard_of_one(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    return _guarded(query, key, value, state, 1.0)


def _guarded(
    query: Tensor, key: Tensor, value: Tensor, state: State, guard: float
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    products, keys = _sums(key, value, state)
    query = feature_map(query)
    sums = torch.einsum("bhd,bhdv->bhv", query, products)
    return sums / ((query * keys).sum(-1, keepdim=True) + guard), (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def step_normaliser_by_sums_apart(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """In the step the denominator was the sum of the query's features times the sum of the keys' features.

    A dot product multiplies entry by entry and sums then. In einsum two different letters are two sums.

    Which letter do query and keys share in the denominator?
    """
    products, keys = _sums(key, value, state)
    query = feature_map(query)
    total = torch.einsum("bhd,bhe->bh", query, keys)[..., None]
    return torch.einsum("bhd,bhdv->bhv", query, products) / total, (products, keys)


@misconception(replaces="linear_attention_step", caught_by="test_step_by_step")
def state_normalised(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The first sum of the state was divided by the denominator before it was kept.

    Each query has a denominator of its own; the state is of keys and values alone.

    Does the state depend on the query?
    """
    products, keys = _sums(key, value, state)
    total = (feature_map(query) * keys).sum(-1, keepdim=True)
    return _context(query, products, keys), (products / total[..., None], keys)


# --- other forms of the same ----------------------------------------------------------------------------------------


def _token_by_token(step: Callable[..., Any]) -> Callable[[], dict[str, Callable[..., Any]]]:
    """`step`, and causal attention that takes it for each token."""

    def attended(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
        require(query, key, is_causal)
        if not is_causal:
            return linear_attention(query, key, value)
        state, contexts = None, []
        for token in range(query.shape[-2]):
            context, state = step(query[..., token, :], key[..., token, :], value[..., token, :], state)
            contexts.append(context)
        return torch.stack(contexts, dim=-2)

    return lambda: {"linear_attention": attended, "linear_attention_step": step}


for _wrong in (
    own_token_not_seen, state_of_the_token_alone, state_forgets, state_without_the_token, step_without_normaliser,
    step_without_features, query_without_features, key_without_features, state_fades,
):  # fmt: skip
    _named = f"{_wrong.__name__}_in_a_loop"
    _both = ("linear_attention", "linear_attention_step")
    _made = another_form(_wrong, replaces=_both)(_token_by_token(_wrong))
    globals()[_named] = _made
del _wrong, _made


@another_form(state_written_in_place)
def keys_written_in_place(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    if state is None:
        return right_step(query, key, value, state)
    products, keys = state[0] + _sums(key, value, None)[0], state[1].add_(feature_map(key))
    return _context(query, products, keys), (products, keys)


@another_form(state_grows)
def state_of_all_keys(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    keys, values = key[..., None, :], value[..., None, :]
    if state is not None:
        keys, values = torch.cat((state[0], keys), dim=-2), torch.cat((state[1], values), dim=-2)
    return linear_attention(query[..., None, :], keys, values)[..., 0, :], (keys, values)


@another_form(own_token_not_seen)
def own_value_not_seen(
    query: Tensor, key: Tensor, value: Tensor, state: State = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The denominator is made when the token has been added."""
    products, keys = new = _sums(key, value, state)
    old = torch.zeros_like(products) if state is None else state[0]
    return _context(query, old, keys), new
