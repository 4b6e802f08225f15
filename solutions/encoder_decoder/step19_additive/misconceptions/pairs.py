"""Mistakes that learners make together in step 19."""

from grader.checks.catalogue import together
from solutions.encoder_decoder.step19_additive.misconceptions.additive_attention import (
    context_from_projected_keys,
    no_tanh,
    parts_multiplied,
    scaled_by_root_of_hidden,
    tanh_of_each_part,
)
from solutions.encoder_decoder.step19_additive.misconceptions.both_forms import (
    mask_ignored,
    mask_inverted,
    pair_in_other_order,
    scores_returned,
    scores_times_mask,
    weights_keep_a_dimension,
)
from solutions.encoder_decoder.step19_additive.misconceptions.single_head_cross_attention import (
    state_joined_first,
    tanh_of_the_joined_score,
)

SCORES = (no_tanh, tanh_of_each_part, parts_multiplied, scaled_by_root_of_hidden)
MASKS = [wrong.additive for wrong in (mask_inverted, mask_ignored, scores_times_mask)]
JOINED_MASKS = [wrong.joined for wrong in (mask_inverted, mask_ignored, scores_times_mask)]
RESULTS = [wrong.additive for wrong in (weights_keep_a_dimension, pair_in_other_order, scores_returned)]
PAIRS = [
    *together(SCORES, MASKS),
    *together(RESULTS, SCORES),
    *together(RESULTS, MASKS),
    *together((context_from_projected_keys,), (*SCORES, *MASKS)),
    *together((state_joined_first, tanh_of_the_joined_score), JOINED_MASKS),
]
