"""What learners get wrong in `MultiHeadAttention`, each with the check that catches it."""

import torch
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.core.step08_multi_head.misconceptions.pieces import Pieces

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


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class viewed_after_transpose(Pieces):
    """The heads were merged by `view`, right after `transpose`.

    `transpose` only changes the order in which memory is read, and `view` needs the numbers to lie in order.

    Which relative of `view` copies where it must, or which method puts the numbers in order first?
    """

    def merge(self, context: Tensor) -> Tensor:
        batch, num_heads, num_tokens, d = context.shape
        return context.transpose(1, 2).view(batch, num_tokens, num_heads * d)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class qkv_bias_always_on(Pieces):
    """The layers of query, key and value had a bias, also when `qkv_bias` was False.

    The caller decides with `qkv_bias`, and `nn.Linear` has a bias unless it is told otherwise.

    Which argument of `nn.Linear` should `qkv_bias` be handed to?
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__(d_in, d_out, context_length, dropout, num_heads, qkv_bias=True)


@another_form(output_projection_without_bias)
class output_projection_never_with_a_bias(Pieces):
    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__(d_in, d_out, context_length, dropout, num_heads, qkv_bias)
        self.out_proj.bias = None  # no new layer: the numbers drawn for the layers stay the same


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class qkv_bias_never_on(Pieces):
    """The layers of query, key and value had no bias, also when `qkv_bias` was True.

    The caller decides with `qkv_bias`, and a state dict with these biases does not fit.

    Which argument of `nn.Linear` should `qkv_bias` be handed to?
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__(d_in, d_out, context_length, dropout, num_heads, qkv_bias=False)
