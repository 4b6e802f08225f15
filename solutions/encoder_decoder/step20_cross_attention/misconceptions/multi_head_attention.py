"""What learners get wrong in `MultiHeadAttention`, each with the check that catches it."""

import math

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.encoder_decoder.step20_cross_attention.misconceptions.pieces import Pieces

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
class key_and_value_layers_exchanged(Pieces):
    """`W_v` was applied to the key, and `W_k` to the value.

    Each layer belongs to one of the three, and a state dict brings the weights under these names.

    Which argument does each of the three layers read?
    """

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(query), self.W_v(key), self.W_k(value)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class key_and_value_exchanged(Pieces):
    """Key and value changed places: the queries were compared with the value tensor, and the key tensor was summed up.

    Queries ask the keys, and get the values that belong to them.

    Which of the three arguments does `W_k` read, and which `W_v`?
    """

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(query), self.W_k(value), self.W_v(key)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class query_projected_twice(Pieces):
    """`W_q` was applied twice.

    It takes the width d_model and gives it back, so that nothing fails: but the queries are others.

    How often does the query go through `W_q`?
    """

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(self.W_q(query)), self.W_k(key), self.W_v(value)


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
