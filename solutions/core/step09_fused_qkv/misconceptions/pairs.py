"""Mistakes that learners make together in step 9."""

from grader.checks.catalogue import together
from solutions.core.step09_fused_qkv.misconceptions.causal_self_attention import (
    cut_into_heads_first,
    every_third_column,
    key_query_value_order,
    merged_without_transpose,
    output_not_projected,
    split_without_transpose,
    value_first_order,
)
from solutions.core.step09_fused_qkv.misconceptions.causal_self_attention_dropout import (
    no_dropout_on_output,
    no_dropout_on_weights,
    output_dropped_in_eval,
    weights_dropped_in_eval,
)
from solutions.core.step09_fused_qkv.misconceptions.causal_self_attention_scores import (
    future_instead_of_past,
    masked_after_softmax,
    no_mask,
    not_scaled,
    scaled_by_all_heads,
    softmax_over_queries,
)

SCALES = (scaled_by_all_heads, not_scaled)
ORDERS = (key_query_value_order, value_first_order, cut_into_heads_first, every_third_column)
MASKS = (no_mask, future_instead_of_past)
HEADS = (split_without_transpose, merged_without_transpose)
PAIRS = [
    *together(MASKS, SCALES),
    *together(ORDERS, SCALES),
    *together(HEADS, SCALES),
    *together(ORDERS, MASKS),
    *together(HEADS, MASKS),
    *together((split_without_transpose,), (merged_without_transpose,)),
    *together((softmax_over_queries, masked_after_softmax), (*SCALES, *HEADS)),
    *together((output_not_projected,), (*SCALES, *MASKS, merged_without_transpose)),
    *together((no_dropout_on_weights, no_dropout_on_output, weights_dropped_in_eval), (merged_without_transpose,)),
    *together((no_dropout_on_output, output_dropped_in_eval), (*SCALES, *MASKS)),
]
