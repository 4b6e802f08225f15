"""Mistakes that learners make together in step 18."""

from grader.checks.catalogue import together
from solutions.positions.step18_rotary.misconceptions.rotary_self_attention import (
    future_instead_of_past,
    no_mask,
    not_scaled,
    nothing_turned,
    queries_turned_alone,
    scaled_by_all_heads,
    scaled_twice,
    turned_before_the_heads,
    values_turned_too,
)

TURNED = (values_turned_too, queries_turned_alone, nothing_turned, turned_before_the_heads)
SCALES = (not_scaled, scaled_twice, scaled_by_all_heads)
PAIRS = [
    *together(TURNED, SCALES),
    *together(TURNED, (no_mask, future_instead_of_past)),
    *together(SCALES, (no_mask, future_instead_of_past)),
]
