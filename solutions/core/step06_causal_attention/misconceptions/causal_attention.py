"""What learners get wrong in `CausalAttention`, each with the check that catches it."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.core.step06_causal_attention import reference
from solutions.core.step06_causal_attention.misconceptions.pieces import Pieces

# --- the scores -------------------------------------------------------------------------------------------------------


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class not_scaled(Pieces):
    """The scores went into the softmax without being divided by the square root of the width.

    The wider the keys are, the larger the scores grow, and the softmax turns into a choice of one single token.

    Which number does attention divide the scores by, and from which tensor's shape can you read it?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1)


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class scaled_by_input_width(Pieces):
    """The scores were divided by the square root of `d_in`, the width of the tokens that come in.

    A score is a sum over the entries of a key, so its size grows with the width of the key, which is `d_out`.

    When query and key are multiplied, over how many numbers does the sum run?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(self.W_key.in_features)


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class scaled_by_width_without_root(Pieces):
    """The scores were divided by `d_out` itself, not by its square root.

    The scores of random queries and keys grow like the root of the width, so this makes them too small, and the
    weights too even.

    What is √4, and what did your code divide by when the width was 4?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / key.shape[-1]


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class scaled_by_length(Pieces):
    """The scores were divided by the square root of T, the number of tokens.

    A score is a sum over the entries of a key. More tokens make more scores, and none of them larger.

    When query and key are multiplied, over how many numbers does the sum run?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(key.shape[-2])


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class multiplied_by_the_root(Pieces):
    """The scores were multiplied by the square root of the width, where they had to be divided by it.

    The wider the keys are, the larger the scores grow. This makes them larger still.

    Which sign must the exponent have in `* d ** 0.5`, or which operator belongs in front of the root?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) * math.sqrt(key.shape[-1])


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class scores_from_values(Pieces):
    """The queries were multiplied with the values, where the keys belong.

    A key says which queries a token answers. Its value is what it gives to those that it answers.

    Which two of query, key and value make the scores?
    """

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, _key, value = super().projected(x)
        return query, value, value


@misconception(replaces="CausalAttention", caught_by="test_agrees_with_fresh_draws")
class query_and_key_swapped(Pieces):
    """Query and key changed places, so that row i held what the other tokens ask of token i.

    A row of the scores belongs to one query: it says how well each key answers it.

    In the shape (B, T, T), which of the two T counts the queries, and which operand of `@` does it come from?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return super().scores(key, query)


@misconception(replaces="CausalAttention", caught_by="test_agrees_with_fresh_draws")
class keys_from_the_queries(Pieces):
    """The keys were made from what `W_query` gives, and not by `W_key` from `x`.

    A token is then found by what it asks for, and not by what it has to offer.

    What goes into `W_key`, and where does its output go?
    """

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, _key, value = super().projected(x)
        return query, query, value


@another_form(keys_from_the_queries)
class keys_projected_from_the_queries(Pieces):
    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, _key, value = super().projected(x)
        return query, self.W_key(query), value


@misconception(replaces="CausalAttention", caught_by="test_agrees_with_fresh_draws")
class values_of_another_layer(Pieces):
    """The values were not made with `W_value`, but with another of the three layers.

    `W_value` then never learns, and a token passes on what it is found by, or what it asks for.

    How many layers does your `forward` call, and how many are there?
    """

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, _value = super().projected(x)
        return query, key, key


@another_form(values_of_another_layer)
class values_from_the_queries(Pieces):
    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, _value = super().projected(x)
        return query, key, query


# --- the softmax and the average --------------------------------------------------------------------------------------


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class softmax_over_queries(Pieces):
    """The softmax ran over the queries, so that the columns of the weights summed to 1 and the rows did not.

    Each query shares out a weight of 1 among the keys, and the keys are counted by the last dimension.

    Along which dimension must the weights sum to 1, and what does `dim` say in your softmax?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=-2)


@misconception(replaces="CausalAttention", caught_by="test_large_scores")
class no_maximum_subtracted(Pieces):
    """The exponentials of the scores were taken as they are, without subtracting each row's maximum first.

    exp(100) is too large for float32 and becomes inf, exp(-200) becomes 0, and inf / inf and 0 / 0 are NaN.

    What may be subtracted from all scores of a row without changing its softmax?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        exponentials = scores.masked_fill(~visible, -torch.inf).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="CausalAttention", caught_by="test_large_scores")
class maximum_of_everything(Pieces):
    """One maximum was subtracted from the scores of many rows.

    A row whose scores all lie far below that maximum has exponentials that round to 0, and 0 / 0 is NaN.

    Which numbers belong together in one softmax, and whose maximum should they lose?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        exponentials = (scores - scores.max()).exp() * visible
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="CausalAttention", caught_by="test_large_scores")
class hidden_scores_not_low_enough(Pieces):
    """The hidden scores were set to -100, which is not low enough.

    When the visible scores of a row are themselves near -200, a hidden position at -100 takes all the weight.

    Which number is lower than every score there can be?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -100.0).softmax(dim=-1)


@misconception(replaces="CausalAttention", caught_by="test_agrees_with_fresh_draws")
class keys_of_first_sequence_for_all(Pieces):
    """The queries of every sequence were compared with the keys of the first sequence of the batch.

    The sequences of a batch know nothing of each other: each attends to its own tokens only.

    Does some index or reshape in your code take the batch dimension away from the keys?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return super().scores(query, key[:1])


@misconception(replaces="CausalAttention", caught_by="test_gradients")
class weights_detached(Pieces):
    """The attention weights were cut off from the graph, by `detach`, `.data`, `torch.no_grad` or a new tensor.

    The result is right, but no gradient reaches `W_query` and `W_key`, and they never learn.

    Which operation between the scores and the context does autograd not see?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return super().weights(scores, visible).detach()


@misconception(replaces="CausalAttention", caught_by="test_future_has_no_effect")
class no_gradient_in_eval(Pieces):
    """In eval mode no gradient was kept, because of `torch.no_grad` or a `detach` there.

    eval() switches dropout off, and nothing else. Who needs no gradient says so around the call.

    What does `self.training` decide in your `forward`, besides dropout?
    """

    def forward(self, x: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.training):
            return super().forward(x)


@misconception(replaces="CausalAttention", caught_by="test_other_dtypes")
class always_float32(Pieces):
    """The result was float32, whatever the dtype of the tokens and the parameters.

    A module that was moved to bfloat16 or float64 is to answer in that dtype, or the next layer fails.

    Which line turns the numbers into float32, or makes a float tensor without saying which kind?
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).float()


@misconception(replaces="CausalAttention", caught_by="test_other_dtypes")
class root_in_a_float32_tensor(Pieces):
    """The root of the width was put into a float32 tensor, which made float32 of the scores.

    When two tensors with dimensions meet, torch takes the wider dtype, so a bfloat16 module met float32 halfway. Where
    it isn't moved, such a tensor is also on the CPU, wherever the scores are.

    Can a plain Python number do the work, which takes the dtype of what it divides?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / torch.tensor([float(key.shape[-1])]).sqrt()


@another_form(root_in_a_float32_tensor)
class root_in_a_float32_tensor_moved(Pieces):
    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / torch.tensor([float(key.shape[-1])]).sqrt().to(key.device)


@misconception(replaces="CausalAttention", caught_by="test_agrees_with_fresh_draws")
class bias_left_out(Pieces):
    """The three linear layers never had a bias, also when `qkv_bias` was True.

    The caller decides with `qkv_bias` whether query, key and value get a bias.

    Which argument of `nn.Linear` should `qkv_bias` be handed to?
    """

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias=False)


@misconception(replaces="CausalAttention", caught_by="test_agrees_with_fresh_draws")
class input_scaled_in_place(Pieces):
    """The tokens of the caller were changed: an operation on `x` wrote its result into `x` itself.

    The caller still needs these tokens, for the residual connection for example.

    Which of your operations on `x` ends in an underscore or is written as `/=`, `*=`, `+=` or `-=`?
    """

    def forward(self, x: Tensor) -> Tensor:
        root = math.sqrt(math.sqrt(self.W_key.out_features))
        value = self.W_value(x)
        bias = 0 if self.W_query.bias is None else self.W_query.bias / root
        key_bias = 0 if self.W_key.bias is None else self.W_key.bias / root
        with torch.no_grad():
            x /= root
        query, key = F.linear(x, self.W_query.weight) + bias, F.linear(x, self.W_key.weight) + key_bias
        weights = self.weights(query @ key.transpose(-2, -1), self.may_attend(x.shape[1]))
        return self.context(weights, value)


# --- views, lengths and modes -----------------------------------------------------------------------------------------


@misconception(replaces="CausalAttention", caught_by="test_any_regime")
class mask_of_a_fixed_length(reference.CausalAttention):
    """The mask was made for 1,024 tokens, whatever `context_length` says.

    That is GPT-2's length. With a longer context the mask is smaller than the scores, and no shape fits any more.

    Which argument says how many tokens a sequence may have at most?
    """

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.register_buffer("visible", torch.ones(1024, 1024, dtype=torch.bool).tril(), persistent=False)


# --- along the wrong dimension ----------------------------------------------------------------------------------------


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class softmax_over_the_batch(Pieces):
    """The softmax ran over the batch, so that the sequences shared out the weight of each pair of tokens among them.

    The sequences of a batch have nothing to do with each other. Each query shares out a weight of 1 among the keys.

    Along which dimension of `(B, T, T)` must the weights sum to 1?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=0)


@misconception(replaces="CausalAttention", caught_by="test_agrees_with_fresh_draws")
class all_dimensions_of_keys_reversed(Pieces):
    """All dimensions of the keys were put in reverse order, as `key.T` does, the batch among them.

    For a matrix that is the transpose. With a batch in front, the batch ends up where the tokens should be.

    Which attribute or method of a tensor exchanges only its last two dimensions?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.permute(2, 1, 0) / math.sqrt(key.shape[-1])


# --- what is mixed, and how often -------------------------------------------------------------------------------------


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class key_and_value_swapped(Pieces):
    """Key and value changed places: the keys were made with `W_value`, and the values with `W_key`.

    A key is what a token is found by, a value what it passes on. Weights that come from elsewhere then mean nothing.

    What does your `forward` call the output of each of the three layers, and where does it use it?
    """

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = super().projected(x)
        return query, value, key


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class tokens_mixed_instead_of_values(Pieces):
    """The weights were multiplied with the tokens as they came in.

    The tokens are as wide as `d_in`. What they pass on are their values, which `W_value` makes of them.

    What does the last product of your `forward` multiply the weights with?
    """

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, _value = super().projected(x)
        return query, key, x


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class weights_transposed(Pieces):
    """The weights were transposed before they were multiplied with the values.

    Row i of the weights says how much token i takes from itself and from the tokens before it. Transposed, it says how
    much the later tokens take from token i.

    In the product with the values, which dimension of the weights has to be summed over: the queries or the keys?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return super().context(weights.transpose(-2, -1), value)


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class weights_divided_by_the_root(Pieces):
    """The weights were divided by the root of the width, and not the scores.

    The rows of the weights then sum to less than 1, and the softmax was as sharp as without any scale.

    On which side of the softmax does the scale belong?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1)

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return super().weights(scores, visible) / math.sqrt(self.W_key.out_features)


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class softmax_taken_twice(Pieces):
    """The weights went through a second softmax.

    A softmax takes exponentials once more and evens the weights out. A weight of 0 even becomes larger than 0.

    How many softmaxes stand between the scores and the context in your code, those of functions that you call included?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return super().weights(scores, visible).softmax(dim=-1)


@another_form(softmax_taken_twice)
class masked_between_two_softmaxes(Pieces):
    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return super().weights(scores.softmax(dim=-1), visible)


@another_form(softmax_taken_twice)
class masked_in_both_softmaxes(Pieces):
    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return super().weights(super().weights(scores, visible), visible)


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class bias_always(Pieces):
    """The three linear layers always had a bias.

    `nn.Linear` has one unless told otherwise, and the contract turns it off unless `qkv_bias` is True.

    Which argument of `nn.Linear` should `qkv_bias` be handed to?
    """

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias=True)


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class no_softmax(Pieces):
    """The values were mixed with the scores: the future was set to 0, and no softmax was taken.

    Scores may be negative and of any size. Only weights that sum to 1 make an average.

    What turns the scores of a row into weights?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores * visible


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class one_more_layer(Pieces):
    """The module has a layer too many, an output projection for instance.

    The contract names three layers. A layer of one's own gets no weights when those of another module are loaded.

    Which layers does the contract name, and which does your constructor make?
    """

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)

    def forward(self, x: Tensor) -> Tensor:
        context: Tensor = self.out_proj(super().forward(x))
        return context


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class one_wide_layer(nn.Module):
    """Query, key and value came out of one layer that is three times as wide.

    It computes the same, and a later step does it so. But here the parameters are asked for as `W_query`, `W_key` and
    `W_value`, and weights that come under these names do not fit.

    What are the names of the parameters in the contract, and what are those of your module?
    """

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__()
        self.context_length = context_length
        self.qkv = nn.Linear(d_in, 3 * d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > self.context_length:
            raise ValueError(f"x has {x.shape[1]} tokens, but context_length is {self.context_length}")
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril()
        return self.dropout(scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)) @ value
