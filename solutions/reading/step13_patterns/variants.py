"""Right ways of step 13 that differ from the reference."""

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import variant

Device = torch.device | str | None


@variant(replaces="attention_diagonal")
def diagonal_filled(num_tokens: int, device: Device = None) -> Tensor:
    """A matrix of zeros whose diagonal is filled."""
    return torch.zeros(num_tokens, num_tokens, device=device).fill_diagonal_(1.0)


@variant(replaces="attention_uniform")
def softmax_of_equal_scores(num_tokens: int, device: Device = None) -> Tensor:
    """The softmax of scores that are all 0."""
    return torch.zeros(num_tokens, num_tokens, device=device).softmax(dim=-1)


@variant(replaces="attention_uniform")
def expanded_row(num_tokens: int, device: Device = None) -> Tensor:
    """One row, expanded without a copy."""
    return (torch.ones(num_tokens, device=device) / num_tokens).expand(num_tokens, num_tokens)


@variant(replaces="attention_first")
def one_hot_column(num_tokens: int, device: Device = None) -> Tensor:
    """One-hot rows of class 0."""
    return F.one_hot(torch.zeros(num_tokens, dtype=torch.long, device=device), num_tokens).float()


@variant(
    replaces="attention_causal",
    trades="It is what attention itself does with equal scores; an exponential and a sum for a number you know.",
)
def softmax_under_the_mask(num_tokens: int, device: Device = None) -> Tensor:
    """The softmax of equal scores under a causal mask."""
    future = torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device).triu(1)
    return torch.zeros(num_tokens, num_tokens, device=device).masked_fill(future, -torch.inf).softmax(dim=-1)


@variant(replaces="attention_causal")
def causal_row_by_row(num_tokens: int, device: Device = None) -> Tensor:
    """A loop over the rows."""
    weights = torch.zeros((num_tokens, num_tokens), device=device)
    for row in range(num_tokens):
        weights[row, : row + 1] = 1.0 / (row + 1)
    return weights


@variant(
    replaces="attention_causal",
    trades="Nothing is summed: a row's sum is its position plus 1. It holds for this pattern alone.",
)
def divided_by_the_position(num_tokens: int, device: Device = None) -> Tensor:
    """A triangle of ones, divided by 1, 2, 3, ..."""
    counts = torch.arange(1, num_tokens + 1, device=device)
    return torch.tril(torch.ones(num_tokens, num_tokens, device=device)) / counts[:, None]


@variant(replaces="attention_local")
def local_row_by_row(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """A loop over the rows, each filled between its first and its last neighbour."""
    weights = torch.zeros(num_tokens, num_tokens, device=device)
    for query in range(num_tokens):
        first, last = max(0, query - radius), min(num_tokens, query + radius + 1)
        weights[query, first:last] = 1 / (last - first)
    return weights


@variant(
    replaces="attention_local",
    trades="No positions are made; two triangles of ones and a product take three matrices of T × T.",
)
def band_cut_out(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """A band cut out of a matrix of ones by two triangles, then normalised."""
    band = torch.ones(num_tokens, num_tokens, device=device).triu(-radius).tril(radius)
    return F.normalize(band, p=1.0, dim=-1)


@variant(replaces="validate_attention")
def sum_by_isclose(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """`isclose` for the sum, `amin` and `amax` where NaN is put aside first, keys in another order."""
    sums = weights.to(torch.promote_types(weights.dtype, torch.float32)).sum(-1)
    known = torch.where(weights.isnan(), 0.5, weights)
    return {
        "sum": ~torch.isclose(sums, torch.ones_like(sums), rtol=0.0, atol=tolerance),
        "above_one": known.amax(dim=-1) > 1.0 + tolerance,
        "negative": known.amin(dim=-1) < 0,
        "not_finite": weights.isnan().any(-1) | weights.isinf().any(-1),
    }


@variant(
    replaces="validate_attention",
    trades="No sum is ever rounded in halves, and the code has no cases; a GPU takes many times as long in float64.",
)
def all_in_float64(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Everything in float64, the sum as a product with ones."""
    wide = weights.double()
    total = torch.einsum("...k->...", wide)
    return {
        "not_finite": torch.logical_not(torch.isfinite(wide)).sum(dim=-1) > 0,
        "negative": torch.signbit(wide).logical_and(wide.isnan().logical_not()).logical_and(wide != 0).any(-1),
        "above_one": wide.gt(1 + tolerance).any(-1),
        "sum": torch.logical_not((total >= 1 - tolerance) & (total <= 1 + tolerance)),
    }


@variant(replaces="top_attended")
def stable_argsort(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """A stable argsort of the negated weights, and the weights gathered by it."""
    order = torch.argsort(-weights, dim=-1, stable=True)[..., : min(k, weights.size(-1))]
    return weights.gather(-1, order), order


@variant(
    replaces="top_attended",
    trades="It never sorts: for a small k that is less work than ordering the whole row, for a large one more.",
)
def one_largest_after_another(weights: Tensor, k: int) -> list[Tensor]:
    """The first of the largest weights, k times, each taken out before the next one; a list for a pair."""
    left, keys = weights.detach().clone(), []
    for _place in range(min(k, weights.shape[-1])):
        # The smallest position among those that hold the maximum: `argmax` does not promise which one it gives.
        at_top = left == left.amax(dim=-1, keepdim=True)
        positions = torch.arange(left.shape[-1], device=left.device).expand_as(left)
        key = positions.masked_fill(~at_top, left.shape[-1]).amin(dim=-1, keepdim=True)
        left = left.scatter(-1, key, -torch.inf)
        keys.append(key)
    indices = torch.cat(keys, dim=-1)
    return [torch.gather(weights, -1, indices), indices]


@variant(
    replaces="attention_entropy",
    trades="One line, and finite gradients at weight 0; off by up to 1e-9 a key, and in float16 the guard is 0.",
)
def small_guard(weights: Tensor) -> Tensor:
    """A guard of 1e-9 within the logarithm."""
    return -torch.sum(weights * torch.log(weights + 1e-9), dim=-1)


@variant(replaces="attention_entropy")
def clamped_logarithm(weights: Tensor) -> Tensor:
    """The logarithm of the weights, clamped from below."""
    return -(weights * weights.clamp(min=1e-12).log()).sum(-1)


@variant(replaces="attention_entropy")
def nan_taken_out(weights: Tensor) -> Tensor:
    """0 times minus infinity, which is NaN, counted as 0 by the sum."""
    return -(weights * weights.log()).nansum(dim=-1)


@variant(
    replaces="attention_entropy",
    trades="One function knows that 0 · ln 0 is 0; its gradient at weight 0 is not finite all the same.",
)
def xlogy_summed(weights: Tensor) -> Tensor:
    """`xlogy`, which gives 0 at weight 0."""
    return torch.special.xlogy(weights, weights).sum(dim=-1).neg()


@variant(replaces="attention_entropy")
def zeros_replaced(weights: Tensor) -> Tensor:
    """Weights of 0 replaced by 1, whose logarithm is 0."""
    return (-weights * torch.where(weights > 0, weights, torch.ones_like(weights)).log()).sum(dim=-1)


@variant(replaces="attention_entropy")
def of_a_distribution(weights: Tensor) -> Tensor:
    """torch's own distribution, which divides each row by its sum once more."""
    return torch.distributions.Categorical(probs=weights, validate_args=False).entropy()


@variant(replaces="attention_distance")
def distances_by_einsum(weights: Tensor, offset: int = 0) -> Tensor:
    """A matrix of distances in the weights' dtype, contracted by `einsum`, then divided by the number of queries."""
    num_queries, num_keys = weights.shape[-2:]
    queries = torch.arange(offset, offset + num_queries, device=weights.device, dtype=weights.dtype)
    keys = torch.arange(num_keys, device=weights.device, dtype=weights.dtype)
    return torch.einsum("...ij,ij->...", weights, (queries[:, None] - keys[None, :]).abs()) / num_queries


@variant(
    replaces="attention_distance",
    trades="No T × T matrix of distances is made; a loop in Python runs once for every query.",
)
def one_query_after_another(weights: Tensor, offset: int = 0) -> Tensor:
    """A loop over the queries."""
    keys = torch.arange(weights.size(-1), device=weights.device)
    rows = [(weights[..., query, :] * torch.abs(keys - (query + offset))).sum(-1) for query in range(weights.size(-2))]
    return torch.stack(rows, dim=-1).mean(-1)
