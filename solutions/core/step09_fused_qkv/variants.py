"""Right ways of step 9 that are written differently; each gets full marks."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right

from grader.checks.catalogue import variant


@variant(
    replaces="CausalSelfAttention",
    trades="A kernel that never stores the scores is faster and smaller on a GPU; the weights can't be seen.",
)
class built_in_with_is_causal(nn.Module):
    """torch's own scaled_dot_product_attention with is_causal."""

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        assert n_embd % n_head == 0
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=bias)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias)
        self.resid_dropout = nn.Dropout(dropout)
        self.n_head, self.n_embd, self.block_size, self.dropout = n_head, n_embd, block_size, dropout

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        assert self.block_size >= T, f"{T} tokens"
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=None, dropout_p=self.dropout if self.training else 0, is_causal=True
        )
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


@variant(replaces="CausalSelfAttention")
class built_in_with_a_causal_bias(built_in_with_is_causal):
    """torch's own scaled_dot_product_attention with causal_lower_right as its mask."""

    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[1] <= self.block_size
        query, key, value = (
            part.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for part in self.c_attn(x).chunk(3, dim=-1)
        )
        bias, rate = causal_lower_right(x.shape[1], x.shape[1]), self.dropout if self.training else 0.0
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=rate)
        return self.resid_dropout(self.c_proj(context.transpose(1, 2).flatten(2)))


@variant(replaces="CausalSelfAttention")
class built_in_with_a_mask(nn.Module):
    """torch's own scaled_dot_product_attention with a boolean mask made on the fly; query, key and value by chunk."""

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        if n_embd // n_head * n_head != n_embd:
            raise ValueError("the heads do not fit")
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=bias)
        nn.init.normal_(self.c_attn.weight, std=0.02)
        self.n_head, self.limit, self.p = n_head, block_size, dropout

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[-2]
        if length > self.limit:
            raise ValueError(f"{length} tokens, at most {self.limit}")
        query, key, value = (
            part.unflatten(-1, (self.n_head, -1)).transpose(-3, -2) for part in self.c_attn(x).chunk(3, dim=-1)
        )
        position = torch.arange(length, device=x.device)
        visible = position[:, None] >= position[None, :]
        p = self.p if self.training else 0.0
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=visible, dropout_p=p)
        return F.dropout(self.c_proj(context.transpose(-3, -2).flatten(-2)), self.p, self.training)


@variant(replaces="CausalSelfAttention")
class triangle_of_ones_compared_with_zero(nn.Module):
    """A 4-d float buffer of ones, compared with 0; the root of a float32 tensor; the output is dropped in place."""

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        assert n_embd % n_head == 0
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=bias)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias)
        self.attn_dropout, self.resid_dropout = nn.Dropout(dropout), nn.Dropout(dropout, inplace=True)
        self.register_buffer("bias", torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size))
        self.n_head, self.n_embd = n_head, n_embd

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) / torch.sqrt(torch.tensor(k.size(-1), dtype=torch.float32))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = self.attn_dropout(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


@variant(replaces="CausalSelfAttention")
class five_dimensions_and_einsum(nn.Module):
    """The output of c_attn as (B, T, 3, H, d), einsum, an additive -1e9, own dropout by torch.rand."""

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        if n_embd % n_head:
            raise ValueError(f"{n_embd} / {n_head}")
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd, bias), nn.Linear(n_embd, n_embd, bias)
        self.register_buffer("penalty", torch.full((block_size, block_size), -1e9).triu(1), persistent=False)
        self.n_head, self.p = n_head, dropout

    def drop(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        return x * (torch.rand_like(x) >= self.p) / (1 - self.p)

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        if len(self.penalty) < T:
            raise ValueError(f"{T} > {len(self.penalty)}")
        query, key, value = self.c_attn(x).reshape(B, T, 3, self.n_head, -1).unbind(2)
        scores = torch.einsum("bihd,bjhd->bhij", query * query.shape[-1] ** -0.5, key)
        scores = scores + self.penalty[:T, :T].to(scores.dtype)
        weights = torch.exp(scores - scores.logsumexp(-1, keepdim=True))
        context = torch.einsum("bhij,bjhd->bihd", self.drop(weights), value)
        return self.drop(self.c_proj(context.reshape(x.shape)))


@variant(
    replaces="CausalSelfAttention",
    trades="The parts can be changed one by one; three small products keep a GPU less busy than one large one.",
)
class three_multiplications(nn.Module):
    """The weight of c_attn is cut in three, and each head is computed in a loop."""

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        if n_embd % n_head:
            raise ValueError("unequal heads")
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=bias)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias)
        self.n_head, self.block_size, self.drop = n_head, block_size, nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        if length > self.block_size:
            raise IndexError("too long")
        biases = (None,) * 3 if self.c_attn.bias is None else self.c_attn.bias.chunk(3)
        parts = [F.linear(x, weight, b) for weight, b in zip(self.c_attn.weight.chunk(3), biases, strict=True)]
        hidden = x.new_ones(length, length).triu(1).bool()
        contexts = []
        for query, key, value in zip(*(part.chunk(self.n_head, -1) for part in parts), strict=True):
            scores = torch.bmm(query, key.mT).div_(math.sqrt(query.shape[-1]))
            scores.masked_fill_(hidden, torch.finfo(x.dtype).min)
            powers = (scores - scores.amax(-1, keepdim=True)).exp()
            contexts.append(self.drop(powers / (powers.sum(-1, keepdim=True) + 1e-12)) @ value)
        return self.drop(self.c_proj(torch.cat(contexts, dim=-1)))


@variant(replaces="fuse_qkv")
def stacked_and_flattened(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """Stacked on a new first dimension, which is then flattened into the rows."""
    return torch.stack((query_weight, key_weight, value_weight)).flatten(0, 1)


@variant(replaces="fuse_qkv")
def rows_written_into_a_new_tensor(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """Three slices of an empty tensor are filled."""
    width = query_weight.shape[0]
    fused = query_weight.new_empty(3 * width, width)
    fused[:width] = query_weight
    fused[width : 2 * width] = key_weight
    fused[2 * width :] = value_weight
    return fused


@variant(replaces="fuse_qkv")
def concatenated_as_columns_and_turned(query_weight: Tensor, key_weight: Tensor, value_weight: Tensor) -> Tensor:
    """The transposed weights next to each other, transposed back: right, and not contiguous."""
    return torch.hstack([query_weight.T, key_weight.T, value_weight.T]).T
