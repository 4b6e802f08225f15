"""Values as Python source that gives the same values again."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.calls.values import Placed

WIDTH = 110


def plain(value: Any) -> str:
    """A value without tensors as Python writes it."""
    return number(value, torch.float64) if isinstance(value, float) else repr(value)


def nested(tensor: Tensor, indent: int = 4) -> str:
    """A tensor's values as nested lists, no line longer than WIDTH."""
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
        kept = (f"{value:.{digits}g}" for digits in range(1, 10))
        exact = torch.tensor(value, dtype=dtype)
        text = next(
            (decimal for decimal in kept if torch.equal(torch.tensor(float(decimal), dtype=dtype), exact)), repr(value)
        )
    return text if any(letter in text for letter in ".en") else text + ".0"


def constants(text: str) -> list[str]:
    """What a program has to import from `math`."""
    words = set("".join(letter if letter.isalnum() or letter == "_" else " " for letter in text).split())
    return [name for name in ("inf", "nan") if name in words]


def quiet(text: str) -> str:
    """Text that a docstring can hold, whoever wrote it."""
    kept = "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)
    return kept.replace("\\", "/").replace('"""', "'''")


def paths_of(result: str, wanted: Any) -> Iterator[str]:
    """Where the outputs are that a gradient leaves from."""
    if isinstance(wanted, tuple | list):
        for place, part in enumerate(wanted):
            yield from paths_of(f"{result}[{place}]", part)
    elif isinstance(wanted, dict):
        for key in sorted(wanted, key=str):
            yield from paths_of(f"{result}[{key!r}]", wanted[key])
    elif isinstance(wanted, Placed | Tensor):
        tensor = wanted.tensor if isinstance(wanted, Placed) else wanted
        if tensor.is_floating_point():
            yield result
