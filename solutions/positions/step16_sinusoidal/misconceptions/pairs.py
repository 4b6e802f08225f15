"""Mistakes that learners make together in step 16."""

from grader.checks.catalogue import together
from solutions.positions.step16_sinusoidal.misconceptions.positional_encoding import (
    any_length_accepted,
    dropout_on_the_sum,
    encoding_scaled,
    first_axis_taken_for_the_tokens,
    half_promoted_to_float32,
    three_dimensions_only,
    tokens_scaled,
    x_changed_in_place,
)

SCALED = (tokens_scaled, encoding_scaled)
PAIRS = [
    *together((*SCALED, x_changed_in_place), (first_axis_taken_for_the_tokens,)),
    *together(SCALED, (half_promoted_to_float32,)),
    *together((x_changed_in_place, dropout_on_the_sum, half_promoted_to_float32), (any_length_accepted,)),
    *together((half_promoted_to_float32,), (three_dimensions_only,)),
    *together((dropout_on_the_sum,), (half_promoted_to_float32,)),
]
