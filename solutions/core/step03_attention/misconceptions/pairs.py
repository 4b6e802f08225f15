"""Mistakes that learners make together in step 3."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from grader.checks.catalogue import together
from solutions.core.step03_attention.misconceptions.attention import (
    divided_by_width,
    not_scaled,
    only_the_context,
    pair_in_the_other_order,
    scaled_by_value_width,
    softmax_over_dimension_one,
    softmax_over_first_dimension,
    softmax_over_queries,
)
from solutions.core.step03_attention.misconceptions.attention_mask import (
    hidden_scores_set_to_zero,
    mask_ignored,
    mask_inverted,
    mask_inverted_with_infinity,
    masked_after_softmax,
)
from solutions.core.step03_attention.misconceptions.scores import hidden
from solutions.core.step03_attention.misconceptions.self_attention import (
    Projections,
    causal_already,
    self_attention_not_scaled,
    self_attention_over_queries,
    self_attention_scaled_by_d_in,
)

Weigh = Callable[[Tensor, Tensor | None], Tensor]  # from scores and mask to weights
SCALES = {
    not_scaled: lambda query, value: 1.0,
    divided_by_width: lambda query, value: query.shape[-1],
    scaled_by_value_width: lambda query, value: math.sqrt(value.shape[-1]),
}
WEIGHTS: dict[Callable[..., object], Weigh] = {
    mask_ignored: lambda scores, mask: scores.softmax(dim=-1),
    mask_inverted: lambda scores, mask: (scores if mask is None else scores.masked_fill(mask, -1e9)).softmax(dim=-1),
    mask_inverted_with_infinity: lambda scores, mask: (
        scores if mask is None else scores.masked_fill(mask, -torch.inf)
    ).softmax(dim=-1),
    hidden_scores_set_to_zero: lambda scores, mask: hidden(scores, mask, 0.0).softmax(dim=-1),
    masked_after_softmax: lambda scores, mask: scores.softmax(dim=-1) * (1 if mask is None else mask),
    softmax_over_queries: lambda scores, mask: hidden(scores, mask).softmax(dim=-2),
}
OVER_QUERIES: dict[Callable[..., object], Weigh] = {
    mask_ignored: lambda scores, mask: scores.softmax(dim=-2),
    mask_inverted: lambda scores, mask: (scores if mask is None else scores.masked_fill(mask, -1e9)).softmax(dim=-2),
    hidden_scores_set_to_zero: lambda scores, mask: hidden(scores, mask, 0.0).softmax(dim=-2),
    masked_after_softmax: lambda scores, mask: scores.softmax(dim=-2) * (1 if mask is None else mask),
}
OTHER_DIMENSIONS: dict[Callable[..., object], Weigh] = {
    softmax_over_first_dimension: lambda scores, mask: hidden(scores, mask).softmax(dim=0),
    softmax_over_dimension_one: lambda scores, mask: hidden(scores, mask).softmax(dim=1),
}
RESULTS = {
    only_the_context: lambda context, weights: context,
    pair_in_the_other_order: lambda context, weights: (weights, context),
}


def _attention(
    scale: Callable[[Tensor, Tensor], float],
    weigh: Weigh,
    result: Callable[[Tensor, Tensor], object] = lambda *pair: pair,
) -> object:
    def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> object:
        weights = weigh(query @ key.transpose(-2, -1) / scale(query, value), mask)
        return result(weights @ value, weights)

    return attention


def _root_of_width(query: Tensor, value: Tensor) -> float:
    return math.sqrt(query.shape[-1])


def _hide_and_share(scores: Tensor, mask: Tensor | None) -> Tensor:
    return hidden(scores, mask).softmax(dim=-1)


MODULE_SCALES = {
    self_attention_not_scaled: lambda x, query: 1.0,
    self_attention_scaled_by_d_in: lambda x, query: math.sqrt(x.shape[-1]),
}
MODULE_WEIGHTS: dict[type, Callable[[Tensor], Tensor]] = {
    self_attention_over_queries: lambda scores: scores.softmax(dim=-2),
    causal_already: lambda scores: hidden(scores, torch.ones_like(scores, dtype=torch.bool).tril()).softmax(dim=-1),
}


def _self_attention(scale: Callable[[Tensor, Tensor], float], weigh: Callable[[Tensor], Tensor]) -> type:
    class SelfAttention(Projections):
        def forward(self, x: Tensor) -> Tensor:
            query = self.W_query(x)
            return weigh(query @ self.W_key(x).transpose(-2, -1) / scale(x, query)) @ self.W_value(x)

    return SelfAttention


PAIRS = [
    *together(SCALES, WEIGHTS, _attention),
    *together({not_scaled: SCALES[not_scaled]}, OTHER_DIMENSIONS, _attention),
    *together(OVER_QUERIES, {softmax_over_queries: None}, lambda weigh, _: _attention(_root_of_width, weigh)),
    *together(SCALES, RESULTS, lambda scale, result: _attention(scale, _hide_and_share, result)),
    *together(WEIGHTS, RESULTS, lambda weigh, result: _attention(_root_of_width, weigh, result)),
    *together(MODULE_SCALES, MODULE_WEIGHTS, _self_attention),
]
