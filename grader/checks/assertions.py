"""The names for check files: everything that an author of a step imports.

A check is a pytest function with the arguments `student`, `reference` and `draw`. Its docstring's first line is the
title that the learner reads, `points` what it is worth. A function that "fails" raises CheckFailed, with what the
learner reads; if the answer was not sent for yet, it returns, and compares as soon as that is there (`lazy`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from msgspec.structs import replace
from torch import Tensor

from grader.base.errors import CheckFailed
from grader.base.language import gettext as _
from grader.calls import devices
from grader.calls.values import PlacedTensor, leaves, mapped
from grader.checks.bounded import lifted
from grader.checks.compare import (
    Tolerance,
    argument_name,
    no_gradient,
    require_agreement,
    require_gradients,
    were_float32,
)
from grader.checks.draws import Draw
from grader.checks.implementation import Answer, Handle, Implementation
from grader.checks.lazy import at_once, waits
from grader.checks.reproduction import Due
from grader.checks.value_text import show_number, show_value

__all__ = [
    "GUARDED",
    "GUARDED_TWICE",
    "Answer",
    "Draw",
    "Handle",
    "Implementation",
    "_",
    "agree",
    "binomial_bound",
    "deadline",
    "drawn_as",
    "exactly",
    "fitting",
    "future_has_no_effect",
    "gradients_arrive",
    "holds",
    "must_raise",
    "on_meta",
    "points",
    "repeats",
    "sums_to_one",
    "twins",
    "unmodified",
    "with_values",
]

Check = TypeVar("Check", bound=Callable[..., None])

# Two-sided normal quantile of a false-alarm rate of 1e-7, and a little for the normal approximation.
ALARM_DEVIATIONS = 5.5

# `terms` of a softmax in float64, which makes the tolerance 1e-10: a guard of that size next to its denominator passes,
# a detour through float32 does not.
GUARDED = 10**9
# The same if guards add up, as next to the root of the width and in a softmax: 1e-9.
GUARDED_TWICE = 100 * GUARDED


def points(number: float) -> Callable[[Check], Check]:
    """Sets the points of a check. Raises ValueError unless it is a number above 0."""
    _above_zero("points", number)

    def mark(check: Check) -> Check:
        check.points = float(number)  # type: ignore[attr-defined]  # functions take attributes
        return check

    return mark


def deadline(seconds: float) -> Callable[[Check], Check]:
    """Sets the time limit in seconds of each call in the check, if it differs from `base/limits.py`. Raises ValueError
    unless it is a number above 0."""
    _above_zero("deadline", seconds)

    def mark(check: Check) -> Check:
        check.deadline = float(seconds)  # type: ignore[attr-defined]  # functions take attributes
        return check

    return mark


def drawn_as(what: Literal["arrows", "curves"]) -> Callable[[Check], Check]:
    """Says what a check compares, for the page's picture next to the heat map: matrices with pairs of columns that are
    `arrows`, or with columns that are `curves` over the rows."""

    def mark(check: Check) -> Check:
        check.drawn_as = what  # type: ignore[attr-defined]  # functions take attributes
        return check

    return mark


def _above_zero(name: str, number: object) -> None:
    """Raises ValueError, naming the decorator `name`, unless `number` is a finite number above 0."""
    if not isinstance(number, int | float) or not 0 < number < math.inf:
        got = getattr(number, "__name__", number)  # written without parentheses, the decorator gets the check itself
        raise ValueError(f"@{name}(…) takes a number above 0, and not {got}")


def agree(got: Answer, expected: Any, *, terms: int = 1, note: str | None = None, shows: Answer | None = None) -> None:
    """Fails unless `got` agrees with `expected` in structure, shape, dtype, device and values, then in gradients.

    `terms` is the length of the longest sum behind a value: with the dtype, it sets the tolerance. `expected` is an
    answer of the reference, or a value: a tensor, an array, tuples and dicts of them. `note` is added when it fails.
    `shows`: the answer of the call that is judged, if `got` only shows what it did, as a model's logits do of the step
    that trained it. Of a call with `using(part=…)` only this one of the values returned is compared, with that of the
    reference's, or with a value; no gradients then.
    """
    if waits(got, lambda: agree(got, expected, terms=terms, note=note, shows=shows)):
        return
    try:
        _compare(got, expected, Tolerance(terms), note)
    except CheckFailed as failure:
        failure.blames = shows.exchange.name if shows else ""
        raise


def exactly(got: Answer, expected: Any, *, note: str | None = None) -> None:
    """Like `agree`, but bit for bit: for masks, permutations, token ids."""
    if not waits(got, lambda: exactly(got, expected, note=note)):
        _compare(got, expected, Tolerance(exact=True), note)


def on_meta(answer: Answer) -> Answer:
    """An answer of the reference as the same call gives it on the device `meta`: the shapes are the same there."""
    value = mapped(
        answer.outcome.value,
        lambda leaf: PlacedTensor(leaf.tensor.to("meta"), "meta") if isinstance(leaf, PlacedTensor) else leaf,
    )
    return Answer(answer._implementation, answer.exchange, replace(answer.outcome, value=value, gradients={}))


def _compare(got: Answer, expected: Any, tolerance: Tolerance, note: str | None) -> None:
    """Raises CheckFailed unless an answer agrees with the expected one, its gradients too. The failure has the call
    that gave the answer, what was expected, and the note."""
    part = got.exchange.call.options.part
    wanted = expected.outcome.value if isinstance(expected, Answer) else _placed(expected, got)
    value, index = got.outcome.value, ""
    if part is not None:
        if not isinstance(value, tuple) or len(value) <= part:
            got.tensors(max(part + 1, 2))  # says what was returned instead
        value, index = value[part], f"[{part}]"
        wanted = wanted[part] if isinstance(expected, Answer) else wanted
    try:
        with lifted():
            require_agreement(value, wanted, tolerance)
            if isinstance(expected, Answer) and part is None:
                require_gradients(got.outcome.gradients, expected.outcome.gradients, tolerance)
    except CheckFailed as failure:
        failure.called = failure.called or got.shown
        failure.about, failure.due = got.exchange, Due(wanted, _gradients(expected), tolerance, index)
        # Being that far off proves nothing, as a constant of seven digits is: the call was watched.
        if failure.as_float32 and got.outcome.narrowed:
            failure.message += "\n" + were_float32()
        if note:
            failure.message += "\n" + note
        raise
    got.exchange.right = part is None


def _gradients(expected: Any) -> dict[str, PlacedTensor | None]:
    """The gradients of an expected answer, by argument or parameter; empty for a plain value."""
    return expected.outcome.gradients if isinstance(expected, Answer) else {}


def holds(condition: bool | Tensor, sentence: str, *, about: Answer | None = None) -> None:
    """Fails with the sentence unless the condition holds. It says what the code gave and what was expected.

    `about`: the answer that was wrong, if it is not the last one.
    """
    if not bool(condition):
        failed = CheckFailed(sentence)
        failed.about = about.exchange if about else None
        raise failed


def must_raise(call: Callable[[], object], reason: str) -> None:
    """Fails unless the call raises an error in the learner's code. `reason` says what is wrong with the arguments."""
    try:
        with at_once():
            returned = call()
    except CheckFailed as failure:
        if failure.by_code:
            return
        raise
    got = show_value(returned.outcome.value) if isinstance(returned, Answer) else show_value(returned)
    failed = CheckFailed(
        _("expected  an error: {reason}\ngot       {got}").format(reason=reason, got=got),
        called=returned.shown if isinstance(returned, Answer) else "",
    )
    failed.due = Due(raises=reason)
    if isinstance(returned, Answer):
        failed.about = returned.exchange
        returned.exchange.due_error = True
    raise failed


def unmodified(answer: Answer) -> None:
    """Fails if the call changed one of its tensor arguments, or the result of the call before."""
    if waits(answer, lambda: unmodified(answer)):
        return
    if answer.outcome.overwritten:
        raise CheckFailed(
            _(
                "The call changed the result of an earlier one, with other values: both are the same memory. Give each "
                "result a tensor of its own."
            ),
            called=answer.shown,
        )
    if answer.outcome.modified:
        names = ", ".join(argument_name(name) for name in answer.outcome.modified)
        raise CheckFailed(
            _(
                "The call modified its own input ({names}). Create a new tensor instead: `+=`, `/=`, `x[...] = "
                "...` and methods whose names end in `_` overwrite the tensor they are given."
            ).format(names=names),
            called=answer.shown,
        )


def gradients_arrive(answer: Answer) -> None:
    """Fails unless a gradient arrives at every argument and parameter: for random answers, which can't be compared."""
    if waits(answer, lambda: gradients_arrive(answer)):
        return
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
        of_one = _("The weights of slice {place} sum to {sum}; they should sum to 1.")
        sentence = of_one if place else _("The weights sum to {sum}; they should sum to 1.")
        raise CheckFailed(sentence.format(place=place, sum=show_number(sums[tuple(place)])))


def repeats(call: Callable[[], Answer]) -> Answer:
    """The answer of a call that is made twice, before it is compared with another call. Fails unless both answers are
    the same: random ones differ whatever was changed."""
    first, again = call(), call()
    one, other = (list(leaves(answer.outcome.value)) for answer in (first, again))
    for mine, theirs in zip(one, other, strict=False):
        if (
            isinstance(mine, PlacedTensor)
            and isinstance(theirs, PlacedTensor)
            and mine.tensor.shape == theirs.tensor.shape
        ):
            with lifted():
                gap = (mine.tensor.double() - theirs.tensor.double()).abs().nan_to_num(0.0, 0.0, 0.0)
            largest = float(gap.max()) if gap.numel() else 0.0
            sentence = _(
                "Called twice with the same input, it gave two answers, which differ by up to {gap:.2g}: it is random "
                "where nothing may be."
            )
            holds(largest <= 1e-4, sentence.format(gap=largest), about=again)
    return first


def future_has_no_effect(theirs: Handle, x: Tensor) -> None:
    """Fails if changing later tokens of `x` (B, T, D) changes the output of an earlier one. The module is in eval."""
    theirs.eval()
    tokens = x.shape[1]
    before = repeats(lambda: theirs(x)).tensor()
    room = 64 * 1.2e-7 * max(1.0, float(before.double().abs().nan_to_num().max()))
    for first_changed in sorted({1, tokens // 2, tokens - 1} - {0}):
        changed = x.clone()
        changed[:, first_changed:] = -3.0 * x[:, first_changed:] + 1.0
        answer = theirs(changed)
        after = answer.tensor()
        holds(
            after.shape == before.shape and before.shape[:2] == x.shape[:2] and before.dim() > 2,
            _("What was returned has a shape that does not fit: {shapes}").format(shapes=tuple(after.shape)),
        )
        gap = (after[:, :first_changed].double() - before[:, :first_changed].double()).abs()
        seen = (~(gap <= room)).flatten(2).any(-1).any(0).nonzero()
        if len(seen):
            failed = CheckFailed(
                _(
                    "Changing tokens {changed} and later also changed the output of the earlier token {seen}: "
                    "it sees the future."
                ).format(changed=first_changed, seen=int(seen[0])),
                called=answer.shown,
            )
            failed.about, failed.due = answer.exchange, Due(before[:, :first_changed], part=f"[:, :{first_changed}]")
            raise failed


def binomial_bound(trials: int, p: float) -> float:
    """The distance that an observed rate over `trials` draws may have from `p`: a right answer fails once in 10
    million."""
    return ALARM_DEVIATIONS * math.sqrt(max(p * (1 - p), 1e-12) / trials) + 1 / trials


def twins(
    student: Implementation, reference: Implementation, draw: Draw, name: str, *args: Any,
    changed: Callable[[dict[str, Tensor]], dict[str, Tensor]] = dict, **kwargs: Any,
) -> tuple[Handle, Handle]:  # fmt: skip
    """Two modules `name(*args, **kwargs)`, the student's and the reference's: with the same drawn parameters, which
    `changed` may alter (to switch off a part that has its own checks, say); in eval mode."""
    ours = getattr(reference, name)(*args, **kwargs)
    values = changed(draw.parameters(ours.outline()))
    ours.load_parameters(values, evaluating=True)
    return with_values(student, values, name, *args, **kwargs), ours


def with_values(
    implementation: Implementation, values: dict[str, Tensor], name: str, *args: Any, **kwargs: Any
) -> Handle:
    """A module `name(*args, **kwargs)` with these parameters, in evaluation mode. Its first call makes it, and fails if
    the names or shapes do not fit."""
    module = implementation._make(name, args, kwargs)
    module.load_parameters(values, evaluating=True)
    return module


def fitting(implementation: Implementation, values: dict[str, Tensor], name: str, *args: Any) -> Handle:
    """A module `name(*args)` in evaluation mode, with these parameters as far as it has them and with its own for the
    others: a bias too few costs nothing if a check is about something else."""
    module = implementation._make(name, args, {})
    module.load_fitting(values)
    return module


def _placed(value: Any, got: Answer) -> Any:
    """A literal expected value, moved to the device of the right answer: that of the inputs, or the CPU without tensors
    among them."""
    call = got.exchange.call
    is_given = call.handle is not None or any(isinstance(leaf, Tensor) for leaf in leaves((call.args, call.kwargs)))
    place = devices.with_index(got._implementation._device) if is_given else devices.CPU
    return mapped(value, lambda leaf: PlacedTensor(leaf, place) if isinstance(leaf, Tensor) else leaf)
