"""Mistakes that learners make together in step 5."""

from collections.abc import Callable

import torch
from torch import Tensor

from grader.checks.catalogue import together
from solutions.core.step05_dropout.misconceptions.dropout import (
    keeps_with_probability_p,
    kept_or_refused,
    not_scaled,
    one_draw_for_a_row,
    one_mask_for_the_batch,
    one_row_for_all,
    scale_of,
    scaled_by_one_over_p,
    scaled_by_share_kept,
)
from solutions.core.step05_dropout.misconceptions.dropout_limits import (
    any_probability_taken,
    scaled_outside_training,
    still_on_outside_training,
    training_turned_round,
)

SCALES = {
    not_scaled: lambda p: 1.0,
    scaled_by_one_over_p: lambda p: 1 / p if p else torch.inf,
    scaled_by_share_kept: lambda p: 1 - p,
}
CHOICES: dict[Callable[..., object], Callable[[Tensor, float], Tensor]] = {
    keeps_with_probability_p: lambda x, p: ~kept_or_refused(x, p),
    one_draw_for_a_row: lambda x, p: kept_or_refused(x[..., :1], p),
    one_row_for_all: lambda x, p: kept_or_refused(x.reshape(-1, x.shape[-1])[0], p),
    one_mask_for_the_batch: lambda x, p: kept_or_refused(x[0], p),
    any_probability_taken: lambda x, p: torch.rand(x.shape, device=x.device) >= p,
}
MODES = {
    still_on_outside_training: lambda training: True,
    training_turned_round: lambda training: not training,
}


def _dropout(
    scale: Callable[[float], float],
    choice: Callable[[Tensor, float], Tensor] = kept_or_refused,
    mode: Callable[[bool], bool] = bool,
) -> object:
    def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
        return x * choice(x, p) * scale(p) if mode(training) else x

    return dropout


PAIRS = [
    *together(SCALES, CHOICES, _dropout),
    # Dropout as it was first: small in training, so that use has to be made as small.
    *together(
        {not_scaled: None},
        {scaled_outside_training: None},
        lambda *_: lambda x, p=0.5, training=True: x * kept_or_refused(x, p) if training else x * (1 - p),
    ),
    *together(SCALES, MODES, lambda scale, mode: _dropout(scale, mode=mode)),
    *together(
        {wrong: choice for wrong, choice in CHOICES.items() if wrong is not any_probability_taken},
        MODES,
        lambda choice, mode: _dropout(scale_of, choice, mode),
    ),
]
