"""Mistakes that learners make together in step 29."""

from typing import Any

from torch import Tensor

from grader.checks.catalogue import together
from solutions.longer_and_faster.step29_triton.misconceptions.flash_forward import (
    context_not_rescaled,
    denominator_not_rescaled,
    divided_in_every_block,
    exp2_without_log2_e,
    keys_beyond_the_end_attended,
    no_maximum,
    not_scaled,
)
from solutions.longer_and_faster.step29_triton.misconceptions.flash_forward_causal import (
    is_causal_ignored,
    one_key_ahead,
)
from solutions.longer_and_faster.step29_triton.misconceptions.flash_forward_logsumexp import (
    logsumexp_in_base_2,
    logsumexp_without_the_maximum,
)
from solutions.longer_and_faster.step29_triton.misconceptions.kernel import Both, run

SCALES: dict[Any, dict[str, Any]] = {not_scaled: {"scale": 1.0}, exp2_without_log2_e: {"log2_e": 1.0}}
SUMS: dict[Any, dict[str, Any]] = {
    context_not_rescaled: {"CONTEXT_RESCALED": False},
    denominator_not_rescaled: {"DENOMINATOR_RESCALED": False},
    divided_in_every_block: {"DIVIDED": "in every block"},
    no_maximum: {"MAXIMUM": "none"},
}
MASKS: dict[Any, dict[str, Any]] = {
    is_causal_ignored: {"VISIBLE": "all", "LAST_BLOCK": "all"},
    one_key_ahead: {"VISIBLE": "one ahead"},
    keys_beyond_the_end_attended: {"BEYOND_HIDDEN": False},
}
LOGARITHMS: dict[Any, dict[str, Any]] = {
    logsumexp_in_base_2: {"LOGSUMEXP": "in base 2"},
    logsumexp_without_the_maximum: {"LOGSUMEXP": "without the maximum"},
}


def _both(first: dict[str, Any], second: dict[str, Any]) -> object:
    def flash_forward(
        query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_q: int = 64, block_k: int = 64
    ) -> Both:
        return run(query, key, value, is_causal, block_q, block_k, **first, **second)

    return flash_forward


# Few: each is recorded for a learner's kit, and the interpreter is slow.
PAIRS = [
    *together(SCALES, SUMS, _both),
    *together({not_scaled: SCALES[not_scaled]}, MASKS, _both),
    *together({context_not_rescaled: SUMS[context_not_rescaled]}, LOGARITHMS, _both),
    *together(
        {context_not_rescaled: SUMS[context_not_rescaled]},
        {denominator_not_rescaled: SUMS[denominator_not_rescaled]},
        _both,
    ),
]
