"""Mistakes that learners make together in step 21."""

from grader.checks.catalogue import together
from solutions.encoder_decoder.step21_encoder.misconceptions.feed_forward import gelu_instead_of_relu, no_activation
from solutions.encoder_decoder.step21_encoder.misconceptions.sentiment_analyzer import (
    mean_over_padding_too,
    softmax_on_the_logits,
)
from solutions.encoder_decoder.step21_encoder.misconceptions.simple_transformer import (
    embeddings_scaled,
    no_final_norm,
    positions_not_added,
)
from solutions.encoder_decoder.step21_encoder.misconceptions.transformer_block import (
    no_residual_around_attention,
    norm_of_the_branch,
    one_norm_for_both,
    pre_norm,
)

PAIRS = [
    *together((gelu_instead_of_relu, no_activation), (pre_norm, norm_of_the_branch, no_residual_around_attention)),
    *together((pre_norm, one_norm_for_both), (positions_not_added, no_final_norm, embeddings_scaled)),
    *together((embeddings_scaled, no_final_norm), (mean_over_padding_too, softmax_on_the_logits)),
]
