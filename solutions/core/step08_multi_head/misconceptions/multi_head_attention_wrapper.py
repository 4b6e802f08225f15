"""What learners get wrong in `MultiHeadAttentionWrapper`, each with the check that catches it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.core.step06_causal_attention.reference import CausalAttention
from solutions.core.step08_multi_head import reference

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


@misconception(replaces="MultiHeadAttentionWrapper", caught_by="test_wrapper_concatenates", misses_the_point=True)
class first_head_repeated(reference.MultiHeadAttentionWrapper):
    """The output of the first head was repeated, once for each head, and the other heads were never called.

    Their parameters are there, and no gradient reaches them.

    Which of the heads in the list does your `forward` call?
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.heads[0](x)] * len(self.heads), dim=-1)
