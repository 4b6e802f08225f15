"""Values as text: short, with the numbers that matter, for a message; and as Python source that gives them again."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.base.language import gettext as _
from grader.calls.call import Call
from grader.calls.values import HandleId, Opaque, PlacedTensor, as_tensor, folded

SMALL = 24  # most elements of a value that is shown in full
FULLY_SHOWN = 12  # most elements of an argument that is shown in numbers
ROW = 8  # elements of one row that are shown
WIDTH = 110  # of a line of source
MOST = 6  # items of a tuple or dictionary that are shown


def show_number(value: Tensor | float | int | bool) -> str:
    """A number with four decimals, or as many as its size needs."""
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
    """Two different numbers, with enough digits to see the difference."""
    shown = show_number(first), show_number(second)
    if shown[0].rstrip("0") != shown[1].rstrip("0"):  # 1.0 and 1.0000 look the same
        return shown
    one, other = first.item(), second.item()
    digits = next((count for count in range(5, 17) if f"{one:.{count}g}" != f"{other:.{count}g}"), 17)
    return f"{one:.{digits}g}", f"{other:.{digits}g}"


def show_tensor(tensor: Tensor, around: tuple[int, ...] | None = None) -> str:
    """A small tensor in full; of a large one the part of its last dimension around the index `around`, without one its
    dtype and shape; on `meta` these."""
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
    return str(folded(value, _leaf, _items, _names))


def _items(items: Iterable[str]) -> str:
    """The texts of a tuple's items as one text; only the first ones of many."""
    shown = list(itertools.islice(items, MOST + 1))
    inner = ", ".join(shown[:MOST]) + (", …" if len(shown) > MOST else "")
    return f"({inner},)" if len(shown) == 1 else f"({inner})"


def _names(items: Iterable[tuple[str, str]]) -> str:
    """The names of a dictionary and the texts of its values as one text; only the first ones of many."""
    shown = list(itertools.islice(items, MOST + 1))
    inner = ", ".join(f"{name}: {value}" for name, value in shown[:MOST]) + (", …" if len(shown) > MOST else "")
    return "{" + inner + "}"


def _leaf(value: Any) -> str:
    """One value as text, of at most 80 characters if it is plain; a large tensor is only described."""
    match value:
        case PlacedTensor(tensor=tensor) | (Tensor() as tensor):
            return show_tensor(tensor) if _is_short(tensor) else _("a tensor of {kind}").format(kind=_kind(tensor))
        case np.ndarray():
            return show_array(value)
        case Opaque(what):
            return what
        case HandleId():
            return _("a module")
        case float():
            return show_number(value)
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def show_array(array: np.ndarray[Any, Any]) -> str:
    """A small array as NumPy code; of a large one the dtype and shape."""
    tensor = as_tensor(array)
    return f"array({show_tensor(tensor)})" if _is_short(tensor) else _("an array of {kind}").format(kind=_kind(tensor))


def show_call(call: Call, maker: str = "") -> str:
    """A call as the learner would type it, tensors by their values when small, else by dtype and shape; `maker` is the
    text of the call that made the called module."""
    parts = [_argument(value) for value in call.args]
    parts += [f"{name}={_argument(value)}" for name, value in call.kwargs.items()]
    if call.own == "attribute":  # it takes no arguments
        return f"{maker}.{call.name}"
    name = call.name if call.handle is None else maker if call.name == "__call__" else f"{maker}.{call.name}"
    return f"{name}({', '.join(parts)})"


def _argument(value: Any) -> str:
    """An argument as text: in full if it is small, else its kind."""
    if isinstance(value, Tensor):
        return show_tensor(value) if value.numel() <= FULLY_SHOWN and value.device.type != "meta" else _kind(value)
    if isinstance(value, np.ndarray):
        return f"array({_argument(as_tensor(value))})"
    if isinstance(value, HandleId):
        return "model"
    if isinstance(value, dict):
        return "{…}"
    return show_value(value)


def _is_short(tensor: Tensor) -> bool:
    """Whether a tensor is shown in full. An empty one only if it is flat: it may have any number of empty rows."""
    return 0 < tensor.numel() <= SMALL or tensor.shape == (0,)


def _kind(tensor: Tensor) -> str:
    """A tensor's dtype and shape."""
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _nested(values: Any) -> str:
    """A number, or nested lists of numbers, as text for a message."""
    if isinstance(values, list):
        return "[" + ", ".join(_nested(value) for value in values) + "]"
    return show_number(values)


# --- as source --------------------------------------------------------------------------------------------------------


def plain(value: Any) -> str:
    """A value without tensors as Python writes it."""
    return number(value, torch.float64) if isinstance(value, float) else repr(value)


def nested(tensor: Tensor, indent: int = 4) -> str:
    """A tensor's values as Python source: nested lists, no line longer than WIDTH, `indent` columns to the right."""
    if tensor.dim() == 0:
        return number(tensor.item(), tensor.dtype)
    items = [nested(item, indent + 4) for item in tensor]
    line = f"[{', '.join(items)}]"
    if "\n" not in line and len(line) + indent <= WIDTH:
        return line
    flat = tensor.dim() == 1
    inner = textwrap.fill(", ".join(items), WIDTH - indent) if flat else ",\n".join(items)
    return "[\n" + textwrap.indent(inner, " " * 4) + ",\n]"


def number(value: float | bool, dtype: torch.dtype) -> str:
    """The shortest text that gives the same number in this dtype."""
    if not isinstance(value, float):
        return repr(value)
    if value != value or abs(value) == float("inf"):
        return str(value)
    if dtype == torch.float32:
        text = str(np.float32(value))
    elif dtype == torch.float64:
        text = repr(value)
    else:
        texts = (f"{value:.{digits}g}" for digits in range(1, 10))
        exact = torch.tensor(value, dtype=dtype)
        text = next(
            (decimal for decimal in texts if torch.equal(torch.tensor(float(decimal), dtype=dtype), exact)), repr(value)
        )
    return text if any(letter in text for letter in ".en") else text + ".0"


def constants(text: str) -> list[str]:
    """The names, of `inf` and `nan`, that a program with this text has to import from `math`."""
    words = set("".join(letter if letter.isalnum() or letter == "_" else " " for letter in text).split())
    return [name for name in ("inf", "nan") if name in words]


def quiet(text: str) -> str:
    """Untrusted text, escaped so that a docstring can hold it."""
    printable = "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)
    return printable.replace("\\", "/").replace('"""', "'''")


def paths_of(result: str, wanted: Any) -> Iterator[str]:
    """Yields an expression such as `result[0]` for each tensor of floats in `wanted`, the value that the expression
    `result` is expected to have: gradients start from these."""
    if isinstance(wanted, tuple | list):
        for index, part in enumerate(wanted):
            yield from paths_of(f"{result}[{index}]", part)
    elif isinstance(wanted, dict):
        for key in sorted(wanted, key=str):
            yield from paths_of(f"{result}[{key!r}]", wanted[key])
    elif isinstance(wanted, PlacedTensor | Tensor):
        tensor = wanted.tensor if isinstance(wanted, PlacedTensor) else wanted
        if tensor.is_floating_point():
            yield result
