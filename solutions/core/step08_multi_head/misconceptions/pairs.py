"""Mistakes that learners make together in step 8."""

from grader.checks.catalogue import together
from solutions.core.step08_multi_head.misconceptions.multi_head_attention import (
    columns_interleaved,
    merged_without_transpose,
    output_not_projected,
    split_without_transpose,
)
from solutions.core.step08_multi_head.misconceptions.multi_head_attention_dropout import (
    dropout_on_in_eval,
    dropout_on_output,
    no_dropout,
)
from solutions.core.step08_multi_head.misconceptions.multi_head_attention_scores import (
    future_instead_of_past,
    mask_in_the_first_head_only,
    masked_after_softmax,
    no_mask,
    not_scaled,
    scaled_by_all_heads,
    scaled_by_number_of_heads,
    softmax_over_queries,
)

SCALES = (scaled_by_all_heads, not_scaled, scaled_by_number_of_heads)
MASKS = (no_mask, future_instead_of_past, mask_in_the_first_head_only)
HEADS = (split_without_transpose, merged_without_transpose, columns_interleaved)
WEIGHTS = (softmax_over_queries, masked_after_softmax)
DROPOUTS = (dropout_on_output, dropout_on_in_eval, no_dropout)
PAIRS = [
    *together(SCALES, (*MASKS, *WEIGHTS)),
    *together(SCALES, HEADS),
    *together(HEADS, (*MASKS, *WEIGHTS)),
    *together((future_instead_of_past,), WEIGHTS),
    *together((split_without_transpose,), (merged_without_transpose,)),
    *together((output_not_projected,), (*SCALES, *MASKS, merged_without_transpose)),
    *together((not_scaled, no_mask, future_instead_of_past, merged_without_transpose), DROPOUTS),
]
