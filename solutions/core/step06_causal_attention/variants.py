"""Right ways of step 6 that are written differently; each gets full marks."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import variant


@variant(replaces="CausalAttention")
class triu_buffer_filled_in_place(nn.Module):
    """A float mask of the future as a persistent buffer, filled in place, and no check of the length by hand."""

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__()
        self.d_out = d_out
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

    def forward(self, x: Tensor) -> Tensor:
        _, num_tokens, _ = x.shape
        keys, queries, values = self.W_key(x), self.W_query(x), self.W_value(x)
        attn_scores = queries @ keys.transpose(1, 2)
        attn_scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
        attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
        return self.dropout(attn_weights) @ values


@variant(
    replaces="CausalAttention",
    trades="No buffer is stored; the mask is made again at each call.",
)
class positions_compared_in_einsum(nn.Module):
    """The mask is made on the fly; einsum; the root of a float32 tensor; -1e9; other parameter order and start."""

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__()
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        for layer in (self.W_value, self.W_key, self.W_query):
            nn.init.normal_(layer.weight, std=0.02)
        self.context_length, self.p = context_length, dropout

    def forward(self, x: Tensor) -> Tensor:
        length = x.size(1)
        assert length <= self.context_length, "too long"
        position = torch.arange(length, device=x.device)
        hidden = position[None, :] > position[:, None]
        root = torch.sqrt(torch.tensor(self.W_key.out_features))
        scores = torch.einsum("bid,bjd->bij", self.W_query(x), self.W_key(x)) / root
        weights = F.softmax(scores.masked_fill(hidden, -1e9), dim=-1)
        weights = F.dropout(weights, self.p, self.training)
        return torch.einsum("bij,bjd->bid", weights, self.W_value(x))


@variant(replaces="CausalAttention")
class additive_mask_and_logsumexp(nn.Module):
    """An additive mask of the dtype's minimum, exp(x - logsumexp(x)), bare parameters in F.linear, own dropout."""

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3))
        self.context_length, self.p, self.width = context_length, dropout, d_out

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[-2]
        if length > self.context_length:
            raise IndexError(length)
        query, key, value = (
            F.linear(x, layer.weight, layer.bias) for layer in (self.W_query, self.W_key, self.W_value)
        )
        bias = torch.full((length, length), torch.finfo(x.dtype).min, dtype=x.dtype, device=x.device).triu(1)
        scores = torch.bmm(query / math.sqrt(self.width), key.mT) + bias
        weights = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))
        if self.training and self.p > 0:
            weights = weights * (torch.rand_like(weights) >= self.p) / (1 - self.p)
        return weights @ value


@variant(
    replaces="CausalAttention",
    trades="What would be hidden is never computed, about half of the products; a loop over tokens leaves a GPU idle.",
)
class one_token_at_a_time(nn.Module):
    """A loop over the tokens: each attends over a slice that ends at itself, so that there is no mask at all."""

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.drop, self.context_length = nn.Dropout(dropout), context_length

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > self.context_length:
            raise ValueError("too many tokens")
        query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)
        rows = []
        for token in range(x.shape[1]):
            scores = (query[:, token : token + 1] * key[:, : token + 1]).sum(-1) / math.sqrt(key.shape[-1])
            weights = self.drop(scores.softmax(-1))
            rows.append((weights.unsqueeze(-1) * value[:, : token + 1]).sum(1))
        return torch.stack(rows, dim=1)


@variant(replaces="CausalAttention")
class zeroed_and_renormalised(nn.Module):
    """Softmax over everything, then the hidden weights zeroed and the rows divided by their sum; feature first."""

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("past", torch.tril(torch.ones(context_length, context_length)), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        past = self.past[: x.shape[1], : x.shape[1]]
        scores = self.W_query(x) @ self.W_key(x).transpose(1, 2) / self.W_key.out_features**0.5
        weights = scores.softmax(-1) * past
        weights = self.drop(weights / weights.sum(-1, keepdim=True))
        return (self.W_value(x).transpose(1, 2) @ weights.transpose(1, 2)).transpose(1, 2)


@variant(replaces="CausalAttention")
class pieces_of_earlier_steps(nn.Module):
    """The module is put together from plain functions, as steps 1 to 5 write them."""

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, qkv_bias)
        self.context_length, self.p = context_length, dropout

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        if length > self.context_length:
            raise ValueError(f"{length} > {self.context_length}")
        query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = torch.baddbmm(
            x.new_zeros(x.shape[0], length, length), query, key.mT, beta=0, alpha=1 / math.sqrt(key.shape[-1])
        )
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        scores = torch.where(mask, scores, torch.full_like(scores, -1e5))
        shifted = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
        weights = shifted / (shifted.sum(dim=-1, keepdim=True) + 1e-12)
        if self.training:
            keep = torch.bernoulli(torch.full_like(weights, 1 - self.p))
            weights = weights * keep / (1 - self.p) if self.p < 1 else weights * 0
        return weights @ value
