"""Other right ways to do step 17: none of them may lose a point."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import variant
from solutions.positions.step17_relative import reference

Device = torch.device | str | None


@variant(replaces="relative_positions")
def row_by_row(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
    """Each row is a clipped range, and the rows are stacked."""
    rows = [
        torch.arange(max_distance - i, max_distance - i + num_tokens, device=device).clip(0, 2 * max_distance)
        for i in range(num_tokens)
    ]
    return torch.stack(rows)


@variant(replaces="relative_positions")
def minimum_and_maximum(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
    """Python's own numbers, one pair of tokens after the other."""
    rows = [
        [min(max(j - i, -max_distance), max_distance) + max_distance for j in range(num_tokens)]
        for i in range(num_tokens)
    ]
    return torch.tensor(rows, dtype=torch.long, device=device)


class Layers(nn.Module):
    """The layers of the contract."""

    def __init__(self, d_model: int, num_heads: int, max_distance: int) -> None:
        super().__init__()
        self.num_heads, self.max_distance = num_heads, max_distance
        self.d = d_model // num_heads
        assert self.d * num_heads == d_model
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))
        self.out_proj = nn.Linear(d_model, d_model)
        self.relative_key, self.relative_value = (nn.Embedding(2 * max_distance + 1, self.d) for _ in range(2))


@variant(
    replaces="RelativeSelfAttention",
    trades="It is the sentence of the paper, word for word; B × H × T × T × d numbers are held at once.",
)
class a_key_for_every_query(Layers):
    """Keys and values of their own for every query, as the sentence says, by einsum."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        B, T, D = x.shape
        query, key, value = (
            layer(x).reshape(B, T, self.num_heads, self.d) for layer in (self.W_query, self.W_key, self.W_value)
        )
        index = reference.relative_positions(T, self.max_distance, x.device)
        keys = key[:, None] + self.relative_key.weight[index][None, :, :, None]  # (B, T, T, H, d)
        values = value[:, None] + self.relative_value.weight[index][None, :, :, None]
        scores = torch.einsum("bihd,bijhd->bhij", query, keys) * self.d**-0.5
        if mask is not None:
            scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
        weights = F.softmax(scores, dim=-1)
        return self.out_proj(torch.einsum("bhij,bijhd->bihd", weights, values).reshape(B, T, D))


@variant(
    replaces="RelativeSelfAttention",
    trades="Each query meets 2k + 1 vectors in place of T, far less in long texts; gather is harder to read.",
)
class scores_of_every_distance(Layers):
    """Each query meets each row of the table once; gather puts the scores where they belong, a sum the weights back."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        B, T, _ = x.shape
        query, key, value = (
            layer(x).view(B, T, self.num_heads, self.d).transpose(1, 2)
            for layer in (self.W_query, self.W_key, self.W_value)
        )
        query = query / math.sqrt(self.d)
        index = reference.relative_positions(T, self.max_distance, x.device).expand(B, self.num_heads, T, T)
        of_distance = query @ self.relative_key.weight.T  # (B, H, T, 2k + 1)
        scores = query @ key.mT + of_distance.gather(-1, index)
        if mask is not None:
            scores = scores + torch.zeros_like(mask, dtype=x.dtype).masked_fill(mask.logical_not(), float("-inf"))
        weights = scores.softmax(-1)
        shares = torch.zeros_like(of_distance).scatter_add(-1, index, weights)
        context = weights @ value + shares @ self.relative_value.weight
        return self.out_proj(context.transpose(1, 2).flatten(2))


@variant(
    replaces="RelativeSelfAttention",
    trades="torch's kernel does the softmax; a float mask keeps it from the fastest one, and it is called twice.",
)
class torchs_attention_with_a_bias(Layers):
    """torch's own attention takes the relative scores as a float mask; its weights come from a second call."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        B, T, D = x.shape
        query, key, value = (
            layer(x).unflatten(-1, (self.num_heads, self.d)).permute(0, 2, 1, 3)
            for layer in (self.W_query, self.W_key, self.W_value)
        )
        index = reference.relative_positions(T, self.max_distance, x.device)
        bias = (query.unsqueeze(-2) * self.relative_key(index)).sum(-1) / math.sqrt(self.d)
        if mask is not None:
            bias = bias.masked_fill(~mask, float("-inf"))
        content = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        one = torch.eye(T, dtype=x.dtype, device=x.device).expand(B, self.num_heads, T, T)
        weights = F.scaled_dot_product_attention(query, key, one, attn_mask=bias)
        relative = (weights.unsqueeze(-1) * self.relative_value(index)).sum(-2)
        return self.out_proj((content + relative).permute(0, 2, 1, 3).reshape(B, T, D))


@variant(replaces="RelativeSelfAttention")
class head_by_head(Layers):
    """A loop over the heads and over the queries."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        B, T, _ = x.shape
        if mask is not None:
            mask = mask.expand(B, self.num_heads, T, T)
        parts = [layer(x).chunk(self.num_heads, dim=-1) for layer in (self.W_query, self.W_key, self.W_value)]
        table_k, table_v = self.relative_key.weight, self.relative_value.weight
        index = reference.relative_positions(T, self.max_distance, device=x.device)
        contexts = []
        for head, (query, key, value) in enumerate(zip(*parts, strict=True)):
            rows = []
            for i in range(T):
                scores = ((key + table_k[index[i]]) * query[:, i : i + 1]).sum(-1) / self.d**0.5  # (B, T)
                if mask is not None:
                    scores = scores.masked_fill(~mask[:, head, i], -1e9)
                rows.append((scores.softmax(-1).unsqueeze(-1) * (value + table_v[index[i]])).sum(1))
            contexts.append(torch.stack(rows, 1))
        return self.out_proj(torch.cat(contexts, -1))


@variant(
    replaces="alibi_slopes",
    trades="Any number of heads in one recursion, as in the paper's code; it makes slopes only to throw them away.",
)
def slopes_of_the_authors(num_heads: int, device: Device = None) -> Tensor:
    """The recursion of the paper's code: a ratio, its powers, and every other one of twice as many heads."""

    def of_a_power(n: int) -> list[float]:
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    def slopes(n: int) -> list[float]:
        if math.log2(n).is_integer():
            return of_a_power(n)
        closest = 2 ** math.floor(math.log2(n))
        return of_a_power(closest) + slopes(2 * closest)[0::2][: n - closest]

    return torch.tensor(slopes(num_heads), device=device)


@variant(replaces="alibi_slopes")
def slopes_by_powers_of_two(num_heads: int, device: Device = None) -> Tensor:
    """Whole tensors of exponents, joined."""
    closest = 2 ** int(math.log2(num_heads))
    exponents = torch.arange(1, closest + 1, device=device) * (8 / closest)
    further = (2 * torch.arange(num_heads - closest, device=device) + 1) * (4 / closest)
    return torch.exp2(-torch.cat([exponents, further])).float()


@variant(replaces=("alibi_slopes", "alibi_bias", "alibi_attention"))
def alibi_by_rows() -> dict[str, object]:
    """A bias of slope · (j - i), minus infinity added above the diagonal, and torch's own attention."""

    def alibi_bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        far = torch.full((num_tokens, num_tokens), float("-inf"), device=device).triu(1)
        place = torch.arange(num_tokens, dtype=torch.float32, device=device)
        slopes = slopes_by_powers_of_two(num_heads, device).view(-1, 1, 1)
        return slopes * (place.view(1, -1) - place.view(-1, 1)) + far

    def alibi_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        bias = alibi_bias(query.size(1), query.size(2), query.device).type_as(query)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias)

    return {"alibi_slopes": slopes_by_powers_of_two, "alibi_bias": alibi_bias, "alibi_attention": alibi_attention}


@variant(replaces="alibi_bias")
def slopes_times_lower_triangle(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
    """Distances by a running sum, the future filled with minus infinity."""
    seen = torch.ones(num_tokens, num_tokens, device=device).tril()
    # From the right, each row counts how many visible keys follow.
    distance = seen.flip(-1).cumsum(-1).flip(-1) - 1
    bias = torch.einsum("h,ij->hij", reference.alibi_slopes(num_heads, device), -distance)
    return torch.where(seen.bool(), bias, float("-inf"))


@variant(
    replaces="alibi_attention",
    trades="A vector for each head in place of a matrix, as BLOOM has it; only the softmax makes the two the same.",
)
def bias_of_the_last_row(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """A bias of slope · j, which differs by one number a row and gives the same softmax, and a mask beside it."""
    T, d = query.shape[-2:]
    slopes = reference.alibi_slopes(query.shape[1], query.device)
    bias = slopes[:, None, None] * torch.arange(T, device=query.device)
    scores = (query / math.sqrt(d)) @ key.mT + (bias - bias[..., -1:]).to(query.dtype)
    future = torch.ones(T, T, dtype=torch.bool, device=query.device).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1) @ value
