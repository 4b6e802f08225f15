"""A report as one self-contained HTML page: pure functions from one `Report` to text.

The page's sentences are here, its structure and style in `templates/`. Every value that a template writes passes
through `terminal.plain` and is escaped, since a learner's code may have produced it.
"""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from grader.base import language
from grader.base.language import gettext as _
from grader.base.results import CheckResult, Parting, Report, StepResult
from grader.report import pictures, reasons, sums, svg
from grader.report import terminal as reports
from grader.report.heat_map import NUMBERED, Matrix, drawing, written

TEMPLATES = Path(__file__).parent / "templates"
Hints = Mapping[str, Sequence[str]]  # of each step, as Markdown


@dataclass(frozen=True)
class LabelledLine:
    """A line of a message that starts with a label, as in `expected  0.5`."""

    label: str
    text: str
    code: bool


@dataclass(frozen=True)
class Block:
    """Lines of a message of one kind: labelled values, the points of a list, words, or text as it was typed."""

    kind: Literal["pairs", "list", "words", "typed"]
    pairs: list[LabelledLine]
    lines: list[str]


@dataclass(frozen=True)
class TableCell:
    """One number of a matrix as text, and whether it differs from the other matrix's."""

    text: str
    differs: bool


@dataclass(frozen=True)
class FurtherPictures:
    """The same numbers drawn as what they are, a panel each, and what they show in a sentence."""

    panels: list[Markup]
    caption: str

    @property
    def images(self) -> list[str]:
        """The panels as `data:` addresses of images, on white."""
        return [svg.standalone(panel) for panel in self.panels]


@dataclass(frozen=True)
class HeatMap:
    """A picture of each matrix and their colour scale, which a mask has not; a description in words; the same as two
    tables: captions and rows; and `notes`: what of the description no picture shows."""

    panels: list[Markup]
    scale: Markup
    caption: list[str]
    tables: list[tuple[str, list[list[TableCell]]]]
    notes: list[str]
    further: FurtherPictures | None = None

    @property
    def images(self) -> list[str]:
        """The pictures as `data:` addresses of images, on white: an untrusted notebook shows no SVG of its own."""
        return [svg.standalone(panel) for panel in (*self.panels, self.scale) if panel]

    @property
    def has_sums(self) -> bool:
        """True if a cell can be pressed to see its sum."""
        return any("data-sum" in panel for panel in self.panels)

    @property
    def wide(self) -> bool:
        """Whether the tables are too wide for paper."""
        return len(self.tables[0][1][0]) > NUMBERED


@dataclass(frozen=True)
class CheckView:
    """A check that does not pass, as the page shows it."""

    result: CheckResult
    blocks: list[Block]
    heat_map: HeatMap | None
    alike: list[CheckResult] = field(default_factory=list)  # fail for the same reason, which is told once

    @property
    def for_the_same_reason(self) -> str:
        """The sentence with the number of checks that fail for the same reason."""
        return reasons.more(len(self.alike), alike=True)


@dataclass(frozen=True)
class StepView:
    """A step of the page: how many of its checks pass, those that do not, how far its parts are, and its hints."""

    result: StepResult
    passed: int
    total: int
    blocks: list[Block]
    failing: list[CheckView]
    parts: str
    hints: list[Markup]

    @property
    def detailed(self) -> bool:
        """Whether the page shows the step in detail, below the table."""
        return self.result.status not in ("pass", "todo") or bool(
            self.result.output or self.result.note or self.result.remarks
        )


def html(report: Report, *, every_picture: bool = True, of_class: bool = False, hints: Hints | None = None) -> str:
    """The report as a whole HTML page, in the language in use. Without `every_picture`, each step's first failing check
    has a heat map and the others have not: a class's pages stay small.

    `of_class`: the page is handed out. It has the student's name, and neither the seed nor a command that students
    lack. `hints` of each step, as Markdown, are shown one at a time."""
    return _filled("report.html.j2", report, every_picture, of_class, hints)


def fragment(report: Report, hints: Hints | None = None) -> str:
    """The steps in detail as HTML, to embed in another page: what a notebook shows, with heat maps as images."""
    return _filled("verdict.html.j2", report, hints=hints)


def view(step: StepResult) -> StepView:
    """A step's result prepared for templates that show it: with every picture, without hints."""
    return _step_views([step], every_picture=True, hints={})[0]


def template_values() -> dict[str, Any]:
    """The variables and functions that every template needs that includes a part of a report."""
    return {
        "language": language.current(), "as_images": False, "number": reports.number, "coded": coded,
        "marks": {status: mark for status, (mark, _style) in reports.MARKS.items()}, "status_word": reports.status_word,
        "badge_of": reports.badge_of, "linked": linked,
    }  # fmt: skip


def formatted(markdown: str, *, inline: bool = False) -> Markup:
    """Markdown of the kit's own as HTML, or with `inline` one line of it without a paragraph; what looks like HTML in
    it stays text."""
    parser = _markdown()
    if inline:
        return Markup(parser.renderInline(markdown))
    return Markup(parser.render(markdown).replace("<pre>", '<pre tabindex="0">'))  # so that the keyboard scrolls it


@cache  # cached: a class has a page per student, and compiling the template takes longer than rendering it
def environment(*further: Path) -> Environment:
    """The Jinja environment with the templates of this room and of `further` folders; text is escaped, its control
    characters made visible."""
    templates = Environment(
        loader=FileSystemLoader([TEMPLATES, *further]), autoescape=True, undefined=StrictUndefined, finalize=_shown,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    templates.globals["_"] = _  # not the extension for i18n, which takes a translation for markup
    return templates


@cache
def _markdown() -> MarkdownIt:
    """A Markdown parser that knows tables and takes HTML for text."""
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _filled(
    template: str, report: Report, every_picture: bool = True, of_class: bool = False, hints: Hints | None = None
) -> str:
    """The HTML that the template, a file name in `templates/`, makes of the report; the options are those of `html`."""
    following = reports.next_step(report)
    shown_hints = {name: [formatted(hint) for hint in ones] for name, ones in (hints or {}).items()}
    steps = _step_views(report.steps, every_picture, shown_hints)
    in_detail = {step.result.name for step in steps if step.detailed}
    title = _("Attention from scratch")
    to_do = following.name if following and following.name not in in_detail else ""
    return environment().get_template(template).render(
        **template_values() | {"as_images": template == "verdict.html.j2"}, report=report,
        title=f"{title}: {reports.plain(report.submission)}" if of_class else title,
        result=reports.score_of(report), is_open=bool(reports.why_open(report)),
        again="" if of_class
        else _("To repeat these draws: python -m grader grade --seed {seed}", seed=report.seed),
        facts=_facts(report, of_class),
        tracks=reports.several_tracks(report),
        notes=report.notes, apart=reports.apart(report), ask=report.ask, unread=reports.unread(report),
        closing=reports.closing(report, of_class=of_class).plain.splitlines(),
        steps=steps, next_hints=shown_hints.get(to_do, []),
        part=100 * reports.share(report),
    )  # fmt: skip


def show_in_browser(page: Path) -> bool:
    """Opens an HTML file in the browser; False without a browser."""
    try:
        return webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        return False


def blocks(message: str) -> list[Block]:
    """A check's message as blocks: adjacent lines of one kind together."""
    found: list[Block] = []
    codes = {_label(line) for line in (_("called    {call}"), _("expected  {expected}"), _("got       {got}"))}
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
            found[-1].pairs.append(LabelledLine(label[1], line[label.end() :], label[1] in codes))
        else:
            found[-1].lines.append(line)
    return found


def linked(text: str, has_code: bool = True, *, opens: Callable[[str, str], str] = lambda _file, _line: "") -> Markup:
    """A text as HTML, with names in `backquotes` if it `has_code`; the line of code that it names is a link if `opens`
    knows an address for a file and a line."""
    shown = coded if has_code else lambda part: escape(reports.plain(part))
    found = reasons.named_line(text)
    address = opens(found["file"], found["line"]) if found else ""
    start, end = found.span("line") if found else (0, 0)
    if not address or has_code and text.count("`", 0, start) % 2:
        return shown(text)
    link = Markup('<a href="{}">{}</a>').format(address, text[start:end])
    return shown(text[:start]) + link + shown(text[end:])


def coded(text: str) -> Markup:
    """A text as HTML, with what is in `backquotes` as code; all of it as it is if a backquote has no partner."""
    parts = [escape(reports.plain(part)) for part in text.split("`")]
    if len(parts) % 2 == 0:  # an unpaired backquote, shown as it is
        return escape(reports.plain(text))
    code = Markup('<code translate="no">{}</code>')
    return Markup("").join(code.format(part) if index % 2 else part for index, part in enumerate(parts))


def heat_map(parting: Parting, name: str, own: str = "", operands: Sequence[Matrix] | None = None) -> HeatMap:
    """The expected and the actual matrix, drawn on one colour scale; `name`, which the ids of its elements start with,
    is unique on the page. `own` is the title of the actual one if the reader did not make it. With `operands`, matrices
    that went into the call, a cell can be pressed to see its sum."""
    facts, notes = _described(parting)
    titles = _("expected"), own or _("yours")
    tables = [
        (title, [[TableCell(written(value), apart) for value, apart in zip(*lines, strict=True)]
                 for lines in zip(matrix, parting.differs, strict=True)])
        for title, matrix in zip(titles, (parting.expected, parting.got), strict=True)
    ]  # fmt: skip
    drawn = drawing(parting)
    panels = [
        environment().get_template("heat_map.svg.j2").render(
            drawing=drawn, panel=panel, name=f"{name}-{number}", title=title, description=" ".join(facts),
            words={"row": _("row"), "column": _("column")}, buttons=buttons,
        )
        for number, (panel, title, buttons) in enumerate(
            zip(drawn.panels, titles, _buttons(parting, drawn.cell, operands), strict=True)
        )
    ]  # fmt: skip
    is_mask = all(
        isinstance(value, bool) for matrix in (parting.expected, parting.got) for line in matrix for value in line
    )
    scale = "" if is_mask else environment().get_template("heat_scale.svg.j2").render(drawing=drawn)
    return HeatMap([Markup(panel) for panel in panels], Markup(scale), facts, tables, notes, _further(parting))


def _buttons(parting: Parting, side: int, operands: Sequence[Matrix] | None) -> list[list[Markup]]:
    """The SVG buttons of each of the two matrices, with cells of this side in pixels: one for every cell with a known
    sum; empty lists without operands. Each matrix is explained on its own: the expected one says nothing about how a
    wrong number arose."""
    rows: list[list[Markup]] = []
    for index, matrix in enumerate((parting.expected, parting.got)):
        how = sums.explain([matrix], operands)[0] if operands else None
        size = len(matrix), len(matrix[0])
        rows.append(
            svg.cell_buttons(how, index, size, lambda row, column: (column * side, row * side), side) if how else []
        )
    return rows


def _described(parting: Parting) -> tuple[list[str], list[str]]:
    """The sentences that describe a picture of two matrices, and those among them with what it does not show."""
    count = sum(map(sum, parting.differs))
    row, column = parting.place
    facts = [
        _("{rows} × {columns}: {count} of {total} cells differ (outlined). Rows and columns count from 0.").format(
            rows=len(parting.expected), columns=len(parting.expected[0]), count=count,
            total=len(parting.expected) * len(parting.expected[0]),
        ),
        _("The first difference is in row {row}, column {column}: expected {expected}, got {got}.").format(
            row=row, column=column, expected=written(parting.expected[row][column]),
            got=written(parting.got[row][column]),
        ),
    ]  # fmt: skip
    notes = []
    if parting.slice:
        notes.append(_("This shows the slice of the answer at {place}.", place=parting.slice))
    if any(value is None for matrix in (parting.expected, parting.got) for line in matrix for value in line):
        notes.append(_("× stands for infinity or NaN."))
    return facts + notes, notes


def _further(parting: Parting) -> FurtherPictures | None:
    """The columns that differ drawn as curves or arrows, with a caption, if the check says that they are such; else
    None."""
    picture = pictures.of_parting(parting)
    if picture is None:
        return None
    columns = _("columns {title}") if parting.drawn_as == "arrows" else _("column {title}")
    return FurtherPictures(pictures.drawn(picture, columns), pictures.caption(parting))


def _facts(report: Report, of_class: bool) -> list[tuple[str, str]]:
    """The rows of the table at the top: each a name and a value."""
    oracles = {"live": _("live"), "recorded": _("recorded")}
    return [
        (_("student") if of_class else _("submission"), report.submission),
        *reports.device_states(report),
        *([] if of_class else [(_("seed"), str(report.seed))]),
        (_("isolation"), ", ".join(report.isolation)),
        (_("oracle"), oracles[report.oracle]),
    ]


def _step_views(steps: Sequence[StepResult], every_picture: bool, hints: Mapping[str, list[Markup]]) -> list[StepView]:
    """The steps as the template reads them; `hints` are HTML, by the step's name."""
    return [
        StepView(
            result=step,
            passed=sum(check.status == "pass" for check in step.checks),
            total=len(step.checks),
            blocks=blocks(step.message),
            failing=[] if step.without_score else _failing(step, every_picture),
            parts=reports.parts(step),
            hints=hints.get(step.name, []) if step.status in ("fail", "timeout") else [],
        )
        for step in steps
    ]


def _failing(step: StepResult, every_picture: bool) -> list[CheckView]:
    """The checks that do not pass, for the template; those that fail for one reason are one. Without `every_picture`
    only the first has a picture."""
    shown: list[CheckView] = []
    numbers = {id(check): index for index, check in enumerate(step.checks)}
    for check in reports.failing_checks(step):
        group = next((one for one in shown if reasons.same(one.result, check)), None)
        if group:
            group.alike.append(check)
            continue
        index = numbers.get(id(check), 0)
        parting = None if shown and not every_picture else check.parting
        message = check.message.removeprefix(step.message).lstrip("\n")
        picture = heat_map(parting, f"{step.name}-{index}") if parting else None
        shown.append(CheckView(check, blocks(message), picture))
    return shown


def _shown(value: Any) -> Any:
    """The template's output filter: makes control characters in text visible, leaves our own markup unchanged."""
    return reports.plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _label(line: str) -> str:
    """The first word of a line of a message, which is its label."""
    return line.split(maxsplit=1)[0]
