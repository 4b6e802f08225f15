"""What learners get wrong in `SelfAttention`, each with the check that catches it."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.core.step03_attention import reference
from solutions.core.step03_attention.misconceptions.pieces import Pair, scaled


class Projections(nn.Module):
    """The three layers of `SelfAttention`, for the wrong ways below."""

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def divisor(self, x: Tensor) -> float:
        return math.sqrt(self.W_key.out_features)

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1)

    def forward(self, x: Tensor) -> Any:
        scores = self.W_query(x) @ self.W_key(x).transpose(-2, -1) / self.divisor(x)
        return self.weights(scores) @ self.W_value(x)


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class self_attention_not_scaled(Projections):
    """The scores in `SelfAttention` were not scaled.

    The dot products grow with `d_out`, and the softmax picks one token only.

    By what did `attention` divide the scores?
    """

    def divisor(self, x: Tensor) -> float:
        return 1.0


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class self_attention_scaled_by_d_in(Projections):
    """The scores in `SelfAttention` were divided by the root of `d_in`.

    The dot product adds over the width of the query and the key, and after the projection that is another width.

    How wide is a query when it leaves `W_query`?
    """

    def divisor(self, x: Tensor) -> float:
        return math.sqrt(x.shape[-1])


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class self_attention_over_queries(Projections):
    """The softmax in `SelfAttention` ran over the queries.

    Each token has to share out its own attention among all tokens, so each row has to sum to 1.

    Which dimension of the (T, T) scores belongs to the keys?
    """

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-2)


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
class keys_from_the_queries(Projections):
    """The keys were made from what `W_query` gives, and not by `W_key` from `x`.

    A token is then found by what it asks for, and not by what it has to offer.

    What goes into `W_key`, and where does its output go?
    """

    def forward(self, x: Tensor) -> Tensor:
        query = self.W_query(x)
        return reference.attention(query, query, self.W_value(x))[0]


@another_form(keys_from_the_queries)
class keys_projected_from_the_queries(Projections):
    def forward(self, x: Tensor) -> Tensor:
        query = self.W_query(x)
        return reference.attention(query, self.W_key(query), self.W_value(x))[0]


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class causal_already(Projections):
    """Every token saw only itself and the tokens before it.

    That is a causal mask, and it comes in step 4. This layer has no mask: every token sees every token.

    Where does your forward make a mask?
    """

    def weights(self, scores: Tensor) -> Tensor:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        return super().weights(scores.masked_fill(~seen, -torch.inf))


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

    def weights(self, scores: Tensor) -> Tensor:
        exponentials = scores.exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


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

    What would forward use if it looked at the layers again each time?
    """

    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self, "kept"):
            self.kept = [(layer.weight.clone(), layer.bias) for layer in (self.W_query, self.W_key, self.W_value)]
        query, key, value = (nn.functional.linear(x, weight, bias) for weight, bias in self.kept)
        return reference.attention(query, key, value)[0]


@misconception(replaces="SelfAttention", caught_by="test_self_attention_gradients")
class dropout_nobody_asked_for(Projections):
    """The weights went through a dropout that the step does not have.

    In training the result is then another one each time, and no argument can switch that off.

    Is there a rate of dropout among the arguments of this module?
    """

    def weights(self, scores: Tensor) -> Tensor:
        return nn.functional.dropout(super().weights(scores), 0.1, self.training)


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class self_attention_divided_by_width(Projections):
    """The scores in `SelfAttention` were divided by d and not by the root of d.

    They come out too small, so the weights are too even.

    Is the scale in your code applied once, and is there a root in it?
    """

    def divisor(self, x: Tensor) -> float:
        return self.W_key.out_features


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class self_attention_divided_by_width_and_by_two(Projections):
    """The scores in `SelfAttention` were divided by d and then by 2.

    `scores / d ** 1/2` does that: Python takes the power first, and then divides twice.

    How do you write the exponent one half so that nothing in it is left for Python to divide?
    """

    def divisor(self, x: Tensor) -> float:
        return self.W_key.out_features * 2


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class self_attention_scaled_by_tokens(Projections):
    """The scores in `SelfAttention` were divided by the root of the number of tokens.

    Each score comes from one query and one key, so the number of tokens does not make it larger.

    How many products does one score add up?
    """

    def divisor(self, x: Tensor) -> float:
        return math.sqrt(x.shape[-2])


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


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class bias_left_out_of_the_product(Projections):
    """The tokens were multiplied with the weight of each layer, and its bias was left out.

    With `qkv_bias=True` the layers have a bias, which the product with the weight alone knows nothing of.

    What does a layer do besides the product when you call it?
    """

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (x @ layer.weight.T for layer in (self.W_query, self.W_key, self.W_value))
        return reference.attention(query, key, value)[0]


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class up_to_three_dimensions_in_the_module(Projections):
    """A single text and a batch of texts had a line each, and more dimensions had none.

    Any number of batch dimensions may come. What is said once about the last two dimensions holds for all of them.

    How can you name the last two dimensions so that it does not matter how many stand before them?
    """

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = query @ key.T if x.dim() == 2 else torch.bmm(query, key.transpose(1, 2))
        return self.weights(scores / self.divisor(x)) @ value


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class key_and_value_layers_swapped(Projections):
    """The keys were made with `W_value`, and the values with `W_key`.

    A key is what a token is found by, a value what it passes on. Weights that come from elsewhere then mean nothing.

    What does your `forward` call the output of each of the three layers, and where does it use it?
    """

    def forward(self, x: Tensor) -> Tensor:
        return reference.attention(self.W_query(x), self.W_value(x), self.W_key(x))[0]


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class values_mixed_with_the_scores(Projections):
    """The values were mixed with the scores, and there was no softmax in `SelfAttention`.

    Scores may be negative and of any size. Only weights that sum to 1 make an average.

    What turns the scores of a row into weights?
    """

    def weights(self, scores: Tensor) -> Tensor:
        return scores


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class self_attention_weights_transposed(Projections):
    """The weights in `SelfAttention` were transposed before they were multiplied with the values.

    Row i of the weights says how much token i takes from each token. Transposed, it says how much each takes from it.

    In the product with the values, which dimension of the weights has to be summed over: the queries or the keys?
    """

    def weights(self, scores: Tensor) -> Tensor:
        return super().weights(scores).transpose(-2, -1)


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class self_attention_weights_divided_by_root(Projections):
    """The weights in `SelfAttention` were divided by the root of the width, and not the scores.

    The rows of the weights then sum to less than 1, and the softmax was as sharp as without any scale.

    On which side of the softmax does the scale belong?
    """

    def divisor(self, x: Tensor) -> float:
        return 1.0

    def weights(self, scores: Tensor) -> Tensor:
        return super().weights(scores) / math.sqrt(self.W_key.out_features)


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class one_layer_under_three_names(Projections):
    """One single layer was used for query, key and value.

    A token is then found by what it asks for, and passes on the same. Three layers learn three different things.

    How many times does your constructor call `nn.Linear`?
    """

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__(d_in, d_out, qkv_bias)
        self.W_query = self.W_key = self.W_value


@misconception(replaces="SelfAttention", caught_by="test_self_attention")
class one_wide_layer(nn.Module):
    """Query, key and value came out of one layer that is three times as wide.

    It computes the same, and a later step does it so. But here the parameters are asked for as `W_query`, `W_key` and
    `W_value`, and weights that come under these names do not fit.

    What are the names of the parameters in the contract, and what are those of your module?
    """

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__()
        self.qkv = nn.Linear(d_in, 3 * d_out, bias=qkv_bias)

    def forward(self, x: Tensor) -> Tensor:
        return reference.attention(*self.qkv(x).chunk(3, dim=-1))[0]
