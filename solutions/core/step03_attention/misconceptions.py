"""What learners get wrong in step 3, each with the check that catches it."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from grader.checks.catalogue import misconception, together
from solutions.core.step03_attention import reference

Pair = tuple[Tensor, Tensor]


def scaled(query: Tensor, key: Tensor) -> Tensor:
    """The scaled scores."""
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


def hidden(scores: Tensor, mask: Tensor | None, fill: float = -torch.inf) -> Tensor:
    """The scores with the hidden ones filled."""
    return scores if mask is None else scores.masked_fill(~mask, fill)


@misconception(replaces="attention", caught_by="test_by_hand", misses_the_point=True)
def not_scaled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The scores were not divided by the root of the width.

    A dot product grows with the width d. Without the scale the softmax of a wide query picks one key only.

    What stands under the fraction line in the formula, beside the keys?
    """
    weights = hidden(query @ key.transpose(-2, -1), mask).softmax(dim=-1)
    return weights @ value, weights


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


@misconception(replaces="attention", caught_by="test_shapes")
def up_to_four_dimensions(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Each number of dimensions had a line of its own, and five had none.

    Any number of batch dimensions may come. What is said once about the last two dimensions holds for all of them.

    What stands in an einsum for any number of dimensions, and what does `@` do with them?
    """
    batch = {2: "", 3: "b"}.get(query.dim(), "bh")
    scores = torch.einsum(f"{batch}qd,{batch}kd->{batch}qk", query, key) / math.sqrt(query.shape[-1])
    weights = hidden(scores, mask).softmax(dim=-1)
    return torch.einsum(f"{batch}qk,{batch}kv->{batch}qv", weights, value), weights


@misconception(replaces="attention", caught_by="test_shapes")
def implicit_softmax_dimension(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The softmax was not told its dimension.

    torch then takes dimension 1 of a matrix, which are the keys, and dimension 0 of three dimensions, which is the
    batch.

    Which argument of `softmax` says along which dimension the weights have to sum to 1?
    """
    scores = hidden(scaled(query, key), mask)
    weights = scores.softmax(dim=0 if scores.dim() in (0, 1, 3) else 1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_by_hand")
def divided_by_width(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The scores were divided by d and not by the root of d.

    They come out too small, so the weights are too even.

    Is the scale in your code applied once, and is there a root in it?
    """
    weights = hidden(query @ key.transpose(-2, -1) / query.shape[-1], mask).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_shapes")
def scaled_by_value_width(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The scores were divided by the root of the values' width.

    The dot product adds over the width of the query and the key. The values may be wider or narrower.

    Over which dimension of which tensor did the dot product add?
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(value.shape[-1])
    weights = hidden(scores, mask).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_shapes")
def scaled_by_tokens(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The scores were divided by the root of the number of keys.

    Each score comes from one query and one key, so the number of keys does not make it larger.

    How many products does one score add up?
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-2])
    weights = hidden(scores, mask).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_by_hand")
def small_weights_dropped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Small weights were set to 0.

    A softmax gives every visible key a weight above 0. A small weight counts too, above all when the value is large.

    What does your code do to the weights between the softmax and the sum?
    """
    weights = hidden(scaled(query, key), mask).softmax(dim=-1)
    weights = weights.masked_fill(weights < 1e-4, 0.0)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_by_hand", misses_the_point=True)
def softmax_over_queries(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The softmax ran over the queries and not over the keys.

    Then the weights of one key sum to 1. Each query has to share out its own attention among the keys.

    Which dimension of (T_q, T_k) has to sum to 1 so that every query has a full row?
    """
    weights = hidden(scaled(query, key), mask).softmax(dim=-2)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_shapes")
def softmax_over_dimension_one(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The softmax ran over dimension 1.

    Without a batch this is the dimension of the keys. With a batch it is another one.

    Which index names the keys in a shape of any length?
    """
    weights = hidden(scaled(query, key), mask).softmax(dim=1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_by_hand", misses_the_point=True)
def values_weighted_by_scores(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The values were mixed with the scores, and the weights only returned.

    Scores may be negative and do not sum to 1, so the result is no average of the values.

    Which of the two has to stand in the last product: what is before the softmax or what is after it?
    """
    scores = scaled(query, key)
    if mask is not None:
        scores = scores * mask
    return scores @ value, hidden(scores, mask).softmax(dim=-1)


@misconception(replaces="attention", caught_by="test_by_hand")
def scores_returned_as_weights(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The scores were returned in the place of the weights.

    The context is right, but whoever draws or drops the weights gets numbers from before the softmax.

    Which line of yours makes rows that sum to 1, and what does the return line name?
    """
    scores = hidden(scaled(query, key), mask)
    return scores.softmax(dim=-1) @ value, scores


@misconception(replaces="attention", caught_by="test_by_hand")
def pair_in_the_other_order(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The weights were returned first and the context second.

    Every caller unpacks the context first, and would go on with the weights instead.

    In which order does the contract name the two results?
    """
    context, weights = reference.attention(query, key, value, mask)
    return weights, context


@misconception(replaces="attention", caught_by="test_by_hand")
def only_the_context(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Only the context was returned.

    The weights are wanted too: they show what each query looked at, and later steps drop some of them.

    What does the signature say comes back?
    """
    return reference.attention(query, key, value, mask)[0]


@misconception(replaces="attention", caught_by="test_by_hand")
def query_and_key_swapped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The query and the key changed places.

    The rows of the scores then belong to the keys. With as many keys as queries nothing stops, and all is wrong.

    Whose tokens have to be the rows of the scores?
    """
    return reference.attention(key, query, value, mask)


@misconception(replaces="attention", caught_by="test_by_hand")
def key_and_value_swapped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The key and the value changed places.

    The keys say where to look, and the values are what is taken from there. Here the values were compared and the keys
    were mixed.

    Which of the two is compared with the query?
    """
    return reference.attention(query, value, key, mask)


@misconception(replaces="attention", caught_by="test_by_hand")
def keys_mixed_instead_of_values(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The weights were multiplied with the keys.

    The keys are there to be found. What a query takes home are the values.

    Where in your code does `value` appear?
    """
    weights = hidden(scaled(query, key), mask).softmax(dim=-1)
    return weights @ key, weights


@misconception(replaces="attention", caught_by="test_mask_by_hand", misses_the_point=True)
def mask_ignored(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The mask was not used.

    Every query then sees every key, also those that are hidden from it.

    Where does the mask have to act, so that a hidden key gets weight 0?
    """
    return reference.attention(query, key, value)


@misconception(replaces="attention", caught_by="test_mask_by_hand", misses_the_point=True)
def mask_inverted(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The mask was read the other way round: True was taken for "hidden".

    In this kit, as in torch's own attention, True means "may attend".

    Which positions does `masked_fill` fill: those where its mask is True or those where it is False?
    """
    weights = scaled(query, key)
    weights = (weights if mask is None else weights.masked_fill(mask, -1e9)).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_mask_by_hand")
def mask_inverted_with_infinity(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The mask was read the other way round: the keys that it shows were set to -inf.

    In this kit True means "may attend". A query that may attend to every key then sees none, and its row is NaN.

    Which positions does `masked_fill` fill: those where its mask is True or those where it is False?
    """
    weights = scaled(query, key)
    weights = (weights if mask is None else weights.masked_fill(mask, -torch.inf)).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_mask_by_hand")
def hidden_scores_set_to_zero(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The hidden scores were set to 0, or to a number very near it, such as -1e-9.

    A score of 0 is an ordinary score: its exponential is 1, so the hidden key still gets weight.

    Which score has the exponential 0?
    """
    weights = hidden(scaled(query, key), mask, 0.0).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_mask_by_hand")
def mask_added_as_ones(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The boolean mask was added to the scores.

    True counts as 1 there, so visible keys gain 1 and hidden keys stay. Nothing is hidden by that.

    What would you have to add to a score so that its exponential becomes 0?
    """
    scores = scaled(query, key)
    weights = (scores if mask is None else scores + mask.to(scores.dtype)).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_mask_by_hand")
def hidden_scores_not_low_enough(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The hidden scores were set to a number that is only a little below the others.

    A score of -5 is low, but its weight is not 0, so something of the hidden value comes through.

    How low must a score be so that its exponential is 0 beside any other?
    """
    weights = hidden(scaled(query, key), mask, -5.0).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_mask_by_hand")
def masked_after_softmax(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The mask was applied after the softmax, and the rows were not divided by their new sum.

    Each row has lost the weight of its hidden keys, so it no longer sums to 1.

    What must happen to the hidden scores before the softmax, so that their weight is 0 by itself?
    """
    weights = scaled(query, key).softmax(dim=-1)
    weights = weights if mask is None else weights * mask
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_mask_by_hand")
def zero_times_infinity(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The mask was turned into numbers and multiplied with minus infinity.

    At the visible keys this is 0 times infinity, which is not a number, and it spreads through the whole row.

    How can you write minus infinity at the hidden places without multiplying it with anything?
    """
    scores = scaled(query, key)
    if mask is not None:
        scores = scores + (~mask).to(scores.dtype) * -torch.inf
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_mask_by_hand")
def values_masked_instead(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The mask was used for the context only, and the returned weights do not know of it.

    The two results contradict each other: the weights still show attention to hidden keys.

    From which tensor should the context be made, and which one do you return?
    """
    context, _ = reference.attention(query, key, value, mask)
    return context, scaled(query, key).softmax(dim=-1)


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


@misconception(replaces="attention", caught_by="test_shapes")
def three_dimensions_only(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Dimensions 1 and 2 of the key were exchanged.

    This fits exactly one batch dimension. With none, or with two, these are other dimensions.

    How can you name the last two dimensions so that it does not matter how many stand before them?
    """
    scores = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1])
    weights = hidden(scores, mask).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_shapes")
def values_of_the_first_entry(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The values of the first batch entry were used for the whole batch.

    Every batch entry has its own text, and so its own values.

    What does `@` do with the leading dimensions of two stacks of matrices?
    """
    _, weights = reference.attention(query, key, value, mask)
    return weights @ value.reshape(-1, *value.shape[-2:])[0], weights


@misconception(replaces="attention", caught_by="test_shapes")
def attention_across_the_batch(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Every query saw the keys and values of the whole batch.

    The batch entries are texts that know nothing of each other. What one holds must not change the result of another.

    Which dimensions of the key may the queries of one batch entry see?
    """
    if mask is not None or query.dim() == 2:
        return reference.attention(query, key, value, mask)
    keys, values = key.reshape(-1, key.shape[-1]), value.reshape(-1, value.shape[-1])
    context, weights = reference.attention(query, keys, values)
    return context, weights[..., : key.shape[-2]]


@misconception(replaces="attention", caught_by="test_large_scores")
def no_maximum_in_the_softmax(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The softmax was written by hand, without subtracting the maximum.

    In float32, exp overflows above 88, and scores of that size happen. Infinity divided by infinity is not a number.

    What did you subtract in the softmax of step 2?
    """
    exponentials = hidden(scaled(query, key), mask).exp()
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_large_scores")
def one_maximum_for_all_rows(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """One maximum was subtracted from the scores of all queries.

    The row of a query whose scores lie far below it becomes all zeros after exp, and 0 divided by 0 is not a number.

    How do you ask for one maximum for each row?
    """
    scores = hidden(scaled(query, key), mask)
    exponentials = (scores - scores.amax()).exp()
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_gradients")
def context_from_detached_weights(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The context was made from detached weights.

    The numbers are right, but the context no longer teaches the query and the key where to look.

    On which line does the path from the context to the query break?
    """
    _, weights = reference.attention(query, key, value, mask)
    return weights.detach() @ value, weights


@misconception(replaces="attention", caught_by="test_gradients")
def weights_returned_detached(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The weights were returned without their gradient.

    That is fine for a picture, but a loss on the weights could not be trained: both results are to be differentiable.

    Who should decide whether the gradient is needed, the function or its caller?
    """
    context, weights = reference.attention(query, key, value, mask)
    return context, weights.detach()


@misconception(replaces="attention", caught_by="test_gradients")
def keys_detached(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The keys were cut off from the gradient.

    The numbers are right, but training can no longer change what a key offers.

    Which call keeps the numbers of a tensor and forgets where they came from?
    """
    return reference.attention(query, key.detach(), value, mask)


@misconception(replaces="attention", caught_by="test_gradients")
def values_detached(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The values were cut off from the gradient.

    The numbers are right, but training can no longer change what a token passes on.

    Which call keeps the numbers of a tensor and forgets where they came from?
    """
    return reference.attention(query, key, value.detach(), mask)


@misconception(replaces="attention", caught_by="test_dtypes")
def answers_in_float32(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The results came back in float32, whatever was given.

    The layer after it then meets two dtypes and stops, or the model quietly leaves the dtype it was built for.

    If you compute in another dtype, what has to happen to both results before you return them?
    """
    return reference.attention(query.float(), key.float(), value.float(), mask)


@misconception(replaces="attention", caught_by="test_dtypes")
def softmax_in_float32(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The softmax was computed in float32 and converted back, also for float64.

    This helps half precision. For float64 it throws half of the digits away.

    For which dtypes is float32 the wider one?
    """
    weights = hidden(scaled(query, key), mask).float().softmax(dim=-1).to(query.dtype)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_device")
def additive_mask_on_the_cpu(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The mask was turned into a new tensor that is always on the CPU.

    Inputs on another device then meet a tensor on the CPU, and the addition stops or answers on the wrong device.

    How does a new tensor learn on which device it has to be?
    """
    scores = scaled(query, key)
    if mask is not None:
        added = torch.zeros(scores.shape, dtype=scores.dtype)
        scores = added.masked_fill(~mask, -torch.inf) + scores
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_inputs_unmodified")
def query_scaled_in_place(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The query was scaled in place, so the tensor of the caller changed.

    Whoever uses the same query afterwards, or calls twice, gets other numbers.

    Which operator makes a new tensor where `/=` and `div_` change the old one?
    """
    query /= math.sqrt(query.shape[-1])
    weights = hidden(query @ key.transpose(-2, -1), mask).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_inputs_unmodified")
def mask_inverted_in_place(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The mask was inverted in place, so the mask of the caller changed.

    The next layer that is given the same mask sees exactly what it should not see.

    Which operator gives the inverse as a new tensor?
    """
    scores = scaled(query, key)
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not_(), -torch.inf)
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


class Projections(nn.Module):
    """The three layers of `SelfAttention`, for the wrong ways below."""

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class self_attention_not_scaled(Projections):
    """The scores in `SelfAttention` were not scaled.

    The dot products grow with `d_out`, and the softmax picks one token only.

    By what did `attention` divide the scores?
    """

    def forward(self, x: Tensor) -> Tensor:
        scores = self.W_query(x) @ self.W_key(x).transpose(-2, -1)
        return scores.softmax(dim=-1) @ self.W_value(x)


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class self_attention_scaled_by_d_in(Projections):
    """The scores in `SelfAttention` were divided by the root of `d_in`.

    The dot product adds over the width of the query and the key, and after the projection that is another width.

    How wide is a query when it leaves `W_query`?
    """

    def forward(self, x: Tensor) -> Tensor:
        scores = self.W_query(x) @ self.W_key(x).transpose(-2, -1) / math.sqrt(x.shape[-1])
        return scores.softmax(dim=-1) @ self.W_value(x)


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class self_attention_over_queries(Projections):
    """The softmax in `SelfAttention` ran over the queries.

    Each token has to share out its own attention among all tokens, so each row has to sum to 1.

    Which dimension of the (T, T) scores belongs to the keys?
    """

    def forward(self, x: Tensor) -> Tensor:
        scores = self.W_query(x) @ self.W_key(x).transpose(-2, -1) / math.sqrt(self.W_key.out_features)
        return scores.softmax(dim=-2) @ self.W_value(x)


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class projections_swapped(Projections):
    """The query was made with `W_key` and the key with `W_query`.

    With weights that come from elsewhere each token then asks what it should offer.

    Which layer belongs to the rows of the scores?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.attention(self.W_key(x), self.W_query(x), self.W_value(x))[0]


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class values_from_the_keys(Projections):
    """The keys were used as the values.

    `W_value` then never learns, and a token passes on what it is found by.

    How many projections does your forward call, and how many are there?
    """

    def forward(self, x: Tensor) -> Tensor:
        key = self.W_key(x)
        return reference.attention(self.W_query(x), key, key)[0]


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class causal_already(Projections):
    """Every token saw only itself and the tokens before it.

    That is a causal mask, and it comes in step 4. This layer has no mask: every token sees every token.

    Where does your forward make a mask?
    """

    def forward(self, x: Tensor) -> Tensor:
        seen = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool, device=x.device).tril()
        return reference.attention(self.W_query(x), self.W_key(x), self.W_value(x), seen)[0]


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class pair_from_the_module(Projections):
    """The module returned the pair of context and weights.

    A layer hands one tensor to the next. The pair belongs to the function `attention`.

    Which of the two does the layer after this one need?
    """

    def forward(self, x: Tensor) -> Pair:
        return reference.attention(self.W_query(x), self.W_key(x), self.W_value(x))


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class bias_always(Projections):
    """The projections always had a bias.

    `nn.Linear` has one unless told otherwise, and the contract turns it off unless `qkv_bias` is True.

    Which argument of `nn.Linear` should `qkv_bias` go to?
    """

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__(d_in, d_out, True)

    def forward(self, x: Tensor) -> Tensor:
        return reference.attention(self.W_query(x), self.W_key(x), self.W_value(x))[0]


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class bias_never(Projections):
    """The projections never had a bias.

    The argument `qkv_bias` was not used, so weights that come with a bias do not fit.

    Which argument of `nn.Linear` should `qkv_bias` go to?
    """

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__(d_in, d_out, False)

    def forward(self, x: Tensor) -> Tensor:
        return reference.attention(self.W_query(x), self.W_key(x), self.W_value(x))[0]


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class bare_parameter_matrices(nn.Module):
    """The weights were bare matrices and not `nn.Linear` layers.

    Then the parameters are called `W_query` and not `W_query.weight`, and each lies transposed. Weights cannot move
    between this module and any other.

    Which class of torch holds a weight and applies it?
    """

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__()
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))

    def forward(self, x: Tensor) -> Tensor:
        return reference.attention(x @ self.W_query, x @ self.W_key, x @ self.W_value)[0]


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class one_more_projection(Projections):
    """The module has one projection too many.

    An output projection comes with several heads, in step 8. Here the context goes out as it is.

    Which three layers does the contract name?
    """

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__(d_in, d_out, qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)

    def forward(self, x: Tensor) -> Tensor:
        return self.out_proj(reference.attention(self.W_query(x), self.W_key(x), self.W_value(x))[0])


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class batch_of_texts_only(Projections):
    """The module worked with exactly one batch dimension.

    The contract allows any number of leading dimensions, also none: a single text of shape (T, d_in).

    Which two dimensions of the key have to change places, counted from the end?
    """

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = query @ key.transpose(1, 2) / math.sqrt(key.shape[-1])
        return scores.softmax(dim=-1) @ value


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class all_dimensions_of_keys_reversed(Projections):
    """All dimensions of the keys were put in reverse order, as `keys.T` does.

    For a single text of shape (T, d_out) that is the transpose. With a batch the batch dimension moves to the end too.

    Which attribute or method of a tensor exchanges only its last two dimensions?
    """

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = query @ key.permute(*reversed(range(key.dim()))) / math.sqrt(key.shape[-1])
        return scores.softmax(dim=-1) @ value


@misconception(replaces="SelfAttention", caught_by="test_large_scores")
class self_attention_without_maximum(Projections):
    """The softmax in `SelfAttention` was written by hand, without subtracting the maximum.

    In float32, exp overflows above 88, and infinity divided by infinity is not a number.

    What did you subtract in the softmax of step 2?
    """

    def forward(self, x: Tensor) -> Tensor:
        exponentials = scaled(self.W_query(x), self.W_key(x)).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True) @ self.W_value(x)


@misconception(replaces="SelfAttention", caught_by="test_self_attention_gradients")
class self_attention_weights_detached(Projections):
    """The weights were computed outside the gradient's sight.

    The numbers are right, but `W_query` and `W_key` never learn.

    Which line of your forward lies under `no_grad`, or detaches?
    """

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            _, weights = reference.attention(self.W_query(x), self.W_key(x), self.W_value(x))
        return weights @ self.W_value(x)


@misconception(replaces="SelfAttention", caught_by="test_self_attention_moves")
class scale_left_behind(Projections):
    """The module kept a tensor of its own that does not move with it.

    `.to(device)` and `.to(dtype)` move parameters and buffers only. A plain tensor stays where and what it was.

    How does a module learn that a tensor belongs to it, or can a Python number do the work?
    """

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__(d_in, d_out, qkv_bias)
        self.scale = torch.full((1, 1), d_out**0.5)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.W_query(x) @ self.W_key(x).transpose(-2, -1) / self.scale
        return scores.softmax(dim=-1) @ self.W_value(x)


@misconception(replaces="SelfAttention", caught_by="test_self_attention_moves")
class weights_kept_from_the_first_call(Projections):
    """The module kept its weight matrices from the first call.

    After `.to(dtype)` or a training step the layers have changed, and the kept matrices have not.

    What would forward use if it looked at the layers anew each time?
    """

    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self, "kept"):
            self.kept = [(layer.weight.clone(), layer.bias) for layer in (self.W_query, self.W_key, self.W_value)]
        query, key, value = (nn.functional.linear(x, weight, bias) for weight, bias in self.kept)
        return reference.attention(query, key, value)[0]


@misconception(replaces="attention", caught_by="test_large_scores")
def a_thousand_filled_in(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The hidden scores were filled with a number like -1000, which is not low enough.

    Where the visible scores of a row are as low as that, a hidden key gets as much weight as they do, or more.

    Which number stays far below every score that can come up?
    """
    weights = hidden(scaled(query, key), mask, -1000.0).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="SelfAttention", caught_by="test_self_attention_gradients")
class dropout_nobody_asked_for(Projections):
    """The weights went through a dropout that the step does not have.

    In training the result is then another one each time, and no argument can switch that off.

    Is there a rate of dropout among the arguments of this module?
    """

    def forward(self, x: Tensor) -> Tensor:
        weights = scaled(self.W_query(x), self.W_key(x)).softmax(dim=-1)
        return nn.functional.dropout(weights, 0.1, self.training) @ self.W_value(x)


@misconception(replaces="attention", caught_by="test_by_hand")
def batch_dimension_unpacked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The shape was taken apart as if there were exactly one batch dimension.

    Any number of batch dimensions may come, none included. Then there are more numbers to take apart, or fewer.

    Which numbers do you need, and how do you ask for one of them, counted from the end of the shape?
    """
    _batch, _num_tokens, _width = query.shape
    return reference.attention(query, key, value, mask)


@misconception(replaces="attention", caught_by="test_by_hand")
def divided_by_width_and_by_two(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The scores were divided by d and then by 2.

    `scores / d ** 1/2` does that: Python takes the power first, and then divides twice.

    How do you write the exponent one half so that nothing in it is left for Python to divide?
    """
    weights = hidden(query @ key.transpose(-2, -1) / query.shape[-1] / 2, mask).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_by_hand")
def multiplied_by_root(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The scores were multiplied by the root of the width.

    They grow with the width already. Multiplying makes them grow once more, and the softmax picks one key only.

    Should wide keys give larger scores than narrow ones, or scores of the same size?
    """
    weights = hidden(query @ key.transpose(-2, -1) * math.sqrt(query.shape[-1]), mask).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_by_hand")
def scaled_by_first_dimension(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The scores were divided by the root of the first dimension.

    The first dimension is the batch, or the number of queries when there is no batch. The width is another one.

    Which index names the width in a shape of any length?
    """
    weights = hidden(query @ key.transpose(-2, -1) / math.sqrt(query.shape[0]), mask).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_shapes")
def scaled_by_second_dimension(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The scores were divided by the root of dimension 1.

    Without a batch dimension 1 is the width. With a batch it is the number of tokens or the next batch dimension.

    Which index names the width in a shape of any length?
    """
    weights = hidden(query @ key.transpose(-2, -1) / math.sqrt(query.shape[1]), mask).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_by_hand")
def weights_divided_by_root(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The weights were divided by the root of the width, and not the scores.

    The softmax then saw scores that are too large, and the rows that it made no longer sum to 1.

    Does the division come before the softmax in the formula, or after it?
    """
    weights = hidden(query @ key.transpose(-2, -1), mask).softmax(dim=-1) / math.sqrt(query.shape[-1])
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_by_hand")
def softmax_over_first_dimension(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The softmax ran over the first dimension.

    That is the batch, or the queries when there is no batch. Each query has to share out its own attention among the
    keys.

    Which index names the keys in a shape of any length?
    """
    weights = hidden(scaled(query, key), mask).softmax(dim=0)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_by_hand")
def weights_transposed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The weights were transposed before they were multiplied with the values.

    Row i of the weights belongs to query i, and its context is made of that row. A column does not even sum to 1.

    Which dimension of the weights has an entry for each value?
    """
    weights = hidden(scaled(query, key), mask).softmax(dim=-1)
    return weights.transpose(-2, -1) @ value, weights


@misconception(replaces="attention", caught_by="test_by_hand")
def causal_without_being_asked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Every query saw only the keys up to its own place, whatever the mask was.

    That is a causal mask, and it comes in step 4. Here only the mask that is given hides anything.

    Where does your code make a mask of its own?
    """
    scores = scaled(query, key)
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    weights = hidden(hidden(scores, seen), mask).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_mask_by_hand")
def minus_sign_forgotten(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The hidden scores were set to a huge number without its minus sign.

    A softmax gives the most weight to the highest score, so the hidden keys took it all.

    On which side of all other scores does a hidden one have to lie?
    """
    weights = hidden(scaled(query, key), mask, 1e9).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_mask_by_hand")
def mask_subtracted_from_one(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The boolean mask was subtracted from 1.

    True and False are no numbers, so torch stops there. Where tutorials write `1 - mask`, the mask is one of numbers.

    Which operator inverts each entry of a boolean tensor by itself?
    """
    scores = scaled(query, key)
    weights = (scores if mask is None else scores + (1 - mask) * -1e9).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="attention", caught_by="test_dtypes")
def root_in_a_float32_tensor(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The root of the width was put into a float32 tensor, which made float32 of the scores.

    When two tensors with dimensions meet, torch takes the wider dtype, so the weights no longer have the dtype of the
    values. A tensor made like this is also on the CPU, wherever the scores are.

    Can a plain Python number do the work, which takes the dtype of what it divides?
    """
    scores = query @ key.transpose(-2, -1) / torch.sqrt(torch.tensor([float(query.shape[-1])]))
    weights = hidden(scores, mask).softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class self_attention_divided_by_width(Projections):
    """The scores in `SelfAttention` were divided by d and not by the root of d.

    They come out too small, so the weights are too even.

    Is the scale in your code applied once, and is there a root in it?
    """

    def forward(self, x: Tensor) -> Tensor:
        query = self.W_query(x)
        return (query @ self.W_key(x).transpose(-2, -1) / query.shape[-1]).softmax(dim=-1) @ self.W_value(x)


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class self_attention_divided_by_width_and_by_two(Projections):
    """The scores in `SelfAttention` were divided by d and then by 2.

    `scores / d ** 1/2` does that: Python takes the power first, and then divides twice.

    How do you write the exponent one half so that nothing in it is left for Python to divide?
    """

    def forward(self, x: Tensor) -> Tensor:
        query = self.W_query(x)
        return (query @ self.W_key(x).transpose(-2, -1) / query.shape[-1] / 2).softmax(dim=-1) @ self.W_value(x)


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class self_attention_scaled_by_tokens(Projections):
    """The scores in `SelfAttention` were divided by the root of the number of tokens.

    Each score comes from one query and one key, so the number of tokens does not make it larger.

    How many products does one score add up?
    """

    def forward(self, x: Tensor) -> Tensor:
        scores = self.W_query(x) @ self.W_key(x).transpose(-2, -1) / math.sqrt(x.shape[-2])
        return scores.softmax(dim=-1) @ self.W_value(x)


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class layer_taken_for_a_matrix(Projections):
    """The tokens were multiplied with a layer by `@`.

    A layer holds a matrix and is none itself. It is called like a function, and adds its bias where it has one.

    How do you apply `W_query` to x?
    """

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (x @ layer for layer in (self.W_query, self.W_key, self.W_value))  # type: ignore[operator]
        return reference.attention(query, key, value)[0]


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class tokens_mixed_instead_of_values(Projections):
    """The weights were multiplied with the tokens as they came.

    The tokens are as wide as `d_in`. What they pass on are their values, which `W_value` makes of them.

    How many projections does your forward call, and how many are there?
    """

    def forward(self, x: Tensor) -> Tensor:
        return scaled(self.W_query(x), self.W_key(x)).softmax(dim=-1) @ x


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class weights_from_the_module(Projections):
    """The module returned the weights, and not the context.

    The next layer needs a tensor of shape (..., T, d_out). `attention` gives the context first and the weights second.

    Which of the two results of `attention` does your return line name?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.attention(self.W_query(x), self.W_key(x), self.W_value(x))[1]


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class batch_dimension_unpacked_in_the_module(Projections):
    """The shape of x was taken apart as if there were exactly one batch dimension.

    The contract allows any number of leading dimensions, also none: a single text of shape (T, d_in).

    Which numbers do you need, and how do you ask for one of them, counted from the end of the shape?
    """

    def forward(self, x: Tensor) -> Tensor:
        _batch, _num_tokens, _width = x.shape
        return reference.attention(self.W_query(x), self.W_key(x), self.W_value(x))[0]


# --- two at once ------------------------------------------------------------------------------------------------------

Weigh = Callable[[Tensor, Tensor | None], Tensor]  # from scores and mask to weights
SCALES = {
    not_scaled: lambda query, value: 1.0,
    divided_by_width: lambda query, value: query.shape[-1],
    scaled_by_value_width: lambda query, value: math.sqrt(value.shape[-1]),
}
WEIGHTS: dict[Callable[..., object], Weigh] = {
    mask_ignored: lambda scores, mask: scores.softmax(dim=-1),
    mask_inverted: lambda scores, mask: (scores if mask is None else scores.masked_fill(mask, -1e9)).softmax(dim=-1),
    mask_inverted_with_infinity: lambda scores, mask: (
        scores if mask is None else scores.masked_fill(mask, -torch.inf)
    ).softmax(dim=-1),
    hidden_scores_set_to_zero: lambda scores, mask: hidden(scores, mask, 0.0).softmax(dim=-1),
    masked_after_softmax: lambda scores, mask: scores.softmax(dim=-1) * (1 if mask is None else mask),
    softmax_over_queries: lambda scores, mask: hidden(scores, mask).softmax(dim=-2),
}
OVER_QUERIES: dict[Callable[..., object], Weigh] = {
    mask_ignored: lambda scores, mask: scores.softmax(dim=-2),
    mask_inverted: lambda scores, mask: (scores if mask is None else scores.masked_fill(mask, -1e9)).softmax(dim=-2),
    hidden_scores_set_to_zero: lambda scores, mask: hidden(scores, mask, 0.0).softmax(dim=-2),
    masked_after_softmax: lambda scores, mask: scores.softmax(dim=-2) * (1 if mask is None else mask),
}
OTHER_DIMENSIONS: dict[Callable[..., object], Weigh] = {
    softmax_over_first_dimension: lambda scores, mask: hidden(scores, mask).softmax(dim=0),
    softmax_over_dimension_one: lambda scores, mask: hidden(scores, mask).softmax(dim=1),
}
RESULTS = {
    only_the_context: lambda context, weights: context,
    pair_in_the_other_order: lambda context, weights: (weights, context),
}


def _attention(
    scale: Callable[[Tensor, Tensor], float],
    weigh: Weigh,
    result: Callable[[Tensor, Tensor], object] = lambda *pair: pair,
) -> object:
    def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> object:
        weights = weigh(query @ key.transpose(-2, -1) / scale(query, value), mask)
        return result(weights @ value, weights)

    return attention


def _root_of_width(query: Tensor, value: Tensor) -> float:
    return math.sqrt(query.shape[-1])


def _hide_and_share(scores: Tensor, mask: Tensor | None) -> Tensor:
    return hidden(scores, mask).softmax(dim=-1)


MODULE_SCALES = {
    self_attention_not_scaled: lambda x, query: 1.0,
    self_attention_scaled_by_d_in: lambda x, query: math.sqrt(x.shape[-1]),
}
MODULE_WEIGHTS: dict[type, Callable[[Tensor], Tensor]] = {
    self_attention_over_queries: lambda scores: scores.softmax(dim=-2),
    causal_already: lambda scores: hidden(scores, torch.ones_like(scores, dtype=torch.bool).tril()).softmax(dim=-1),
}


def _self_attention(scale: Callable[[Tensor, Tensor], float], weigh: Callable[[Tensor], Tensor]) -> type:
    class SelfAttention(Projections):
        def forward(self, x: Tensor) -> Tensor:
            query = self.W_query(x)
            return weigh(query @ self.W_key(x).transpose(-2, -1) / scale(x, query)) @ self.W_value(x)

    return SelfAttention


PAIRS = [
    *together(SCALES, WEIGHTS, _attention),
    *together({not_scaled: SCALES[not_scaled]}, OTHER_DIMENSIONS, _attention),
    *together(OVER_QUERIES, {softmax_over_queries: None}, lambda weigh, _: _attention(_root_of_width, weigh)),
    *together(SCALES, RESULTS, lambda scale, result: _attention(scale, _hide_and_share, result)),
    *together(WEIGHTS, RESULTS, lambda weigh, result: _attention(_root_of_width, weigh, result)),
    *together(MODULE_SCALES, MODULE_WEIGHTS, _self_attention),
]
