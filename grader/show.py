"""Values as a person reads them in one message: short, and with the numbers that matter."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from grader.language import gettext as _
from grader.messages import Call, HandleId, Opaque, Placed

SMALL = 24  # elements that are shown whole
ROW = 8  # elements of one row that are shown


def show_number(value: Tensor | float | int | bool) -> str:
    """One number with four decimals, or as many as its size needs."""
    if isinstance(value, Tensor):
        value = value.item()
    if isinstance(value, bool | int):
        return str(value)
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    size = abs(value)
    if value == int(value) and size < 1e6:
        return f"{value:.1f}"
    return f"{value:.4f}" if 1e-3 <= size < 1e5 else f"{value:.3g}"


def show_apart(first: Tensor, second: Tensor) -> tuple[str, str]:
    """Two numbers that differ, with as many digits as it takes to see it."""
    shown = show_number(first), show_number(second)
    if shown[0].rstrip("0") != shown[1].rstrip("0"):  # 1.0 and 1.0000 look the same
        return shown
    one, other = first.item(), second.item()
    digits = next((count for count in range(5, 17) if f"{one:.{count}g}" != f"{other:.{count}g}"), 17)
    return f"{one:.{digits}g}", f"{other:.{digits}g}"


def show_tensor(tensor: Tensor, around: tuple[int, ...] | None = None) -> str:
    """A small tensor whole; of a large one the row in which `around` lies, and the shape."""
    if tensor.device.type == "meta":
        return _("{kind} on meta").format(kind=_kind(tensor))
    if _is_short(tensor):
        return _nested(tensor.tolist())
    if not around:
        return _kind(tensor)
    row, position = tensor[around[:-1]], around[-1]
    start = max(0, min(position - ROW // 2, row.numel() - ROW))
    shown = ", ".join(show_number(value) for value in row[start : start + ROW].tolist())
    before, after = "… " if start else "", " …" if start + ROW < row.numel() else ""
    prefix = "".join(f"{index}, " for index in around[:-1])
    return f"[{prefix}:] = [{before}{shown}{after}]"


def show_value(value: Any) -> str:
    """Any value that a message carries, in a few words."""
    match value:
        case Placed(tensor=tensor) | (Tensor() as tensor):
            return show_tensor(tensor) if _is_short(tensor) else _("a tensor of {kind}").format(kind=_kind(tensor))
        case Opaque(what):
            return what
        case HandleId():
            return _("a module")
        case tuple() | list():
            inner = ", ".join(show_value(item) for item in value[:6]) + (", …" if len(value) > 6 else "")
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        case float():
            return show_number(value)
        case dict():
            return "{" + ", ".join(f"{key}: {show_value(item)}" for key, item in list(value.items())[:6]) + "}"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def show_call(call: Call, maker: str = "") -> str:
    """A call as the learner would type it, tensors by their values when small, else by dtype and shape."""
    parts = [_argument(value) for value in call.args]
    parts += [f"{name}={_argument(value)}" for name, value in call.kwargs.items()]
    name = call.name if call.handle is None else maker if call.name == "__call__" else f"{maker}.{call.name}"
    return f"{name}({', '.join(parts)})"


def _argument(value: Any) -> str:
    if isinstance(value, Tensor):
        return show_tensor(value) if value.numel() <= 12 and value.device.type != "meta" else _kind(value)
    if isinstance(value, HandleId):
        return "model"
    if isinstance(value, dict):
        return "{…}"
    return show_value(value)


def _is_short(tensor: Tensor) -> bool:
    """Whether a tensor is shown whole. One without an element is not, unless it is flat: it may have any number of
    empty rows."""
    return 0 < tensor.numel() <= SMALL or tensor.shape == (0,)


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _nested(values: Any) -> str:
    if isinstance(values, list):
        return "[" + ", ".join(_nested(value) for value in values) + "]"
    return show_number(values)
