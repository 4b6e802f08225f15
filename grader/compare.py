"""Agree, or say how not: one answer against the expected one.

The comparison looks at structure, shape, dtype, device and values, in this order, and never calls student code. How far
values may lie apart follows from the dtype and from the length of the longest sum behind a value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grader.failure import CheckFailed
from grader.language import gettext as _
from grader.messages import HandleId, Opaque, Placed
from grader.results import Parting
from grader.show import show_apart, show_number, show_tensor, show_value

# A straightforward way rounds each of its sums once or twice per term, and errors of random sign add up like the square
# root of their number. Sixteen units leave room for another order of summing, another base of the exponential and a
# constant shift; half precision is summed in float32 by most kernels, so four units are plenty there.
UNITS = {torch.float64: 16.0, torch.float32: 16.0, torch.float16: 4.0, torch.bfloat16: 4.0}
GRADIENT_ROOM = 4.0  # a gradient passes through the forward's roundings and its own
SCALE_FLOOR = 1e-3  # below this size a difference is not told from rounding
AS_FAR_AS_FLOAT32 = (2e-9, 2e-6)  # the share of its size by which a float64 is off that was a float32 before
PICTURE_SIZE = 32  # rows and columns up to which a difference is drawn
GRADIENT_FLOOR = 0.3  # a gradient that is zero by cancellation is judged by the size of its neighbours


@dataclass(frozen=True)
class Tolerance:
    """How far values may lie apart: `units` roundings of the dtype for each of sqrt(`terms`), 0 for bit for bit."""

    terms: int = 1
    exact: bool = False

    def of(self, dtype: torch.dtype, scale: float, room: float = 1.0) -> float:
        """The largest difference allowed between values of this dtype whose largest size is `scale`."""
        if self.exact or dtype not in UNITS:
            return 0.0
        return UNITS[dtype] * room * torch.finfo(dtype).eps * math.sqrt(self.terms) * scale


def require_agreement(came: Any, expected: Any, tolerance: Tolerance, where: str = "") -> None:
    """Raises CheckFailed, saying how, unless `came` agrees with `expected` (values as messages carry them)."""
    if isinstance(expected, tuple):
        if not isinstance(came, tuple) or len(came) != len(expected):
            raise CheckFailed(
                located(
                    _("expected  a tuple of {count} values\ncame      {came}").format(
                        count=len(expected), came=show_value(came)
                    )
                    + ("" if where else returned_nothing(came)),
                    where,
                )
            )
        for index, (part, wanted) in enumerate(zip(came, expected, strict=True)):
            place = _("value {number} of the {count} returned").format(number=index + 1, count=len(expected))
            require_agreement(part, wanted, tolerance, place)
        return
    if isinstance(expected, Placed):
        if not isinstance(came, Placed):
            raise CheckFailed(
                located(
                    _("expected  a tensor of shape {shape}\ncame      {came}").format(
                        shape=tuple(expected.tensor.shape), came=show_value(came)
                    )
                    + ("" if where else returned_nothing(came)),
                    where,
                )
            )
        require_same_kind(came, expected, where)
        if expected.device != "meta" and not torch.equal(came.tensor, expected.tensor):
            scale = magnitude(expected.tensor, SCALE_FLOOR)
            require_close(came.tensor, expected.tensor, tolerance.of(expected.tensor.dtype, scale), where)
        return
    if isinstance(expected, float) and isinstance(came, float | int) and not isinstance(came, bool):
        room = tolerance.of(torch.float64, max(abs(expected), SCALE_FLOOR))
        agrees = came == expected or abs(came - expected) <= room
    else:
        agrees = type(came) is type(expected) and (isinstance(expected, HandleId | Opaque) or came == expected)
    if not agrees:
        raise CheckFailed(
            located(
                _("expected  {expected}\ncame      {came}").format(expected=show_value(expected), came=show_value(came))
                + ("" if where else returned_nothing(came)),
                where,
            )
        )


def returned_nothing(came: Any) -> str:
    """A line for who has computed something and not returned it; empty where something came."""
    return "\n" + _("Nothing was returned. Does each way through the code end in `return`?") if came is None else ""


def require_gradients(came: dict[str, Placed | None], expected: dict[str, Placed | None], tolerance: Tolerance) -> None:
    """Raises CheckFailed unless every gradient agrees; one that no path reaches counts as zeros where those are due."""
    largest: float | None = None
    for name, wanted in expected.items():
        if wanted is None:
            continue
        found, where = came.get(name), _("the gradient of {name}").format(name=_input_name(name))
        if found is None:
            if wanted.device == "meta" or magnitude(wanted.tensor, 0.0) > 0:
                raise no_gradient(name)
            continue
        require_same_kind(found, wanted, where)
        if wanted.device != "meta" and not torch.equal(found.tensor, wanted.tensor):
            if largest is None:
                largest = max(magnitude(value.tensor, 0.0) for value in expected.values() if value is not None)
            scale = max(magnitude(wanted.tensor, SCALE_FLOOR), GRADIENT_FLOOR * largest)
            room = tolerance.of(wanted.tensor.dtype, scale, GRADIENT_ROOM)
            require_close(found.tensor, wanted.tensor, room, where)


def no_gradient(name: str) -> CheckFailed:
    """What is said where no gradient arrives at an argument or a parameter."""
    return CheckFailed(
        _(
            "{where} does not exist: no path leads from the result back to it. "
            "Was something detached, copied out of torch, or computed under no_grad?"
        ).format(where=_("the gradient of {name}").format(name=_input_name(name)))
    )


def require_same_kind(came: Placed, expected: Placed, where: str = "") -> None:
    """Raises CheckFailed unless shape, dtype and device agree."""
    mine, wanted = came.tensor, expected.tensor
    if mine.shape == wanted.shape and mine.dtype == wanted.dtype and came.device == expected.device:
        return  # nearly always: before a sentence is translated for nothing
    pairs = (
        (
            _("expected  shape {expected}\ncame      shape {came}"),
            tuple(wanted.shape),
            tuple(mine.shape),
        ),
        (_("expected  dtype {expected}\ncame      dtype {came}"), dtype_name(wanted), dtype_name(mine)),
        (_("expected  device {expected}\ncame      device {came}"), expected.device, came.device),
    )
    for sentence, right, found in pairs:
        if right != found:
            raise CheckFailed(located(sentence.format(expected=right, came=found), where))


def require_close(came: Tensor, expected: Tensor, room: float, where: str = "") -> None:
    """Raises CheckFailed unless every value lies within `room` of the expected one; NaN never does."""
    is_double = expected.dtype == torch.float64
    if came.dtype == torch.bool or not came.is_floating_point():
        apart = came != expected
        distance = (came.double() - expected.double()).abs()
    else:
        came, expected = came.double(), expected.double()
        distance = (came - expected).abs()
        if bool((distance <= room).all()):  # NaN and infinities, apart or alike, go on
            return
        apart = ~((distance <= room) | (came == expected))
    count = int(apart.sum())
    if count == 0:
        return
    place = tuple(int(index) for index in apart.nonzero()[0])
    finite = distance[apart & distance.isfinite()]
    wanted, found = show_apart(expected[place], came[place])
    lines = [
        _("expected  {expected}").format(expected=show_tensor(expected, around=place) if place else wanted),
        _("came      {came}").format(came=show_tensor(came, around=place) if place else found),
    ]
    if place:  # a single number has no place
        parting = _("they part at {place}: expected {expected}, came {came}")
        lines.append(parting.format(place=list(place), expected=wanted, came=found))
    if expected.numel() > 1 and not expected.is_floating_point():
        lines.append(_("{count} of {total} values differ").format(count=count, total=expected.numel()))
    elif expected.numel() > 1 and finite.numel():
        lines.append(
            _("{count} of {total} values differ, by at most {most} (allowed: {room})").format(
                count=count, total=expected.numel(), most=show_number(finite.max()), room=f"{room:.1g}"
            )
        )
    if is_double and finite.numel() and finite.numel() == count:
        low, high = (share * magnitude(expected, SCALE_FLOOR) for share in AS_FAR_AS_FLOAT32)
        if low < float(finite.max()) < high:
            lines.append(_("Numbers that were float32 somewhere on the way are about that far off."))
    raise CheckFailed(located("\n".join(lines), where), parting=_parting(expected, came, apart, place))


def _parting(expected: Tensor, came: Tensor, apart: Tensor, place: tuple[int, ...]) -> Parting | None:
    """The matrices in which the first difference lies, as numbers to draw; None when too large for a picture."""
    wanted, found, differs = (
        tensor[place[:-2]] if tensor.dim() >= 2 else tensor.reshape(1, -1) for tensor in (expected, came, apart)
    )
    if wanted.numel() == 0 or max(wanted.shape) > PICTURE_SIZE:
        return None
    return Parting(
        expected=_drawable(wanted), came=_drawable(found), differs=differs.tolist(), slice=list(place[:-2]),
        place=[0, 0, *place][-2:],
    )  # fmt: skip


def _drawable(matrix: Tensor) -> list[list[float | bool | None]]:
    return [[value if isinstance(value, bool) else _finite(value) for value in row] for row in matrix.tolist()]


def _finite(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def magnitude(tensor: Tensor, floor: float) -> float:
    """The largest finite size in the tensor, at least `floor`."""
    if tensor.numel() == 0:
        return floor
    sizes = tensor.abs() if tensor.is_floating_point() else tensor.double().abs()
    largest = float(sizes.max())  # NaN where there is one
    return max(largest if math.isfinite(largest) else float(sizes.where(sizes.isfinite(), 0.0).max()), floor)


def dtype_name(tensor: Tensor) -> str:
    """`float32` and not `torch.float32`."""
    return str(tensor.dtype).removeprefix("torch.")


def located(message: str, where: str) -> str:
    """The message under a line that says which part of the answer it is about."""
    return _("In {where}:").format(where=where) + "\n" + message if where else message


def _input_name(name: str) -> str:
    if name.isdigit():
        return _("argument {number}").format(number=int(name) + 1)
    return f"`{name}`"
