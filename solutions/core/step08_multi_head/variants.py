"""Right ways of step 8 that are written differently; each gets full marks."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import variant
from solutions.core.step06_causal_attention.reference import CausalAttention


class OwnHead(nn.Module):
    """A head of causal attention that is not step 6's class: additive mask made on the fly, own parameter order."""

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool) -> None:
        super().__init__()
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.p, self.limit = dropout, context_length

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > self.limit:
            raise ValueError(f"{x.shape[1]} tokens, at most {self.limit}")
        bias = torch.full((x.shape[1], x.shape[1]), -1e9, dtype=x.dtype, device=x.device).triu(1)
        scores = self.W_query(x) @ self.W_key(x).mT * self.W_key.out_features**-0.5
        return F.dropout((scores + bias).softmax(-1), self.p, self.training) @ self.W_value(x)


class AnyLength(CausalAttention):
    """A head whose mask is as long as its tokens."""

    def forward(self, x: Tensor) -> Tensor:
        """The context of each token, however many there are."""
        query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)
        visible = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])
        context: Tensor = self.dropout(scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)) @ value
        return context


@variant(replaces="MultiHeadAttentionWrapper")
class heads_of_any_length(nn.Module):
    """Heads that look at no length: this step names too many tokens as wrong for MultiHeadAttention alone."""

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        heads = (AnyLength(d_in, d_out, context_length, dropout, qkv_bias) for _ in range(num_heads))
        self.heads = nn.ModuleList(heads)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([head(x) for head in self.heads], dim=-1)


@variant(replaces="MultiHeadAttentionWrapper")
class own_heads_in_a_loop(nn.Module):
    """The heads are another class with the same parameter names, and the outputs fill a tensor slice by slice."""

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        self.heads = nn.ModuleList()
        for _ in range(num_heads):
            self.heads.append(OwnHead(d_in, d_out, context_length, dropout, qkv_bias))
        self.width = d_out

    def forward(self, x: Tensor) -> Tensor:
        result = x.new_empty(x.shape[0], x.shape[1], len(self.heads) * self.width)
        for number, head in enumerate(self.heads):
            result[..., number * self.width : (number + 1) * self.width] = head(x)
        return result


@variant(replaces="MultiHeadAttentionWrapper")
class heads_stacked_and_flattened(nn.Module):
    """The heads of step 6, stacked on a new dimension that is flattened into the last one."""

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        heads = [CausalAttention(d_in, d_out, context_length, dropout, qkv_bias=qkv_bias) for _ in range(num_heads)]
        self.heads = nn.ModuleList(heads)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([head(x) for head in self.heads], dim=-2).flatten(-2)


@variant(replaces="MultiHeadAttention")
class triu_buffer_filled_in_place(nn.Module):
    """A float mask of the future as a persistent buffer, filled in place; an assert, and no check of the length."""

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        assert d_out % num_heads == 0, "d_out must be divisible by num_heads"
        self.d_out, self.num_heads, self.head_dim = d_out, num_heads, d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

    def forward(self, x: Tensor) -> Tensor:
        b, num_tokens, _ = x.shape
        keys = self.W_key(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
        values = self.W_value(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
        queries = self.W_query(x).view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
        attn_scores = queries @ keys.transpose(2, 3)
        attn_scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
        attn_weights = self.dropout(torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1))
        context_vec = (attn_weights @ values).transpose(1, 2)
        return self.out_proj(context_vec.contiguous().view(b, num_tokens, self.d_out))


@variant(
    replaces="MultiHeadAttention",
    trades="einsum names the dimension of the heads, so nothing is transposed; its reader has to know einsum.",
)
class einsum_without_transposes(nn.Module):
    """einsum names every dimension; the root of a float32 tensor; positions are compared; another parameter order."""

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        if d_out // num_heads * num_heads != d_out:
            raise ValueError("the heads do not fit")
        self.out_proj = nn.Linear(d_out, d_out)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        nn.init.zeros_(self.out_proj.bias)
        nn.init.xavier_uniform_(self.W_query.weight)
        self.num_heads, self.limit, self.p = num_heads, context_length, dropout

    def forward(self, x: Tensor) -> Tensor:
        length = x.size(1)
        if length > self.limit:
            raise RuntimeError(f"{length} tokens")
        query, key, value = (
            layer(x).unflatten(-1, (self.num_heads, -1)) for layer in (self.W_query, self.W_key, self.W_value)
        )
        scores = torch.einsum("bihd,bjhd->bhij", query, key) / torch.sqrt(torch.tensor(float(query.shape[-1])))
        position = torch.arange(length, device=x.device)
        scores = torch.where(position[:, None] >= position, scores, torch.finfo(scores.dtype).min)
        weights = F.dropout(torch.exp(scores - scores.logsumexp(-1, keepdim=True)), self.p, self.training)
        return self.out_proj(torch.einsum("bhij,bjhd->bihd", weights, value).flatten(2))


@variant(
    replaces="MultiHeadAttention",
    trades="The scores of only one head are in memory at a time; the heads no longer run in parallel.",
)
class one_head_after_the_other(nn.Module):
    """A loop over the heads, each on its slice of the columns; each head's part of out_proj is added up."""

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        if d_out % num_heads:
            raise ValueError(f"{d_out} / {num_heads}")
        self.W_query = nn.Linear(d_in, d_out, qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.drop, self.width = nn.Dropout(dropout), d_out // num_heads
        self.register_buffer("hidden", torch.ones(context_length, context_length).triu(1) == 1, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden[: x.shape[1], : x.shape[1]]
        if hidden.shape[0] < x.shape[1]:
            raise ValueError("too many tokens")
        output = self.out_proj.bias
        for start in range(0, self.out_proj.in_features, self.width):
            columns = slice(start, start + self.width)
            query, key, value = (
                F.linear(x, layer.weight[columns], None if layer.bias is None else layer.bias[columns])
                for layer in (self.W_query, self.W_key, self.W_value)
            )
            scores = (query / self.width**0.5) @ key.transpose(1, 2)
            hidden_away = scores.masked_fill(hidden, -1e5)
            powers = (hidden_away - hidden_away.amax(-1, keepdim=True)).exp()
            weights = self.drop(powers / (powers.sum(-1, keepdim=True) + 1e-12))
            output = output + F.linear(weights @ value, self.out_proj.weight[:, columns])
        return output


@variant(replaces="MultiHeadAttention")
class heads_folded_into_the_batch(nn.Module):
    """Heads and sequences share one dimension of B * H, for torch.baddbmm; dropout by torch.rand."""

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3))
        self.out_proj = nn.Linear(d_out, d_out)
        self.num_heads, self.context_length, self.p = num_heads, context_length, dropout

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        if length > self.context_length:
            raise ValueError(length)
        width, rest = divmod(self.out_proj.in_features, self.num_heads)
        if rest:
            raise ValueError("the heads do not fit")
        query, key, value = (
            layer(x).reshape(batch, length, self.num_heads, width).permute(0, 2, 1, 3).reshape(-1, length, width)
            for layer in (self.W_query, self.W_key, self.W_value)
        )
        bias = torch.zeros(length, length, dtype=x.dtype, device=x.device)
        bias = bias.masked_fill(torch.ones_like(bias, dtype=torch.bool).triu(1), -torch.inf)
        weights = torch.baddbmm(bias.expand(len(query), -1, -1), query, key.mT, alpha=1 / math.sqrt(width)).softmax(-1)
        if self.training:
            weights = weights * (torch.rand_like(weights) >= self.p).to(weights.dtype) / (1 - self.p)
        context = torch.bmm(weights, value).view(batch, self.num_heads, length, width)
        return self.out_proj(context.permute(0, 2, 1, 3).flatten(start_dim=2))
