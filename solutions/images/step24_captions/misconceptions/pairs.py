"""Mistakes that learners make together in step 24."""

from grader.checks.catalogue import together
from solutions.images.step24_captions.misconceptions.greedy_caption import (
    bos_not_in_the_result,
    dropout_on_while_captioning,
    region_mask_not_used,
    rows_go_on_after_eos,
)
from solutions.images.step24_captions.misconceptions.image_captioning import (
    cross_attention_reads_the_text,
    softmax_on_the_logits,
    text_not_added,
)
from solutions.images.step24_captions.misconceptions.image_captioning_text import causal_mask_transposed, no_causal_mask

PAIRS = [
    *together(
        (no_causal_mask, causal_mask_transposed),
        (text_not_added, softmax_on_the_logits, cross_attention_reads_the_text),
    ),
    *together((rows_go_on_after_eos, bos_not_in_the_result), (dropout_on_while_captioning, region_mask_not_used)),
]
