"""What learners get wrong in `CausalSelfAttention`, each with the check that catches it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.core.step09_fused_qkv import reference
from solutions.core.step09_fused_qkv.misconceptions.pieces import Pieces

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


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class one_third_taken_twice(Pieces):
    """One third of what `c_attn` gives was used twice, and another not at all.

    The third that is left out never learns, and two of query, key and value are always the same.

    Which columns does each of your three slices take?
    """

    def parts(self, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, _key, value = super().parts(fused)
        return query, query, value


@another_form(one_third_taken_twice)
class key_taken_as_value(Pieces):
    def parts(self, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, _value = super().parts(fused)
        return query, key, key


@another_form(one_third_taken_twice)
class query_taken_as_value(Pieces):
    def parts(self, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, _value = super().parts(fused)
        return query, key, query


@another_form(one_third_taken_twice)
class value_taken_as_key(Pieces):
    def parts(self, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, _key, value = super().parts(fused)
        return query, value, value


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
        with torch.random.fork_rng(devices=[]):  # what is drawn for the layers is as if they were made once
            super().__init__(n_embd, n_head, block_size, dropout, bias)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias)


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


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws", misses_the_point=True)
class columns_interleaved(Pieces):
    """Head h got every H-th column of query, key and value, not a run of d columns next to each other.

    GPT-2's weights count on runs: the first d columns are the first head's. Split as `(d, H)` instead of `(H, d)`, the
    columns go round in turn.

    When D columns become two dimensions, which of the two must come first?
    """

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.n_head)).permute(0, 3, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.check_length(x)
        return self.output(self.attend(*self.parts(self.c_attn(x))).permute(0, 2, 3, 1).flatten(2))


@another_form(columns_interleaved)
class columns_interleaved_once(Pieces):
    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.n_head)).permute(0, 3, 1, 2)


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws")
class viewed_after_transpose(Pieces):
    """The heads were merged by `view`, right after `transpose`.

    `transpose` only changes the order in which memory is read, and `view` needs the numbers to lie in order.

    Which relative of `view` copies where it must, or which method puts the numbers in order first?
    """

    def forward(self, x: Tensor) -> Tensor:
        self.check_length(x)
        return self.output(self.attend(*self.parts(self.c_attn(x))).transpose(1, 2).view(x.shape))


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws")
class one_layer_has_always_a_bias(Pieces):
    """One of the two linear layers had a bias, also when `bias` was False.

    In GPT-2's layout `bias` speaks of both layers: they both have one, or neither of them has.

    Do both of your `nn.Linear` get the argument `bias`?
    """

    biases = (False, True)

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        with torch.random.fork_rng(devices=[]):  # what is drawn for the layers is as if they were made once
            super().__init__(n_embd, n_head, block_size, dropout, bias)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=bias or self.biases[0])
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias or self.biases[1])


@another_form(one_layer_has_always_a_bias)
class fused_layer_has_always_a_bias(one_layer_has_always_a_bias):
    biases = (True, False)
