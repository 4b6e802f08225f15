"""Mistakes that learners make together in step 17."""

from grader.checks.catalogue import together
from solutions.positions.step17_relative.misconceptions.relative_self_attention import (
    divided_by_the_width,
    not_scaled,
    relative_scores_not_scaled,
    relative_values_left_out,
    relative_values_not_weighted,
    scaled_by_all_heads,
)
from solutions.positions.step17_relative.misconceptions.relative_self_attention_mask import (
    mask_inverted,
    mask_not_used,
    masked_after_the_softmax,
)

SCALES = (relative_scores_not_scaled, not_scaled, scaled_by_all_heads, divided_by_the_width)
MASKS = (mask_not_used, mask_inverted, masked_after_the_softmax)
VALUES = (relative_values_left_out, relative_values_not_weighted)
PAIRS = [
    *together(SCALES, VALUES),
    *together(MASKS, VALUES),
    *together(SCALES, MASKS),
]
