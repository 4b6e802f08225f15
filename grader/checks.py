"""What a check file may use: everything an author of a step imports.

A check is a pytest function with the arguments `student`, `reference` and `draw`. Its docstring's first line is the
title that the learner reads, `points` its mark.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor

from grader.compare import Tolerance, no_gradient, require_agreement, require_gradients
from grader.draws import Draw
from grader.failure import CheckFailed
from grader.implementation import Answer, Handle, Implementation
from grader.language import gettext as _
from grader.messages import Placed
from grader.show import show_number, show_value

__all__ = [
    "GUARDED",
    "Answer",
    "Draw",
    "Handle",
    "Implementation",
    "_",
    "agree",
    "binomial_bound",
    "deadline",
    "exactly",
    "future_has_no_effect",
    "gradients_arrive",
    "holds",
    "must_raise",
    "points",
    "sums_to_one",
    "twins",
    "unmodified",
    "with_values",
]

Check = TypeVar("Check", bound=Callable[..., None])

# Two-sided normal quantile of a false-alarm rate of 1e-7, and a little for the normal approximation.
ALARM_DEVIATIONS = 5.5

# `terms` of a softmax in float64, where the room is then 1e-10: a guard of 1e-12 beside its sum does no harm, a detour
# through float32 does.
GUARDED = 10**9


def points(number: float) -> Callable[[Check], Check]:
    """The mark that a check is worth. Raises ValueError unless it is a number above 0."""
    _above_zero("points", number)

    def mark(check: Check) -> Check:
        check.points = float(number)  # type: ignore[attr-defined]  # functions take attributes
        return check

    return mark


def deadline(seconds: float) -> Callable[[Check], Check]:
    """How long a call in the check may take, where that is not what `limits.py` says. Raises ValueError unless it is a
    number above 0."""
    _above_zero("deadline", seconds)

    def mark(check: Check) -> Check:
        check.deadline = float(seconds)  # type: ignore[attr-defined]  # functions take attributes
        return check

    return mark


def _above_zero(name: str, number: object) -> None:
    if not isinstance(number, int | float) or not 0 < number < math.inf:
        came = getattr(number, "__name__", number)  # written without parentheses it is handed the check itself
        raise ValueError(f"@{name}(…) takes a number above 0, and not {came}")


def agree(came: Answer, expected: Any, *, terms: int = 1, note: str | None = None) -> None:
    """Fails unless `came` agrees with `expected` in structure, shape, dtype, device and values, then in gradients.

    `terms` is the length of the longest sum behind a value: with the dtype it sets how far values may lie apart.
    `expected` is an answer of the reference, a tensor or a nested tuple of tensors. `note` is added when it fails.
    """
    _compare(came, expected, Tolerance(terms), note)


def exactly(came: Answer, expected: Any, *, note: str | None = None) -> None:
    """`agree`, bit for bit: masks, permutations, token ids."""
    _compare(came, expected, Tolerance(exact=True), note)


def _compare(came: Answer, expected: Any, tolerance: Tolerance, note: str | None) -> None:
    try:
        wanted = expected.outcome.value if isinstance(expected, Answer) else _placed(expected, came)
        require_agreement(came.outcome.value, wanted, tolerance)
        if isinstance(expected, Answer):
            require_gradients(came.outcome.gradients, expected.outcome.gradients, tolerance)
    except CheckFailed as failure:
        failure.called = failure.called or came.shown
        if note:
            failure.message += "\n" + note
        raise


def holds(condition: bool | Tensor, sentence: str) -> None:
    """Fails with the sentence unless the condition holds. The sentence says what came and what should have."""
    if not bool(condition):
        raise CheckFailed(sentence)


def must_raise(call: Callable[[], object], reason: str) -> None:
    """Fails unless the call raises an error in the learner's code. `reason` says what is wrong with the arguments."""
    try:
        returned = call()
    except CheckFailed as failure:
        if failure.by_code:
            return
        raise
    came = show_value(returned.outcome.value) if isinstance(returned, Answer) else show_value(returned)
    raise CheckFailed(
        _("expected  an error: {reason}\ncame      {came}").format(reason=reason, came=came),
        called=returned.shown if isinstance(returned, Answer) else "",
    )


def unmodified(answer: Answer) -> None:
    """Fails if the call changed one of the tensors it was given."""
    if answer.outcome.modified:
        names = ", ".join(_argument_name(name) for name in answer.outcome.modified)
        raise CheckFailed(
            _(
                "The call changed its own input ({names}). Make a new tensor there: `+=`, `/=`, `x[...] = ...` and the "
                "methods whose name ends in `_` write over the one they are given."
            ).format(names=names),
            called=answer.shown,
        )


def gradients_arrive(answer: Answer) -> None:
    """Fails unless a gradient arrives at every argument and parameter: for answers that chance makes, which agree with
    no other."""
    for name, gradient in answer.outcome.gradients.items():
        if gradient is None:
            failure = no_gradient(name)
            failure.called = answer.shown
            raise failure


def sums_to_one(weights: Tensor, dim: int = -1, tolerance: float = 1e-5) -> None:
    """Fails unless every slice along `dim` sums to 1 within `tolerance` (summed in float64)."""
    sums = weights.double().sum(dim)
    far = ~((sums - 1).abs() <= tolerance)
    if bool(far.any()):
        place = [int(index) for index in far.nonzero()[0]]
        raise CheckFailed(
            _("The weights of slice {place} sum to {sum}, and they should sum to 1.").format(
                place=place, sum=show_number(sums[tuple(place)])
            )
        )


def future_has_no_effect(theirs: Handle, x: Tensor) -> None:
    """Fails if changing later tokens of `x` (B, T, D) changes the output of an earlier one. The module is in eval."""
    theirs.eval()
    tokens = x.shape[1]
    before = theirs(x).tensor()
    room = 64 * 1.2e-7 * max(1.0, float(before.double().abs().nan_to_num().max()))
    for first_changed in sorted({1, tokens // 2, tokens - 1} - {0}):
        changed = x.clone()
        changed[:, first_changed:] = -3.0 * x[:, first_changed:] + 1.0
        answer = theirs(changed)
        after = answer.tensor()
        gap = (after[:, :first_changed].double() - before[:, :first_changed].double()).abs()
        seen = (~(gap <= room)).flatten(2).any(-1).any(0).nonzero()
        if len(seen):
            raise CheckFailed(
                _(
                    "Tokens {changed} and later were changed, and the output of the earlier token {seen} changed with "
                    "them: it sees its future."
                ).format(changed=first_changed, seen=int(seen[0])),
                called=answer.shown,
            )


def binomial_bound(trials: int, p: float) -> float:
    """How far an observed rate of `trials` draws may lie from `p`: a right answer is refused once in 10 million."""
    return ALARM_DEVIATIONS * math.sqrt(max(p * (1 - p), 1e-12) / trials) + 1 / trials


def twins(
    student: Implementation, reference: Implementation, draw: Draw, name: str, *args: Any, **kwargs: Any
) -> tuple[Handle, Handle]:
    """Two modules `name(*args, **kwargs)`, the student's and the reference's: the same drawn parameters, in eval."""
    ours = getattr(reference, name)(*args, **kwargs)
    values = draw.parameters(ours.parameters())
    ours.load_parameters(values, evaluating=True)
    return with_values(student, values, name, *args, **kwargs), ours


def with_values(
    implementation: Implementation, values: dict[str, Tensor], name: str, *args: Any, **kwargs: Any
) -> Handle:
    """A module `name(*args, **kwargs)` with these parameters, in eval. Its first call makes it."""
    module = implementation._make(name, args, kwargs)
    module.load_parameters(values, evaluating=True)
    return module


def _placed(value: Any, came: Answer) -> Any:
    """A literal expected value, on the device where the answer is due."""
    if isinstance(value, tuple | list):
        return tuple(_placed(item, came) for item in value)
    if isinstance(value, Tensor):
        device = came._implementation._device
        return Placed(value, "cuda:0" if device == "cuda" else device)
    return value


def _argument_name(name: str) -> str:
    return _("argument {number}").format(number=int(name) + 1) if name.isdigit() else f"`{name}`"
