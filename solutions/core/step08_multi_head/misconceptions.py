"""What learners get wrong in step 8, each with the check that catches it."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception, together
from solutions.core.step06_causal_attention.reference import CausalAttention
from solutions.core.step08_multi_head import reference


class Pieces(reference.MultiHeadAttention):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])

    def may_attend(self, num_tokens: int) -> Tensor:
        return self.visible[:num_tokens, :num_tokens]

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return self.dropout(weights) @ value

    def merge(self, context: Tensor) -> Tensor:
        return context.transpose(1, 2).flatten(2)

    def project(self, merged: Tensor) -> Tensor:
        return self.out_proj(merged)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > self.context_length:
            raise ValueError(f"x has {x.shape[1]} tokens, but context_length is {self.context_length}")
        query, key, value = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        weights = self.weights(self.scores(query, key), self.may_attend(x.shape[1]))
        return self.project(self.merge(self.context(weights, value)))


# --- the wrapper ------------------------------------------------------------------------------------------------------


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_wrapper_concatenates", misses_the_point=True)
class heads_summed(reference.MultiHeadAttentionWrapper):
    """The outputs of the heads were added up.

    A sum has the width of one head, and what the heads found out separately can no longer be told apart.

    The result must be `num_heads` times as wide as one head's. Which operation makes a tensor wider?
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([head(x) for head in self.heads]).sum(dim=0)


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_wrapper_concatenates", misses_the_point=True)
class heads_averaged(reference.MultiHeadAttentionWrapper):
    """The outputs of the heads were averaged.

    A mean has the width of one head, and what the heads found out separately can no longer be told apart.

    The result must be `num_heads` times as wide as one head's. Which operation makes a tensor wider?
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([head(x) for head in self.heads]).mean(dim=0)


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_wrapper_concatenates", misses_the_point=True)
class heads_concatenated_along_tokens(reference.MultiHeadAttentionWrapper):
    """The outputs of the heads were put one after the other along the tokens, which made the sequence longer.

    The number of tokens stays as it is. Each token becomes wider, since it keeps what every head says about it.

    Which dimension of `(B, T, d_out)` must grow, and what does `dim` say in your code?
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([head(x) for head in self.heads], dim=1)


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_wrapper_concatenates")
class heads_stacked(reference.MultiHeadAttentionWrapper):
    """The outputs of the heads were stacked on a new dimension.

    The result then has four dimensions. Concatenated, the heads' columns stand next to each other in the last of three.

    Which function of torch joins tensors along a dimension that they already have?
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([head(x) for head in self.heads], dim=-1)


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_wrapper_concatenates", misses_the_point=True)
class heads_interleaved(reference.MultiHeadAttentionWrapper):
    """The columns of the heads were interleaved: the first column of every head, then the second of every head.

    Concatenated means that the first `d_out` columns are all of the first head's, the next of the second head's.

    After stacking, which of the two last dimensions counts the heads, and which of them should vary fastest?
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([head(x) for head in self.heads], dim=-1).flatten(-2)


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_wrapper_concatenates")
class same_head_many_times(nn.Module):
    """One head was made, and the list holds the same one again and again.

    Heads that share their parameters all compute the same thing, so that more of them learn nothing more.

    Does your code call the constructor once or `num_heads` times? Note what `[head] * 3` does.
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        self.heads = nn.ModuleList([CausalAttention(d_in, d_out, context_length, dropout, qkv_bias)] * num_heads)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([head(x) for head in self.heads], dim=-1)


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_wrapper_concatenates")
class heads_in_a_plain_list(nn.Module):
    """The heads were kept in a plain Python list.

    A module does not look into lists: the parameters of the heads are not found by an optimizer, nor saved, nor moved.

    Which container of `torch.nn` is a list whose modules are found?
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        self.heads = [CausalAttention(d_in, d_out, context_length, dropout, qkv_bias) for _ in range(num_heads)]

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([head(x) for head in self.heads], dim=-1)


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_wrapper_concatenates")
class wrapper_divides_d_out(nn.Module):
    """In the wrapper each head got the width `d_out / num_heads`.

    In the wrapper `d_out` is the width of one head. The result is `num_heads * d_out` wide.

    How wide is the result for `d_out=3` and two heads? Read the two meanings of `d_out` in the docstrings once more.
    """

    narrowest = 1

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        width = max(d_out // num_heads, self.narrowest)
        self.heads = nn.ModuleList(
            CausalAttention(d_in, width, context_length, dropout, qkv_bias) for _ in range(num_heads)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([head(x) for head in self.heads], dim=-1)


@another_form(wrapper_divides_d_out)
class wrapper_divides_d_out_down_to_zero(wrapper_divides_d_out):
    narrowest = 0


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_dropout_only_in_training")
class wrapper_forgets_dropout(reference.MultiHeadAttentionWrapper):
    """The wrapper took the argument `dropout` and did not hand it on to its heads.

    The heads then never drop a weight, whatever the caller asked for.

    Compare the arguments of the wrapper with those that you hand to each head: are they all there?
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__(d_in, d_out, context_length, 0.0, num_heads, qkv_bias)


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_wrapper_concatenates")
class wrapper_forgets_bias(reference.MultiHeadAttentionWrapper):
    """The wrapper took the argument `qkv_bias` and did not hand it on to its heads.

    The heads then never have a bias, whatever the caller asked for.

    Compare the arguments of the wrapper with those that you hand to each head: are they all there?
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__(d_in, d_out, context_length, dropout, num_heads)


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_wrapper_concatenates")
class one_head_without_mask(reference.MultiHeadAttentionWrapper):
    """The first head had no causal mask, the others did.

    One head that sees the future is enough to give it away: the later layers learn to listen to that head.

    Do all heads go through the same code? Change the last token and see which columns of the first one change.
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__(d_in, d_out, context_length, dropout, num_heads, qkv_bias)
        self.heads[0].visible.fill_(True)


# --- splitting and merging the heads ----------------------------------------------------------------------------------


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws", misses_the_point=True)
class split_without_transpose(Pieces):
    """The heads were split off by one bare reshape to `(B, H, T, d)`.

    A reshape keeps the order of the numbers in memory, so each head got pieces of different tokens' columns.

    The columns of one token split into `(H, d)`. In which order do the dimensions stand then, and which two must swap?
    """

    def split(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], self.num_heads, x.shape[1], -1)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws", misses_the_point=True)
class merged_without_transpose(Pieces):
    """The heads were merged by one bare reshape from `(B, H, T, d)` to `(B, T, d_out)`.

    A reshape keeps the order of the numbers in memory, so a token got pieces of other tokens instead of its own heads.

    Which two dimensions must swap, so that the heads of one token lie next to each other?
    """

    def merge(self, context: Tensor) -> Tensor:
        return context.reshape(context.shape[0], context.shape[2], -1)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws", misses_the_point=True)
class columns_interleaved(Pieces):
    """Head h got every H-th column, not a run of d columns next to each other.

    Head h works on the columns from h · d on. Split as `(d, H)` instead of `(H, d)`, the columns go round in turn.

    When D columns become two dimensions, which of the two must come first?
    """

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)

    def merge(self, context: Tensor) -> Tensor:
        return context.permute(0, 2, 3, 1).flatten(2)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws", misses_the_point=True)
class one_big_head(Pieces):
    """The heads were never split: one single head worked on all columns.

    The point of several heads is that each has weights of its own. Here all columns share the same weights.

    What is the shape of your scores? Where does the number of heads appear in it?
    """

    def split(self, x: Tensor) -> Tensor:
        return x.unsqueeze(1)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class heads_attend_to_heads(Pieces):
    """The tokens and the heads never changed places, so that within each token its heads attended to each other.

    The product of query and key compares the last but one dimension. That must be the tokens, not the heads.

    What is the shape of your scores, `(B, H, T, T)` or `(B, T, H, H)`?
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > self.context_length:
            raise ValueError(f"x has {x.shape[1]} tokens, but context_length is {self.context_length}")
        query, key, value = (
            layer(x).unflatten(-1, (self.num_heads, -1)) for layer in (self.W_query, self.W_key, self.W_value)
        )
        visible = torch.ones(self.num_heads, self.num_heads, dtype=torch.bool, device=x.device).tril()
        return self.project(self.context(self.weights(self.scores(query, key), visible), value).flatten(2))


# --- scores and mask --------------------------------------------------------------------------------------------------


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class scaled_by_all_heads(Pieces):
    """The scores were divided by the root of `d_out`, the width of all heads together.

    A score is a sum over the columns of one head only, so it grows with the root of the head's width.

    When one head's query and key are multiplied, over how many numbers does the sum run?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(self.W_key.out_features)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class scaled_by_length(Pieces):
    """The scores were divided by the square root of T, the number of tokens.

    A score is a sum over the columns of one head. More tokens make more scores, and none of them larger.

    Which of B, H, T and d is the last dimension of a head's key?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(key.shape[-2])


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class not_scaled(Pieces):
    """The scores went into the softmax without being divided by the root of the head's width.

    The wider the heads are, the larger the scores grow, and the softmax turns into a choice of one single token.

    Which number does attention divide the scores by, and from which tensor's shape can you read it?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class scaled_by_number_of_heads(Pieces):
    """The scores were divided by the root of the number of heads.

    A score is a sum over the columns of one head, so its size depends on the head's width, not on how many there are.

    Which of the numbers in the shape `(B, H, T, d)` is the width of a head?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(self.num_heads)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class softmax_over_heads(Pieces):
    """The softmax ran over the heads, so that the heads shared out the weight of each pair of tokens among them.

    Each query of each head shares out a weight of 1 among the keys, and the keys are counted by the last dimension.

    Along which dimension of `(B, H, T, T)` must the weights sum to 1?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.softmax(dim=1) * visible


@misconception(replaces="MultiHeadAttention", caught_by="test_future_has_no_effect")
class no_mask(Pieces):
    """Every token attended to every other one, the later ones included.

    A model that is to predict the next token must not see it, and that holds for all heads at once as for a single one.

    Which entries of the scores must be hidden before the softmax?
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return torch.ones_like(super().may_attend(num_tokens))


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class own_token_hidden(Pieces):
    """Each token's own position was hidden together with the future.

    A token may look at itself. The first token has nothing else, so its softmax has no finite entry and gives NaN.

    Is the diagonal of the mask part of the past or of the future? Look at the number handed to `tril` or `triu`.
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return super().may_attend(num_tokens).tril(-1)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class every_weight_nan(Pieces):
    """A mask of zeros and ones was multiplied by -inf, or it hid every position, so that all weights were NaN.

    0 times -inf is NaN, and one NaN spoils its row. A row in which everything is -inf has no softmax either: 0 / 0.

    Print the scores after the mask. Which of them should be ordinary numbers, and what are they?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return (scores + -torch.inf * ~visible).softmax(dim=-1)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class visible_positions_hidden(Pieces):
    """What a token may see was set to -inf, and what it may not see was left.

    `masked_fill` fills where its mask is True. The last token then has nothing left to see, and its row is NaN.

    Does True mean "may attend" in your mask, or "is hidden", and which of the two does the line that uses it need?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(visible, -torch.inf).softmax(dim=-1)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class future_instead_of_past(Pieces):
    """The mask was the wrong way round: each token saw itself and the later tokens, and its past was hidden.

    The last token then sees only itself, and the first one sees the whole sequence.

    Does your mask say "may attend" or "is hidden", and does the line that uses it mean the same?
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return super().may_attend(num_tokens).T


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class softmax_over_queries(Pieces):
    """The softmax ran over the queries, so that the columns of the weights summed to 1 and the rows did not.

    Each query shares out a weight of 1 among the keys, and the keys are counted by the last dimension.

    Along which dimension must the weights sum to 1, and what does `dim` say in your softmax?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=-2)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class masked_after_softmax(Pieces):
    """The mask was applied after the softmax, and the rows were not divided by their new sum.

    The softmax had already shared weight out to the later tokens. That share is lost, and the rows no longer sum to 1.

    What must happen to the hidden scores before the softmax, so that nothing is left to lose?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.softmax(dim=-1) * visible


@misconception(replaces="MultiHeadAttention", caught_by="test_future_has_no_effect")
class mask_in_the_first_head_only(Pieces):
    """Not every head was masked: the first one was, and others saw the future.

    One head that sees the future is enough to give it away: the later layers learn to listen to that head.

    Does the mask of shape `(T, T)` reach every head and every sequence of the scores `(B, H, T, T)`?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        head = torch.arange(self.num_heads, device=scores.device).view(-1, 1, 1)
        return super().weights(scores, visible | (head > 0))


@misconception(replaces="MultiHeadAttention", caught_by="test_lengths_and_head_counts")
class mask_not_cut(Pieces):
    """The mask of the longest sequence was used as it is, whatever the length of `x`.

    The mask has `context_length` rows and columns, and the scores of a shorter sequence have only T.

    How do you take the first T rows and the first T columns of the mask?
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return self.visible


@misconception(replaces="MultiHeadAttention", caught_by="test_lengths_and_head_counts")
class mask_not_cut_in_place(Pieces):
    """The scores were masked in place with the mask of the longest sequence, whatever the length of `x`.

    The mask has `context_length` rows and columns, and the scores of a shorter sequence have only T. In place they
    cannot become larger.

    How do you take the first T rows and the first T columns of the mask?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill_(~self.visible, -torch.inf).softmax(dim=-1)


@misconception(replaces="MultiHeadAttention", caught_by="test_follows_device")
class mask_made_on_the_cpu(Pieces):
    """The mask stayed on the CPU: it was a plain attribute, or made in `forward` without a device.

    `module.to(device)` moves parameters and buffers, and nothing else. On a GPU the mask and the scores then lie on
    two devices.

    With which method of `nn.Module` does a tensor become part of a module without being a parameter?
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()


@misconception(replaces="MultiHeadAttention", caught_by="test_large_scores")
class no_maximum_subtracted(Pieces):
    """The exponentials of the scores were taken as they are, without subtracting each row's maximum first.

    exp(100) is too large for float32 and becomes inf, exp(-200) becomes 0, and inf / inf and 0 / 0 are NaN.

    What may be subtracted from all scores of a row without changing its softmax?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        exponentials = scores.masked_fill(~visible, -torch.inf).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


# --- errors, parameters, gradients ------------------------------------------------------------------------------------


@misconception(replaces="MultiHeadAttention", caught_by="test_lengths_and_head_counts")
class any_length_accepted(Pieces):
    """A sequence longer than `context_length` was accepted and answered.

    The module promises a longest length. A caller who goes beyond it made a mistake and should be told.

    Where could `forward` compare T with the length that the constructor was given?
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] <= self.context_length:
            return super().forward(x)
        query, key, value = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        visible = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return self.project(self.merge(self.context(self.weights(self.scores(query, key), visible), value)))


@misconception(replaces="MultiHeadAttention", caught_by="test_lengths_and_head_counts")
class batch_taken_for_length(Pieces):
    """The length that was compared with `context_length` was that of the batch.

    Then a large batch of short sequences is refused, and T is not looked at.

    x is `(B, T, d_in)`. Which entry of its shape is T?
    """

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.context_length:
            raise ValueError(f"x has {len(x)} tokens, but context_length is {self.context_length}")
        return super().forward(x)


@misconception(replaces="MultiHeadAttention", caught_by="test_lengths_and_head_counts")
class remainder_columns_dropped(Pieces):
    """Where `d_out` was not divisible by `num_heads`, the remaining columns were left out without a word.

    The caller asked for heads that cannot have equal widths. That is a mistake, and the caller should be told.

    What does `d_out % num_heads` tell you, and where can the constructor act on it?
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        d_out = d_out // num_heads * num_heads
        super().__init__(d_in, d_out, context_length, dropout, num_heads, qkv_bias)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class output_not_projected(Pieces):
    """The merged heads were returned as they are; `out_proj` was made, but not used.

    Without it no column of the result can depend on more than one head.

    Which of your layers does `forward` never call?
    """

    def project(self, merged: Tensor) -> Tensor:
        return merged


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class no_output_projection(nn.Module):
    """The module had no `out_proj` at all.

    Without it no column of the result can depend on more than one head.

    Which four linear layers does the step ask for? One of them comes after the heads were merged.
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        inner = Pieces(d_in, d_out, context_length, dropout, num_heads, qkv_bias)
        self.W_query, self.W_key, self.W_value = inner.W_query, inner.W_key, inner.W_value
        object.__setattr__(self, "inner", inner)
        inner.out_proj = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner.train(self.training)(x)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class output_projection_without_bias(Pieces):
    """`out_proj` had no bias.

    `qkv_bias` speaks of the layers of query, key and value only. The output projection always has a bias.

    What is the default of `bias` in `nn.Linear`?
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__(d_in, d_out, context_length, dropout, num_heads, qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out, bias=qkv_bias)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class projected_before_merging(Pieces):
    """The output projection came before the heads' results: it was applied to the values instead of the merged heads.

    Its work is to mix what the heads found out. Before the weighted sum there is nothing found out yet.

    In which shape do the results of all heads stand next to each other, so that a linear layer can mix them?
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > self.context_length:
            raise ValueError(f"x has {x.shape[1]} tokens, but context_length is {self.context_length}")
        query, key = self.split(self.W_query(x)), self.split(self.W_key(x))
        value = self.split(self.out_proj(self.W_value(x)))
        weights = self.weights(self.scores(query, key), self.may_attend(x.shape[1]))
        return self.merge(self.context(weights, value))


@misconception(replaces="MultiHeadAttention", caught_by="test_gradients")
class values_detached(Pieces):
    """The values were cut off from the graph, by `detach`, `.data`, `torch.no_grad` or a new tensor.

    The result is right, but no gradient reaches `W_value`, and it never learns.

    Which operation between `W_value` and the result does autograd not see?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return super().context(weights, value.detach())


@misconception(replaces="MultiHeadAttention", caught_by="test_gradients")
class weights_detached(Pieces):
    """The attention weights were cut off from the graph, by `detach`, `.data`, `torch.no_grad` or a new tensor.

    The result is right, but no gradient reaches `W_query` and `W_key`, and they never learn.

    Which operation between the scores and the context does autograd not see?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return super().weights(scores, visible).detach()


@misconception(replaces="MultiHeadAttention", caught_by="test_future_has_no_effect")
class no_gradient_in_eval(Pieces):
    """In eval mode no gradient was kept, because of `torch.no_grad` or a `detach` there.

    eval() switches dropout off, and nothing else. Who needs no gradient says so around the call.

    What does `self.training` decide in your `forward`, besides dropout?
    """

    def forward(self, x: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.training):
            return super().forward(x)


@misconception(replaces="MultiHeadAttention", caught_by="test_other_dtypes")
class mask_added_in_float32(Pieces):
    """A float32 mask was added to the scores, and what came after was float32 too, or did not fit together.

    Two dtypes in one operation give the wider one, so a bfloat16 module met float32 halfway.

    Which dtype should a mask have that is added to the scores, or could it be boolean?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        bias = torch.zeros(visible.shape, dtype=torch.float32, device=scores.device)
        return (scores + bias.masked_fill(~visible, -torch.inf)).softmax(dim=-1)


# --- the dropout ------------------------------------------------------------------------------------------------------


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class one_dropout_mask_for_all_heads(Pieces):
    """One dropout mask was drawn for each sequence and used by all of its heads.

    Dropout decides about each weight by itself; here the heads always lose the same ones.

    What is the shape of the tensor that your random numbers are drawn in?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights * self.dropout(torch.ones_like(weights[:, :1])) @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class one_dropout_mask_for_the_batch(Pieces):
    """One dropout mask was drawn and used for every sequence of the batch.

    Dropout decides about each weight by itself; here the sequences always lose the same ones.

    What is the shape of the tensor that your random numbers are drawn in?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights * self.dropout(torch.ones_like(weights[:1])) @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class whole_heads_dropped(Pieces):
    """Whole heads were dropped: all weights of a head together.

    Dropout decides about each weight of each head by itself.

    What is the shape of the tensor that your random numbers are drawn in?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights * self.dropout(torch.ones_like(weights[..., :1, :1])) @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_scores(Pieces):
    """Dropout acted before the softmax, on the scores or on the queries and keys that they are made of.

    A dropped score is 0, and a score of 0 still gets weight; the softmax then shares out all the weight again.

    Which tensor must have zeros in it, so that a token is really left out of the average?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return self.dropout(super().scores(query, key))

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_output(Pieces):
    """Dropout acted on the result, before or after `out_proj`, and not on the weights.

    That drops single numbers of the result. Dropout on the weights leaves whole tokens out of an average.

    Between which two lines of your `forward` do the weights exist, but the context does not yet?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value

    def project(self, merged: Tensor) -> Tensor:
        return self.dropout(super().project(merged))


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_weights_and_output(Pieces):
    """Dropout acted twice: on the weights, and once more on the result, before or after `out_proj`.

    In this step only the attention weights are dropped. The second dropout comes with the next step's layout.

    How many times does your `forward` call the dropout?
    """

    def project(self, merged: Tensor) -> Tensor:
        return self.dropout(super().project(merged))


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_at_its_own_rate(Pieces):
    """The weights were dropped at a rate of the module's own, whatever the argument `dropout` says.

    A number written into the module, or the default of a dropout layer, stays the same for everyone who uses it.

    What is the default of the class that you made the dropout layer of, and where does the argument go?
    """

    rate = 0.5

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return F.dropout(weights, self.rate, self.training) @ value


@another_form(dropout_at_its_own_rate)
class dropout_of_one_tenth(dropout_at_its_own_rate):
    rate = 0.1


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class no_dropout(Pieces):
    """Nothing was dropped, not even in training.

    The argument `dropout` is the probability with which an attention weight is set to 0 in training mode.

    Is the dropout layer called in `forward`, or only made in the constructor?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_follows_device")
class dropout_mask_made_on_the_cpu(Pieces):
    """The random numbers of the dropout were drawn on the CPU, wherever the weights were.

    In training on a GPU the weights and what they are multiplied by then lie on two devices.

    How does `torch.rand` learn on which device to draw?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        if self.training:
            weights = weights * (torch.rand(weights.shape) >= self.dropout.p) / (1 - self.dropout.p)
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_other_dtypes")
class dropout_mask_in_float32(Pieces):
    """In training the weights were multiplied by a dropout mask of float32 numbers.

    Of two dtypes torch keeps the wider one, so the weights of a bfloat16 module become float32 and no longer fit the
    values.

    Which dtype should the mask have when it is multiplied with the weights?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        if self.training:
            kept = torch.rand(weights.shape, device=weights.device) >= self.dropout.p
            weights = weights * kept.float() / (1 - self.dropout.p)
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_only_in_training")
class dropout_mask_not_cut(Pieces):
    """The dropout mask was as large as the longest sequence, whatever the length of `x`.

    In training the weights of a shorter sequence are then multiplied by a mask that has more rows and columns.

    Which tensor has the shape that the random numbers need?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        if self.training and self.dropout.p > 0:
            longest = self.visible.expand(*weights.shape[:2], -1, -1)
            weights = weights * self.dropout(torch.ones_like(longest, dtype=weights.dtype))
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_large_scores")
class maximum_of_all_rows(Pieces):
    """One maximum was subtracted from the scores of many rows.

    A row whose scores all lie far below that maximum has exponentials that round to 0, and 0 / 0 is NaN.

    Which numbers belong together in one softmax, and whose maximum should they lose?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        exponentials = (scores - scores.amax((-2, -1), keepdim=True)).exp() * visible
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_only_in_training")
class dropout_in_place(Pieces):
    """The dropout wrote its zeros into the attention weights themselves, in place.

    The softmax needs the weights that it gave to compute its gradient. They are written over, so in training every
    backward pass ends in an error.

    Which argument of the dropout, or which operation on the weights, makes no new tensor?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return F.dropout(weights, self.dropout.p, self.training, inplace=True) @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_only_in_training")
class dropout_on_in_eval(Pieces):
    """Dropout was still on in eval mode.

    After `module.eval()` a call must give the full average, the same one every time.

    How does a module know which mode it is in, and does your dropout ask for it?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return F.dropout(weights, self.dropout.p) @ value


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_dropout_acts_on_weights")
class wrapper_shares_the_rate(reference.MultiHeadAttentionWrapper):
    """Each head of the wrapper got the rate of dropout divided by the number of heads.

    Every weight is dropped with the probability that was asked for, however many heads there are.

    With `dropout=0.2` and four heads, at which rate does a single weight have to be dropped?
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__(d_in, d_out, context_length, dropout / num_heads, num_heads, qkv_bias)


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_dropout_acts_on_weights")
class wrapper_drops_its_output(reference.MultiHeadAttentionWrapper):
    """The wrapper dropped numbers of its output, and its heads dropped no weights.

    Dropout belongs on the attention weights: it takes a token out of the view of another one, and not a number out of
    the result.

    Which part of the module has the weights in its hands?
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__(d_in, d_out, context_length, 0.0, num_heads, qkv_bias)
        self.rate = dropout

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(super().forward(x), self.rate, self.training)


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_dropout_acts_on_weights")
class wrapper_drops_once_more(reference.MultiHeadAttentionWrapper):
    """The wrapper dropped numbers of its output, after its heads had dropped weights.

    The heads do all the dropping there is; the wrapper only puts their outputs next to each other.

    What is left for the wrapper to do when its heads are done?
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__(d_in, d_out, context_length, dropout, num_heads, qkv_bias)
        self.rate = dropout

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(super().forward(x), self.rate, self.training)


# --- views, lengths and modes -----------------------------------------------------------------------------------------


@misconception(replaces="MultiHeadAttention", caught_by="test_any_regime")
class result_of_the_shape_before(Pieces):
    """In eval mode without gradients a result was kept, and given again to whatever had the same shape.

    The shape says nothing about the numbers: the second sequence of a length gets what was made of the first.

    On what does a result depend, besides the shape of x?
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.training or torch.is_grad_enabled():
            return super().forward(x)
        kept = self.__dict__.setdefault("kept", {})
        if x.shape not in kept:
            kept[x.shape] = super().forward(x)
        result: Tensor = kept[x.shape]
        return result


@misconception(replaces="MultiHeadAttention", caught_by="test_any_regime")
class dropout_gone_after_eval(Pieces):
    """The first call in eval mode replaced the dropout by `nn.Identity`, for good.

    A model is evaluated again and again while it is trained. From the first time on it is trained without dropout.

    Which attribute says in each call whether the module is in training, so that nothing has to be taken out?
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            self.dropout = nn.Identity()
        return super().forward(x)


@misconception(replaces="MultiHeadAttention", caught_by="test_any_regime", own_draws=True)
class dropout_of_another_generator(Pieces):
    """The mask of dropout was drawn by a generator of the module's own.

    Then `torch.manual_seed` does not repeat it, and an experiment cannot be run a second time.

    Which random numbers does `torch.manual_seed` determine?
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__(d_in, d_out, context_length, dropout, num_heads, qkv_bias)
        self.dropout = _OwnGenerator(dropout)


class _OwnGenerator(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p, self.generator = p, torch.Generator().manual_seed(1)

    def forward(self, weights: Tensor) -> Tensor:
        if not self.training:
            return weights
        if weights.is_meta:
            return weights * torch.rand_like(weights)
        kept = torch.rand(weights.shape, generator=self.generator) >= self.p
        return weights * kept.to(weights.dtype) / (1 - self.p)


# --- the same mistakes in other words ---------------------------------------------------------------------------------


@another_form(softmax_over_heads)
class softmax_over_heads_of_masked_scores(Pieces):
    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=1)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class softmax_over_the_batch(Pieces):
    """The softmax ran over the batch, so that the sequences shared out the weight of each pair of tokens among them.

    The sequences of a batch have nothing to do with each other. Each query shares out a weight of 1 among the keys.

    Along which dimension of `(B, H, T, T)` must the weights sum to 1?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=0)


class _HeadsToHeads(Pieces):
    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1))

    def merge(self, context: Tensor) -> Tensor:
        return context.flatten(2)


@another_form(heads_attend_to_heads)
class heads_attend_to_heads_unmasked(_HeadsToHeads):
    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.softmax(dim=-1)


@another_form(heads_attend_to_heads)
class heads_attend_to_heads_under_the_mask_of_tokens(_HeadsToHeads):
    pass


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class heads_and_batch_mixed(Pieces):
    """The heads and the batch were mixed up, so that one sequence got numbers of another.

    The shape is right and the numbers are not: what belongs to one sequence has to stay in its part of the batch.

    Which dimensions do your `view`, `transpose` and `reshape` touch, and is the batch among them?
    """

    def merge(self, context: Tensor) -> Tensor:
        batch, num_heads, num_tokens, d = context.shape
        return context.transpose(0, 1).reshape(batch, num_tokens, num_heads * d)


@another_form(columns_interleaved)
class columns_interleaved_once(Pieces):
    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)


@another_form(heads_and_batch_mixed)
class split_into_heads_before_the_batch(Pieces):
    def split(self, x: Tensor) -> Tensor:
        return x.reshape(self.num_heads, len(x), x.shape[1], -1).transpose(0, 1)


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_wrapper_concatenates", misses_the_point=True)
class first_head_repeated(reference.MultiHeadAttentionWrapper):
    """The output of the first head was repeated, once for each head, and the other heads were never called.

    Their parameters are there, and no gradient reaches them.

    Which of the heads in the list does your `forward` call?
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.heads[0](x)] * len(self.heads), dim=-1)


# --- two at once ------------------------------------------------------------------------------------------------------

SCALES = (scaled_by_all_heads, not_scaled, scaled_by_number_of_heads)
MASKS = (no_mask, future_instead_of_past, mask_in_the_first_head_only)
HEADS = (split_without_transpose, merged_without_transpose, columns_interleaved)
WEIGHTS = (softmax_over_queries, masked_after_softmax)
DROPOUTS = (dropout_on_output, dropout_on_in_eval, no_dropout)
PAIRS = [
    *together(SCALES, (*MASKS, *WEIGHTS)),
    *together(SCALES, HEADS),
    *together(HEADS, (*MASKS, *WEIGHTS)),
    *together((future_instead_of_past,), WEIGHTS),
    *together((split_without_transpose,), (merged_without_transpose,)),
    *together((output_not_projected,), (*SCALES, *MASKS, merged_without_transpose)),
    *together((not_scaled, no_mask, future_instead_of_past, merged_without_transpose), DROPOUTS),
]
