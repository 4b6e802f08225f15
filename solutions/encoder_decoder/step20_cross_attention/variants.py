"""Right ways of step 20 that are written differently; each gets full marks."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import variant


@variant(replaces="MultiHeadAttention")
class tutorial_names(nn.Module):
    """The tutorial's d_k and methods, -1e9, the weights returned after dropout."""

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        assert d_model % n_heads == 0
        self.d_model, self.n_heads, self.d_k = d_model, n_heads, d_model // n_heads
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, d_model, bias=False)
        self.W_v = nn.Linear(d_model, d_model, bias=False)
        self.W_o = nn.Linear(d_model, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def scaled_dot_product(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        scores = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = self.dropout(F.softmax(scores, dim=-1))
        return torch.matmul(weights, V), weights

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        batch_size = query.size(0)
        Q = self.W_q(query).view(batch_size, -1, self.n_heads, self.d_k).transpose(1, 2)
        K = self.W_k(key).view(batch_size, -1, self.n_heads, self.d_k).transpose(1, 2)
        V = self.W_v(value).view(batch_size, -1, self.n_heads, self.d_k).transpose(1, 2)
        output, weights = self.scaled_dot_product(Q, K, V, mask)
        output = output.transpose(1, 2).contiguous().view(batch_size, -1, self.d_model)
        return self.W_o(output), weights


@variant(
    replaces="MultiHeadAttention",
    trades="The scores of only one head are in memory at a time; the heads no longer run in parallel.",
)
class one_head_at_a_time(nn.Module):
    """A loop over the heads, slices of the columns, the mask expanded first; the outputs of W_o summed."""

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError("unequal heads")
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        self.H, self.p = n_heads, dropout

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        B, T_q, T_k, d = query.shape[0], query.shape[1], key.shape[1], query.shape[2] // self.H
        shown = None if mask is None else mask.expand(B, self.H, T_q, T_k)
        output, all_weights = torch.zeros_like(query), []
        for h in range(self.H):
            columns = slice(h * d, (h + 1) * d)
            q, k, v = (
                F.linear(x, layer.weight[columns])
                for x, layer in ((query, self.W_q), (key, self.W_k), (value, self.W_v))
            )
            scores = torch.bmm(q, k.mT) * d**-0.5
            if shown is not None:
                scores = scores.masked_fill(shown[:, h].logical_not(), float("-inf"))
            weights = scores.softmax(-1)
            all_weights.append(weights)
            context = F.dropout(weights, self.p, self.training) @ v
            output = output + F.linear(context, self.W_o.weight[:, columns])
        return output, torch.stack(all_weights, dim=1)


@variant(replaces="MultiHeadAttention")
class einsum_and_own_softmax(nn.Module):
    """einsum throughout, heads never transposed, exponentials with a guard, dropout by torch.rand; it gives a list."""

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.d = d_model // n_heads
        if self.d * n_heads != d_model:
            raise ValueError(f"{d_model} / {n_heads}")
        self.W_o = nn.Linear(d_model, d_model, bias=False)
        self.W_v = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, d_model, bias=False)
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.n_heads, self.p = n_heads, dropout

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        q, k, v = (
            layer(x).unflatten(-1, (self.n_heads, self.d))
            for layer, x in ((self.W_q, query), (self.W_k, key), (self.W_v, value))
        )
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / self.d**0.5
        if mask is not None:
            scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
        powers = torch.exp(scores - scores.amax(-1, keepdim=True))
        weights = powers / (powers.sum(-1, keepdim=True) + 1e-12)
        kept = weights
        if self.training and self.p > 0:
            kept = weights * (torch.rand_like(weights) >= self.p) / (1 - self.p)
        return [self.W_o(torch.einsum("bhqk,bkhd->bqhd", kept, v).flatten(2)), weights]


@variant(
    replaces="MultiHeadAttention",
    trades="One batched product also adds the mask; no shape shows any more what is a head and what a sequence.",
)
class heads_in_the_batch(nn.Module):
    """Heads folded into the batch and baddbmm, with the mask as a bias of the same shape."""

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        assert not d_model % n_heads, "d_model must be divisible by n_heads"
        for name in ("W_q", "W_k", "W_v", "W_o"):
            self.add_module(name, nn.Linear(d_model, d_model, bias=False))
        self.heads, self.drop = n_heads, nn.Dropout(dropout)

    def fold(self, x: Tensor) -> Tensor:
        return torch.cat(x.chunk(self.heads, dim=-1))  # (H * B, T, d)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = self.fold(self.W_q(query)), self.fold(self.W_k(key)), self.fold(self.W_v(value))
        bias = query.new_zeros(query.shape[0], self.heads, query.shape[1], key.shape[1])
        if mask is not None:
            bias = bias.masked_fill(~mask, -torch.inf)
        scores = torch.baddbmm(bias.transpose(0, 1).flatten(0, 1), q, k.mT, alpha=1 / math.sqrt(q.shape[-1]))
        weights = torch.softmax(scores, dim=2)
        context = torch.bmm(self.drop(weights), v)
        merged = torch.cat(context.chunk(self.heads), dim=-1)
        return self.W_o(merged), weights.unflatten(0, (self.heads, -1)).transpose(0, 1)


@variant(replaces="MultiHeadAttention")
class zeroed_and_renormalised(nn.Module):
    """Softmax over everything, then hidden weights zeroed and rows divided by their sum; the query is scaled."""

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        if d_model // n_heads * n_heads != d_model:
            raise AssertionError(n_heads)
        self.W_q = nn.Linear(d_model, d_model, False)
        self.W_k = nn.Linear(d_model, d_model, False)
        self.W_v = nn.Linear(d_model, d_model, False)
        self.W_o = nn.Linear(d_model, d_model, False)
        self.attention_dropout, self.n_heads, self.d_model = nn.Dropout(p=dropout), n_heads, d_model

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        N, d = query.shape[0], self.d_model // self.n_heads
        q = (self.W_q(query) / math.sqrt(d)).reshape(N, query.shape[1], self.n_heads, d).permute(0, 2, 1, 3)
        k = self.W_k(key).reshape(N, key.shape[1], self.n_heads, d).permute(0, 2, 3, 1)
        v = self.W_v(value).reshape(N, value.shape[1], self.n_heads, d).permute(0, 2, 1, 3)
        weights = (q @ k).softmax(dim=-1)
        if mask is not None:
            weights = weights * mask
            weights = weights / weights.sum(dim=-1, keepdim=True)
        context = (self.attention_dropout(weights) @ v).permute(0, 2, 1, 3)
        return self.W_o(context.reshape(query.shape)), weights


@variant(replaces="padding_mask")
def unsqueezed_twice(token_ids: Tensor, pad_id: int) -> Tensor:
    """Two unsqueezes behind a comparison by `ne`."""
    return token_ids.ne(pad_id).unsqueeze(1).unsqueeze(2)


@variant(replaces="padding_mask")
def equal_and_not(token_ids: Tensor, pad_id: int) -> Tensor:
    """The padding found and turned round, then viewed."""
    return torch.logical_not(token_ids == pad_id).reshape(token_ids.shape[0], 1, 1, -1)


@variant(replaces="padding_mask")
def difference_as_boolean(token_ids: Tensor, pad_id: int) -> Tensor:
    """What is left of the ids without the padding's, as booleans."""
    return (token_ids - pad_id).bool()[:, None, None]
