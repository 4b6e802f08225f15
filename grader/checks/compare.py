"""Compares an answer with the expected one, and says how they differ.

The comparison looks at structure, shape, dtype, device and values, in this order, and never calls student code. The
tolerance follows from the dtype and from the length of the longest sum behind a value.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.base.errors import CheckFailed
from grader.base.language import gettext as _
from grader.base.results import Parting
from grader.calls.values import HandleId, Opaque, PlacedTensor, as_tensor
from grader.checks.value_text import show_apart, show_number, show_tensor, show_value

# A straightforward implementation rounds each of its sums once or twice per term, and errors of random sign add up like
# the square root of their number. Sixteen units allow another order of summation, another base of the exponential and a
# constant shift; most kernels sum half precision in float32, so four units are plenty there.
UNITS = {torch.float64: 16.0, torch.float32: 16.0, torch.float16: 4.0, torch.bfloat16: 4.0}
GRADIENT_ROOM = 4.0  # a gradient has the roundings of the forward pass and its own
SCALE_FLOOR = 1e-3  # below this, a difference can't be distinguished from rounding
AS_FAR_AS_FLOAT32 = (2e-9, 2e-6)  # the relative error of a float64 that was a float32 before
FEW = 4  # numbers may be those of a float32 by chance
MOST = 20  # unexpected entries that are named in a message
PICTURE_SIZE = 32  # the most rows and columns of a matrix that is drawn
GRADIENT_FLOOR = 0.3  # a gradient that is zero by cancellation is compared relative to the other gradients
AN_OBJECT = "an object of type "  # how what can't be sent is described


@dataclass(frozen=True)
class Tolerance:
    """The tolerance: `units` roundings of the dtype times sqrt(`terms`); 0 for bit-exact."""

    terms: int = 1
    exact: bool = False

    def of(self, dtype: torch.dtype, scale: float, room: float = 1.0) -> float:
        """The largest difference allowed between values of this dtype with a largest size of `scale`."""
        if self.exact or dtype not in UNITS:
            return 0.0
        return UNITS[dtype] * room * torch.finfo(dtype).eps * math.sqrt(self.terms) * scale


def require_agreement(got: Any, expected: Any, tolerance: Tolerance, where: str = "") -> None:
    """Raises CheckFailed, saying how, unless `got` agrees with `expected` (values as messages carry them). `where`: the
    part of the answer that they are, in words, for the message; empty for the whole."""
    match expected:
        case tuple():
            _require_items(got, expected, tolerance, where)
        case dict():
            _require_entries(got, expected, tolerance, where)
        case PlacedTensor():
            _require_tensor(got, expected, tolerance, where)
        case np.ndarray():
            _require_array(got, expected, tolerance, where)
        case _:
            _require_plain(got, expected, tolerance, where)


def _require_items(got: Any, expected: tuple[Any, ...], tolerance: Tolerance, where: str) -> None:
    """Raises CheckFailed unless `got` is a tuple of as many values, each of which agrees."""
    count = len(expected)
    if not isinstance(got, tuple) or len(got) != count:
        raise _another_kind(_("a tuple of {count} values").format(count=count), got, where)
    for index, (part, wanted) in enumerate(zip(got, expected, strict=True)):
        place = _("value {number} of the {count} returned").format(number=index + 1, count=count)
        require_agreement(part, wanted, tolerance, _part_of(where, place))


def _require_entries(got: Any, expected: dict[str, Any], tolerance: Tolerance, where: str) -> None:
    """Raises CheckFailed unless two dictionaries agree entry by entry, in any order."""
    names = ", ".join(f"`{name}`" for name in expected)
    if not isinstance(got, dict):
        raise _another_kind(_("a dict with the entries {names}").format(names=names), got, where)
    missing, extra = [name for name in expected if name not in got], [name for name in got if name not in expected]
    if missing or extra:
        lines = [_("The dict does not have the entries that the step asks for.")]
        lines += [_("missing: {names}").format(names=", ".join(missing))] if missing else []
        lines += [_("unexpected: {names}").format(names=", ".join(extra[:MOST]))] if extra else []
        raise CheckFailed(located("\n".join(lines), where))
    for name, wanted in expected.items():
        require_agreement(got[name], wanted, tolerance, _part_of(where, _("entry {name}").format(name=f"`{name}`")))


def _part_of(outer: str, inner: str) -> str:
    """A part within a part of the answer, in words; `outer` may be empty."""
    return f"{outer}, {inner}" if outer else inner


def _require_tensor(got: Any, expected: PlacedTensor, tolerance: Tolerance, where: str) -> None:
    """Raises CheckFailed unless `got` is a tensor of the same shape, dtype and device, with values within the
    tolerance."""
    if not isinstance(got, PlacedTensor):
        raise _another_kind(_("a tensor of shape {shape}").format(shape=tuple(expected.tensor.shape)), got, where)
    require_same_kind(got, expected, where)
    if expected.device != "meta" and not torch.equal(got.tensor, expected.tensor):
        scale = magnitude(expected.tensor, SCALE_FLOOR)
        require_close(got.tensor, expected.tensor, tolerance.of(expected.tensor.dtype, scale), where)


def _require_array(got: Any, expected: np.ndarray[Any, Any], tolerance: Tolerance, where: str) -> None:
    """Raises CheckFailed unless `got` is a NumPy array of the same shape and dtype, with values within the
    tolerance."""
    wanted = _("a NumPy array of shape {shape}").format(shape=expected.shape)
    if isinstance(got, PlacedTensor):
        tensor = _("a tensor of shape {shape}").format(shape=tuple(got.tensor.shape))
        sentence = _("expected  {expected}\ngot       {got}").format(expected=wanted, got=tensor)
        raise CheckFailed(located(sentence, where))
    if not isinstance(got, np.ndarray):
        raise _another_kind(wanted, got, where)
    _require_tensor(PlacedTensor(as_tensor(got), ""), PlacedTensor(as_tensor(expected), ""), tolerance, where)


def _require_plain(got: Any, expected: Any, tolerance: Tolerance, where: str) -> None:
    """Raises CheckFailed unless a plain value is of the same type and equal; floats may differ by the tolerance."""
    if isinstance(expected, float) and isinstance(got, float | int) and not isinstance(got, bool):
        room = tolerance.of(torch.float64, max(abs(expected), SCALE_FLOOR))
        # An int beyond the range of floats can't be subtracted from a float.
        agrees = got == expected or (abs(got) <= sys.float_info.max and abs(got - expected) <= room)
    else:
        agrees = type(got) is type(expected) and (isinstance(expected, HandleId | Opaque) or got == expected)
    if not agrees and isinstance(expected, float) and isinstance(got, float):
        wanted, shown = show_apart(*(torch.tensor(number, dtype=torch.float64) for number in (expected, got)))
        raise CheckFailed(located(_("expected  {expected}\ngot       {got}").format(expected=wanted, got=shown), where))
    if not agrees:
        raise _another_kind(show_value(expected), got, where)


def _another_kind(expected: str, got: Any, where: str) -> CheckFailed:
    """The failure of an answer of another type or value; `expected` is text, `where` as for `require_agreement`."""
    shown = show_value(got)
    if shown == expected and isinstance(got, PlacedTensor):  # a tensor looks like the number in it
        shown = _("a tensor of shape {shape}").format(shape=tuple(got.tensor.shape))
    sentence = _("expected  {expected}\ngot       {got}").format(expected=expected, got=shown)
    return CheckFailed(located(sentence + ("" if where else returned_nothing(got)), where))


def returned_nothing(got: Any) -> str:
    """A hint, on a line of its own, for None (a missing `return`) and for an object (a class in place of a function);
    empty for any other value."""
    if isinstance(got, HandleId) or (isinstance(got, Opaque) and got.what.startswith(AN_OBJECT)):
        return "\n" + _("A class gives an object when it is called: does the step ask for a function here?")
    return "\n" + _("Nothing was returned. Does every path through the code end in `return`?") if got is None else ""


def require_gradients(
    got: dict[str, PlacedTensor | None], expected: dict[str, PlacedTensor | None], tolerance: Tolerance
) -> None:
    """Raises CheckFailed unless every gradient agrees; a missing one counts as zeros if zeros, up to rounding, are
    expected."""
    largest: float | None = None
    for name, wanted in expected.items():
        if wanted is None:
            continue
        gradient, where = got.get(name), _("the gradient of {name}").format(name=argument_name(name))
        if gradient is not None:
            require_same_kind(gradient, wanted, where)
            if wanted.device == "meta" or torch.equal(gradient.tensor, wanted.tensor):
                continue
        elif wanted.device == "meta":
            raise no_gradient(name)
        if largest is None:
            largest = largest_of(expected)
        room = gradient_room(wanted.tensor, largest, tolerance)
        if gradient is not None:
            require_close(gradient.tensor, wanted.tensor, room, where)
        elif magnitude(wanted.tensor, 0.0) > room:
            raise no_gradient(name)


def largest_of(gradients: dict[str, PlacedTensor | None]) -> float:
    """The largest absolute value in any of the gradients; 0.0 if all are missing or on `meta`."""
    tensors = [gradient.tensor for gradient in gradients.values() if gradient and gradient.device != "meta"]
    return max([0.0, *(magnitude(tensor, 0.0) for tensor in tensors)])


def gradient_room(wanted: Tensor, largest: float, tolerance: Tolerance) -> float:
    """The largest difference allowed from a gradient; `largest` as from `largest_of` for all gradients of the call."""
    scale = max(magnitude(wanted, SCALE_FLOOR), GRADIENT_FLOOR * largest)
    return tolerance.of(wanted.dtype, scale, GRADIENT_ROOM)


def no_gradient(name: str) -> CheckFailed:
    """The failure for an argument or parameter, by name or position, that no gradient reaches."""
    return CheckFailed(
        _(
            "{where} does not exist: no path leads from the result back to it. Was a tensor detached, copied "
            "out of torch, or computed under no_grad?"
        ).format(where=_("the gradient of {name}").format(name=argument_name(name)))
    )


def require_same_kind(got: PlacedTensor, expected: PlacedTensor, where: str = "") -> None:
    """Raises CheckFailed unless shape, dtype and device agree."""
    mine, wanted = got.tensor, expected.tensor
    if mine.shape == wanted.shape and mine.dtype == wanted.dtype and got.device == expected.device:
        return  # the usual case: returns before any sentence is translated
    pairs = (
        (
            _("expected  shape {expected}\ngot       shape {got}"),
            tuple(wanted.shape),
            tuple(mine.shape),
        ),
        (_("expected  dtype {expected}\ngot       dtype {got}"), dtype_name(wanted), dtype_name(mine)),
        (_("expected  device {expected}\ngot       device {got}"), expected.device, got.device),
    )
    for sentence, right, other in pairs:
        if right != other:
            raise CheckFailed(located(sentence.format(expected=right, got=other), where))


def require_close(got: Tensor, expected: Tensor, room: float, where: str = "") -> None:
    """Raises CheckFailed unless every value is within `room` of the expected one; NaN never is."""
    is_double = expected.dtype == torch.float64
    if got.dtype == torch.bool or not got.is_floating_point():
        apart = got != expected
        distance = (got.double() - expected.double()).abs()
    else:
        got, expected = got.double(), expected.double()
        distance = (got - expected).abs()
        if bool((distance <= room).all()):  # NaN and infinities continue below
            return
        apart = ~((distance <= room) | (got == expected))
    count = int(apart.sum())
    if count == 0:
        return
    wrong = apart & ~(got.isnan() & expected.isnan())
    if not bool(wrong.any()):
        raise CheckFailed(located(_("The result holds NaN, which agrees with nothing."), where))
    index = tuple(int(index) for index in wrong.nonzero()[0])
    finite = distance[apart & distance.isfinite()]
    wanted, shown = show_apart(expected[index], got[index])
    lines = [
        _("expected  {expected}").format(expected=show_tensor(expected, around=index) if index else wanted),
        _("got       {got}").format(got=show_tensor(got, around=index) if index else shown),
    ]
    if index:  # a single number has no index
        parting = _("first difference at {place}: expected {expected}, got {got}")
        lines.append(parting.format(place=list(index), expected=wanted, got=shown))
    if expected.numel() > 1 and not expected.is_floating_point():
        lines.append(_("{count} of {total} values differ").format(count=count, total=expected.numel()))
    elif expected.numel() > 1 and finite.numel():
        lines.append(
            _("{count} of {total} values differ, by at most {most} (allowed: {room})").format(
                count=count, total=expected.numel(), most=show_number(finite.max()), room=f"{room:.1g}"
            )
        )
    failure = CheckFailed(located("\n".join(lines), where), parting=_parting(expected, got, apart, index))
    if is_double and finite.numel() and finite.numel() == count:
        _notice_float32(failure, got, expected, apart)
    raise failure


def _notice_float32(failure: CheckFailed, got: Tensor, expected: Tensor, apart: Tensor) -> None:
    """Adds to the failure, if the difference has that size, that float64 values were rounded to float32; marks it if
    they may have been."""
    low, high = (share * magnitude(expected, SCALE_FLOOR) for share in AS_FAR_AS_FLOAT32)
    if not low < float((got - expected)[apart].abs().max()) < high:
        return
    if int(apart.sum()) >= FEW and torch.equal(got.float().double(), got):
        failure.message += "\n" + were_float32()
    else:
        failure.as_float32 = _rounded(got[apart], expected[apart])


def were_float32() -> str:
    """The sentence about a float64 that was a float32 before."""
    return _("Numbers that were float32 somewhere on the way are about that far off.")


def _rounded(got: Tensor, expected: Tensor) -> bool:
    """Whether differences are those of rounding: some up, some down. A guard added to a sum makes every size
    smaller."""
    shares = (got - expected) / expected
    return bool((shares > 0).any() and (shares < 0).any())


def _parting(expected: Tensor, got: Tensor, apart: Tensor, index: tuple[int, ...]) -> Parting | None:
    """The matrices that contain the first difference, at `index`, as numbers to draw; None if they are too large for a
    picture. `apart`: which values differ, as booleans."""
    wanted, own, differs = (
        tensor[index[:-2]] if tensor.dim() >= 2 else tensor.reshape(1, -1) for tensor in (expected, got, apart)
    )
    if wanted.numel() == 0 or max(wanted.shape) > PICTURE_SIZE:
        return None
    return Parting(
        expected=_drawable(wanted),
        got=_drawable(own),
        differs=differs.tolist(),
        slice=list(index[:-2]),
        place=[0, 0, *index][-2:],
    )


def _drawable(matrix: Tensor) -> list[list[float | bool | None]]:
    """The rows of a matrix; numbers have six digits, None is for NaN and infinities."""
    return [[value if isinstance(value, bool) else _finite(value) for value in row] for row in matrix.tolist()]


def _finite(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def magnitude(tensor: Tensor, floor: float) -> float:
    """The largest finite absolute value in the tensor, at least `floor`."""
    if tensor.numel() == 0:
        return floor
    sizes = tensor.abs() if tensor.is_floating_point() else tensor.double().abs()
    largest = float(sizes.max())  # NaN if there is one
    return max(largest if math.isfinite(largest) else float(sizes.where(sizes.isfinite(), 0.0).max()), floor)


def dtype_name(tensor: Tensor) -> str:
    """The name of a tensor's dtype, `float32` and not `torch.float32`."""
    return str(tensor.dtype).removeprefix("torch.")


def located(message: str, where: str) -> str:
    """The message below a line that names the part of the answer."""
    return _("In {where}:").format(where=where) + "\n" + message if where else message


def argument_name(name: str) -> str:
    """The words for an argument, of which the name is its position from "0" on, or for a parameter or keyword."""
    return _("argument {number}", number=int(name) + 1) if name.isdigit() else f"`{name}`"
