"""What learners get wrong in step 20, each with the check that catches it."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import misconception, together
from solutions.encoder_decoder.step20_cross_attention import reference


class Pieces(reference.MultiHeadAttention):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(query), self.W_k(key), self.W_v(value)

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for x in (query, key, value))

    def scale(self, query: Tensor) -> float:
        return math.sqrt(query.shape[-1])

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores.masked_fill(~mask, -torch.inf)

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.hide(scores, mask).softmax(dim=-1)

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return self.dropout(weights) @ value

    def merge(self, context: Tensor) -> Tensor:
        return context.transpose(1, 2).flatten(2)

    def mix(self, merged: Tensor) -> Tensor:
        return self.W_o(merged)

    def give(self, output: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return output, weights

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        query, key, value = self.split(*self.project(query, key, value))
        scores = query @ key.transpose(-2, -1) / self.scale(query)
        weights = self.weigh(scores, mask)
        return self.give(self.mix(self.merge(self.gather(weights, value))), weights, scores)


# --- who asks whom ----------------------------------------------------------------------------------------------------


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand", misses_the_point=True)
class keys_and_values_from_query(Pieces):
    """Keys and values were made from the query: `W_k(query)` and `W_v(query)`.

    That is self-attention, whatever the caller hands over as key and value. The source never enters.

    Which argument does each of the three layers read?
    """

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(query), self.W_k(query), self.W_v(query)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class keys_from_query(Pieces):
    """The keys were made from the query: `W_k(query)`.

    Each query is then compared with other queries, and the weights go to values that stand somewhere else.

    Which argument does each of the three layers read?
    """

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(query), self.W_k(query), self.W_v(value)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class values_from_query(Pieces):
    """The values were made from the query: `W_v(query)`.

    What is gathered then comes from the asking sequence, and not from the one that was asked.

    Which argument does each of the three layers read?
    """

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(query), self.W_k(key), self.W_v(query)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class values_from_key(Pieces):
    """The values were made from the tensor `key`: `W_v(key)`.

    In most calls both are the same tensor, and it does not show. They may differ: what is compared need not be what is
    gathered.

    Which argument does each of the three layers read?
    """

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(query), self.W_k(key), self.W_v(key)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class keys_from_value(Pieces):
    """The keys were made from the tensor `value`: `W_k(value)`.

    In most calls both are the same tensor, and it does not show. They may differ: what is compared need not be what is
    gathered.

    Which argument does each of the three layers read?
    """

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(query), self.W_k(value), self.W_v(value)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class query_and_key_exchanged(Pieces):
    """Query and key changed places: the keys ask, and the queries are asked.

    The output then has one row for each key, and the weights are those of the other direction.

    How many rows should the output have, T_q or T_k?
    """

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(key), self.W_k(query), self.W_v(query)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class query_and_key_exchanged_alone(query_and_key_exchanged):
    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(key), self.W_k(query), self.W_v(value)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class query_and_key_layers_exchanged(Pieces):
    """`W_q` was applied to the key, and `W_k` to the query.

    Each layer belongs to one of the three, and a state dict brings the weights under these names.

    Which argument does each of the three layers read?
    """

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_k(query), self.W_q(key), self.W_v(value)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class keys_and_values_by_one_layer(Pieces):
    """The values were projected with `W_k`.

    Values have a layer of their own: what makes a token easy to find is not what it has to say.

    Which layer does each of the three arguments pass through?
    """

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(query), self.W_k(key), self.W_k(value)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class values_not_projected(Pieces):
    """The values were not projected.

    `W_v` chooses what of a token is handed on. Without it the heads cut up the tokens as they came.

    Which of the four layers does your `forward` never call?
    """

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(query), self.W_k(key), value


# --- scores and weights -----------------------------------------------------------------------------------------------


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class not_scaled(Pieces):
    """The scores were not divided by the root of a head's width.

    Dot products grow with the width, and the softmax then gives nearly everything to one key.

    What divides the product of query and key in the formula?
    """

    def scale(self, query: Tensor) -> float:
        return 1.0


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class scaled_by_root_of_d_model(Pieces):
    """The scores were divided by the root of `d_model`.

    A score is a sum over the d columns of one head, not over all D of them.

    How many products does one score of one head sum up?
    """

    def scale(self, query: Tensor) -> float:
        return math.sqrt(self.W_q.out_features)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class scaled_by_width(Pieces):
    """The scores were divided by the width of a head, not by its root.

    The spread of a sum of d products grows like the root of d. Divided by d, wide heads hardly choose.

    Which function of d stands in the formula?
    """

    def scale(self, query: Tensor) -> float:
        return float(query.shape[-1])


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class scaled_by_root_of_heads(Pieces):
    """The scores were divided by the root of the number of heads.

    The scale belongs to what is summed in a score: the columns of one head.

    Which dimension of the query did you read the scale from?
    """

    def scale(self, query: Tensor) -> float:
        return math.sqrt(self.n_heads)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class scaled_by_root_of_length(Pieces):
    """The scores were divided by the root of a number of tokens.

    The scale belongs to what is summed in a score: the columns of one head.

    Which dimension of the query did you read the scale from?
    """

    def scale(self, query: Tensor) -> float:
        return math.sqrt(query.shape[-2])


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand", misses_the_point=True)
class softmax_over_queries(Pieces):
    """The softmax was taken over the queries.

    The weights of one query have to sum to 1 over the keys: each query shares out its attention.

    Which of the dimensions T_q and T_k does `dim` mean in your code?
    """

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.hide(scores, mask).softmax(dim=-2)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class softmax_over_heads(Pieces):
    """The softmax was taken over the heads.

    The weights of one query in one head have to sum to 1 over the keys.

    Which dimension of `(B, H, T_q, T_k)` does `dim` mean in your code?
    """

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.hide(scores, mask).softmax(dim=1)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class values_weighted_by_scores(Pieces):
    """The values were weighted by the scores, not by the weights.

    The softmax makes positive weights that sum to 1; without it the output is no average.

    Which of your variables multiplies the values?
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        query, key, value = self.split(*self.project(query, key, value))
        scores = query @ key.transpose(-2, -1) / self.scale(query)
        shown = scores if mask is None else scores.masked_fill(~mask, 0.0)
        return self.mix(self.merge(self.gather(shown, value))), self.weigh(scores, mask)


# --- heads ------------------------------------------------------------------------------------------------------------


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand", misses_the_point=True)
class key_reshaped_with_query_length(Pieces):
    """Key and value were reshaped with the number of queries.

    `T_q` and `T_k` are equal in self-attention only. In cross attention the reshape fails, or puts tokens of one
    sequence into another.

    From which tensor does your code read the length that it gives to the key's reshape?
    """

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        B, T, D = query.shape
        return tuple(x.reshape(B, T, self.n_heads, D // self.n_heads).transpose(1, 2) for x in (query, key, value))


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class key_alone_reshaped_with_query_length(Pieces):
    """The key was reshaped with the number of queries, the value with its own.

    `T_q` and `T_k` are equal in self-attention only. In cross attention the reshape fails, or puts tokens of one
    sequence into another.

    From which tensor does your code read the length that it gives to the key's reshape?
    """

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        key = key.reshape(query.shape[0], query.shape[1], self.n_heads, -1).transpose(1, 2)
        query, value = (x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for x in (query, value))
        return query, key, value


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class key_reshaped_with_open_batch(Pieces):
    """Key and value were reshaped with the number of queries, and the batch was left open with -1.

    Where the lengths differ, tokens of one sequence fall into another, or the batches no longer fit.

    From which tensor does your code read the length that it gives to the key's reshape?
    """

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        T = query.shape[1]
        return tuple(
            x.reshape(-1, T, self.n_heads, x.shape[-1] // self.n_heads).transpose(1, 2) for x in (query, key, value)
        )


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws", misses_the_point=True)
class heads_by_a_bare_view(Pieces):
    """Heads were made by one reshape to `(B, H, T, d)`, without a transpose.

    A reshape keeps the numbers in their order. The first head then gets the first tokens with all their columns, not
    all tokens with their first columns.

    In which order do B, T and D lie in memory, and which two dimensions must change places?
    """

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.reshape(x.shape[0], self.n_heads, x.shape[1], -1) for x in (query, key, value))


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class merged_without_transpose(Pieces):
    """The heads were merged by one reshape, without the transpose back.

    A reshape keeps the numbers in their order. The rows of the output then mix several queries of one head.

    Which two dimensions have to change places before the heads' columns lie next to each other?
    """

    def merge(self, context: Tensor) -> Tensor:
        return context.reshape(context.shape[0], context.shape[2], -1)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class columns_interleaved(Pieces):
    """Head h got every H-th column, beginning with column h.

    The contract's head h has the columns h·d … (h + 1)·d - 1, next to each other. Weights that were trained that way do
    not fit otherwise.

    When the last dimension is cut in two, which of them should count the heads: the first or the second?
    """

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.unflatten(-1, (-1, self.n_heads)).permute(0, 3, 1, 2) for x in (query, key, value))

    def merge(self, context: Tensor) -> Tensor:
        return context.permute(0, 2, 3, 1).flatten(2)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class merged_columns_interleaved(Pieces):
    """The heads were merged column by column: the first column of every head, then the second of every head.

    Merging undoes splitting: all columns of head 0 come first, then those of head 1.

    After the transpose, which of the last two dimensions counts the heads?
    """

    def merge(self, context: Tensor) -> Tensor:
        return context.permute(0, 2, 3, 1).flatten(2)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class heads_of_width_n_heads(Pieces):
    """The number of heads and the width of a head changed places.

    There are then d heads, each of the width H. Only where the two are equal it does not show.

    Which of the two numbers stands first in your reshape, and what is it?
    """

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.unflatten(-1, (-1, self.n_heads)).transpose(1, 2) for x in (query, key, value))


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand", misses_the_point=True)
class one_head_for_all(Pieces):
    """The columns were not split into heads: there is one head of the full width.

    One head makes one average for each query. H of them make H averages, with weights of their own.

    Which shape do your scores have, and where in it is H?
    """

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.unsqueeze(1) for x in (query, key, value))


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class heads_summed(Pieces):
    """The heads' outputs were summed and repeated, not put next to each other.

    In a sum what the heads found separately can no longer be told apart, and `W_o` has nothing to mix.

    Which operation makes D columns of H times d columns?
    """

    def merge(self, context: Tensor) -> Tensor:
        return context.sum(dim=1).repeat(1, 1, self.n_heads)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class not_mixed(Pieces):
    """`W_o` was not applied: the merged heads were returned.

    After merging, the first columns come from head 0 alone, the next from head 1. `W_o` mixes them.

    Which of the four layers does your `forward` never call?
    """

    def mix(self, merged: Tensor) -> Tensor:
        return merged


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class mixed_before_merging(Pieces):
    """The output layer was applied to each token's values before attention.

    `W_o` mixes the columns of all heads, each with weights of its own. Before attention there is nothing of different
    heads to mix.

    What does `W_o` act on in the contract?
    """

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(query), self.W_k(key), self.W_o(self.W_v(value))

    def mix(self, merged: Tensor) -> Tensor:
        return merged


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class query_added(Pieces):
    """The query was added to the output.

    The residual belongs to the blocks of the next steps, around this module and not in it.

    What does the contract call the output of this class: what was gathered, or what was gathered and more?
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        output, weights = super().forward(query, key, value, mask)
        return query + output, weights


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class projections_with_a_bias(Pieces):
    """The four layers were made with a bias.

    The contract has none: a state dict without biases does not fit.

    Which argument of `nn.Linear` leaves the bias out?
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, dropout)
        self.W_q, self.W_k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.W_v, self.W_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class output_layer_with_a_bias(Pieces):
    """`W_o` was made with a bias.

    Step 8's `out_proj` has one; here none of the four layers has.

    Which argument of `nn.Linear` leaves the bias out?
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, dropout)
        self.W_o = nn.Linear(d_model, d_model)


@misconception(replaces="MultiHeadAttention", caught_by="test_unequal_heads_are_refused")
class unequal_heads_accepted(Pieces):
    """A `d_model` that is not divisible by `n_heads` was accepted: the width of a head was rounded down.

    Some columns then belong to no head, and nobody is told.

    What is 6 // 4, and how much of the 6 is left over?
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, 1, dropout)
        width = n_heads * (d_model // n_heads)
        self.n_heads = n_heads
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, width, bias=False) for _ in range(3))
        self.W_o = nn.Linear(width, d_model, bias=False)


# --- what is returned -------------------------------------------------------------------------------------------------


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class weights_averaged_over_heads(Pieces):
    """The weights were averaged over the heads.

    `nn.MultiheadAttention` does so by default. Here the weights of every head are wanted, `(B, H, T_q, T_k)`.

    Which dimension is missing in your weights?
    """

    def give(self, output: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return output, weights.mean(dim=1)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class weights_averaged_with_a_dimension_left(weights_averaged_over_heads):
    def give(self, output: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return output, weights.mean(dim=1, keepdim=True)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class weights_of_first_head(Pieces):
    """Only the weights of the first head were returned.

    Here the weights of every head are wanted, `(B, H, T_q, T_k)`.

    Which dimension is missing in your weights?
    """

    def give(self, output: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return output, weights[:, 0]


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class scores_returned(Pieces):
    """The scores were returned in place of the weights.

    Weights are what the softmax makes of the scores: between 0 and 1, with the sum 1.

    Which of your variables multiplies the values, and which one is returned?
    """

    def give(self, output: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return output, scores


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class masked_scores_returned(scores_returned):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        self.masked = self.hide(scores, mask)
        return self.masked.softmax(dim=-1)

    def give(self, output: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return output, self.masked


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class only_the_output(Pieces):
    """Only the output was returned.

    The weights are wanted too: the encoder hands them on, and pictures of attention are made of them.

    How many values does the contract's arrow give?
    """

    def give(self, output: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return output


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class pair_in_other_order(Pieces):
    """The weights were returned first and the output second.

    The pair is (output, weights), here and in the other steps.

    What does the arrow in the contract give, in which order?
    """

    def give(self, output: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return weights, output


@misconception(replaces="MultiHeadAttention", caught_by="test_gradients")
class weights_detached(Pieces):
    """The weights were cut off from the graph before they multiplied the values.

    Then `W_q` and `W_k` never learn from the output where to look.

    Which of your calls (`detach`, `.data`, `no_grad`) ends the way back?
    """

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return super().gather(weights.detach(), value)


# --- masks ------------------------------------------------------------------------------------------------------------


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class mask_inverted(Pieces):
    """The mask was read the other way round: what may be attended to was hidden.

    True means "may attend" in this course. `nn.MultiheadAttention` means the opposite by its `key_padding_mask`.

    Where does your code fill with -inf: where the mask is True, or where it is False?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores.masked_fill(mask, -torch.inf)


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class mask_ignored(Pieces):
    """The mask was not used.

    Padding then gets weight like real words, and a decoder sees the words that it is to predict.

    What does your code do when `mask` is not None?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class mask_after_softmax(Pieces):
    """The hidden weights were set to 0 after the softmax, and the others left as they were.

    The hidden keys have taken their share by then: what is left of a row sums to less than 1.

    What has to be hidden before the softmax so that it shares out only among the visible keys?
    """

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        weights = scores.softmax(dim=-1)
        return weights if mask is None else weights * mask


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class masked_with_zero(Pieces):
    """Hidden scores were set to 0, or multiplied by the mask.

    A score of 0 is not no weight: its exponential is 1, which may well be the largest in the row.

    Which score gets weight 0 in a softmax?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores.masked_fill(~mask, 0.0)


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class masked_with_minus_ten(Pieces):
    """Hidden scores were set to -10 in place of minus infinity.

    exp(-10) is small, but not 0: hidden positions must get weight exactly 0.

    How far below the others must a score be so that its exponential is 0 in float32?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores.masked_fill(~mask, -10.0)


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class mask_added(Pieces):
    """The mask was added to the scores as numbers 0 and 1.

    What may be attended to is then preferred a little, and what may not is still seen.

    Which number must be added to a score so that its weight is 0?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores + mask


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class values_masked(Pieces):
    """The hidden values were set to 0, and their scores left as they were.

    They still take their share of the weight, and what is left for the others is too small.

    Which tensor decides who gets how much weight?
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        query, key, value = self.split(*self.project(query, key, value))
        scores = query @ key.transpose(-2, -1) / self.scale(query)
        weights = self.weigh(scores, None)
        shown = weights if mask is None else weights * mask
        return self.give(self.mix(self.merge(self.gather(shown, value))), weights, scores)


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class mask_turned(Pieces):
    """The mask's last two dimensions changed places before it was used.

    Rows of the mask are queries and columns are keys, as in the scores. Turned, a causal mask shows the future.

    What do the last two dimensions of the mask count, and what those of the scores?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().hide(scores, None if mask is None else mask.transpose(-2, -1))


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class mask_given_one_more_dimension(Pieces):
    """The mask was given one dimension more before it was used.

    The mask already broadcasts to `(B, H, T_q, T_k)`, head dimension included. One more moves the batch away from where
    the scores have it.

    How many dimensions does the mask have when it comes in, and how many should it have?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().hide(scores, None if mask is None else mask.unsqueeze(1))


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class mask_of_first_sequence(Pieces):
    """The mask of the first sequence was used for the whole batch.

    Each sequence has its own padding. With one sequence the mistake does not show.

    Which dimension of the mask counts the sequences, and what becomes of it in your code?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().hide(scores, mask[:1] if mask is not None and mask.dim() == 4 else mask)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class always_causal(Pieces):
    """A causal mask was made inside, whatever the caller gave.

    This class is for every kind of attention. Who wants no look ahead hands over a mask.

    Without a mask, which positions does the contract hide?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        causal = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        return super().hide(scores, causal if mask is None else mask & causal)


@misconception(replaces="MultiHeadAttention", caught_by="test_padding_is_hidden")
class rows_hidden_with_columns(Pieces):
    """The padding was hidden as a query too: its rows were filled with -inf as well as its columns.

    A row without a visible key has no weights: the softmax gives NaN there, or the query is lost.

    Which of T_q and T_k does a mask of `(B, 1, 1, T_k)` speak of?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        scores = super().hide(scores, mask)
        if mask is None or mask.shape[-2] != 1 or scores.shape[-2] != scores.shape[-1]:
            return scores
        return scores.masked_fill(~mask.transpose(-2, -1), -torch.inf)


@misconception(replaces="MultiHeadAttention", caught_by="test_other_masks")
class only_wide_masks(Pieces):
    """Masks were only taken with four dimensions.

    Any mask that broadcasts is right: a causal one is made as `(T_q, T_k)`, once for all sequences and heads.

    Which dimensions does `mask` have when the caller made it with `torch.tril`?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            mask = mask[:, :, :, :]
        return super().hide(scores, mask)


# --- dropout ----------------------------------------------------------------------------------------------------------


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class no_dropout(Pieces):
    """Nothing was dropped in training.

    The argument `dropout` is the probability with which a weight is dropped.

    Where does your `forward` use what the constructor was given as `dropout`?
    """

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_only_in_training")
class dropout_on_in_eval(Pieces):
    """Weights were dropped in eval mode too.

    `F.dropout` is a function: unless it is told the mode, it drops always.

    Which argument of `F.dropout` knows about training, or which module would take care of it by itself?
    """

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return F.dropout(weights, self.dropout.p) @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_only_in_training")
class weights_returned_dropped_in_eval(dropout_on_in_eval):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return F.dropout(super().weigh(scores, mask), self.dropout.p)

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_scores(Pieces):
    """The scores were dropped before the softmax.

    A score that becomes 0 still gets weight. It is the weights that are dropped, behind the softmax.

    Which tensor does your dropout act on, and what becomes of its zeros?
    """

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.hide(self.dropout(scores), mask).softmax(dim=-1)

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_masked_scores(dropout_on_scores):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.dropout(self.hide(scores, mask)).softmax(dim=-1)


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_context(Pieces):
    """The context was dropped in place of the weights.

    Dropping a weight hides one key from one query; dropping the context deletes single columns of what was gathered.

    Which tensor does your dropout act on?
    """

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return self.dropout(weights @ value)


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_output(Pieces):
    """The output was dropped in place of the weights.

    Dropout on the branch belongs to the blocks of the next steps. Here it acts on the weights.

    Which tensor does your dropout act on?
    """

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value

    def mix(self, merged: Tensor) -> Tensor:
        return self.dropout(self.W_o(merged))


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_output_too(Pieces):
    """The output was dropped as well as the weights.

    Dropout on the branch belongs to the blocks of the next steps. Here it acts on the weights only.

    At how many places does the contract of this class name dropout?
    """

    def mix(self, merged: Tensor) -> Tensor:
        return self.dropout(self.W_o(merged))


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_not_scaled_up(Pieces):
    """Weights were dropped, and the others not scaled up.

    In eval mode nothing is dropped and the sums are larger than what the model was trained on: that is what 1 / (1 - p)
    is for.

    What is the mean of a weight that is 0 with probability p and else unchanged?
    """

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        if self.training:
            weights = weights * (torch.rand_like(weights) >= self.dropout.p)
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class one_drop_for_all_heads(Pieces):
    """One set of weights was dropped for all heads alike.

    Each head draws by itself, as each sequence, query and key does.

    Which shape do your random numbers have?
    """

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights * self.dropout(torch.ones_like(weights[:, :1])) @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class one_drop_for_all_sequences(Pieces):
    """One set of weights was dropped for all sequences of the batch alike.

    Each sequence draws by itself, as each head, query and key does.

    Which shape do your random numbers have?
    """

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights * self.dropout(torch.ones_like(weights[:1])) @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class rate_not_used(Pieces):
    """The rate that the constructor was given was not used: it stayed at 0.1.

    Whoever asks for another rate gets the default.

    Where does the argument `dropout` go in your constructor?
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads)


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class default_rate_is_zero(Pieces):
    """Without an argument nothing was dropped.

    The contract's default is `dropout=0.1`.

    What does your constructor do when it is not told a rate?
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0) -> None:
        super().__init__(d_model, n_heads, dropout)


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class default_rate_is_a_half(Pieces):
    """Without an argument half of the weights were dropped.

    0.5 is the default of `nn.Dropout`; the contract's is `dropout=0.1`.

    What does your constructor do when it is not told a rate?
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.5) -> None:
        super().__init__(d_model, n_heads, dropout)


# --- dtype and device -------------------------------------------------------------------------------------------------


@misconception(replaces="MultiHeadAttention", caught_by="test_other_dtypes")
class weights_in_float32(Pieces):
    """The weights were computed in float32 and left so.

    The results have to have the dtype of what came in.

    Which dtype do your weights have when the tokens are float64?
    """

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.hide(scores.float(), mask).softmax(dim=-1)

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return super().gather(weights.to(value.dtype), value)


@misconception(replaces="MultiHeadAttention", caught_by="test_other_dtypes")
class mask_added_in_float32(Pieces):
    """The mask was turned into float32 before it was added to the scores.

    Of two dtypes torch keeps the wider one: in a bfloat16 model the weights become float32, which the values are not.

    Which dtype should the mask have when it is added to the scores?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores + (mask.float() - 1) * 1e9


@misconception(replaces="MultiHeadAttention", caught_by="test_follows_device")
class mask_of_zeros_on_the_cpu(Pieces):
    """A tensor was made in `forward` without saying on which device.

    It lies on the CPU, wherever the module and its inputs are.

    Which tensor has the right device, so that a new one can be made like it?
    """

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            return scores
        return torch.where(mask, scores, torch.full(scores.shape, -torch.inf, dtype=scores.dtype))


# --- padding_mask -----------------------------------------------------------------------------------------------------


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_inverted(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask is True at the padding.

    True means "may attend" in this course, so that padding is False. Hugging Face's masks agree, those of
    `nn.MultiheadAttention` do not.

    Should a real word have True or False?
    """
    return (token_ids == pad_id)[:, None, None, :]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_over_queries(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask has the shape `(B, 1, S, 1)`: it speaks of queries.

    Padding is hidden as a key. A query that sees nothing at all has no weights.

    Which dimension of `(B, H, T_q, T_k)` should S stand in?
    """
    return (token_ids != pad_id)[:, None, :, None]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_without_heads(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask has the shape `(B, S)`.

    Beside scores of `(B, H, T_q, T_k)` its B would fall on the queries: broadcasting aligns shapes at the right.

    Which dimensions are missing between B and S?
    """
    return token_ids != pad_id


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_of_three_dimensions(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask has the shape `(B, 1, S)`.

    Beside scores of `(B, H, T_q, T_k)` its B would fall on the heads: broadcasting aligns shapes at the right.

    Which dimensions are missing between B and S?
    """
    return (token_ids != pad_id).unsqueeze(1)


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_of_pairs(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask has the shape `(B, 1, S, S)`, and hides the padding as a query too.

    A query that sees nothing at all has no weights, and in cross attention the queries are others.

    What does the mask have to say about queries?
    """
    real = token_ids != pad_id
    return (real[:, :, None] & real[:, None, :])[:, None]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_repeated(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask was repeated for every query, `(B, 1, S, S)`.

    In cross attention there are T_q queries, not S. A dimension of size 1 fits any number of them.

    How many queries are there, and who knows?
    """
    return (token_ids != pad_id)[:, None, None, :].expand(-1, -1, token_ids.shape[1], -1)


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_of_floats(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask holds numbers and not booleans.

    `~mask` fails on floats, and makes -1 and -2 of whole numbers. Masks are boolean in this course.

    Which dtype does a comparison give, before anything converts it?
    """
    return (token_ids != pad_id).float()[:, None, None, :]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_of_integers(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask holds whole numbers and not booleans.

    `~mask` fails on floats, and makes -1 and -2 of whole numbers. Masks are boolean in this course.

    Which dtype does a comparison give, before anything converts it?
    """
    return (token_ids != pad_id).long()[:, None, None, :]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_to_be_added(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask holds 0 and minus infinity, to be added to scores.

    That works in some libraries. In this course a mask is boolean, and True means "may attend".

    Which dtype does the contract ask for?
    """
    scores = torch.zeros(token_ids.shape, device=token_ids.device).masked_fill(token_ids == pad_id, -torch.inf)
    return scores[:, None, None, :]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_id_fixed_at_zero(token_ids: Tensor, pad_id: int) -> Tensor:
    """The padding was taken to be id 0, whatever `pad_id` is.

    Vocabularies differ: 0 may well be a word.

    Where does your code use `pad_id`?
    """
    return (token_ids != 0)[:, None, None, :]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def larger_ids_are_real(token_ids: Tensor, pad_id: int) -> Tensor:
    """Only ids larger than `pad_id` were taken for real tokens.

    The padding's id may stand anywhere in the vocabulary. All others are words.

    Which comparison says "another one"?
    """
    return (token_ids > pad_id)[:, None, None, :]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def all_after_first_padding_hidden(token_ids: Tensor, pad_id: int) -> Tensor:
    """Everything from the first padding id on was hidden.

    The contract looks at each id by itself: padding may stand in front as well.

    Does the contract speak of an id's neighbours?
    """
    return ((token_ids == pad_id).cumsum(dim=1) == 0)[:, None, None, :]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_through_lists(token_ids: Tensor, pad_id: int) -> Tensor:
    """The ids were turned into Python numbers and the mask made of these.

    It then lies on the CPU whatever the ids' device, and on a GPU every call has to wait.

    Which comparison works on a whole tensor?
    """
    return torch.tensor([[value != pad_id for value in row] for row in token_ids.tolist()])[:, None, None, :]


# --- two at once ------------------------------------------------------------------------------------------------------

SCALES = (not_scaled, scaled_by_root_of_d_model)
MASKS = (mask_inverted, mask_ignored, masked_with_zero, mask_after_softmax)
INPUTS = (keys_and_values_from_query, values_from_key)
MERGES = (merged_without_transpose, merged_columns_interleaved)
DROPS = (no_dropout, dropout_on_in_eval, dropout_on_context)
PAIRS = [
    *together(MASKS, SCALES),
    *together(INPUTS, SCALES),
    *together((heads_by_a_bare_view,), (*SCALES, *MERGES)),
    *together((not_mixed,), (*SCALES, *MASKS)),
    *together(MASKS, MERGES),
    *together(DROPS, (*SCALES, *MASKS)),
]
