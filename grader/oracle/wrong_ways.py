"""A step's mistakes made into code: each is an edit of the reference's text, and is compiled when it is first asked."""

from __future__ import annotations

import ast
import io
import linecache
import math
import os
import re
import sys
import textwrap
import tokenize
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from grader.base import mistakes
from grader.base.language import gettext as _
from grader.base.mistakes import Unreadable, Way
from grader.base.paths import SOLUTIONS, shown
from grader.base.syntax import invalid
from grader.checks.catalogue import Misconception, paired

# Regions that no stub has.
OWN = re.compile(r"^### BEGIN SOLUTION$(?:\n(?!### (?:BEGIN|END) SOLUTION$)[^\n]*+)*+\n### END SOLUTION$", re.MULTILINE)
WORDS = r"\w+|[^\w\s]"  # of a text: its words and signs
AT_HAND = {"math": math, "torch": torch, "nn": nn, "F": functional, "Tensor": Tensor}  # what a block need not import


class Replacements(Mapping[str, Any]):
    """The public names that a mistake replaces, and their replacements, compiled at first use."""

    def __init__(self, names: Sequence[str], make: Callable[[], dict[str, Any]]) -> None:
        """`make` returns the replacement of each of the names; it is called at the first use of one."""
        self._names, self._make = dict.fromkeys(names), make

    @cached_property
    def _values(self) -> dict[str, Any]:
        return self._make()

    def over(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """The replacements, made once more, in which these parts (by name) are used in place of the reference's."""
        made = self._make()
        for value in made.values():
            for function in [*vars(value).values()] if isinstance(value, type) else [value]:
                names = getattr(function, "__globals__", None)
                if names is not None and names is not vars(sys.modules[names["__name__"]]):
                    names.update(parts)
        return made

    def __contains__(self, name: object) -> bool:
        """Whether the mistake replaces this name; compiles nothing, as Mapping's own would."""
        return name in self._names

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Text:
    """The text of the reference in a step's folder, and its edited forms."""

    def __init__(self, folder: Path, solutions: Path = SOLUTIONS) -> None:
        """Reads `reference.py` in `folder` at first use; mistakes of many steps are in `solutions`."""
        self.folder, self.solutions = folder, solutions

    def edited(self, ways: Sequence[Way]) -> dict[str, str]:
        """The sources of the definitions that the edits of these blocks change, by name, all edits made at once. Raises
        Unreadable if an edit fits nowhere, or two change the same words."""
        edits: dict[str, set[tuple[int, int, str]]] = {}
        for way in ways:
            for old, new in hunks(way.code):
                places_by_name = {name: set(self._edits(way, name, old, new)) for name in way.facts.names}
                if not any(places_by_name.values()):
                    sentence = _("{place}: in the reference of {names} there is no “{old}”.")
                    raise Unreadable(sentence.format(place=way.place, names=", ".join(way.facts.names), old=old))
                for name, places in places_by_name.items():
                    edits.setdefault(name, set()).update(places)
        place = " and ".join(way.place for way in ways)
        return {
            name: _with_edits(self.definitions[name], sorted(edits[name]), place)
            for name in self.definitions
            if edits.get(name)
        }

    def _edits(self, way: Way, name: str, old: str, new: str) -> Iterator[tuple[int, int, str]]:
        """Yields the edits (start, end, new text) that replace `old` by `new` in the definition `name`, one for each
        match. Raises Unreadable if there is no such definition."""
        if name not in self.definitions:
            raise Unreadable(_("{place}: the reference defines no {name}.", place=way.place, name=name))
        text, words = self.definitions[name], re.findall(WORDS, old)
        if not words or any(word not in text for word in words):  # to compile its pattern would take longer
            return iter(())
        return (_smallest(text, match, new) for match in re.finditer(pattern(old), text))

    def of_many_steps(self, name: str) -> Iterator[tuple[str, str]]:
        """Yields the mistakes of many steps that fit this definition, each by its name, with the changed source, unless
        that is no Python, as with one argument twice."""
        for entry in self.entries_of_many_steps.values():
            for way in entry.ways:
                if not way.facts.names or name in way.facts.names:
                    places = [set(self._edits(way, name, old, new)) for old, new in hunks(way.code)]
                    text = _with_edits(self.definitions[name], sorted(set().union(*places)), way.place)
                    if all(places) and text != self.definitions[name] and not invalid(text, name):
                        yield entry.name, text

    @cached_property
    def entries_of_many_steps(self) -> dict[str, mistakes.Entry]:
        """The mistakes that are made in many steps, by name."""
        return mistakes.of_many_steps(self.solutions).entries

    @cached_property
    def definitions(self) -> dict[str, str]:
        """The source of each function and class of the reference, by name, without docstrings and comments."""
        text = without_comments((self.folder / "reference.py").read_text(encoding="utf-8"))
        return {
            node.name: "\n".join(text.splitlines()[_first_line(node) - 1 : node.end_lineno]) + "\n"
            for node in ast.parse(text).body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }

    @cached_property
    def helpers(self) -> set[str]:
        """The names of the reference's own helpers, which a learner need not have: an edit of one is seen in what is
        named next to it and in nothing else."""
        text = (self.folder / "reference.py").read_text(encoding="utf-8")
        return {
            name for region in OWN.findall(text) for name in re.findall(r"^(?:def|class) (\w+)", region, re.MULTILINE)
        }


class WrongWays(Text):
    """The mistakes of the step in `folder`, as edits of its reference. Raises Unreadable."""

    def __init__(self, folder: Path, reference: ModuleType) -> None:
        """Reads the documents of mistakes in `folder`; `reference` is the module of `reference.py` there. Raises
        Unreadable."""
        super().__init__(folder)
        self.reference = reference
        self.document = mistakes.read(folder)

    @cached_property
    def single(self) -> list[Misconception]:
        """Each mistake in each of its forms: in the order of the names that they replace, then as they are written."""
        texts, ways = mistakes.texts(self.folder, self.document, self.solutions), []
        for entry in self.document.entries.values():
            for way in entry.ways if entry.name in texts else ():
                form_of = entry.name if way is not entry.ways[0] else ""
                ways.append(
                    Misconception(
                        way.name, way.facts.caught_by, self._replacements(way), *texts[entry.name], form_of=form_of,
                        own_draws=way.facts.own_draws, misses_the_point=way.facts.misses_the_point,
                    )
                )  # fmt: skip
        places = {name: index for index, name in enumerate(vars(self.reference))}
        return sorted(ways, key=lambda wrong: places.get(next(iter(wrong.replaced)), len(places)))

    @cached_property
    def pairs(self) -> list[Misconception]:
        """The pairs of mistakes: both edits of one text, or the block under a heading that joins both names. Raises
        Unreadable if a pair names no mistake."""
        by_name = {wrong.name: wrong for wrong in self.single}
        of_their_own = {
            tuple(name.split(mistakes.JOINED)): entry.ways
            for name, entry in self.document.entries.items()
            if mistakes.JOINED in name
        }
        headings = dict.fromkeys([*self.document.together, *of_their_own])
        for name in sorted({name for pair in headings for name in pair} - by_name.keys()):
            raise Unreadable(
                _("{folder}: a pair names {name}, which is no mistake here.", folder=shown(self.folder), name=name)
            )
        return [
            paired(by_name[one], by_name[other], self._replacements(*of_their_own[one, other]))
            if (one, other) in of_their_own
            else paired(by_name[one], by_name[other], self._replacements(self._ways[one], self._ways[other]))
            for one, other in headings
        ]

    @cached_property
    def _ways(self) -> dict[str, Way]:
        """The blocks of the document by the mistake's name."""
        return {way.name: way for entry in self.document.entries.values() for way in entry.ways}

    def _replacements(self, *ways: Way) -> Replacements:
        """The public names of these blocks, to their code with all these mistakes made at once, compiled at first
        use."""
        names = dict.fromkeys(name for way in ways for name in way.facts.names if name not in self.helpers)
        return Replacements(list(names), lambda: self.compiled(*ways))

    def compiled(self, *ways: Way) -> dict[str, Any]:
        """The public names that these forms of mistakes replace, to objects with all these mistakes made at once.
        Raises Unreadable if an edit fits nowhere, two change the same words, or the code can't be run."""
        names = vars(self.reference) | {"reference": self.reference}
        names = {**AT_HAND, **names}
        self._run(self.document.shared, names, f"{self.folder.name}, what its blocks share")
        edited = self.edited([way for way in ways if way.language == "diff"])
        self._run("\n".join(edited.values()), names, " and ".join(way.place for way in ways))
        changed = set(edited)
        for way in reversed(ways):  # the first may build on the second, as when it is before it in a list of bases
            if way.language != "diff":
                self._define(way, names, changed)
        whole = [name for way in ways for name in way.facts.names]
        rest = "\n".join(text for name, text in self.definitions.items() if name in whole and name not in changed)
        self._run(rest, names, f"{ways[0].place}, what uses it")
        return {name: self._as_in_reference(name, names[name]) for name in whole if name not in self.helpers}

    def run(self, text: str, place: str) -> dict[str, Any]:
        """The names of the reference's file after this source has been run in it, the reference's own module unchanged.
        Raises Unreadable, with `place`, if it raises."""
        names = {**AT_HAND, **vars(self.reference)}
        self._run(text, names, place)
        return names

    def _as_in_reference(self, name: str, replacement: Any) -> Any:
        """The replacement of a public name; if it is a class and the reference has a function, a function that makes an
        object with the arguments and calls it."""
        if not isinstance(replacement, type) or isinstance(getattr(self.reference, name), type):
            return replacement

        def function(*args: Any, **named: Any) -> Any:
            return replacement(*args, **named)()

        return function

    def text(self, way: Way) -> str:
        """The source of a mistake's definitions, as someone would write them."""
        return "\n".join(self.edited([way]).values()) if way.language == "diff" else self._whole(way)

    def _define(self, way: Way, names: dict[str, Any], defined: set[str]) -> None:
        """Runs a `python` block in `names`, and adds the names that it defines to `defined`: whole definitions, methods
        of the reference's class, or the body of its function."""
        before = {name: names.get(name) for name in way.facts.names}
        self._run(self._whole(way), names, way.place)
        for name in way.facts.names:
            if names.get(name) is before[name]:
                continue
            was = before[name]
            if name in defined and not (isinstance(was, type) and issubclass(names[name], was)):
                names[name] = self._joined(way, name, names[name], was)
            defined.add(name)

    def _joined(self, way: Way, name: str, *both: Any) -> type:
        """One class with the changes of both classes of a pair. Raises Unreadable if they can't be joined."""
        own = getattr(self.reference, name)
        of_one = all(isinstance(replacement, type) for replacement in both) and any(
            issubclass(both[1], base) for base in both[0].__mro__[1:] if base not in getattr(own, "__mro__", (object,))
        )
        if not of_one:
            sentence = _(
                "{place}: it can't be joined with another mistake in {name}: write a diff, or the pair as an entry."
            )
            raise Unreadable(sentence.format(place=way.place, name=name))
        return type(name, both, {})

    def _whole(self, way: Way) -> str:
        """The source of the definition that a block holds, or changes a part of."""
        name = way.facts.names[0]
        try:
            body = ast.parse(way.code).body
        except SyntaxError:  # a `return` needs its function
            body = []
        defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        defined |= {ast.unparse(node.targets[0]) for node in body if isinstance(node, ast.Assign)}
        gives = any(isinstance(node, ast.Return) for node in body)  # it is the body of a function, whatever it defines
        if (not gives and defined & {*way.facts.names, *self.definitions}) or name not in self.definitions:
            return way.code
        inside = textwrap.indent(way.code, "    ")
        node = ast.parse(self.definitions[name]).body[0]
        if isinstance(node, ast.ClassDef):
            return f"class {name}({name}):\n{inside}"
        assert isinstance(node, ast.FunctionDef)
        heading = self.definitions[name].splitlines()[: node.body[0].lineno - 1]
        return "\n".join(heading) + f"\n{inside}"

    def _run(self, text: str, names: dict[str, Any], place: str) -> None:
        """Runs a text of the catalogue in the namespace `names`. Raises Unreadable, with `place`, if it raises."""
        if not text.strip():
            return
        file = f"solutions: {place}"  # a file that is the kit's own
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # tracebacks and Triton read it
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what Python finds odd in a mistake would show its line to a learner
                code = compile(text, file, "exec")
            exec(code, names)  # our own text, from solutions/
        except Exception as error:
            sentence = _("{place}: its code can't be run: {error}.")
            raise Unreadable(sentence.format(place=place, error=f"{type(error).__name__}: {error}")) from error


def hunks(code: str) -> Iterator[tuple[str, str]]:
    """Yields the replaced and the new lines of each edit of a diff; lines without a sign stay as context before the
    change."""
    context: list[str] = []
    old: list[str] = []
    new: list[str] = []
    for line in [*code.splitlines(), None]:
        if (line is None or not line.startswith("+")) and new:
            yield "\n".join(context + old), "\n".join(context + new)
            context, old, new = [], [], []
        if line is None:
            continue
        (old if line.startswith("-") else new if line.startswith("+") else context).append(line[1:].removeprefix(" "))
    if old:
        yield "\n".join(context + old), "\n".join(context)


def pattern(words: str) -> str:
    """A regular expression for the words and signs of a text, with any space between them."""
    parts = re.findall(WORDS, words)
    expression = ""
    for before, part in zip(["", *parts], parts, strict=False):
        between = r"\s+" if re.match(r"\w", before[-1:]) and re.match(r"\w", part) else r"\s*" if before else ""
        expression += between + re.escape(part)
    start = r"(?<!\w)" if re.match(r"\w", parts[0]) else ""
    return start + expression + (r"(?!\w)" if re.match(r"\w", parts[-1][-1:]) else "")


def without_comments(source: str) -> str:
    """The source on the same lines, without docstrings and comments."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) or ast.get_docstring(node) is None:
            continue
        statement = node.body[0]
        assert statement.end_lineno is not None
        for row in range(statement.lineno, statement.end_lineno + 1):
            lines[row - 1] = ""
        if len(node.body) == 1 and not isinstance(node, ast.Module):
            lines[statement.lineno - 1] = " " * statement.col_offset + "pass"
    return "\n".join(lines) + "\n"


def _with_edits(text: str, edits: Sequence[tuple[int, int, str]], place: str) -> str:
    """A text with these edits (start, end, new text), sorted. Raises Unreadable, with `place`, if two of them change
    the same words."""
    if any(first[1] > second[0] or first[:2] == second[:2] for first, second in pairwise(edits)):
        raise Unreadable(_("{place}: two of its edits change the same words.", place=place))
    for start, end, new in reversed(edits):
        text = text[:start] + new + text[end:]
    return text


def _smallest(text: str, match: re.Match[str], new: str) -> tuple[int, int, str]:
    """An edit reduced to what it changes: its start and end in the text, and the new text."""
    start, end, old = match.start(), match.end(), match[0]
    line = text[text.rfind("\n", 0, start) + 1 : start]
    new = new.replace("\n", "\n" + line[: len(line) - len(line.lstrip())])
    before = len(os.path.commonprefix((old, new)))
    after = len(os.path.commonprefix((old[before:][::-1], new[before:][::-1])))
    return start + before, end - after, new[before : len(new) - after]


def _first_line(node: ast.FunctionDef | ast.ClassDef) -> int:
    """The number of a definition's first line, its decorators included."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
