"""Mistakes that learners make together in step 10."""

from grader.checks.catalogue import together
from solutions.core.step10_flash.misconceptions.flash_attention import (
    context_not_rescaled,
    denominator_not_rescaled,
    each_block_its_own_maximum,
    no_maximum,
    not_scaled,
)
from solutions.core.step10_flash.misconceptions.flash_attention_causal import (
    diagonal_blocks_not_masked,
    future_seen_outside_diagonal_blocks,
    is_causal_ignored,
    unequal_lengths_accepted,
)
from solutions.core.step10_flash.misconceptions.flash_attention_memory import whole_matrix_made

BLOCKS = (context_not_rescaled, denominator_not_rescaled, each_block_its_own_maximum, no_maximum)
CAUSES = (is_causal_ignored, diagonal_blocks_not_masked, future_seen_outside_diagonal_blocks)
PAIRS = [
    *together((not_scaled,), BLOCKS),
    *together((not_scaled,), CAUSES),
    *together(BLOCKS, CAUSES),
    *together((whole_matrix_made,), (unequal_lengths_accepted,)),
]
