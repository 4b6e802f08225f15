"""The wrong and the other right ways of a step: how an author writes them down, and how they are found.

Each replaces one or more public names of the reference; what it leaves alone stays the reference's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@dataclass(frozen=True)
class Misconception:
    """A wrong way: what it replaces, the check that catches it, and what to tell who made it.

    `what` says what was done, `why` why it is wrong, `nudge` points at the way without giving it away.
    """

    name: str
    caught_by: str
    replaced: dict[str, Any]
    what: str
    why: str
    nudge: str


@dataclass(frozen=True)
class Variant:
    """A right way that differs from the reference."""

    name: str
    replaced: dict[str, Any]
    description: str


@dataclass(frozen=True)
class _Mark:
    replaces: str | tuple[str, ...]
    caught_by: str | None


def misconception(*, replaces: str | tuple[str, ...], caught_by: str) -> Callable[[Decorated], Decorated]:
    """Marks a function or class as a wrong way of the public name `replaces`, refused by the check `caught_by`.

    Its docstring has three paragraphs: what was done, why it is wrong, a nudge. With a tuple of names the function is
    called once and returns a dictionary from name to object.
    """
    return _marking(_Mark(replaces, caught_by))


def variant(*, replaces: str | tuple[str, ...]) -> Callable[[Decorated], Decorated]:
    """Marks a function or class as another right way of the public name `replaces`; as in `misconception`."""
    return _marking(_Mark(replaces, None))


def misconceptions(module: ModuleType) -> list[Misconception]:
    """The misconceptions of a module, in the order they are written. Raises ValueError for a docstring that lacks one
    of the three paragraphs."""
    found = []
    for name, marked, mark in _marked(module):
        paragraphs = [" ".join(part.split()) for part in inspect.getdoc(marked).split("\n\n")]  # type: ignore[union-attr]
        if len(paragraphs) != 3:
            raise ValueError(
                f"{module.__name__}.{name}: the docstring needs three paragraphs, it has {len(paragraphs)}"
            )
        assert mark.caught_by is not None
        found.append(Misconception(name, mark.caught_by, _replaced(marked, mark), *paragraphs))
    return found


def variants(module: ModuleType) -> list[Variant]:
    """The variants of a module, in the order they are written."""
    return [
        Variant(name, _replaced(marked, mark), inspect.getdoc(marked) or "") for name, marked, mark in _marked(module)
    ]


def _marking(mark: _Mark) -> Callable[[Decorated], Decorated]:
    def attach(marked: Decorated) -> Decorated:
        if not inspect.getdoc(marked):
            raise ValueError(f"{marked.__name__}: a docstring is needed")
        marked.__catalogue_mark__ = mark  # type: ignore[attr-defined]  # functions and classes take attributes
        return marked

    return attach


def _marked(module: ModuleType) -> Iterator[tuple[str, Any, _Mark]]:
    for name, value in vars(module).items():
        mark = getattr(value, "__dict__", {}).get("__catalogue_mark__")
        if isinstance(mark, _Mark):
            yield name, value, mark


def _replaced(marked: Any, mark: _Mark) -> dict[str, Any]:
    if isinstance(mark.replaces, str):
        return {mark.replaces: marked}
    replaced: dict[str, Any] = marked()
    if set(replaced) != set(mark.replaces):
        raise ValueError(f"{marked.__name__}: it replaces {sorted(replaced)}, and says {sorted(mark.replaces)}")
    return replaced
