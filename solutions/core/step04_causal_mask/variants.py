"""Right ways of step 4 that differ from the reference."""

import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import variant

# --- the mask ---------------------------------------------------------------------------------------------------------


@variant(
    replaces="causal_mask",
    trades="It works for any two ranges of positions, also where queries begin later; it makes a vector first.",
)
def positions_compared(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """Each query position is compared with each key position."""
    positions = torch.arange(num_tokens, device=device)
    return positions.unsqueeze(1) >= positions


@variant(replaces="causal_mask")
def upper_triangle_inverted(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The book's upper triangle of ones, turned round."""
    return ~torch.triu(torch.ones(num_tokens, num_tokens, device=device), diagonal=1).bool()


@variant(replaces="causal_mask")
def filled_row_by_row(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """A loop over the rows."""
    mask = torch.zeros(num_tokens, num_tokens, dtype=torch.bool, device=device)
    for row in range(num_tokens):
        mask[row, : row + 1] = True
    return mask


@variant(replaces="causal_mask")
def transposed_upper_triangle(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """A non-contiguous result."""
    return torch.ones(num_tokens, num_tokens, device=device).triu().t() == 1


@variant(
    replaces="causal_mask",
    trades="Each mask is made once, which is faster; it stays in memory, and a change of it reaches everyone.",
)
@functools.cache
def kept_between_calls(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """Each mask is made once and given again."""
    return torch.tril(torch.ones((num_tokens, num_tokens), device=device)).to(torch.bool)


# --- the softmax under a mask -----------------------------------------------------------------------------------------


@variant(replaces="masked_softmax")
def minus_infinity_by_where(scores: Tensor, mask: Tensor) -> Tensor:
    """`torch.where` with a number of no dimension."""
    return F.softmax(torch.where(mask, scores, torch.tensor(-torch.inf)), dim=-1, dtype=scores.dtype)


@variant(replaces="masked_softmax")
def lowest_number_filled(scores: Tensor, mask: Tensor) -> Tensor:
    """The lowest number of the dtype."""
    return torch.softmax(scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min), -1)


@variant(replaces="masked_softmax")
def added_to_the_scores(scores: Tensor, mask: Tensor) -> Tensor:
    """An additive mask of 0 and minus infinity, as wide as the scores."""
    additive = torch.zeros_like(scores).masked_fill(~mask, -torch.inf)
    return (scores + additive).softmax(dim=-1)


@variant(
    replaces="masked_softmax",
    trades="A row that is hidden completely stays finite instead of NaN; scores near a billion would break it.",
)
def a_billion_subtracted(scores: Tensor, mask: Tensor) -> Tensor:
    """The tutorials' -1e9, added: in float16 it becomes minus infinity."""
    return (scores + (~mask).to(scores.dtype) * -1e9).softmax(dim=-1)


@variant(replaces="masked_softmax")
def exponentials_of_visible(scores: Tensor, mask: Tensor) -> Tensor:
    """The softmax by hand, with the maximum of the visible scores."""
    hidden = scores.masked_fill(~mask, -torch.inf)
    exponentials = (hidden - hidden.max(dim=-1, keepdim=True).values).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@variant(replaces="masked_softmax")
def exponential_of_the_difference(scores: Tensor, mask: Tensor) -> Tensor:
    """exp(x - logsumexp(x)), of scores from which the maximum was subtracted."""
    hidden = scores.masked_fill(~mask, -torch.inf)
    hidden = hidden - hidden.amax(dim=-1, keepdim=True)
    return (hidden - hidden.logsumexp(dim=-1, keepdim=True)).exp()


@variant(replaces="masked_softmax")
def logarithms_first(scores: Tensor, mask: Tensor) -> Tensor:
    """The exponential of a log-softmax, in at least float32."""
    wide = scores if scores.dtype == torch.float64 else scores.float()
    return F.log_softmax(wide.masked_fill(~mask, -torch.inf), dim=-1).exp().to(scores.dtype)


@variant(replaces="masked_softmax")
def copied_and_filled(scores: Tensor, mask: Tensor) -> Tensor:
    """In place, on a copy of its own."""
    own = scores.clone()
    own[~mask.expand_as(own)] = float("-inf")
    return own.softmax(dim=-1)


@variant(replaces="masked_softmax")
def row_after_row(scores: Tensor, mask: Tensor) -> Tensor:
    """A loop over the queries."""
    mask = mask.expand(scores.shape)
    rows = [
        torch.where(mask[..., i, :], scores[..., i, :], -torch.inf).softmax(dim=-1) for i in range(scores.shape[-2])
    ]
    return torch.stack(rows, dim=-2)


@variant(replaces="masked_softmax")
def zeroed_and_renormalised_too(scores: Tensor, mask: Tensor) -> Tensor:
    """Hidden before the softmax, set to 0 after it, and divided once more."""
    weights = torch.softmax(scores.masked_fill(mask.logical_not(), torch.finfo(scores.dtype).min), dim=-1) * mask
    return weights / weights.sum(dim=-1, keepdim=True)


# --- renormalised weights ---------------------------------------------------------------------------------------------


@variant(replaces="renormalise")
def multiplied_by_mask(weights: Tensor, mask: Tensor) -> Tensor:
    """The book's way: a product and a division."""
    masked = weights * mask
    return masked / masked.sum(dim=-1, keepdim=True)


@variant(replaces="renormalise")
def normalised_by_torch(weights: Tensor, mask: Tensor) -> Tensor:
    """`F.normalize` with the sum of sizes as the norm."""
    return F.normalize(weights * mask, p=1, dim=-1)


@variant(replaces="renormalise")
def softmax_of_logarithms(weights: Tensor, mask: Tensor) -> Tensor:
    """The weights are a softmax's, so their logarithms are scores; that of 0 is cut off, or its gradient is NaN."""
    return weights.clamp_min(torch.finfo(weights.dtype).tiny).log().masked_fill(~mask, -torch.inf).softmax(dim=-1)


@variant(replaces="renormalise")
def sums_by_einsum(weights: Tensor, mask: Tensor) -> Tensor:
    """The sums of the rows as a product with the mask."""
    sums = torch.einsum("...k,...k->...", weights, mask.expand_as(weights).to(weights.dtype))
    return torch.where(mask, weights, 0.0) / sums[..., None]


@variant(replaces="renormalise")
def shortest_guard(weights: Tensor, mask: Tensor) -> Tensor:
    """A lower bound on the sum that never acts."""
    visible = weights.masked_fill(~mask, 0)
    return visible / visible.sum(-1, keepdim=True).clamp_min(1e-12)


@variant(replaces="renormalise")
def tiny_guard(weights: Tensor, mask: Tensor) -> Tensor:
    """A number added to the sum that is small beside every sum."""
    visible = weights * mask
    return visible / (visible.sum(dim=-1, keepdim=True) + 1e-12)


@variant(replaces="masked_softmax")
def tiny_guard_of_exponentials(scores: Tensor, mask: Tensor) -> Tensor:
    """The same in a softmax by hand."""
    hidden = scores.masked_fill(~mask, -torch.inf)
    powers = torch.exp(hidden - hidden.amax(-1, keepdim=True))
    return powers / (powers.sum(dim=-1, keepdim=True) + 1e-12)


@variant(replaces="masked_softmax")
def base_of_two(scores: Tensor, mask: Tensor) -> Tensor:
    """Powers of two, with the scores times the logarithm of e."""
    hidden = scores.masked_fill(~mask, -torch.inf)
    powers = ((hidden - hidden.amax(dim=-1, keepdim=True)) * math.log2(math.e)).exp2()
    return powers / powers.sum(dim=-1, keepdim=True)


@variant(replaces=("causal_mask", "masked_softmax", "renormalise"))
def one_from_another() -> dict[str, object]:
    """Renormalising by way of the masked softmax, the mask by way of cumulative sums."""

    def causal_mask(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
        return torch.eye(num_tokens, device=device).cumsum(dim=0).bool().t().flip(0, 1).contiguous()

    def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
        assert mask.dtype == torch.bool, "the mask must be boolean"
        return torch.nn.Softmax(dim=-1)(scores.masked_fill(~mask, float("-inf")))

    def renormalise(weights: Tensor, mask: Tensor) -> Tensor:
        return masked_softmax(torch.log(weights.clamp_min(torch.finfo(weights.dtype).tiny)), mask)

    return {"causal_mask": causal_mask, "masked_softmax": masked_softmax, "renormalise": renormalise}
