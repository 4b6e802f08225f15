"""Misconceptions and variants of a step: how an author writes them, and how they are found.

Each replaces one or more public names of the reference; the other names stay the reference's. Two misconceptions that
learners make together count as one, with two parts.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, TypeVar

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Replaces = str | tuple[str, ...] | Callable[..., dict[str, Any]]
# The paragraphs of a draft, in place of which an author writes what was done, why it is wrong, and a nudge.
UNFINISHED = ("Say here what was done.", "Say here why it is wrong.", "What question would lead there?")


@dataclass(frozen=True)
class Misconception:
    """A wrong implementation: what it replaces, the check that catches it, and what to tell the learner.

    `what` says what was done, `why` why it is wrong, `nudge` is a hint that does not give the solution away. Of a pair,
    `parts` are the two, the name joins both by ` + `, and the nudge is the first one's. `own_draws`: it draws from its
    own generator or seed, so that the engine can't see that its answers are random.
    `misses_the_point` of the step: it gets at most half of the points. `form_of` names the misconception of which this
    is the same mistake written in another way.
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

    @property
    def called(self) -> str:
        """The name in reports: that of the mistake, in whatever form."""
        return self.form_of or self.name

    @property
    def refused_by(self) -> frozenset[str]:
        """The checks of which at least one fails on it."""
        return frozenset(part.caught_by for part in self.parts or (self,))


@dataclass(frozen=True)
class Variant:
    """A right implementation that differs from the reference; `trades` says what it gains and costs, if anything."""

    name: str
    replaced: dict[str, Any]
    description: str
    trades: str = ""


@dataclass(frozen=True)
class _Marked:
    replaces: Replaces
    caught_by: str | None
    own_draws: bool = False
    misses_the_point: bool = False
    trades: str = ""
    form_of: Callable[..., Any] | None = None


def misconception(
    *, replaces: Replaces, caught_by: str, own_draws: bool = False, misses_the_point: bool = False
) -> Callable[[Decorated], Decorated]:
    """Marks a function or class as a wrong implementation of the public name `replaces`, caught by the check
    `caught_by`.

    Its docstring has three paragraphs: what was done, why it is wrong, a nudge. With a tuple of names the function is
    called once and returns a dictionary from name to object. With a function (see `all_made_of`) that one is called
    with what is marked, and returns the dictionary.
    """
    return _marking(_Marked(replaces, caught_by, own_draws, misses_the_point))


def another_form(
    of: Callable[..., Any], *, caught_by: str = "", replaces: Replaces = "", in_part: bool = False
) -> Callable[[Decorated], Decorated]:
    """Marks a function or class as the same mistake as the misconception `of`, written in another way, so that some of
    its answers differ: it has that one's name, texts and check, or another check, or it replaces other names: one of
    several, say, or more. Made only `in_part`, it does not miss the point of the step. No docstring is needed."""
    mark = of.__catalogue_mark__  # type: ignore[attr-defined]  # a misconception is marked
    form = replace(
        mark, caught_by=caught_by or mark.caught_by, replaces=replaces or mark.replaces, form_of=of,
        misses_the_point=mark.misses_the_point and not in_part,
    )  # fmt: skip

    def attach(marked: Decorated) -> Decorated:
        marked.__doc__ = of.__doc__
        return _marking(form)(marked)

    return attach


def variant(*, replaces: Replaces, trades: str = "") -> Callable[[Decorated], Decorated]:
    """Marks a function or class as another right implementation of the public name `replaces`; see `misconception`.

    With `trades`, one sentence on what it gains and costs, it is shown by `make solution`.
    """
    return _marking(_Marked(replaces, None, trades=trades))


def misconceptions(module: ModuleType, public: Sequence[str] = ()) -> list[Misconception]:
    """The misconceptions of a module, or of the files of a package: in the order of the names `public` that they
    replace, and those of one name in the order they are written. Raises ValueError for a docstring that lacks one of
    the three paragraphs, and for a name that two files define."""
    made = []
    for name, marked, mark in _marked(*_files(module)):
        paragraphs = [" ".join(part.split()) for part in inspect.getdoc(marked).split("\n\n")]  # type: ignore[union-attr]
        if len(paragraphs) != 3:
            raise ValueError(
                f"{module.__name__}.{name}: the docstring needs three paragraphs, it has {len(paragraphs)}"
            )
        assert mark.caught_by is not None
        what, why, nudge = paragraphs
        made.append(
            Misconception(
                name,
                mark.caught_by,
                _replaced(marked, mark),
                what,
                why,
                nudge,
                own_draws=mark.own_draws,
                misses_the_point=mark.misses_the_point,
                form_of=mark.form_of.__name__ if mark.form_of else "",
            )  # fmt: skip
        )
    places = {name: place for place, name in enumerate(public)}
    return sorted(made, key=lambda wrong: places.get(next(iter(wrong.replaced)), len(places)))


def all_made_of(pieces: Mapping[str, type]) -> Callable[..., dict[str, Any]]:
    """What is wrong in a class is wrong in all that are made of it: for `replaces`, where a step has such classes.

    `pieces` are the reference's classes, cut into methods, by public name; each is made of the one before, which it
    calls `self.made_of`. The result takes misconceptions of them, and gives these and all that are made of them.
    """

    def whole(*parts: type) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, cut in pieces.items():
            own = tuple(part for part in parts if issubclass(part, cut))
            if own or made:
                made[name] = type(name, own or (cut,), {"made_of": list(made.values())[-1]} if made else {})
        return made

    return whole


@dataclass(frozen=True)
class Pair:
    """Two functions or classes marked as misconceptions, and the names defined by a file that makes both."""

    first: Callable[..., Any]
    second: Callable[..., Any]
    replaced: dict[str, Any]


def together(
    first: Collection[Callable[..., Any]],
    second: Collection[Callable[..., Any]],
    made: Callable[[Any, Any], Any] | None = None,
) -> list[Pair]:
    """Each misconception of `first` with each of `second`, for a list `PAIRS`: mistakes that learners make in one file.

    Two of different public names are simply both defined. Of two classes of one name, one is made that inherits from
    both, the first before the second, so they have to override different methods, or the first one's has to call
    `super()`. For functions of one name `first` and `second` map each misconception to its decision, and `made` makes a
    function from two decisions.
    """
    return [Pair(mine, other, _both(mine, other, first, second, made)) for mine in first for other in second]


def _both(one: Any, other: Any, first: Any, second: Any, made: Callable[[Any, Any], Any] | None) -> dict[str, Any]:
    name = one.__catalogue_mark__.replaces
    if callable(name) and name is other.__catalogue_mark__.replaces:
        return name(one, other)  # type: ignore[no-any-return]
    if name != other.__catalogue_mark__.replaces:
        return _replaced(one, one.__catalogue_mark__) | _replaced(other, other.__catalogue_mark__)
    if made is not None:
        return {name: made(first[one], second[other])}
    return {name: type(f"{one.__name__}_and_{other.__name__}", (one, other), {})}


def pairs(module: ModuleType, single: Collection[Misconception]) -> list[Misconception]:
    """The pairs of a module or of a package's files, each as one misconception whose parts are two of `single`."""
    by_name = {wrong.name: wrong for wrong in single}
    return [
        paired(by_name[pair.first.__name__], by_name[pair.second.__name__], pair.replaced)
        for file in _files(module)
        for pair in getattr(file, "PAIRS", [])
    ]


def paired(first: Misconception, second: Misconception, replaced: Mapping[str, Any]) -> Misconception:
    """Two misconceptions as one."""
    called = f"{first.called} + {second.called}" if first.form_of or second.form_of else ""
    return Misconception(
        f"{first.name} + {second.name}", first.caught_by, replaced, f"{first.what} {second.what}",
        f"{first.why} {second.why}", first.nudge, (first, second), form_of=called,
    )  # fmt: skip


def variants(module: ModuleType) -> list[Variant]:
    """The variants of a module, in the order they are written."""
    return [
        Variant(name, _replaced(marked, mark), inspect.getdoc(marked) or "", mark.trades)
        for name, marked, mark in _marked(module)
    ]


def _marking(mark: _Marked) -> Callable[[Decorated], Decorated]:
    def attach(marked: Decorated) -> Decorated:
        if not inspect.getdoc(marked):
            raise ValueError(f"{marked.__name__}: a docstring is needed")
        marked.__catalogue_mark__ = mark  # type: ignore[attr-defined]  # functions and classes take attributes
        return marked

    return attach


def _files(module: ModuleType) -> list[ModuleType]:
    """A module, and of a package also its files."""
    names = [file.name for file in pkgutil.iter_modules(getattr(module, "__path__", ()))]
    return [module, *(importlib.import_module(f"{module.__name__}.{name}") for name in names)]


def _marked(*files: ModuleType) -> Iterator[tuple[str, Any, _Marked]]:
    """What is marked in these files, each once, at its place in the file that defines it: others may import it."""
    by_name = {file.__name__: file for file in files}
    functions: dict[str, tuple[Any, str]] = {}
    for file in files:
        for name, value in vars(file).items():
            mark = getattr(value, "__dict__", {}).get("__catalogue_mark__")
            home = by_name.get(getattr(value, "__module__", ""), file)
            if not isinstance(mark, _Marked) or (home is not file and vars(home).get(name) is value):
                continue
            first, where = functions.setdefault(name, (value, file.__name__))
            if first is not value:
                raise ValueError(f"{name} is defined in {where} and in {file.__name__}")
            if where == file.__name__:
                yield name, value, mark


def _replaced(marked: Any, mark: _Marked) -> dict[str, Any]:
    if isinstance(mark.replaces, str):
        return {mark.replaces: marked}
    if callable(mark.replaces):
        return mark.replaces(marked)
    replaced: dict[str, Any] = marked()
    if set(replaced) != set(mark.replaces):
        raise ValueError(f"{marked.__name__}: it replaces {sorted(replaced)}, and says {sorted(mark.replaces)}")
    return replaced
