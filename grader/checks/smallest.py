"""The smallest case in which an answer is wrong: few tokens, narrow, with round numbers, so that it fits a screen.

The cases are those of a step's table `CALLS` (see `regimes`), in small: each is a check of its own, so that it can be
recorded like any other. They give no points, and are asked only if a check has failed on inputs too large to show.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from grader.base.errors import CheckFailed
from grader.base.language import gettext as _
from grader.calls.call import Call
from grader.calls.values import leaves, mapped
from grader.checks.assertions import agree, with_values
from grader.checks.backends import Exchange
from grader.checks.draws import Draw
from grader.checks.implementation import Implementation
from grader.checks.regimes import AXES, AskedFunction, AskedModule, nothing
from grader.checks.value_text import FULLY_SHOWN

Asked = AskedFunction | AskedModule
Case = Callable[[Implementation, Implementation, Draw], None]

FIXED = 4  # sizes from here on are those of a table, and not of the leading axes or the tokens: they become smaller
NARROW = (2, 4, 6)  # what they become: of width 1 per head a wrong scale can't be seen, and two do not divide by three
TOKENS = (2, 3)
MOST_WEIGHTS = 100  # numbers of a module that are printed


def cases(name: str, how: Asked) -> list[Case]:
    """The small cases of a public name, from the smallest on; none for random answers, and for those of a large
    model."""
    if isinstance(how, AskedFunction) and (how.judged or how.model or how.inputs is nothing):
        return []  # a random answer, or that of a model with too many weights to show
    many = len(how.axes) == len(AXES)
    axes = [(), (2,)] if many else [(1,) * len(how.axes), (2,) * len(how.axes)] if how.axes else [()]
    sizes = itertools.product(NARROW, axes, TOKENS)
    return [_case(name, how, *size) for size in sizes]


def _case(name: str, how: Asked, narrow: int, leading: tuple[int, ...], tokens: int) -> Case:
    """A check function that compares one public name on small inputs: sizes from FIXED on become `narrow`, before them
    lie the `leading` axes, and there are so many tokens. Nothing is compared if the reference can't take them."""

    def small(value: Any) -> Any:
        return narrow if isinstance(value, int) and value >= FIXED else value

    def case(student: Implementation, reference: Implementation, draw: Draw) -> None:
        """Fails unless student and reference agree on round numbers in these sizes."""
        inputs = mapped(how.inputs(_Round(draw, small), leading, tokens), small)
        if isinstance(how, AskedFunction):
            options = mapped(dict(how.options), small)
            ours = _right(lambda: getattr(reference, name)(*inputs, **options))
            theirs: Any = getattr(student, name)
        else:
            options = {}
            arguments = mapped(how.made(tokens), small)
            module = _right(lambda: getattr(reference, name)(*arguments))
            values = _right(lambda: _Round(draw, small).parameters(module.outline())) if module else None
            if values is None:
                return
            module.load_parameters(values, evaluating=True)
            ours = _right(lambda: module(*inputs))
            theirs = with_values(student, values, name, *arguments) if ours is not None else student
        if ours is not None:
            agree(theirs(*inputs, **options), ours, terms=how.terms)

    case.__name__ = f"small {name} {narrow} {leading} {tokens}"
    return case


def _right(ask: Callable[[], Any]) -> Any:
    """The reference's answer; None if it has none for these sizes."""
    try:
        return ask()
    except CheckFailed:
        return None


class _Round(Draw):
    """Draws round numbers, of small sizes."""

    def __init__(self, draw: Draw, small: Callable[[int], int]) -> None:
        """Draws by `draw`; `small` gives the size that takes the place of a size."""
        self._draw, self._small = draw, small

    def _whole(self, low: int, high: int, shape: tuple[int, ...]) -> Tensor:
        """Draws whole numbers in a small version of this shape."""
        return self._draw.integers(low, high, *map(self._small, shape))

    def normal(self, *shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
        """Whole numbers from -2 to 2."""
        return self._whole(-2, 3, shape).to(dtype)

    def uniform(self, *shape: int, low: float = -1.0, high: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
        """Whole numbers from -2 to 2, or from 1 to 4 if only positive ones are asked for."""
        return (self._whole(1, 5, shape) if low >= 0 else self._whole(-2, 3, shape)).to(dtype)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Whole numbers as drawn: ids of a smaller vocabulary."""
        return self._whole(low, self._small(high), shape)

    def mask(self, *shape: int) -> Tensor:
        """Draws a small boolean mask."""
        return self._draw.mask(*map(self._small, shape))

    def parameters(self, initial: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Halves from -1 to 1, for vectors around their initial mean; a tied weight has one value."""
        drawn: dict[str, Tensor] = {}
        for name, value in initial.items():
            tied = (other for other in drawn if value.dim() > 1 and torch.equal(initial[other], value))
            same = next(tied, None) if value.numel() > 1 else None
            around = 0 if value.dim() > 1 else round(float(value.mean()))
            drawn[name] = drawn[same] if same else self._draw.integers(-2, 3, *value.shape) / 2 + around
        return drawn


def is_shown(exchange: Exchange) -> bool:
    """True if a message shows all arguments of a call in full: no tensor by its shape alone, and no module."""
    inputs = [leaf for leaf in leaves((exchange.call.args, exchange.call.kwargs)) if isinstance(leaf, Tensor)]
    return exchange.call.handle is None and all(tensor.numel() <= FULLY_SHOWN for tensor in inputs)


def weights_shown(exchange: Exchange) -> Iterator[str]:
    """A line for each parameter that the called module was given; none if they are too many."""
    values = next(_loaded(exchange.call), {})
    if sum(value.numel() for value in values.values()) > MOST_WEIGHTS:
        return
    width = max(map(len, values), default=0)
    for name, value in values.items():
        yield f"  {name:{width}} = {_plain(value.tolist())}"


def _loaded(call: Call) -> Iterator[dict[str, Tensor]]:
    """The parameters that are loaded before a call."""
    for earlier in call.first:
        if earlier.name == "load_parameters" and earlier.handle == call.handle:
            yield earlier.args[0]


def _plain(value: Any) -> str:
    """A number, or nested lists of numbers, as short text."""
    return f"[{', '.join(map(_plain, value))}]" if isinstance(value, list) else f"{value:g}"


def said(message: str, exchange: Exchange) -> str:
    """The text on a small case for a learner: the message that it failed with, and the weights of its module."""
    weights = list(weights_shown(exchange))
    lines = [_("The smallest case found that fails as well:"), message]
    if weights:
        lines += [_("the weights of the module:"), *weights]
    return "\n".join(lines)
