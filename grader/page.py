"""A report as one HTML page that needs nothing else: pure functions from one `Report` to text.

The page's sentences stand here, its structure and looks in `templates/`. Whatever a learner could have made is shown
through `report.plain` and escaped, both for every value that a template writes.
"""

from __future__ import annotations

import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from grader import language
from grader import report as reports
from grader.heat_map import NUMBERED, drawing, written
from grader.language import gettext as _
from grader.results import CheckResult, Parting, Report, StepResult

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Pair:
    """A line of a message that starts with a label, as in `expected  0.5`."""

    label: str
    text: str
    code: bool


@dataclass(frozen=True)
class Block:
    """Lines of a message of one kind: labelled values, the points of a list, words, or text as it was typed."""

    kind: Literal["pairs", "list", "words", "typed"]
    pairs: list[Pair]
    lines: list[str]


@dataclass(frozen=True)
class Cell:
    """One number of a matrix, as it is written in the table, and whether it is unlike the other matrix's."""

    text: str
    differs: bool


@dataclass(frozen=True)
class HeatMap:
    """A picture of both matrices, what it shows in words, and the same as two tables: captions and rows."""

    svg: Markup
    caption: list[str]
    tables: list[tuple[str, list[list[Cell]]]]

    @property
    def wide(self) -> bool:
        """Whether the tables are wider than paper."""
        return len(self.tables[0][1][0]) > NUMBERED


@dataclass(frozen=True)
class CheckView:
    """A check that does not pass, as the page shows it."""

    result: CheckResult
    blocks: list[Block]
    heat_map: HeatMap | None


@dataclass(frozen=True)
class StepView:
    """A step of the page: how many of its checks pass, and those that do not."""

    result: StepResult
    passed: int
    total: int
    blocks: list[Block]
    failing: list[CheckView]

    @property
    def detailed(self) -> bool:
        """Whether the page says more of the step than its line in the table."""
        return self.result.status not in ("pass", "todo") or bool(self.result.output)


def html(report: Report, *, every_picture: bool = True) -> str:
    """The whole page, in the language in use; without `every_picture`, heat maps of each step's first failing check."""
    return _filled("report.html.j2", report, every_picture)


def fragment(report: Report) -> str:
    """Each step in detail, to stand inside a page that is not ours: what a notebook shows."""
    return _filled("verdict.html.j2", report)


@cache  # a class has a page for each student: compiling the template would take longer than filling it
def environment() -> Environment:
    """How every page is filled from `templates/`: all that is written is escaped, its control characters shown."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, finalize=_shown,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip


def _filled(template: str, report: Report, every_picture: bool = True) -> str:
    return environment().get_template(template).render(
        language=language.current(), report=report, words=_words(report), facts=_facts(report),
        closing=reports.closing(report).plain.splitlines(), steps=_steps(report, every_picture), number=reports.number,
        marks={status: mark for status, (mark, _style) in reports.MARKS.items()}, status_word=reports.status_word,
        coded=coded, part=100 * report.score / report.max_score if report.max_score else 0.0,
    )  # fmt: skip


def show_in_browser(page: Path) -> bool:
    """Opens a page in the reader's browser; False where there is none to open it."""
    try:
        return webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        return False


def blocks(message: str) -> list[Block]:
    """A check's message, line by line, sorted by what the lines are."""
    found: list[Block] = []
    codes = {_label(line) for line in (_("called    {call}"), _("expected  {expected}"), _("came      {came}"))}
    for line in message.splitlines():
        label = reports.LABEL.match(line)
        kind: Literal["pairs", "list", "words", "typed"] = "words"
        if label:
            kind = "pairs"
        elif line.startswith("- "):
            kind, line = "list", line[2:]
        elif line.startswith((" ", "\t")):
            kind = "typed"
        if not found or found[-1].kind != kind:
            found.append(Block(kind, [], []))
        if label:
            found[-1].pairs.append(Pair(label[1], line[label.end() :], label[1] in codes))
        else:
            found[-1].lines.append(line)
    return found


def coded(text: str) -> Markup:
    """A sentence whose names stand in `backquotes`, as HTML."""
    parts = [escape(reports.plain(part)) for part in text.split("`")]
    if len(parts) % 2 == 0:  # one stands alone, and means itself
        return escape(reports.plain(text))
    code = Markup('<code translate="no">{}</code>')
    return Markup("").join(code.format(part) if index % 2 else part for index, part in enumerate(parts))


def heat_map(parting: Parting, name: str) -> HeatMap:
    """The matrices of a parting, drawn on one colour scale; `name` is one that no other picture of the page has."""
    differs = parting.differs
    count = sum(map(sum, differs))
    row, column = parting.place
    facts = [
        _("{rows} × {columns}: outlined cells differ, {count} of {total}. Rows and columns count from 0.").format(
            rows=len(parting.expected), columns=len(parting.expected[0]), count=count,
            total=len(parting.expected) * len(parting.expected[0]),
        ),
        _("The first is in row {row}, column {column}: expected {expected}, came {came}.").format(
            row=row, column=column, expected=written(parting.expected[row][column]),
            came=written(parting.came[row][column]),
        ),
    ]  # fmt: skip
    if parting.slice:
        facts.insert(0, _("This is the part of the answer at {place}.").format(place=parting.slice))
    if any(value is None for matrix in (parting.expected, parting.came) for line in matrix for value in line):
        facts.append(_("× stands for infinity or NaN."))
    titles = _("expected"), _("yours")
    tables = [
        (title, [[Cell(written(value), apart) for value, apart in zip(*lines, strict=True)]
                 for lines in zip(matrix, differs, strict=True)])
        for title, matrix in zip(titles, (parting.expected, parting.came), strict=True)
    ]  # fmt: skip
    svg = environment().get_template("heat_map.svg.j2").render(
        drawing=drawing(parting), name=name, titles=titles, words={"row": _("row"), "column": _("column")},
        title=_("Heat maps: what was expected, and yours"), description=" ".join(facts),
    )  # fmt: skip
    return HeatMap(Markup(svg), facts, tables)


def _words(report: Report) -> dict[str, str]:
    return {
        "title": _("Attention from scratch"),
        "score": _("score"),
        "result": _("{score} of {total}").format(
            score=reports.number(report.score), total=reports.number(report.max_score)
        ),
        "skip": _("Skip to the results"),
        "facts": _("About this run"),
        "next": _("What to do next"),
        "steps": _("Steps"),
        "step": _("step"),
        "what": _("what it is"),
        "checks": _("checks passed"),
        "points": _("points"),
        "status": _("result"),
        "details": _("In detail"),
        "nudge": _("A nudge"),
        "heat_maps": _("Heat maps: what was expected, and yours"),
        "numbers": _("The same as numbers"),
        "row": _("row"),
        "differs": _("differs"),
        "printed": _("Your code printed:"),
        "again": _("The same draws again: python -m grader grade --seed {seed}").format(seed=report.seed),
        "top": _("Back to the top"),
    }


def _facts(report: Report) -> list[tuple[str, str]]:
    states = {"checked": _("checked"), "not available": _("not available"), "not asked for": _("not asked for")}
    oracles = {"live": _("live"), "recorded": _("recorded")}
    return [
        (_("submission"), report.submission),
        *((device, states.get(state, state)) for device, state in report.devices.items()),
        (_("seed"), str(report.seed)),
        (_("isolation"), ", ".join(report.isolation)),
        (_("oracle"), oracles[report.oracle]),
    ]


def _steps(report: Report, every_picture: bool) -> list[StepView]:
    return [
        StepView(
            result=step,
            passed=sum(check.status == "pass" for check in step.checks),
            total=len(step.checks),
            blocks=blocks(step.message),
            failing=list(_failing(step, every_picture)),
        )
        for step in report.steps
    ]


def _failing(step: StepResult, every_picture: bool) -> Iterator[CheckView]:
    pictured = False
    for index, check in enumerate(step.checks):
        if check.status == "pass":
            continue
        parting = None if pictured and not every_picture else check.parting
        pictured = True
        message = check.message.removeprefix(step.message).lstrip("\n")
        yield CheckView(check, blocks(message), heat_map(parting, f"{step.name}-{index}") if parting else None)


def _shown(value: Any) -> Any:
    """What the template writes: text of whatever origin with its control characters shown, our own markup as it is."""
    return reports.plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _label(line: str) -> str:
    """The first word of a labelled line; labels are translated, so the translation is asked."""
    return line.split(maxsplit=1)[0]
