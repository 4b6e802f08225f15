"""A step's mistakes as its author writes them: `mistakes.md` beside the lesson, or the files of a folder `mistakes/`.

An entry is a heading, a line of facts, a block of code and three lines of text: what was done, why it is wrong, and a
nudge. `mistakes.ko.md` has the same headings with the text alone. Reads, and compiles nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from grader.base.language import gettext as _
from grader.base.paths import SOLUTIONS, shown

FENCE = re.compile(r"```(?P<language>\w*)(?: title=\"(?P<title>\w+)\")?")
NAMES = re.compile(r"`\w+`(?:, `\w+`)*")
CAUGHT_BY = re.compile(r"caught by `(\w+)`")
SAID_IN = re.compile(r"as `(\w+)` of step (\d+)")
TOGETHER, LEFT_OUT = "Together", "Left out"  # the headings of the lists of pairs, and of mistakes of other steps
JOINED = " + "  # between the names of a pair
KOREAN = ".ko.md"


class Unreadable(ValueError):
    """An entry is not written as it should be. One sentence that names the file and the heading."""


@dataclass(frozen=True)
class Heading:
    """What the line above a block says. `said_in`: the mistake and the number of the step that has its text."""

    names: tuple[str, ...] = ()
    caught_by: str = ""
    misses_the_point: bool = False
    own_draws: bool = False
    said_in: tuple[str, int] | None = None


@dataclass(frozen=True)
class Way:
    """One way in which a mistake is written: a block of code, and the facts about it."""

    name: str
    facts: Heading
    language: str
    code: str
    place: str  # "file:line: heading", for messages


@dataclass
class Entry:
    """What stands under one heading. Lines of text that are no nudge: what was done, and why it is wrong."""

    name: str
    place: str
    ways: list[Way] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    nudge: str = ""

    @property
    def said(self) -> tuple[str, str, str]:
        """The three lines, as far as they are there."""
        what, why = (*self.text[:2], "", "")[:2]
        return what, why, self.nudge


@dataclass
class Document:
    """The files of a step: what its blocks share, its entries, the pairs that are made together, and the mistakes of
    other steps (a name and a number) that were left out."""

    shared: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)
    together: list[tuple[str, str]] = field(default_factory=list)
    left_out: set[tuple[str, int]] = field(default_factory=set)


def files_of(folder: Path, korean: bool = False) -> list[Path]:
    """The files with the mistakes of the step in `folder`, in one language."""
    files = sorted([*folder.glob("mistakes*.md"), *folder.glob("mistakes/*.md")])
    return [file for file in files if file.name.endswith(KOREAN) == korean]


def read(folder: Path, korean: bool = False) -> Document:
    """The mistakes of a step. Raises Unreadable."""
    document = Document()
    for file in files_of(folder, korean):
        _add(document, file, korean)
    if not korean:
        for entry in document.entries.values():
            _require_whole(entry)
    return document


def texts(folder: Path, document: Document, solutions: Path = SOLUTIONS) -> dict[str, tuple[str, str, str]]:
    """What is told of each mistake, by its name: its own three lines, or those of an earlier step, to which its own
    are added. Raises Unreadable."""
    return {
        name: _told(entry, solutions, folder, document)
        for name, entry in document.entries.items()
        if JOINED not in name
    }  # fmt: skip


def translations(folder: Path) -> Iterator[tuple[str, str]]:
    """Each line of text of the step's own with its translation, which may be missing."""
    korean = read(folder, korean=True).entries
    for name, entry in read(folder).entries.items():
        there = korean.get(name, Entry(name, ""))
        yield from zip(entry.text, [*there.text, *[""] * len(entry.text)], strict=False)
        if entry.nudge:
            yield entry.nudge, there.nudge


def _add(document: Document, file: Path, korean: bool) -> None:
    """Reads one file into the document."""
    entry: Entry | None = None
    facts, pairs = Heading(), ""
    lines = enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
    for number, line in lines:
        if line.startswith("## "):
            name = line[3:].strip()
            entry = Entry(name, f"{shown(file)}:{number}: {name}")
            if name in document.entries:
                raise Unreadable(_("{place} is there twice: rename one of them.").format(place=entry.place))
            if name not in (TOGETHER, LEFT_OUT):
                document.entries[name] = entry
            facts = Heading()
        elif line.startswith("```"):
            block = _block(line, lines, f"{shown(file)}:{number}")
            if entry is None:
                document.shared += "\n" * (block.language == "python") + block.code
            else:
                _add_way(entry, replace(block, facts=facts))
        elif entry is not None and line.strip():
            if entry.name == LEFT_OUT:
                document.left_out |= {(name, int(step)) for name, step in re.findall(r"`(\w+)` of step (\d+)", line)}
            elif entry.name == TOGETHER:
                pairs += f"\n{line}"
            elif line.startswith("> "):
                entry.nudge = line[2:].strip()
            elif line.startswith("Also · ") or not (korean or entry.ways or facts.names):
                facts = _facts(
                    line.removeprefix("Also · "), entry.place, entry.ways[0].facts if entry.ways else Heading()
                )
            else:
                entry.text.append(line.strip())
    document.together += _pairs(pairs)


def _block(first: str, lines: Iterator[tuple[int, str]], place: str) -> Way:
    """A block of code, from its first line on."""
    opened = FENCE.fullmatch(first.rstrip())
    code, line = [], "## "
    for _number, line in lines:
        if line.rstrip() == "```" or line.startswith(("## ", "```")):
            break
        code.append(line)
    if opened is None or opened["language"] not in ("diff", "python") or line.rstrip() != "```":
        raise Unreadable(
            _("{place}: this block has no end, or its first line is not ```diff or ```python.").format(place=place)
        )
    return Way(opened["title"] or "", Heading(), opened["language"], "\n".join(code) + "\n", place)


def _add_way(entry: Entry, way: Way) -> None:
    number = len(entry.ways) + 1
    name = way.name or (entry.name if number == 1 else f"{entry.name}_{number}")
    entry.ways.append(replace(way, name=name, place=f"{way.place}: {name}"))


def _facts(line: str, place: str, known: Heading) -> Heading:
    """The facts in a line, beside those of the first block."""
    heading = known
    for part in line.strip().split(" · "):
        if NAMES.fullmatch(part):
            heading = replace(heading, names=tuple(re.findall(r"\w+", part)))
        elif caught := CAUGHT_BY.fullmatch(part):
            heading = replace(heading, caught_by=caught[1])
        elif origin := SAID_IN.fullmatch(part):
            heading = replace(heading, said_in=(origin[1], int(origin[2])))
        elif part == "misses the point":
            heading = replace(heading, misses_the_point=True)
        elif part == "in part":
            heading = replace(heading, misses_the_point=False)
        elif part == "draws for itself":
            heading = replace(heading, own_draws=True)
        else:
            sentence = _(
                "{place}: “{part}” is no fact: write it like `name` · caught by `test_name` · misses the point."
            )
            raise Unreadable(sentence.format(place=place, part=part))
    return heading


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """The pairs in a list: each name before the word "with" together with each behind it."""
    for item in text.split("\n- ")[1:]:
        firsts, _with, seconds = " ".join(item.split()).partition(" with ")
        yield from ((one, other) for one in re.findall(r"`(\w+)`", firsts) for other in re.findall(r"`(\w+)`", seconds))


def _require_whole(entry: Entry) -> None:
    """Raises Unreadable where something is missing."""
    facts = entry.ways[0].facts if entry.ways else Heading()
    if not entry.ways:
        problem = _("{place} has no block of code: write one, ```diff or ```python.")
    elif not facts.names or not (facts.caught_by or JOINED in entry.name):
        problem = _(
            "{place}: under the heading, say what is wrong and which check refuses it: `name` · caught by `test_name`."
        )
    elif facts.said_in is None and JOINED not in entry.name and not (len(entry.text) == 2 and entry.nudge):
        problem = _("{place} needs three lines: what was done, why it is wrong, and after > a nudge.")
    else:
        return
    raise Unreadable(problem.format(place=entry.place))


def _told(entry: Entry, solutions: Path, folder: Path, document: Document) -> tuple[str, str, str]:
    said_in = entry.ways[0].facts.said_in
    if said_in is None:
        return entry.said
    name, number = said_in
    step = f"step{number:02d}_"
    own = folder.name.startswith(step)
    there = document if own else next(map(read, solutions.glob(f"*/{step}*")), Document())
    elsewhere = there.entries.get(name)
    if elsewhere is None or elsewhere.ways[0].facts.said_in is not None:
        problem = _("{place}: step {number} has no text of its own for {name}.")
        raise Unreadable(problem.format(place=entry.place, number=number, name=name))
    what, why, nudge = elsewhere.said
    return what, " ".join([why, *entry.text]), entry.nudge or nudge
