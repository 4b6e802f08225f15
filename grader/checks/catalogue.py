"""Misconceptions and variants of a step: their facts, and how variants are written and found.

Each replaces one or more public names of the reference; the other names stay the reference's. Two misconceptions that
learners make together count as one, with two parts. Misconceptions are written as documents (`oracle/wrong_ways.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

import msgspec

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
# The lines of a draft, in place of which an author writes what was done, why it is wrong, and a nudge.
UNFINISHED = ("Say here what was done.", "Say here why it is wrong.", "What question would lead there?")


class Misconception(msgspec.Struct, frozen=True, array_like=True):
    """A wrong implementation: what it replaces, the check that catches it, and what to tell the learner. In a tape it
    has no code: what it replaces is known by name only.

    `what` says what was done, `why` why it is wrong, `nudge` is a hint that does not give the solution away. Of a pair,
    `parts` are the two, the name joins both by ` + `, and the nudge is the first one's. `own_draws`: it draws from its
    own generator or seed, so that the engine can't see that its answers are random.
    `misses_the_point` of the step: it gets at most half of the points. `form_of` names the misconception of which this
    is the same mistake written in another way. `words` complete the three lines, which have places for them.
    """

    name: str
    caught_by: str
    replaced: Mapping[str, Any]
    what: str
    why: str
    nudge: str
    parts: tuple[Misconception, ...] = ()
    own_draws: bool = False
    misses_the_point: bool = False
    form_of: str = ""
    words: Mapping[str, str] = {}

    @property
    def called(self) -> str:
        """The name in reports: that of the mistake, in whatever form."""
        return self.form_of or self.name

    @property
    def refused_by(self) -> frozenset[str]:
        """The checks of which at least one fails on it; empty if that is not known."""
        return frozenset(part.caught_by for part in self.parts or (self,) if part.caught_by)


@dataclass(frozen=True)
class Variant:
    """A right implementation that differs from the reference; `trades` says what it gains and costs, if anything."""

    name: str
    replaced: dict[str, Any]
    description: str
    trades: str = ""


@dataclass(frozen=True)
class _Mark:
    replaces: str | tuple[str, ...]
    trades: str


def variant(*, replaces: str | tuple[str, ...], trades: str = "") -> Callable[[Decorated], Decorated]:
    """Marks a function or class as another right implementation of the public name `replaces`. With a tuple of names
    the function is called once and returns a dictionary from name to object. A docstring says what is different.

    With `trades`, one sentence on what it gains and costs, it is shown by `make solution`. Raises ValueError without a
    docstring.
    """

    def attach(marked: Decorated) -> Decorated:
        if not inspect.getdoc(marked):
            raise ValueError(f"{marked.__name__}: a docstring is needed")
        marked.__catalogue_mark__ = _Mark(replaces, trades)  # type: ignore[attr-defined]  # both kinds take attributes
        return marked

    return attach


def paired(first: Misconception, second: Misconception, replaced: Mapping[str, Any]) -> Misconception:
    """Two misconceptions as one with two parts; `replaced` are the names that it replaces."""
    called = f"{first.called} + {second.called}" if first.form_of or second.form_of else ""
    name, what, why = f"{first.name} + {second.name}", f"{first.what} {second.what}", f"{first.why} {second.why}"
    return Misconception(name, first.caught_by, replaced, what, why, first.nudge, (first, second), form_of=called)


def variants(module: ModuleType) -> list[Variant]:
    """The variants of a module, in the order they are written."""
    return [
        Variant(name, _replaced(marked, mark), inspect.getdoc(marked) or "", mark.trades)
        for name, marked, mark in _marked(module)
    ]


def _marked(file: ModuleType) -> Iterator[tuple[str, Any, _Mark]]:
    """Yields each function or class of the file that `variant` has marked: its name, itself, and the mark."""
    for name, value in vars(file).items():
        mark = getattr(value, "__dict__", {}).get("__catalogue_mark__")
        if isinstance(mark, _Mark):
            yield name, value, mark


def _replaced(marked: Any, mark: _Mark) -> dict[str, Any]:
    """The objects that replace public names, by name. Raises ValueError if they are others than stated."""
    if isinstance(mark.replaces, str):
        return {mark.replaces: marked}
    replaced: dict[str, Any] = marked()
    if set(replaced) != set(mark.replaces):
        raise ValueError(f"{marked.__name__}: it replaces {sorted(replaced)}, and says {sorted(mark.replaces)}")
    return replaced
