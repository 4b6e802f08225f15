"""Right ways of step 3 that are written differently; each gets full marks."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import variant

Pair = tuple[Tensor, Tensor]


@variant(replaces="attention")
def annotated_transformer(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The tutorials' way: -1e9 where the mask is 0, functional softmax."""
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = F.softmax(scores, dim=-1)
    return torch.matmul(p_attn, value), p_attn


@variant(
    replaces="attention",
    trades="A finite number hides as well while scores stay small; huge scores would let hidden positions through.",
)
def einsum_and_additive_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """einsum throughout, the query scaled first, an additive mask of -1e5."""
    scores = torch.einsum("...qd,...kd->...qk", query * query.shape[-1] ** -0.5, key)
    if mask is not None:
        scores = scores + (~mask).to(scores.dtype) * -1e5
    weights = scores.softmax(-1)
    return torch.einsum("...qk,...kv->...qv", weights, value), weights


@variant(replaces="attention")
def dtype_minimum_and_logsumexp(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """torch.where with the dtype's minimum, exp(x - logsumexp(x)), the scale as a tensor."""
    scores = query @ key.mT / torch.sqrt(torch.tensor(float(key.shape[-1])))
    if mask is not None:
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    weights = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))
    return weights @ value, weights


@variant(
    replaces="attention",
    trades="Only one row of scores is in memory at a time; the loop in Python makes it slow.",
)
def one_query_at_a_time(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """A loop over the queries; the weights come out in another layout, the pair as a list."""
    rows = []
    if mask is not None:
        mask = mask.expand(*query.shape[:-1], key.shape[-2])
    for i in range(query.shape[-2]):
        score = (key * query[..., i : i + 1, :]).sum(-1) / math.sqrt(query.shape[-1])
        if mask is not None:
            score = score.masked_fill(mask[..., i, :].logical_not(), float("-inf"))
        rows.append(torch.softmax(score, -1))
    weights = torch.stack(rows, 0).movedim(0, -2)
    context = (weights.unsqueeze(-1) * value.unsqueeze(-3)).sum(-2)
    return context, weights


@variant(replaces="attention")
def flattened_baddbmm(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """One batch dimension, baddbmm onto an additive mask, and back."""
    leading, t_q, t_k = query.shape[:-2], query.shape[-2], key.shape[-2]
    bias = torch.zeros(*leading, t_q, t_k, dtype=query.dtype, device=query.device)
    if mask is not None:
        bias.masked_fill_(~mask, float("-inf"))
    scores = torch.baddbmm(
        bias.view(-1, t_q, t_k),
        query.reshape(-1, t_q, query.shape[-1]),
        key.reshape(-1, t_k, key.shape[-1]).transpose(1, 2),
        alpha=1 / math.sqrt(query.shape[-1]),
    )
    weights = F.softmax(scores, dim=2)
    context = torch.bmm(weights, value.reshape(-1, t_k, value.shape[-1]))
    return context.view(*leading, t_q, -1), weights.view(*leading, t_q, t_k)


@variant(replaces="attention")
def divided_at_the_end(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """The softmax by hand, hidden exponentials zeroed, rows divided by their sum."""
    scores = query @ key.transpose(-1, -2) / key.shape[-1] ** 0.5
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    if mask is not None:
        # Subtracting the largest visible score keeps at least one exponential at 1.
        top = scores.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True)
        powers = (scores - top).masked_fill(~mask, -torch.inf).exp()
    total = powers.sum(-1, keepdim=True)
    return powers @ value / total, powers / total


@variant(replaces=("attention", "SelfAttention"))
def guarded_sum() -> dict[str, object]:
    """A softmax by hand in both, with a number added to the sum that is small beside every sum."""

    def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        powers = (scores - scores.amax(-1, keepdim=True)).exp()
        weights = powers / (powers.sum(-1, keepdim=True) + 1e-12)
        return weights @ value, weights

    class SelfAttention(nn.Module):
        def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
            super().__init__()
            self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, qkv_bias) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            return attention(self.W_query(x), self.W_key(x), self.W_value(x))[0]

    return {"attention": attention, "SelfAttention": SelfAttention}


@variant(replaces="SelfAttention")
class keys_first(nn.Module):
    """The book's way: other order of creation, keys first, attn_scores, and a small initialisation."""

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__()
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        keys, queries, values = self.W_key(x), self.W_query(x), self.W_value(x)
        attn_scores = queries @ keys.transpose(-2, -1)
        attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
        return attn_weights @ values


@variant(replaces="SelfAttention")
class width_from_the_first_tokens(nn.Module):
    """Lazy layers, which get the width of the tokens with their first parameters or at their first call."""

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__()
        self.W_query = nn.LazyLinear(d_out, bias=qkv_bias)
        self.W_key = nn.LazyLinear(d_out, bias=qkv_bias)
        self.W_value = nn.LazyLinear(d_out, bias=qkv_bias)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)
        return torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]), dim=-1) @ value


@variant(replaces="SelfAttention")
class one_product_for_all_three(nn.Module):
    """The three weights are stacked at each call; the scale is a buffer; F.linear, chunk and einsum."""

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, qkv_bias) for _ in range(3))
        self.register_buffer("scale", torch.tensor(d_out**-0.5), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        layers = (self.W_query, self.W_key, self.W_value)
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers]) if layers[0].bias is not None else None
        query, key, value = F.linear(x, weight, bias).chunk(3, dim=-1)
        weights = (torch.einsum("...id,...jd->...ij", query, key) * self.scale).softmax(dim=-1)
        return torch.einsum("...ij,...jd->...id", weights, value)


@variant(replaces=("attention", "SelfAttention"))
def one_inside_the_other() -> dict[str, object]:
    """`SelfAttention` inherits from a helper, its layers come from a loop, and `attention` recurses over the batch."""

    def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> list[Tensor] | Pair:
        if query.dim() > 2:
            if mask is not None:
                mask = mask.broadcast_to(*query.shape[:-1], key.shape[-2])
            masks = mask if mask is not None else [None] * len(query)
            pairs = [attention(*parts) for parts in zip(query, key, value, masks, strict=True)]
            return torch.stack([context for context, _ in pairs]), torch.stack([weights for _, weights in pairs])
        scores = F.linear(query, key).div(math.sqrt(query.shape[1]))
        if mask is not None:
            scores[~mask.expand_as(scores)] = -torch.inf
        weights = nn.Softmax(dim=1)(scores)
        return weights.mm(value), weights

    class Base(nn.Module):
        def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
            super().__init__()
            for name in ("W_value", "W_query", "W_key"):
                setattr(self, name, nn.Linear(d_in, d_out, bias=qkv_bias))

    class SelfAttention(Base):
        def forward(self, x: Tensor) -> Tensor:
            return attention(self.W_query(x), self.W_key(x), self.W_value(x))[0]

    return {"attention": attention, "SelfAttention": SelfAttention}
