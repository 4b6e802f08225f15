"""A step's mistakes as their author writes them: `mistakes.md` in its folder, or the files of a folder `mistakes/`.

An entry is a heading, three lines of text (what was done, why it is wrong, a nudge), and a list: how the mistake is
written, in one form or more, and which check refuses it. `mistakes.ko.md` has the same names with the text alone.
Reads, and compiles nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from grader.base.paths import SOLUTIONS, STEP_NAME, shown

FENCE = re.compile(r"```(\w*)")
NAMES = re.compile(r"`\w+`(?:, `\w+`)*")
NAME = re.compile(r"[a-z][a-z0-9_]*")  # of a mistake
CAUGHT_BY = re.compile(r"caught by `(\w+)`")
SAID_IN = re.compile(r"as `(\w+)` of (?:step (\d+)|many steps)")
# The heading of a list of mistakes that take their text from that step, or from the mistakes of many steps.
AS_IN = re.compile(r"As in (?:step (\d+)|many steps)")
EDIT = re.compile(r"`([^`]+)` → (?:`([^`]+)`|nothing)")
EDITS = re.compile(rf"{EDIT.pattern}(?:, {EDIT.pattern})*")
BODY = re.compile(r"body `([^`]+)`")
TOGETHER = "Together"  # the heading of the list of pairs
JOINED = " + "  # between the names of a pair
BETWEEN = " · "  # between what an item of a list says
KOREAN = ".ko.md"


class Unreadable(ValueError):
    """An entry is not written as it should be. One sentence that names the file and the heading, translated when it is
    shown: the code that loads translations also reads these files."""

    def __init__(self, sentence: str, **values: Any) -> None:
        super().__init__(sentence.format(**values) if values else sentence)
        self.sentence, self.values = sentence, values

    def said(self, translated: Callable[[str], str]) -> str:
        """The sentence in another language; `translated` gives a sentence's translation."""
        return translated(self.sentence).format(**self.values) if self.values else str(self)


def N_(message: str) -> str:  # noqa: N802  # as in `base/language.py`
    """Marks a sentence that is translated later."""
    return message


@dataclass(frozen=True)
class FormFacts:
    """The facts of one form. `said_in`: the mistake and the number of the step that has its text, 0 for many steps."""

    names: tuple[str, ...] = ()
    caught_by: str = ""
    misses_the_point: bool = False
    own_draws: bool = False
    said_in: tuple[str, int] | None = None


@dataclass(frozen=True)
class Way:
    """One form of a mistake: its code, a `diff` or `python`, and the facts about it."""

    name: str
    facts: FormFacts
    language: str
    code: str
    place: str  # "file:line: heading", for messages


@dataclass
class Entry:
    """A mistake in all its forms. `text`: what was done, and why it is wrong."""

    name: str
    place: str
    ways: list[Way] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    nudge: str = ""

    @property
    def said(self) -> tuple[str, str, str]:
        """What was done, why it is wrong, and the nudge; empty strings for what is missing."""
        what, why = (*self.text[:2], "", "")[:2]
        return what, why, self.nudge


@dataclass
class Document:
    """The files of a step: the code that its blocks share, its entries, and the pairs that are made together."""

    shared: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)
    together: list[tuple[str, str]] = field(default_factory=list)
    of_many_steps: bool = False

    def add(self, name: str, place: str) -> Entry:
        """Adds an empty entry with this name, and returns it. Raises Unreadable if it exists, or is no name. `place`:
        `file:line`, for messages."""
        place = f"{place}: {name}"
        if not all(map(NAME.fullmatch, name.split(JOINED))):
            raise Unreadable(N_("{place} is no name: write it in lower case, like not_scaled."), place=place)
        if name in self.entries:
            raise Unreadable(N_("{place} is there twice: rename one of them."), place=place)
        return self.entries.setdefault(name, Entry(name, place))


def files_of(folder: Path, korean: bool = False) -> list[Path]:
    """The files with the mistakes of the step in `folder`, sorted: in English, or those in Korean."""
    files = sorted([*folder.glob("mistakes*.md"), *folder.glob("mistakes/*.md")])
    return [file for file in files if file.name.endswith(KOREAN) == korean]


def read(folder: Path, korean: bool = False) -> Document:
    """The mistakes of a step; in the folder of all steps those of many steps, which name no check and need not name a
    function: they are made wherever their edits fit, or without edits by operators. Raises Unreadable."""
    files = tuple((file, file.stat().st_mtime_ns) for file in files_of(folder, korean))
    return _read(files, korean, not STEP_NAME.fullmatch(folder.name) and any(folder.glob("*/step*")))


@cache
def _read(files: tuple[tuple[Path, int], ...], korean: bool, of_many_steps: bool) -> Document:
    """The parsed files at these times of change; each is read once."""
    document = Document(of_many_steps=of_many_steps)
    for file, _changed in files:
        if korean:
            _read_texts(file, document)
        else:
            _Reader(file, document).read()
    return document


def of_many_steps(solutions: Path = SOLUTIONS) -> Document:
    """The mistakes that are made in many steps. Raises Unreadable."""
    return read(solutions)


def texts(folder: Path, document: Document, solutions: Path = SOLUTIONS) -> dict[str, tuple[str, str, str]]:
    """What was done, why it is wrong and the nudge of each mistake but pairs, by name: its own lines, or those of an
    earlier step with its own added. Raises Unreadable."""
    return {
        name: _told(entry, solutions, folder, document)
        for name, entry in document.entries.items()
        if JOINED not in name
    }


def translations(folder: Path) -> Iterator[tuple[str, str]]:
    """Yields each English line about a mistake in the step's own files, with its Korean translation, empty if that is
    missing. Raises Unreadable."""
    korean = read(folder, korean=True).entries
    for name, entry in read(folder).entries.items():
        there = korean.get(name, Entry(name, ""))
        yield from zip(entry.text, [*there.text, *[""] * len(entry.text)], strict=False)
        if entry.nudge:
            yield entry.nudge, there.nudge


def _read_texts(file: Path, document: Document) -> None:
    """Adds the entries of a translated file: an item for each, with the first line after its name."""
    entry: Entry | None = None
    here = shown(file)
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("- "):
            name, _dot, line = line[2:].partition(BETWEEN)
            entry = document.add(name.strip(), f"{here}:{number}")
        if entry and line.strip():
            _add_text(entry, line.strip())


def _add_text(entry: Entry, line: str) -> None:
    """Adds a line to the entry's text, or sets its nudge."""
    if line.startswith("> "):
        entry.nudge = line[2:].strip()
    else:
        entry.text.append(line)


@dataclass
class _Reader:
    """Adds the entries of one file to a document."""

    file: Path
    document: Document
    usual: FormFacts = FormFacts()  # the title names what an entry is about that says nothing else
    as_in: int | None = None  # the step that has the text of what is listed
    entry: Entry | None = None

    def read(self) -> None:
        """Reads the whole file. Raises Unreadable."""
        before = len(self.document.entries)
        lines, here = iter(_logical_lines(self.file.read_text(encoding="utf-8"))), shown(self.file)
        for number, line in lines:
            place = f"{here}:{number}"
            if line.startswith("# "):
                self.usual = FormFacts(names=tuple(re.findall(r"`(\w+)`", line)))
            elif line.startswith("## "):
                self._heading(line[3:].strip(), place)
            elif line.startswith("```"):
                self._block(line, lines, place)
            elif self.entry and line.strip():
                self._line(self.entry, line, place)
        for entry in list(self.document.entries.values())[before:]:
            _require_whole(entry, self.document.of_many_steps)

    def _heading(self, title: str, place: str) -> None:
        """Starts the entry, or the list of entries, under this heading."""
        as_in = AS_IN.fullmatch(title)
        self.as_in = int(as_in[1] or 0) if as_in else None
        listed = as_in or title == TOGETHER
        self.entry = Entry(title, place) if listed else self.document.add(title, place)

    def _line(self, entry: Entry, line: str, place: str) -> None:
        """Reads a line that is neither a heading nor code: text of the entry, or a list item with one of its forms."""
        if not line.lstrip().startswith("- "):
            _add_text(entry, line.strip())
        elif entry.name == TOGETHER:
            self.document.together += _pairs(line)
        elif self.as_in is not None and line.startswith("- "):
            name, _dot, said = line[2:].partition(BETWEEN)
            self.entry = self.document.add(name, place)
            _add_form(self.entry, said, replace(self.usual, said_in=(name, self.as_in)), place)
        else:
            self._form(entry, line.lstrip()[2:], place)

    def _form(self, entry: Entry, said: str, place: str) -> None:
        """Adds a form with the facts of the entry's first one, but for what the item says."""
        _add_form(entry, said, entry.ways[0].facts if entry.ways else self.usual, place)

    def _block(self, first: str, lines: Iterator[tuple[int, str]], place: str) -> None:
        """Reads a block of code from its first line on: that of the item before it, or a form without an item."""
        opened = FENCE.fullmatch(first.rstrip())
        code, line = [], "## "
        for _number, line in lines:
            if line.rstrip() == "```" or line.startswith(("## ", "```")):
                break
            code.append(line)
        if opened is None or opened[1] not in ("diff", "python") or line.rstrip() != "```":
            problem = N_("{place}: this block has no end, or its first line is not ```diff or ```python.")
            raise Unreadable(problem, place=place)
        text = "\n".join(code) + "\n"
        if self.entry is None:
            self.document.shared += "\n" * (opened[1] == "python") + text
            return
        if not self.entry.ways or self.entry.ways[-1].code:
            self._form(self.entry, "", place)
        self.entry.ways[-1] = replace(self.entry.ways[-1], language=opened[1], code=text)


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """The lines of a file with their numbers, from 1; an indented line is joined to the item of a list above it."""
    joined: list[tuple[int, str]] = []
    in_code = in_item = False
    for number, line in enumerate(text.splitlines(), 1):
        in_code ^= line.startswith("```")
        is_item = line.lstrip().startswith("- ") and not in_code
        if in_item and line.startswith("  ") and not (is_item or in_code):
            first, before = joined.pop()
            joined.append((first, f"{before} {line.strip()}"))
            continue
        joined.append((number, line))
        in_item = is_item
    return joined


def _add_form(entry: Entry, said: str, facts: FormFacts, place: str) -> None:
    """Adds a form of a mistake from the text of an item of a list, `said`, which names what differs from `facts`; its
    code may follow in a block."""
    code, language, number = "", "diff", len(entry.ways) + 1
    name = entry.name if number == 1 else f"{entry.name}_{number}"
    for part in filter(None, said.strip().split(BETWEEN)):
        if edits := EDITS.fullmatch(part):
            code = "".join(f"- {old}\n+ {new}\n" for old, new in EDIT.findall(edits[0]))
        elif body := BODY.fullmatch(part):
            code, language = f"{body[1]}\n", "python"
        elif number > 1 and NAME.fullmatch(part):
            name = part
        else:
            facts = _with_fact(facts, part, f"{place}: {name}")
    entry.ways.append(Way(name, facts, language, code, f"{place}: {name}"))


def _with_fact(facts: FormFacts, part: str, place: str) -> FormFacts:
    """The facts with one more, as the text of this part of an item says. Raises Unreadable for an unknown one."""
    if NAMES.fullmatch(part):
        return replace(facts, names=tuple(re.findall(r"\w+", part)))
    if caught := CAUGHT_BY.fullmatch(part):
        return replace(facts, caught_by=caught[1])
    if origin := SAID_IN.fullmatch(part):
        return replace(facts, said_in=(origin[1], int(origin[2] or 0)))
    if part in ("misses the point", "in part"):
        return replace(facts, misses_the_point=part == "misses the point")
    if part == "draws for itself":
        return replace(facts, own_draws=True)
    problem = N_(
        "{place}: “{part}” is no fact: write it like `old` → `new` · caught by `test_name` · misses the point."
    )
    raise Unreadable(problem, place=place, part=part)


def _pairs(item: str) -> Iterator[tuple[str, str]]:
    """The pairs in an item: each name before the word "with" together with each behind it."""
    firsts, _with, seconds = item.partition(" with ")
    yield from ((one, other) for one in re.findall(r"`(\w+)`", firsts) for other in re.findall(r"`(\w+)`", seconds))


def _require_whole(entry: Entry, of_many_steps: bool) -> None:
    """Raises Unreadable if an entry lacks code, a name, a check or one of its three lines of text."""
    facts = entry.ways[0].facts if entry.ways else FormFacts()
    joined = JOINED in entry.name
    if not all(way.code for way in entry.ways) or not (entry.ways or of_many_steps):
        problem = N_("{place} has no code: write `old` → `new` into its list, or a block, ```diff or ```python.")
    elif not of_many_steps and (not facts.names or not (facts.caught_by or joined)):
        problem = N_(
            "{place}: in its list, say what is wrong and which check refuses it: `name` · caught by `test_name`."
        )
    elif facts.said_in is None and not joined and not (len(entry.text) == 2 and entry.nudge):
        problem = N_("{place} needs three lines: what was done, why it is wrong, and after > a nudge.")
    else:
        return
    raise Unreadable(problem, place=entry.place)


def _told(entry: Entry, solutions: Path, folder: Path, document: Document) -> tuple[str, str, str]:
    """What was done, why it is wrong and the nudge of an entry; if it names another entry, which may be in another
    step's document, the lines are of that, its own added. Raises Unreadable."""
    said_in = entry.ways[0].facts.said_in if entry.ways else None
    if said_in is None:
        return entry.said
    name, number = said_in
    step = f"step{number:02d}_"
    if not number:
        there = of_many_steps(solutions)
    else:
        own = folder.name.startswith(step)
        there = document if own else next(map(read, solutions.glob(f"*/{step}*")), Document())
    elsewhere = there.entries.get(name)
    if elsewhere is None or elsewhere.ways[0].facts.said_in is not None:
        problem = N_("{place}: step {number} has no text of its own for {name}.")
        raise Unreadable(problem, place=entry.place, number=number or "–", name=name)
    what, why, nudge = elsewhere.said
    return what, " ".join([why, *entry.text]), entry.nudge or nudge
