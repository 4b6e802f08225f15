"""The wrong and the other right ways of a step: how an author writes them down, and how they are found.

Each replaces one or more public names of the reference; what it leaves alone stays the reference's. Two wrong ways that
learners make together are one as well, its parts being the two.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@dataclass(frozen=True)
class Misconception:
    """A wrong way: what it replaces, the check that catches it, and what to tell who made it.

    `what` says what was done, `why` why it is wrong, `nudge` points at the way without giving it away. Of two that are
    made together `parts` are the two, the name is both joined by ` + `, and the nudge is the first one's. `own_draws`:
    it draws from a generator or a seed of its own, so that nothing else tells that its answers were drawn.
    """

    name: str
    caught_by: str
    replaced: dict[str, Any]
    what: str
    why: str
    nudge: str
    parts: tuple[Misconception, ...] = ()
    own_draws: bool = False

    @property
    def refused_by(self) -> frozenset[str]:
        """The checks of which at least one refuses it."""
        return frozenset(part.caught_by for part in self.parts or (self,))


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
    own_draws: bool = False


def misconception(
    *, replaces: str | tuple[str, ...], caught_by: str, own_draws: bool = False
) -> Callable[[Decorated], Decorated]:
    """Marks a function or class as a wrong way of the public name `replaces`, refused by the check `caught_by`.

    Its docstring has three paragraphs: what was done, why it is wrong, a nudge. With a tuple of names the function is
    called once and returns a dictionary from name to object.
    """
    return _marking(_Mark(replaces, caught_by, own_draws))


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
        what, why, nudge = paragraphs
        found.append(
            Misconception(name, mark.caught_by, _replaced(marked, mark), what, why, nudge, own_draws=mark.own_draws)
        )
    return found


@dataclass(frozen=True)
class Pair:
    """Two functions or classes marked as misconceptions, and what a file in which both are made defines."""

    first: Callable[..., Any]
    second: Callable[..., Any]
    replaced: dict[str, Any]


def together(
    first: Collection[Callable[..., Any]],
    second: Collection[Callable[..., Any]],
    made: Callable[[Any, Any], Any] | None = None,
) -> list[Pair]:
    """Each wrong way of `first` with each of `second`, for a module's list `PAIRS`: what learners do in one file.

    Two of different public names stand side by side. Of two classes of one name one is made that inherits from both,
    the first before the second, so they have to override different methods, or the first one's has to call `super()`.
    For functions of one name `first` and `second` are dictionaries from each wrong way to its decision, and `made`
    makes the function of two decisions.
    """
    return [Pair(one, other, _both(one, other, first, second, made)) for one in first for other in second]


def _both(one: Any, other: Any, first: Any, second: Any, made: Callable[[Any, Any], Any] | None) -> dict[str, Any]:
    name = one.__catalogue_mark__.replaces
    if name != other.__catalogue_mark__.replaces:
        return _replaced(one, one.__catalogue_mark__) | _replaced(other, other.__catalogue_mark__)
    if made is not None:
        return {name: made(first[one], second[other])}
    return {name: type(f"{one.__name__}_and_{other.__name__}", (one, other), {})}


def pairs(module: ModuleType, single: Collection[Misconception]) -> list[Misconception]:
    """The pairs of a module, each as one misconception whose parts are two of `single`."""
    by_name = {wrong.name: wrong for wrong in single}
    return [
        paired(by_name[pair.first.__name__], by_name[pair.second.__name__], pair.replaced)
        for pair in getattr(module, "PAIRS", [])
    ]


def paired(first: Misconception, second: Misconception, replaced: dict[str, Any]) -> Misconception:
    """Two wrong ways as one."""
    return Misconception(
        f"{first.name} + {second.name}", first.caught_by, replaced, f"{first.what} {second.what}",
        f"{first.why} {second.why}", first.nudge, (first, second),
    )  # fmt: skip


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
