"""Mistakes that learners make together in step 4."""

from collections.abc import Callable

import torch
from torch import Tensor

from grader.checks.catalogue import together
from solutions.core.step04_causal_mask.misconceptions.causal_mask import (
    batch_and_head_dimensions_added,
    float_mask,
    future_instead_of_past,
    hidden_marked_true,
    one_token_ahead,
    own_token_hidden,
    whole_number_mask,
)
from solutions.core.step04_causal_mask.misconceptions.masked_softmax import (
    exponentials_not_divided,
    mask_ignored,
    mask_inverted,
    masked_after_softmax,
    scores_multiplied_by_mask,
    softmax_over_queries,
)
from solutions.core.step04_causal_mask.misconceptions.renormalise import (
    columns_divided,
    divided_but_not_zeroed,
    divided_by_sum_of_all,
    sum_without_keepdim,
    wrong_side_kept,
)

TRIANGLES = {
    future_instead_of_past: lambda ones: ones.triu(),
    hidden_marked_true: lambda ones: ones.triu(1),
    own_token_hidden: lambda ones: ones.tril(-1),
    one_token_ahead: lambda ones: ones.tril(1),
}
FORMS = {
    float_mask: lambda mask: mask.float(),
    whole_number_mask: lambda mask: mask.long(),
    batch_and_head_dimensions_added: lambda mask: mask[None, None],
}


HIDING: dict[Callable[..., object], Callable[[Tensor, Tensor, Callable[[Tensor], Tensor]], Tensor]] = {
    mask_inverted: lambda scores, mask, share: share(scores.masked_fill(mask, -torch.inf)),
    mask_ignored: lambda scores, mask, share: share(scores),
    scores_multiplied_by_mask: lambda scores, mask, share: share(scores * mask),
    masked_after_softmax: lambda scores, mask, share: share(scores) * mask,
}
SHARING: dict[Callable[..., object], Callable[[Tensor], Tensor]] = {
    softmax_over_queries: lambda scores: scores.softmax(dim=-2),
    exponentials_not_divided: lambda scores: (scores - scores.amax(dim=-1, keepdim=True)).exp(),
}


DIVISORS = {
    columns_divided: lambda visible: visible.sum(dim=-2, keepdim=True),
    sum_without_keepdim: lambda visible: visible.sum(dim=-1),
    divided_by_sum_of_all: lambda visible: visible.sum(),
}


def _causal_mask(triangle: Callable[[Tensor], Tensor], form: Callable[[Tensor], Tensor]) -> object:
    def causal_mask(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
        return form(triangle(torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device)))

    return causal_mask


PAIRS = [
    *together(TRIANGLES, FORMS, _causal_mask),
    *together(HIDING, SHARING, lambda hide, share: lambda scores, mask: hide(scores, mask, share)),
    *together(
        {wrong_side_kept: None},
        DIVISORS,
        lambda _, divisor: lambda weights, mask: weights * ~mask / divisor(weights * ~mask),
    ),
    *together(
        {divided_but_not_zeroed: None},
        DIVISORS,
        lambda _, divisor: lambda weights, mask: weights / divisor(weights * mask),
    ),
]
