"""Mistakes that learners make together in step 20."""

from grader.checks.catalogue import together
from solutions.encoder_decoder.step20_cross_attention.misconceptions.multi_head_attention import (
    keys_and_values_from_query,
    not_scaled,
    scaled_by_root_of_d_model,
    values_from_key,
)
from solutions.encoder_decoder.step20_cross_attention.misconceptions.multi_head_attention_dropout import (
    dropout_on_context,
    dropout_on_in_eval,
    no_dropout,
)
from solutions.encoder_decoder.step20_cross_attention.misconceptions.multi_head_attention_heads import (
    heads_by_a_bare_view,
    merged_columns_interleaved,
    merged_without_transpose,
    not_mixed,
)
from solutions.encoder_decoder.step20_cross_attention.misconceptions.multi_head_attention_masks import (
    mask_after_softmax,
    mask_ignored,
    mask_inverted,
    masked_with_zero,
)

SCALES = (not_scaled, scaled_by_root_of_d_model)
MASKS = (mask_inverted, mask_ignored, masked_with_zero, mask_after_softmax)
INPUTS = (keys_and_values_from_query, values_from_key)
MERGES = (merged_without_transpose, merged_columns_interleaved)
DROPS = (no_dropout, dropout_on_in_eval, dropout_on_context)
PAIRS = [
    *together(MASKS, SCALES),
    *together(INPUTS, SCALES),
    *together((heads_by_a_bare_view,), (*SCALES, *MERGES)),
    *together((not_mixed,), (*SCALES, *MASKS)),
    *together(MASKS, MERGES),
    *together(DROPS, (*SCALES, *MASKS)),
]
