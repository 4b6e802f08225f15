"""Mistakes that learners make together in step 22."""

from grader.checks.catalogue import together
from solutions.encoder_decoder.step22_decoder.misconceptions.decoder_block import (
    cross_attention_reads_the_target,
    pre_norm,
)
from solutions.encoder_decoder.step22_decoder.misconceptions.encoder_decoder_transformer import (
    no_causal_mask,
    no_final_norm,
    softmax_on_the_logits,
    src_mask_does_not_reach_cross_attention,
    target_positions_not_added,
)
from solutions.encoder_decoder.step22_decoder.misconceptions.greedy_translate import (
    bos_not_in_the_result,
    dropout_on_while_translating,
    left_in_eval_mode,
    rows_go_on_after_eos,
    src_mask_not_used,
)

PAIRS = [
    *together(
        (pre_norm, cross_attention_reads_the_target), (no_causal_mask, target_positions_not_added, no_final_norm)
    ),
    *together(
        (no_causal_mask,),
        (target_positions_not_added, no_final_norm, softmax_on_the_logits, src_mask_does_not_reach_cross_attention),
    ),
    *together((rows_go_on_after_eos,), (dropout_on_while_translating, left_in_eval_mode, src_mask_not_used)),
    *together((bos_not_in_the_result,), (dropout_on_while_translating, src_mask_not_used)),
]
