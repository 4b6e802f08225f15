"""What learners get wrong in `attention`, each with the check that catches it."""

import math

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step03_attention import reference
from solutions.core.step03_attention.misconceptions.pieces import Attention, Pair, attending, hidden


@misconception(replaces=attending, caught_by="test_by_hand", misses_the_point=True)
class not_scaled(Attention):
    """The scores were not divided by the root of the width.

    A dot product grows with the width d. Without the scale the softmax of a wide query picks one key only.

    What stands under the fraction line in the formula, beside the keys?
    """

    def divisor(self) -> float:
        return 1.0


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


@misconception(replaces=attending, caught_by="test_shapes")
class implicit_softmax_dimension(Attention):
    """The softmax was not told its dimension.

    torch then takes dimension 1 of a matrix, which are the keys, and dimension 0 of three dimensions, which is the
    batch.

    Which argument of `softmax` says along which dimension the weights have to sum to 1?
    """

    def shared(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=0 if scores.dim() in (0, 1, 3) else 1)  # as torch picks it


@misconception(replaces=attending, caught_by="test_by_hand")
class divided_by_width(Attention):
    """The scores were divided by d and not by the root of d.

    They come out too small, so the weights are too even.

    Is the scale in your code applied once, and is there a root in it?
    """

    def divisor(self) -> float:
        return self.query.shape[-1]


@misconception(replaces=attending, caught_by="test_shapes")
class scaled_by_value_width(Attention):
    """The scores were divided by the root of the values' width.

    The dot product adds over the width of the query and the key. The values may be wider or narrower.

    Over which dimension of which tensor did the dot product add?
    """

    def divisor(self) -> float:
        return math.sqrt(self.value.shape[-1])


@misconception(replaces=attending, caught_by="test_shapes")
class scaled_by_tokens(Attention):
    """The scores were divided by the root of the number of keys.

    Each score comes from one query and one key, so the number of keys does not make it larger.

    How many products does one score add up?
    """

    def divisor(self) -> float:
        return math.sqrt(self.key.shape[-2])


@misconception(replaces=attending, caught_by="test_by_hand")
class small_weights_dropped(Attention):
    """Small weights were set to 0.

    A softmax gives every visible key a weight above 0. A small weight counts too, above all when the value is large.

    What does your code do to the weights between the softmax and the sum?
    """

    def weights(self) -> Tensor:
        weights = super().weights()
        return weights.masked_fill(weights < 1e-4, 0.0)


@misconception(replaces=attending, caught_by="test_by_hand", misses_the_point=True)
class softmax_over_queries(Attention):
    """The softmax ran over the queries and not over the keys.

    Then the weights of one key sum to 1. Each query has to share out its own attention among the keys.

    Which dimension of (T_q, T_k) has to sum to 1 so that every query has a full row?
    """

    dim = -2


@another_form(softmax_over_queries)
class softmax_over_queries_after_a_billion(softmax_over_queries):
    fill = -1e9  # where a key is hidden from all queries, its weights are equal and not NaN


@misconception(replaces=attending, caught_by="test_shapes")
class softmax_over_dimension_one(Attention):
    """The softmax ran over dimension 1.

    Without a batch this is the dimension of the keys. With a batch it is another one.

    Which index names the keys in a shape of any length?
    """

    dim = 1


@misconception(replaces=attending, caught_by="test_by_hand", misses_the_point=True)
class values_weighted_by_scores(Attention):
    """The values were mixed with the scores, and the weights only returned.

    Scores may be negative and do not sum to 1, so the result is no average of the values.

    Which of the two has to stand in the last product: what is before the softmax or what is after it?
    """

    def answer(self) -> Pair:
        scores = self.scores()
        if self.mask is not None:
            scores = scores * self.mask
        return scores @ self.value, self.shared(self.hidden(scores))


@misconception(replaces=attending, caught_by="test_by_hand")
class scores_returned_as_weights(Attention):
    """The scores were returned in the place of the weights.

    The context is right, but whoever draws or drops the weights gets numbers from before the softmax.

    Which line of yours makes rows that sum to 1, and what does the return line name?
    """

    def answer(self) -> Pair:
        scores = self.hidden(self.scores())
        return self.context(self.shared(scores)), scores


@misconception(replaces=attending, caught_by="test_by_hand")
class pair_in_the_other_order(Attention):
    """The weights were returned first and the context second.

    Every caller unpacks the context first, and would go on with the weights instead.

    In which order does the contract name the two results?
    """

    def given(self, context: Tensor, weights: Tensor) -> Pair:
        return weights, context


@misconception(replaces=attending, caught_by="test_by_hand")
class only_the_context(Attention):
    """Only the context was returned.

    The weights are wanted too: they show what each query looked at, and later steps drop some of them.

    What does the signature say comes back?
    """

    def given(self, context: Tensor, weights: Tensor) -> Tensor:
        return context


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


@misconception(replaces=attending, caught_by="test_by_hand")
class keys_mixed_instead_of_values(Attention):
    """The weights were multiplied with the keys.

    The keys are there to be found. What a query takes home are the values.

    Where in your code does `value` appear?
    """

    def context(self, weights: Tensor) -> Tensor:
        return weights @ self.key


@misconception(replaces=attending, caught_by="test_shapes")
class three_dimensions_only(Attention):
    """Dimensions 1 and 2 of the key were exchanged.

    This fits exactly one batch dimension. With none, or with two, these are other dimensions.

    How can you name the last two dimensions so that it does not matter how many stand before them?
    """

    def product(self) -> Tensor:
        return self.query @ self.key.transpose(1, 2)


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


@misconception(replaces=attending, caught_by="test_large_scores")
class no_maximum_in_the_softmax(Attention):
    """The softmax was written by hand, without subtracting the maximum.

    In float32, exp overflows above 88, and scores of that size happen. Infinity divided by infinity is not a number.

    What did you subtract in the softmax of step 2?
    """

    def shared(self, scores: Tensor) -> Tensor:
        exponentials = scores.exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces=attending, caught_by="test_large_scores")
class one_maximum_for_all_rows(Attention):
    """One maximum was subtracted from the scores of all queries.

    The row of a query whose scores lie far below it becomes all zeros after exp, and 0 divided by 0 is not a number.

    How do you ask for one maximum for each row?
    """

    def shared(self, scores: Tensor) -> Tensor:
        exponentials = (scores - scores.amax()).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


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


@misconception(replaces=attending, caught_by="test_dtypes")
class softmax_in_float32(Attention):
    """The softmax was computed in float32 and converted back, also for float64.

    This helps half precision. For float64 it throws half of the digits away.

    For which dtypes is float32 the wider one?
    """

    def shared(self, scores: Tensor) -> Tensor:
        return super().shared(scores.float()).to(self.query.dtype)


@misconception(replaces=attending, caught_by="test_device")
class additive_mask_on_the_cpu(Attention):
    """The mask was turned into a new tensor that is always on the CPU.

    Inputs on another device then meet a tensor on the CPU, and the addition stops or answers on the wrong device.

    How does a new tensor learn on which device it has to be?
    """

    def hidden(self, scores: Tensor) -> Tensor:
        if self.mask is None:
            return scores
        return torch.zeros(scores.shape, dtype=scores.dtype).masked_fill(~self.mask, -torch.inf) + scores


@misconception(replaces=attending, caught_by="test_inputs_unmodified")
class query_scaled_in_place(Attention):
    """The query was scaled in place, so the tensor of the caller changed.

    Whoever uses the same query afterwards, or calls twice, gets other numbers.

    Which operator makes a new tensor where `/=` and `div_` change the old one?
    """

    def scores(self) -> Tensor:
        self.query /= self.divisor()
        return self.product()


@misconception(replaces=attending, caught_by="test_inputs_unmodified")
class mask_inverted_in_place(Attention):
    """The mask was inverted in place, so the mask of the caller changed.

    The next layer that is given the same mask sees exactly what it should not see.

    Which operator gives the inverse as a new tensor?
    """

    def hidden(self, scores: Tensor) -> Tensor:
        return scores if self.mask is None else scores.masked_fill(self.mask.logical_not_(), self.fill)


@misconception(replaces=attending, caught_by="test_large_scores")
class a_thousand_filled_in(Attention):
    """The hidden scores were filled with a number like -1000, which is not low enough.

    Where the visible scores of a row are as low as that, a hidden key gets as much weight as they do, or more.

    Which number stays far below every score that can come up?
    """

    fill = -1000.0


@misconception(replaces="attention", caught_by="test_by_hand")
def batch_dimension_unpacked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The shape was taken apart as if there were exactly one batch dimension.

    Any number of batch dimensions may come, none included. Then there are more numbers to take apart, or fewer.

    Which numbers do you need, and how do you ask for one of them, counted from the end of the shape?
    """
    _batch, _num_tokens, _width = query.shape
    return reference.attention(query, key, value, mask)


@misconception(replaces=attending, caught_by="test_by_hand")
class divided_by_width_and_by_two(Attention):
    """The scores were divided by d and then by 2.

    `scores / d ** 1/2` does that: Python takes the power first, and then divides twice.

    How do you write the exponent one half so that nothing in it is left for Python to divide?
    """

    def divisor(self) -> float:
        return self.query.shape[-1] * 2


@misconception(replaces=attending, caught_by="test_by_hand")
class multiplied_by_root(Attention):
    """The scores were multiplied by the root of the width.

    They grow with the width already. Multiplying makes them grow once more, and the softmax picks one key only.

    Should wide keys give larger scores than narrow ones, or scores of the same size?
    """

    def scores(self) -> Tensor:
        return self.product() * self.divisor()


@misconception(replaces=attending, caught_by="test_by_hand")
class scaled_by_first_dimension(Attention):
    """The scores were divided by the root of the first dimension.

    The first dimension is the batch, or the number of queries when there is no batch. The width is another one.

    Which index names the width in a shape of any length?
    """

    def divisor(self) -> float:
        return math.sqrt(self.query.shape[0])


@misconception(replaces=attending, caught_by="test_shapes")
class scaled_by_second_dimension(Attention):
    """The scores were divided by the root of dimension 1.

    Without a batch dimension 1 is the width. With a batch it is the number of tokens or the next batch dimension.

    Which index names the width in a shape of any length?
    """

    def divisor(self) -> float:
        return math.sqrt(self.query.shape[1])


@misconception(replaces=attending, caught_by="test_by_hand")
class weights_divided_by_root(Attention):
    """The weights were divided by the root of the width, and not the scores.

    The softmax then saw scores that are too large, and the rows that it made no longer sum to 1.

    Does the division come before the softmax in the formula, or after it?
    """

    def scores(self) -> Tensor:
        return self.product()

    def weights(self) -> Tensor:
        return super().weights() / self.divisor()


@misconception(replaces=attending, caught_by="test_by_hand")
class softmax_over_first_dimension(Attention):
    """The softmax ran over the first dimension.

    That is the batch, or the queries when there is no batch. Each query has to share out its own attention among the
    keys.

    Which index names the keys in a shape of any length?
    """

    dim = 0


@misconception(replaces=attending, caught_by="test_by_hand")
class weights_transposed(Attention):
    """The weights were transposed before they were multiplied with the values.

    Row i of the weights belongs to query i, and its context is made of that row. A column does not even sum to 1.

    Which dimension of the weights has an entry for each value?
    """

    def context(self, weights: Tensor) -> Tensor:
        return weights.transpose(-2, -1) @ self.value


@misconception(replaces=attending, caught_by="test_by_hand")
class causal_without_being_asked(Attention):
    """Every query saw only the keys up to its own place, whatever the mask was.

    That is a causal mask, and it comes in step 4. Here only the mask that is given hides anything.

    Where does your code make a mask of its own?
    """

    def hidden(self, scores: Tensor) -> Tensor:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        return super().hidden(scores.masked_fill(~seen, -torch.inf))


@misconception(replaces=attending, caught_by="test_dtypes")
class root_in_a_float32_tensor(Attention):
    """The root of the width was put into a float32 tensor, which made float32 of the scores.

    When two tensors with dimensions meet, torch takes the wider dtype, so the weights no longer have the dtype of the
    values. A tensor made like this is also on the CPU, wherever the scores are.

    Can a plain Python number do the work, which takes the dtype of what it divides?
    """

    def scores(self) -> Tensor:
        return self.product() / torch.sqrt(torch.tensor([float(self.query.shape[-1])]))
