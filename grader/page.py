"""A report as one HTML page that needs nothing else: pure functions from one `Report` to text.

The page's sentences stand here, its structure and looks in `templates/`. Whatever a learner could have made is shown
through `report.plain` and escaped, both for every value that a template writes.
"""

from __future__ import annotations

import io
import re
import warnings
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from grader import language
from grader import report as reports
from grader.language import gettext as _
from grader.results import CheckResult, Parting, Report, StepResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize

TEMPLATES = Path(__file__).parent / "templates"
# Layout is done with the font that comes with matplotlib and so is the same everywhere; the reader's fonts show it.
LAYOUT_FONT = "DejaVu Sans"
FONTS = "system-ui, 'Apple SD Gothic Neo', 'Malgun Gothic', 'Noto Sans KR', 'Noto Sans CJK KR', sans-serif"
COLOURS = "cividis"  # its lightness grows evenly: it reads the same in grey and with any kind of colour vision
NUMBERED = 8  # rows and columns up to which a cell holds its number
NUMBER_WIDTH = 5  # characters that fit a cell
BLACK = "#010101"  # matplotlib leaves out pure black, and text without a colour takes the page's
POINTS_PER_INCH = 72

Matrix = list[list[float | bool | None]]


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
            row=row, column=column, expected=_written(parting.expected[row][column]),
            came=_written(parting.came[row][column]),
        ),
    ]  # fmt: skip
    if parting.slice:
        facts.insert(0, _("This is the part of the answer at {place}.").format(place=parting.slice))
    if any(value is None for matrix in (parting.expected, parting.came) for line in matrix for value in line):
        facts.append(_("× stands for infinity or NaN."))
    titles = _("expected"), _("yours")
    tables = [
        (title, [[Cell(_written(value), apart) for value, apart in zip(*lines, strict=True)]
                 for lines in zip(matrix, differs, strict=True)])
        for title, matrix in zip(titles, (parting.expected, parting.came), strict=True)
    ]  # fmt: skip
    title = _("Heat maps: what was expected, and yours")
    svg = _picture(msgspec.json.encode(parting), titles)
    return HeatMap(_accessible(svg, name, title, " ".join(facts)), facts, tables)


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


def _written(value: float | bool | None) -> str:
    if isinstance(value, bool):
        return str(value)
    return "×" if value is None else f"{value:.6g}"


def _short(value: float | bool | None) -> str:
    """A value that fits a cell of the picture."""
    if value is None or isinstance(value, bool):
        return _written(value)
    texts = [re.sub(r"e\+?(-?)0*", r"e\1", format(value, form)) for form in (".3g", ".2g", ".0e")]
    return next((text for text in texts if len(text) <= NUMBER_WIDTH), texts[-1])


@lru_cache(maxsize=256)  # a class is graded on the same draws: the same mistake gives the same picture
def _picture(encoded: bytes, titles: tuple[str, str]) -> str:
    parting = msgspec.json.decode(encoded, type=Parting)
    return _drawn(parting, parting.differs, titles)


def _drawn(parting: Parting, differs: list[list[bool]], titles: tuple[str, str]) -> str:
    """Both matrices side by side and their colour scale, as SVG without ids, so that pages can hold many."""
    # Imported here: only a page needs it, and it takes as long as some steps do.
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    rows, columns = len(parting.expected), len(parting.expected[0])
    largest = max(rows, columns)
    cell = 0.62 if largest <= 4 else 0.5 if largest <= NUMBERED else 0.28 if largest <= 2 * NUMBERED else 0.16
    left, right, top, bottom, bar = 0.55, 0.15, 0.62, 0.75, 2.4  # inches, as all lengths here
    wide, high = max(columns * cell, 0.9), rows * cell
    width, height = 2 * (left + wide + right), top + high + bottom
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # a reader's own settings of matplotlib change nothing
        matplotlib.rcParams.update(
            {"svg.fonttype": "none", "svg.hashsalt": "kit", "font.family": LAYOUT_FONT, "font.size": 9.0}
        )
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the reader's fonts have Hangul
        figure = Figure(figsize=(width, height), facecolor="none")
        FigureCanvasSVG(figure)
        both = (parting.expected, parting.came)
        colours, scale = matplotlib.colormaps[COLOURS], Normalize(*_range(both))
        for index, (title, matrix) in enumerate(zip(titles, both, strict=True)):
            start = left + index * width / 2
            axes = figure.add_axes((start / width, bottom / height, columns * cell / width, high / height))
            _draw_matrix(axes, matrix, differs, colours, scale, cell)
            axes.text(0, -0.43 / cell, title, fontsize=11, fontweight="bold", va="bottom")
        axes = figure.add_axes(((width - bar) / 2 / width, 0.28 / height, bar / width, 0.15 / height))
        _draw_scale(axes, colours, scale)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _bare(text.getvalue())


def _range(both: tuple[Matrix, Matrix]) -> tuple[float, float]:
    """The smallest and the largest finite value of both matrices."""
    values = [value for matrix in both for line in matrix for value in line if value is not None] or [0.0]
    return min(values), max(values)


def _draw_matrix(
    axes: Axes, matrix: Matrix, differs: list[list[bool]], colours: Colormap, scale: Normalize, cell: float
) -> None:  # fmt: skip
    """One matrix, row 0 on top, with its row and column numbers; `cell` is the side of a cell in inches."""
    import numpy
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    rows, columns = len(matrix), len(matrix[0])
    axes.set_axis_off()
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    finite = numpy.ma.masked_invalid(numpy.array(matrix, dtype=float))
    axes.pcolormesh(finite, cmap=colours, norm=scale, antialiased=False, clip_on=False)
    every = 1 if cell >= 0.28 else 4
    for row in range(0, rows, every):
        axes.text(-0.08 / cell, row + 0.5, str(row), ha="right", va="center")
    for column in range(0, columns, every):
        axes.text(column + 0.5, -0.06 / cell, str(column), ha="center", va="bottom")
    word = _("row")  # one Hangul syllable stands upright
    axes.text(-0.35 / cell, rows / 2, word, rotation=90 if len(word) > 1 else 0, ha="center", va="center")
    axes.text(columns / 2, rows + 0.06 / cell, _("column"), ha="center", va="top")
    for row, line in enumerate(matrix):
        for column, value in enumerate(line):
            if value is None or max(rows, columns) <= NUMBERED:
                ink = "#000000" if value is None else _ink(colours(scale(value)))
                axes.text(column + 0.5, row + 0.5, _short(value), color=ink, ha="center", va="center")
    # Light on dark: one of the two is seen on any colour, and on paper.
    outline = Outline.make_compound_path(*map(Outline, _outlines(differs, 0.02 / cell)))
    for colour, width in (("#000000", 2.6), ("#ffffff", 1.2)):
        axes.add_patch(PathPatch(outline, fill=False, edgecolor=colour, linewidth=width, clip_on=False))


def _outlines(differs: list[list[bool]], inset: float) -> list[list[tuple[float, float]]]:
    """Lines (column, row) around the cells that differ: around each, or around whole regions when cells are small."""
    rows, columns = len(differs), len(differs[0])
    lines: list[list[tuple[float, float]]] = []
    for row, column in [(row, column) for row in range(rows) for column in range(columns) if differs[row][column]]:
        x, y, right, low = column + inset, row + inset, column + 1 - inset, row + 1 - inset
        if max(rows, columns) <= NUMBERED:
            lines.append([(x, y), (right, y), (right, low), (x, low), (x, y), (right, y)])
            continue
        corners = [(column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1), (column, row)]
        beside = [(row - 1, column), (row, column + 1), (row + 1, column), (row, column - 1)]
        for side, (below, along) in enumerate(beside):
            within = 0 <= below < rows and 0 <= along < columns
            if not within or not differs[below][along]:
                lines.append([corners[side], corners[side + 1]])
    return lines


def _draw_scale(axes: Axes, colours: Colormap, scale: Normalize) -> None:
    """The colours from the smallest value to the largest, with both numbers."""
    import numpy

    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    low, high = scale.vmin or 0.0, scale.vmax or 0.0
    steps = 48 if high > low else 1
    axes.pcolormesh(
        numpy.linspace(0, 1, steps + 1), numpy.array([0.0, 1.0]), numpy.linspace(low, high, steps)[None, :],
        cmap=colours, norm=scale, antialiased=False, clip_on=False,
    )  # fmt: skip
    axes.text(-0.03, 0.5, _short(low), ha="right", va="center")
    axes.text(1.03, 0.5, _short(high), ha="left", va="center")


def _ink(colour: tuple[float, float, float, float]) -> str:
    """Black or white, whichever stands out more on the colour (WCAG's relative luminance)."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return BLACK if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#ffffff"


def _bare(svg: str) -> str:
    """A drawing fit for standing inside a page: no prologue, no ids, no style for others."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<defs>.*?</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="[^"]*"| version="[^"]*"| xmlns(:xlink)?="[^"]*"| transform="rotate\(-0 [^"]*"', "", svg)
    svg = re.sub(rf"font-family: '{LAYOUT_FONT}'[^;\"]*", f"font-family: {FONTS}", svg)
    return re.sub(r"\s*\n\s*", " ", svg).strip()


def _accessible(svg: str, name: str, title: str, description: str) -> Markup:
    """The drawing as one image with a name and a description."""
    opening, rest = svg.split(">", 1)
    return Markup(
        f'{opening} role="img" aria-labelledby="{escape(name)}-title" aria-describedby="{escape(name)}-desc">'
        f'<title id="{escape(name)}-title">{escape(title)}</title>'
        f'<desc id="{escape(name)}-desc">{escape(description)}</desc>{rest}'
    )
