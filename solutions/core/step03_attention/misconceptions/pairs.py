"""Mistakes that learners make together in step 3."""

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
from solutions.core.step03_attention.misconceptions.self_attention import (
    causal_already,
    self_attention_not_scaled,
    self_attention_over_queries,
    self_attention_scaled_by_d_in,
)

SCALES = (not_scaled, divided_by_width, scaled_by_value_width)
MASKS = (mask_ignored, mask_inverted, hidden_scores_set_to_zero, masked_after_softmax)
WEIGHTS = (*MASKS, mask_inverted_with_infinity, softmax_over_queries)
RESULTS = (only_the_context, pair_in_the_other_order)
PAIRS = [
    *together(SCALES, WEIGHTS),
    *together((not_scaled,), (softmax_over_first_dimension, softmax_over_dimension_one)),
    *together(MASKS, (softmax_over_queries,)),
    *together(SCALES, RESULTS),
    *together(WEIGHTS, RESULTS),
    *together(
        (self_attention_not_scaled, self_attention_scaled_by_d_in), (self_attention_over_queries, causal_already)
    ),
]
