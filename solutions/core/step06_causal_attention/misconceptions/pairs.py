"""Mistakes that learners make together in step 6."""

from grader.checks.catalogue import together
from solutions.core.step06_causal_attention.misconceptions.causal_attention import (
    no_maximum_subtracted,
    not_scaled,
    scaled_by_input_width,
    scaled_by_width_without_root,
    softmax_over_queries,
)
from solutions.core.step06_causal_attention.misconceptions.causal_attention_dropout import (
    dropout_not_rescaled,
    dropout_on_context,
    dropout_on_in_eval,
    no_dropout,
)
from solutions.core.step06_causal_attention.misconceptions.causal_attention_mask import (
    future_instead_of_past,
    hidden_scores_set_to_zero,
    mask_off_by_one,
    masked_after_softmax,
    no_mask,
    own_token_hidden,
)

SCALES = (not_scaled, scaled_by_input_width, scaled_by_width_without_root)
MASKS = (no_mask, mask_off_by_one, future_instead_of_past, own_token_hidden)
WEIGHTS = (hidden_scores_set_to_zero, masked_after_softmax, softmax_over_queries, no_maximum_subtracted)
DROPOUTS = (dropout_on_context, dropout_not_rescaled, dropout_on_in_eval, no_dropout)
PAIRS = [
    *together(SCALES, MASKS),
    *together(SCALES, WEIGHTS),
    *together(SCALES, DROPOUTS),
    *together(MASKS[:-1], (softmax_over_queries,)),  # with the last one all weights are NaN, as many ways make them
    *together(MASKS[1:], (masked_after_softmax, hidden_scores_set_to_zero)),
    *together(MASKS, DROPOUTS),
    *together((masked_after_softmax, softmax_over_queries), DROPOUTS),
]
