"""What learners get wrong in step 9, each with the check that catches it."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception, together
from solutions.core.step09_fused_qkv import reference


class Pieces(reference.CausalSelfAttention):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    def parts(self, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value, each (B, H, T, d), from the output of `c_attn`."""
        query, key, value = fused.chunk(3, dim=-1)
        return self.heads(query), self.heads(key), self.heads(value)

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_head, -1)).transpose(1, 2)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.masked_fill(~self.visible[:length, :length], -torch.inf).softmax(dim=-1)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.attn_dropout(self.weights(self.scores(query, key))) @ value

    def output(self, merged: Tensor) -> Tensor:
        return self.resid_dropout(self.c_proj(merged))

    def check_length(self, x: Tensor) -> None:
        if x.shape[1] > self.block_size:
            raise ValueError(f"x has {x.shape[1]} tokens, but block_size is {self.block_size}")

    def forward(self, x: Tensor) -> Tensor:
        self.check_length(x)
        return self.output(self.attend(*self.parts(self.c_attn(x))).transpose(1, 2).flatten(2))


# --- the fused weight -------------------------------------------------------------------------------------------------


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_learns")
def fused_on_the_cpu(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The fused weight was filled into a tensor that was made on the CPU.

    When the three weights are on a GPU, the fused one stays behind.

    From what can the new tensor take the device?
    """
    size = len(query_weight)
    fused = torch.empty(3 * size, size, dtype=query_weight.dtype)
    for number, weight in enumerate((query_weight, key_weight, value_weight)):
        fused[number * size : (number + 1) * size] = weight
    return fused


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_by_hand")
def concatenated_as_columns(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The three weights were put next to each other, which gave the shape `(D, 3 * D)`.

    The weight of `nn.Linear(D, 3 * D)` has one row for each number that comes out, so it is `(3 * D, D)`.

    Print `nn.Linear(2, 6).weight.shape`. Which dimension has to grow?
    """
    return torch.cat([query_weight, key_weight, value_weight], dim=1)


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_by_hand")
def each_weight_transposed(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """Each of the three weights was transposed before they were put below each other.

    `nn.Linear` transposes its weight itself when it multiplies. What goes in are weights of `nn.Linear`, and what
    comes out is one too.

    Do the rows of an `nn.Linear` weight belong to what comes in, or to what goes out?
    """
    return torch.cat([query_weight.T, key_weight.T, value_weight.T], dim=0)


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_by_hand")
def stacked_on_a_new_dimension(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The three weights were stacked on a new dimension, which gave the shape `(3, D, D)`.

    A linear layer's weight has two dimensions: `(3 * D, D)`.

    What is the difference between `torch.stack` and `torch.cat`?
    """
    return torch.stack([query_weight, key_weight, value_weight])


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_by_hand")
def rows_interleaved(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The rows of the three weights were interleaved: one of the query, one of the key, one of the value, and so on.

    The output of `c_attn` is cut into three runs of D numbers, so the rows of the query must all come first.

    After stacking, which of the first two dimensions counts query, key and value? Which of them should come first?
    """
    return torch.stack([query_weight, key_weight, value_weight], dim=1).flatten(0, 1)


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_by_hand")
def fused_in_another_order(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The weights were fused in the order key, query, value.

    Attention that reads the first third as the query then asks with the keys.

    In which order does the name `qkv` list them?
    """
    return torch.cat([key_weight, query_weight, value_weight], dim=0)


@misconception(replaces="fuse_qkv", caught_by="test_fused_weight_learns")
def fused_weight_detached(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The fused weight was cut off from the three it was made of, by `detach`, `.data` or `nn.Parameter`.

    The numbers are right, but no gradient flows back to the three weights.

    Which of your operations makes a new tensor that knows nothing of where its numbers came from?
    """
    return torch.cat([query_weight.detach(), key_weight.detach(), value_weight.detach()], dim=0)


# --- from the fused output to the heads -------------------------------------------------------------------------------


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand", misses_the_point=True)
class key_query_value_order(Pieces):
    """Query and key changed places: `c_attn` was read as key, query, value, or the keys were multiplied by the queries.

    In GPT-2's layout the first third is the query, the second the key, the last the value. The rows of the scores
    belong to the queries, and the columns to the keys.

    To which names does your code assign the three parts, and which of them comes first in the product?
    """

    def parts(self, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = super().parts(fused)
        return key, query, value


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand", misses_the_point=True)
class value_first_order(Pieces):
    """The output of `c_attn` was read as value, key, query.

    In GPT-2's layout the first third is the query, the second the key, the last the value. A checkpoint only fits this
    order.

    To which names does your code assign the three parts, and in which order?
    """

    def parts(self, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = super().parts(fused)
        return value, key, query


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class query_value_key_order(Pieces):
    """Key and value changed places: `c_attn` was read as query, value, key.

    In GPT-2's layout the first third is the query, the second the key, the last the value. A checkpoint only fits this
    order.

    To which names does your code assign the three parts, and in which order?
    """

    def parts(self, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = super().parts(fused)
        return query, value, key


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand", misses_the_point=True)
class cut_into_heads_first(Pieces):
    """The output of `c_attn` was cut into heads first, and each head's columns then into query, key and value.

    The layout is query of all heads, then key of all heads, then value of all heads, each D numbers wide.

    What is the first number of the key of head 0: number d or number D of the 3 · D?
    """

    def parts(self, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = self.heads(fused).chunk(3, dim=-1)
        return query, key, value


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class every_third_column(Pieces):
    """Query, key and value were taken as every third column of the output of `c_attn`.

    The layout is D numbers of the query, then D of the key, then D of the value.

    If 3 · D columns become two dimensions, is it `(3, D)` or `(D, 3)`?
    """

    def parts(self, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = fused.unflatten(-1, (-1, 3)).unbind(-1)
        return self.heads(query), self.heads(key), self.heads(value)


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws")
class split_without_transpose(Pieces):
    """The heads were split off by one bare reshape to `(B, H, T, d)`.

    A reshape keeps the order of the numbers in memory, so each head got pieces of different tokens' columns.

    The columns of one token split into `(H, d)`. In which order do the dimensions stand then, and which two must swap?
    """

    def heads(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], self.n_head, x.shape[1], -1)


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws")
class merged_without_transpose(Pieces):
    """The heads were merged by one bare reshape from `(B, H, T, d)` to `(B, T, D)`.

    A reshape keeps the order of the numbers in memory, so a token got pieces of other tokens instead of its own heads.

    Which two dimensions must swap, so that the heads of one token lie next to each other?
    """

    def forward(self, x: Tensor) -> Tensor:
        self.check_length(x)
        return self.output(self.attend(*self.parts(self.c_attn(x))).reshape(x.shape))


# --- scores, mask, average --------------------------------------------------------------------------------------------


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class one_big_head(Pieces):
    """The heads were never split: one single head worked on all columns.

    The point of several heads is that each has weights of its own. Here all columns share the same weights.

    What is the shape of your query when its product with the keys is taken? Where does the number of heads appear?
    """

    def heads(self, x: Tensor) -> Tensor:
        return x.unsqueeze(1)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class heads_attend_to_heads(Pieces):
    """The tokens and the heads never changed places, so that within each token its heads attended to each other.

    Attention compares what the last but one dimension counts, and so does torch's `scaled_dot_product_attention`. In
    `(B, T, H, d)` that is the heads.

    Which shape do query, key and value have when their product is taken?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (part.transpose(1, 2) for part in (query, key, value))  # (B, T, H, d)
        p = self.attn_dropout.p if self.training else 0.0
        context = F.scaled_dot_product_attention(query, key, value, dropout_p=p, is_causal=True)
        return context.transpose(1, 2)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class scaled_by_all_heads(Pieces):
    """The scores were divided by the root of `n_embd`, the width of all heads together.

    A score is a sum over the columns of one head only, so it grows with the root of the head's width.

    When one head's query and key are multiplied, over how many numbers does the sum run?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(self.c_proj.in_features)


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws")
class not_scaled(Pieces):
    """The scores went into the softmax without being divided by the root of the head's width.

    The wider the heads are, the larger the scores grow, and the softmax turns into a choice of one single token.

    Which number does attention divide the scores by, and from which tensor's shape can you read it?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1)


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws")
class scaled_twice(Pieces):
    """The scores were divided by the head's width instead of its root: by all of it, or twice by the root.

    Of a sum over d numbers the root of d is the usual size. torch's own `scaled_dot_product_attention` divides by it
    without being asked, so that a query that was scaled by hand is scaled twice.

    By what is a score divided, all in all, between your product and the softmax?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        p = self.attn_dropout.p if self.training else 0.0
        query = query / math.sqrt(query.shape[-1])
        return F.scaled_dot_product_attention(query, key, value, dropout_p=p, is_causal=True)


@misconception(replaces="CausalSelfAttention", caught_by="test_future_has_no_effect", misses_the_point=True)
class no_mask(Pieces):
    """Every token attended to every other one, the later ones included.

    A model that is to predict the next token must not see it. torch's own function hides nothing by itself.

    Which argument of `scaled_dot_product_attention` hides the future, or which entries of your scores must be hidden?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.attn_dropout(self.scores(query, key).softmax(dim=-1)) @ value


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class future_instead_of_past(Pieces):
    """The mask was the wrong way round: each token saw itself and the later tokens, and its past was hidden.

    The last token then sees only itself, and the first one sees the whole sequence.

    Does your mask say "may attend" or "is hidden", and does the line that uses it mean the same?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.masked_fill(~self.visible[:length, :length].T, -torch.inf).softmax(dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class own_token_hidden(Pieces):
    """Each token's own position was hidden together with the future.

    A token may look at itself. The first token has nothing else, so its softmax has no finite entry and gives NaN.

    Is the diagonal of the mask part of the past or of the future? Look at the number handed to `tril` or `triu`.
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.masked_fill(~self.visible[:length, :length].tril(-1), -torch.inf).softmax(dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class every_weight_nan(Pieces):
    """A mask of zeros and ones was multiplied by -inf, or it hid every position, so that all weights were NaN.

    0 times -inf is NaN, and one NaN spoils its row. A row in which everything is -inf has no softmax either: 0 / 0.

    Print the scores after the mask. Which of them should be ordinary numbers, and what are they?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return (scores + -torch.inf * ~self.visible[:length, :length]).softmax(dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class visible_positions_hidden(Pieces):
    """What a token may see was set to -inf, and what it may not see was left.

    `masked_fill` fills where its mask is True. The last token then has nothing left to see, and its row is NaN.

    Does True mean "may attend" in your mask, or "is hidden", and which of the two does the line that uses it need?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.masked_fill(self.visible[:length, :length], -torch.inf).softmax(dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class softmax_over_queries(Pieces):
    """The softmax ran over the queries, so that the columns of the weights summed to 1 and the rows did not.

    Each query shares out a weight of 1 among the keys, and the keys are counted by the last dimension.

    Along which dimension must the weights sum to 1, and what does `dim` say in your softmax?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.masked_fill(~self.visible[:length, :length], -torch.inf).softmax(dim=-2)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class masked_after_softmax(Pieces):
    """The mask was applied after the softmax, and the rows were not divided by their new sum.

    The softmax had already shared weight out to the later tokens. That share is lost, and the rows no longer sum to 1.

    What must happen to the hidden scores before the softmax, so that nothing is left to lose?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.softmax(dim=-1) * self.visible[:length, :length]


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class mask_of_the_hidden_positions(Pieces):
    """`scaled_dot_product_attention` was given a mask that is True where a position is hidden.

    In torch's function True means "may attend", so each token saw its future and not its past.

    What does the documentation say about a boolean `attn_mask`? And what is left for the last token to see?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        length = query.shape[-2]
        hidden = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
        p = self.attn_dropout.p if self.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, attn_mask=hidden, dropout_p=p)


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_only_in_training")
class mask_and_is_causal(Pieces):
    """`scaled_dot_product_attention` was given a mask and `is_causal=True` as well.

    They say the same twice, and torch takes only one of them. Some of its kernels overlook it, but the call raises an
    error as soon as weights are to be dropped.

    Which one of the two is enough here?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        length = query.shape[-2]
        visible = self.visible[:length, :length]
        p = self.attn_dropout.p if self.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, attn_mask=visible, dropout_p=p, is_causal=True)


@misconception(replaces="CausalSelfAttention", caught_by="test_lengths_and_head_counts")
class mask_not_cut(Pieces):
    """The mask of the longest sequence was used as it is, whatever the length of `x`.

    The mask has `block_size` rows and columns, and the scores of a shorter sequence have only T.

    How do you take the first T rows and the first T columns of the mask?
    """

    def weights(self, scores: Tensor) -> Tensor:
        return scores.masked_fill(~self.visible, -torch.inf).softmax(dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_follows_device")
class mask_made_on_the_cpu(Pieces):
    """The mask stayed on the CPU: it was a plain attribute, or made in `forward` without a device.

    `module.to(device)` moves parameters and buffers, and nothing else. On a GPU the mask and the scores then lie on
    two devices.

    With which method of `nn.Module` does a tensor become part of a module without being a parameter?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_large_scores")
class no_maximum_subtracted(Pieces):
    """The exponentials of the scores were taken as they are, without subtracting each row's maximum first.

    exp(100) is too large for float32 and becomes inf, exp(-200) becomes 0, and inf / inf and 0 / 0 are NaN.

    What may be subtracted from all scores of a row without changing its softmax?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        exponentials = scores.masked_fill(~self.visible[:length, :length], -torch.inf).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="CausalSelfAttention", caught_by="test_large_scores")
class one_maximum_for_all_queries(Pieces):
    """One maximum was subtracted from the scores of all queries.

    A query whose scores all lie far below it gets only zeros, and 0 / 0 is NaN.

    A softmax belongs to one query. Over which dimension is its maximum taken?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        hidden = scores.masked_fill(~self.visible[:length, :length], -torch.inf)
        exponentials = (hidden - hidden.amax(dim=(-2, -1), keepdim=True)).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="CausalSelfAttention", caught_by="test_future_has_no_effect")
class no_gradient_in_eval(Pieces):
    """In eval mode no gradient was kept, because of `torch.no_grad` or a `detach` there.

    eval() switches dropout off, and nothing else. Who needs no gradient says so around the call.

    What does `self.training` decide in your `forward`, besides dropout?
    """

    def forward(self, x: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.training):
            return super().forward(x)


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws")
class weights_detached(Pieces):
    """The attention weights were cut off from the graph, by `detach`, `.data`, `torch.no_grad` or a new tensor.

    The result is right, but no gradient reaches the query and key part of `c_attn`, and they never learn.

    Which operation between the scores and the context does autograd not see?
    """

    def weights(self, scores: Tensor) -> Tensor:
        return super().weights(scores).detach()


# --- errors and parameters --------------------------------------------------------------------------------------------


@misconception(replaces="CausalSelfAttention", caught_by="test_lengths_and_head_counts")
class any_length_accepted(Pieces):
    """A sequence longer than `block_size` was accepted and answered.

    The module promises a longest length. `is_causal=True` takes any, so nothing in the call itself complains.

    Where could `forward` compare T with the length that the constructor was given?
    """

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.parts(self.c_attn(x))
        p = self.attn_dropout.p if self.training else 0.0
        context = F.scaled_dot_product_attention(query, key, value, dropout_p=p, is_causal=True)
        return self.output(context.transpose(1, 2).flatten(2))


@misconception(replaces="CausalSelfAttention", caught_by="test_lengths_and_head_counts")
class batch_taken_for_length(Pieces):
    """The length that was compared with `block_size` was that of the batch.

    Then a large batch of short sequences is refused, and T is not looked at.

    x is `(B, T, n_embd)`. Which entry of its shape is T?
    """

    def check_length(self, x: Tensor) -> None:
        if len(x) > self.block_size:
            raise ValueError(f"x has {len(x)} tokens, but block_size is {self.block_size}")


@misconception(replaces="CausalSelfAttention", caught_by="test_lengths_and_head_counts")
class remainder_columns_dropped(Pieces):
    """Where `n_embd` was not divisible by `n_head`, the remaining columns were left out without a word.

    The caller asked for heads that cannot have equal widths. That is a mistake, and the caller should be told.

    What does `n_embd % n_head` tell you, and where can the constructor act on it?
    """

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd // n_head * n_head, n_head, block_size, dropout, bias)
        self.used = n_embd // n_head * n_head

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([super().forward(x[..., : self.used]), x[..., self.used :]], dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws")
class bias_always_on(Pieces):
    """The linear layers had a bias, also when `bias` was False.

    The caller decides with `bias` whether the two layers have one.

    Which argument of `nn.Linear` should `bias` be handed to?
    """

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd, n_head, block_size, dropout, bias=True)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class bias_in_one_layer_only(Pieces):
    """`c_attn` had no bias while `c_proj` had one.

    In GPT-2's layout `bias` speaks of both layers: they both have one, or neither of them has.

    Do both of your `nn.Linear` get the argument `bias`?
    """

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(n_embd, n_head, block_size, dropout, bias)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=False)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class output_not_projected(Pieces):
    """The merged heads were returned as they are; `c_proj` was made, but not used.

    Without it no column of the result can depend on more than one head.

    Which of your layers does `forward` never call?
    """

    def output(self, merged: Tensor) -> Tensor:
        return self.resid_dropout(merged)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class residual_added(Pieces):
    """The tokens that came in were added to the result.

    The residual connection belongs to the block around this module, which would then add them twice.

    What does the docstring say this module gives back, and which part of a GPT adds `x`?
    """

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


# --- the dropout ------------------------------------------------------------------------------------------------------


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class no_dropout_on_weights(Pieces):
    """Only the output was dropped, the attention weights were not.

    In GPT-2's layout `dropout` acts twice: on the attention weights, and on what comes out of `c_proj`.

    If you use `scaled_dot_product_attention`: which of its arguments drops weights, and what is its default?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.weights(self.scores(query, key)) @ value


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class no_dropout_on_output(Pieces):
    """Only the attention weights were dropped, the output was not.

    In GPT-2's layout `dropout` acts twice: on the attention weights, and on what comes out of `c_proj`.

    What happens in your `forward` between `c_proj` and `return`?
    """

    def output(self, merged: Tensor) -> Tensor:
        return self.c_proj(merged)


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class dropout_before_projection(Pieces):
    """The second dropout acted on the merged heads, before `c_proj`, and not on the output.

    `c_proj` mixes its inputs, so a number dropped before it is missing from every output a little, and none is 0.

    In which order does your `forward` call `c_proj` and the second dropout?
    """

    def output(self, merged: Tensor) -> Tensor:
        return self.c_proj(self.resid_dropout(merged))


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class dropout_on_context_and_output(Pieces):
    """The first dropout acted on the context, after the weighted sum, and not on the weights.

    Dropout on the weights leaves whole tokens out of an average. On the context it drops single numbers.

    Between which two lines of your `forward` do the weights exist, but the context does not yet?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.attn_dropout(self.weights(self.scores(query, key)) @ value)


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class one_dropout_mask_for_all_heads(Pieces):
    """One dropout mask was drawn for the weights of a sequence and used by all of its heads.

    Dropout decides about each weight by itself; here the heads always lose the same ones.

    What is the shape of the tensor that your random numbers are drawn in?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights = self.weights(self.scores(query, key))
        return weights * self.attn_dropout(torch.ones_like(weights[:, :1])) @ value


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class whole_rows_of_weights_dropped(Pieces):
    """The weights of a query were dropped all together, or kept all together.

    Dropout decides about each weight by itself; here a token loses everything that it attends to.

    What is the shape of the tensor that your random numbers are drawn in?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights = self.weights(self.scores(query, key))
        return weights * self.attn_dropout(torch.ones_like(weights[..., :1])) @ value


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class same_columns_of_every_token_dropped(Pieces):
    """The second dropout dropped the same columns of every token in a sequence.

    Dropout decides about each number of the output by itself.

    What is the shape of the tensor that your random numbers are drawn in?
    """

    def output(self, merged: Tensor) -> Tensor:
        output = self.c_proj(merged)
        return output * self.resid_dropout(torch.ones_like(output[:, :1]))


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class no_dropout(Pieces):
    """Nothing was dropped, not even in training.

    The argument `dropout` is the probability of a drop in training, on the weights and on the output.

    Where does your `forward` use what the constructor was given as `dropout`?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.weights(self.scores(query, key)) @ value

    def output(self, merged: Tensor) -> Tensor:
        return self.c_proj(merged)


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_only_in_training")
class weights_dropped_in_eval(Pieces):
    """The attention weights were dropped in eval mode too.

    `scaled_dot_product_attention` and `F.dropout` are functions: they know nothing of the mode unless they are told.

    How does a module know which mode it is in, and what should the rate be in eval mode?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, dropout_p=self.attn_dropout.p, is_causal=True)


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_only_in_training")
class weights_dropped_only_in_eval(Pieces):
    """The two modes changed places: the attention weights were dropped in eval mode, and kept in training.

    Dropout is there to make training harder. In eval mode the answer should be the same every time.

    `self.training` is True in training. Which rate does your line choose then?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        p = 0.0 if self.training else self.attn_dropout.p
        return F.scaled_dot_product_attention(query, key, value, dropout_p=p, is_causal=True)


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_only_in_training")
class output_dropped_in_eval(Pieces):
    """The output was dropped in eval mode too.

    `F.dropout` is a function: unless it is told the mode, it drops always.

    Which argument of `F.dropout` knows about training, or which module would take care of it by itself?
    """

    def output(self, merged: Tensor) -> Tensor:
        return F.dropout(self.c_proj(merged), self.resid_dropout.p)


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_only_in_training")
class dropout_in_place(Pieces):
    """The dropout wrote its zeros into the attention weights themselves, in place.

    The softmax needs the weights that it gave to compute its gradient. They are written over, so in training every
    backward pass ends in an error.

    Which argument of the dropout, or which operation on the weights, makes no new tensor?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights = self.weights(self.scores(query, key))
        return F.dropout(weights, self.attn_dropout.p, self.training, inplace=True) @ value


@misconception(replaces="CausalSelfAttention", caught_by="test_follows_device")
class dropout_mask_made_on_the_cpu(Pieces):
    """The random numbers of a dropout were drawn on the CPU, wherever the weights and the output were.

    In training on a GPU the numbers and what they are multiplied by then lie on two devices.

    How does `torch.rand` learn on which device to draw?
    """

    def drop(self, x: Tensor) -> Tensor:
        p = self.attn_dropout.p
        return x * (torch.rand(x.shape) >= p) / (1 - p) if self.training else x

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.drop(self.weights(self.scores(query, key))) @ value

    def output(self, merged: Tensor) -> Tensor:
        return self.drop(self.c_proj(merged))


@misconception(replaces="CausalSelfAttention", caught_by="test_other_dtypes")
class dropout_mask_in_float32(Pieces):
    """In training the output was multiplied by a dropout mask of float32 numbers.

    Of two dtypes torch keeps the wider one, so the output of a bfloat16 module becomes float32.

    Which dtype should the mask have when it is multiplied with the output?
    """

    def output(self, merged: Tensor) -> Tensor:
        output, p = self.c_proj(merged), self.resid_dropout.p
        if self.training:
            output = output * (torch.rand(output.shape, device=output.device) >= p).float() / (1 - p)
        return output


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_only_in_training")
class dropout_mask_not_cut(Pieces):
    """The dropout mask was as large as the longest sequence, whatever the length of `x`.

    In training the weights of a shorter sequence are then multiplied by a mask that has more rows and columns.

    Which tensor has the shape that the random numbers need?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights = self.weights(self.scores(query, key))
        if self.training and self.attn_dropout.p > 0:
            longest = self.visible.expand(*weights.shape[:2], -1, -1)
            weights = weights * self.attn_dropout(torch.ones_like(longest, dtype=weights.dtype))
        return weights @ value


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_on_weights_and_output")
class first_head_drops_alone(Pieces):
    """Only the weights of the first head were dropped, those of the others never.

    Dropout acts on all the weights there are, each drawn by itself.

    Which dimension of the weights counts the heads, and does your dropout see all of it?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        first, others = self.weights(self.scores(query, key)).tensor_split([1], dim=1)
        return torch.cat([self.attn_dropout(first), others], dim=1) @ value


# --- views, lengths and modes -----------------------------------------------------------------------------------------


@misconception(replaces="CausalSelfAttention", caught_by="test_any_regime")
class dropout_only_with_gradients(reference.CausalSelfAttention):
    """Dropout acted only where torch was recording gradients.

    Whether gradients are recorded and whether the module is in training are two questions. In training mode under
    `torch.no_grad()`, as when several predictions with dropout are compared, nothing was dropped.

    Which attribute of the module do `train()` and `eval()` set?
    """

    def forward(self, x: Tensor) -> Tensor:
        for part in (self.attn_dropout, self.resid_dropout):
            part.training = self.training and torch.is_grad_enabled()
        return super().forward(x)


# --- the same mistakes in other words ---------------------------------------------------------------------------------


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class softmax_over_heads(Pieces):
    """The softmax ran over the heads, so that the heads shared out the weight of each pair of tokens among them.

    Each query of each head shares out a weight of 1 among the keys, and the keys are counted by the last dimension.

    Along which dimension of `(B, H, T, T)` must the weights sum to 1?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.masked_fill(~self.visible[:length, :length], -torch.inf).softmax(dim=1)


@another_form(softmax_over_heads)
class softmax_over_heads_then_masked(Pieces):
    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.softmax(dim=1) * self.visible[:length, :length]


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class softmax_over_the_batch(Pieces):
    """The softmax ran over the batch, so that the sequences shared out the weight of each pair of tokens among them.

    The sequences of a batch have nothing to do with each other. Each query shares out a weight of 1 among the keys.

    Along which dimension of `(B, H, T, T)` must the weights sum to 1?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.masked_fill(~self.visible[:length, :length], -torch.inf).softmax(dim=0)


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws")
class heads_and_batch_mixed(Pieces):
    """The heads and the batch were mixed up, so that one sequence got numbers of another.

    The shape is right and the numbers are not: what belongs to one sequence has to stay in its part of the batch.

    Which dimensions do your `view`, `transpose` and `reshape` touch, and is the batch among them?
    """

    def forward(self, x: Tensor) -> Tensor:
        self.check_length(x)
        return self.output(self.attend(*self.parts(self.c_attn(x))).transpose(0, 1).reshape(x.shape))


class _HeadsToHeads(Pieces):
    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_head, -1))

    def forward(self, x: Tensor) -> Tensor:
        self.check_length(x)
        return self.output(self.attend(*self.parts(self.c_attn(x))).flatten(2))


@another_form(heads_attend_to_heads)
class heads_attend_to_heads_unmasked(_HeadsToHeads):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1)


@another_form(heads_attend_to_heads)
class heads_attend_to_heads_under_the_mask_of_tokens(_HeadsToHeads):
    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        num_tokens = query.shape[1]
        scores = self.scores(query, key).masked_fill(~self.visible[:num_tokens, :num_tokens], -torch.inf)
        return self.attn_dropout(scores.softmax(dim=-1)) @ value


# --- two at once ------------------------------------------------------------------------------------------------------

SCALES = (scaled_by_all_heads, not_scaled)
ORDERS = (key_query_value_order, value_first_order, cut_into_heads_first, every_third_column)
MASKS = (no_mask, future_instead_of_past)
HEADS = (split_without_transpose, merged_without_transpose)
PAIRS = [
    *together(MASKS, SCALES),
    *together(ORDERS, SCALES),
    *together(HEADS, SCALES),
    *together(ORDERS, MASKS),
    *together(HEADS, MASKS),
    *together((split_without_transpose,), (merged_without_transpose,)),
    *together((softmax_over_queries, masked_after_softmax), (*SCALES, *HEADS)),
    *together((output_not_projected,), (*SCALES, *MASKS, merged_without_transpose)),
    *together((no_dropout_on_weights, no_dropout_on_output, weights_dropped_in_eval), (merged_without_transpose,)),
    *together((no_dropout_on_output, output_dropped_in_eval), (*SCALES, *MASKS)),
]
