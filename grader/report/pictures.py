"""Pictures of numbers for lessons and reports, as data, and those of them that are curves or arrows as SVG.

A picture can be kept as JSON: a learner's copy of the kit has the pictures of its lessons so. Titles and labels are
English and translated when they are drawn: matrices by `grids.py`, the others by `diagrams.py` and here.

One vocabulary of marks: what attends is a row, what is attended to a column; weights from 0 to 1 have one scale of
colours, signed numbers another; what is outlined differs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
from markupsafe import Markup

from grader.base.language import N_
from grader.base.language import gettext as _
from grader.base.results import Parting
from grader.report import svg
from grader.report.heat_map import short
from grader.report.svg import Point

Numbers = list[float | bool | None]
Grid = list[Numbers]

WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM = 340, 170, 52, 16, 44  # of a panel of curves, without what is above it
SIDE, REACH = 230, 78  # of a panel of arrows: its side, and the radius of its circle
MOST_PANELS, MOST_ARROWS = 4, 8  # of one answer in a report
TICKS = 5
CLOSEST = 10  # two labels
# What pictures of several steps name their axes, titles and series.
NAMES = (
    N_("query"), N_("key"), N_("value"), N_("position"), N_("row"), N_("column"), N_("head"), N_("token"), N_("tokens"),
    N_("scores"), N_("weights"), N_("mask"), N_("width"), N_("context"), N_("temperature"), N_("weight"),
)  # fmt: skip


class Matrices(msgspec.Struct, tag="matrices", kw_only=True, omit_defaults=True):
    """Matrices side by side on one scale of colours, each with its title; `row` and `column` name its axes.

    `rows` and `columns` are labels in place of numbers; `cut` is the size of blocks of rows and columns, with a gap
    between them; `differs` has the places that are outlined, for each panel; a None is a × or, with `blank`, nothing;
    `behind` has the matrices that these are made of, if they are not drawn.
    """

    panels: list[tuple[str, Grid]]
    row: str = "query"
    column: str = "key"
    rows: list[str] = []
    columns: list[str] = []
    cut: tuple[int, int] = (0, 0)
    differs: list[list[tuple[int, int]]] = []
    blank: bool = False
    behind: list[Grid] = []


class Bars(msgspec.Struct, tag="bars", kw_only=True, omit_defaults=True):
    """Panels of bars, each with its title and the values of each of `names`; `labels` are those of the bars. The
    longest is as long as `most`, or as the largest value of the panel. A None has no bar but `missing`."""

    panels: list[tuple[str, list[Numbers]]]
    labels: list[str]
    names: list[str] = []
    most: float = 0.0
    missing: str = "×"


class WeightedSum(msgspec.Struct, tag="sum", kw_only=True, omit_defaults=True):
    """Panels of a sum: an arrow from each value to the result, as thick as its weight."""

    panels: list[tuple[str, list[float]]]
    labels: list[str]
    values: list[list[float]]
    results: list[list[float]]
    names: tuple[str, str] = ("value", "context")


class Stream(msgspec.Struct, tag="stream", kw_only=True, omit_defaults=True):
    """Panels of a stream that branches read and add to: what goes in, and for each branch its name, the size of what
    it adds and that of the stream behind it. The widest stream has the size `most`, or the largest there is."""

    panels: list[tuple[str, float, list[tuple[str, float, float]]]]
    most: float = 0.0


class Curves(msgspec.Struct, tag="curves", kw_only=True, omit_defaults=True):
    """Panels of curves over the same `x`, each with its title; `names` are those of the curves of every panel."""

    x: list[float]
    panels: list[tuple[str, list[Numbers]]]
    names: list[str]
    across: str
    up: str = ""
    logarithmic: bool = False


class Arrows(msgspec.Struct, tag="arrows", kw_only=True):
    """Panels of arrows from one origin, each with its title and sets of points; `names` are those of the sets, and
    `labels` are at the points of the first."""

    panels: list[tuple[str, list[list[Point]]]]
    names: list[str]
    labels: list[str]


Still = Matrices | Bars | WeightedSum | Stream | Curves | Arrows


class Slider(msgspec.Struct, tag="slider", kw_only=True, omit_defaults=True):
    """A picture for each value of one number, which the page's reader moves; `at` is the one that is shown first."""

    label: str
    values: list[str]
    frames: list[list[Still]]
    at: int = 0


class Sheet(msgspec.Struct, tag="sheet", kw_only=True):
    """Several pictures side by side."""

    stills: list[Still]


Picture = Still | Sheet | Slider


def rounded(numbers: Any, digits: int = 4) -> Any:
    """The numbers of a tensor, an array or nested lists as nested lists, floats rounded to so many significant digits;
    NaN and infinity become None."""
    if hasattr(numbers, "tolist"):
        numbers = numbers.tolist()
    if isinstance(numbers, list | tuple):
        return [rounded(number, digits) for number in numbers]
    if isinstance(numbers, bool | int):
        return numbers
    return float(f"{numbers:.{digits}g}") + 0.0 if math.isfinite(numbers) else None


def of_parting(parting: Parting) -> Curves | Arrows | None:
    """The columns that differ in a parting as arrows or curves, if the check says that its numbers are such; None if it
    doesn't, or if they can't be drawn: an infinity, or arrows with an odd number of columns."""
    expected, got = ([[_finite(value) for value in row] for row in part] for part in (parting.expected, parting.got))
    if any(value is None for row in [*expected, *got] for value in row):
        return None
    apart = [column for column in range(len(expected[0])) if any(row[column] for row in parting.differs)]
    if parting.drawn_as == "arrows" and len(expected[0]) % 2 == 0:
        rows = range(min(len(expected), MOST_ARROWS))
        pairs = list(dict.fromkeys(column // 2 for column in apart))[:MOST_PANELS]
        panels = [
            (f"{2 * pair}, {2 * pair + 1}",
             [[(float(part[row][2 * pair] or 0), float(part[row][2 * pair + 1] or 0)) for row in rows]
              for part in (expected, got)])
            for pair in pairs
        ]  # fmt: skip
        return Arrows(panels=panels, names=["expected", "yours"], labels=[str(row) for row in rows])
    if parting.drawn_as == "curves" and len(expected) > 2:
        drawn = [(f"{column}", [[row[column] for row in part] for part in (expected, got)]) for column in apart]
        x = [float(row) for row in range(len(expected))]
        return Curves(x=x, panels=drawn[:MOST_PANELS], names=["expected", "yours"], across="row")
    return None


def caption(parting: Parting) -> str:
    """A sentence that describes the picture of `of_parting`."""
    if parting.drawn_as == "arrows":
        return _(
            "Pairs of columns as arrows, one for each row: a turn keeps the length. The number at an arrow is its row."
        )
    return _("Columns as curves over the rows.")


def _finite(value: float | bool | None) -> float | None:
    """The value as a float; None unless it is finite."""
    return float(value) if value is not None and math.isfinite(value) else None


# --- SVG -------------------------------------------------------------------------------------------------------------


def drawn(picture: Curves | Arrows, titled: str = "{title}") -> list[Markup]:
    """One SVG per panel; its title is put into `titled`, a format with {title}."""
    if isinstance(picture, Curves):
        return [_curves(picture, titled.format(title=_(title)), lines) for title, lines in picture.panels]
    return [_arrows(picture, titled.format(title=_(title)), sets) for title, sets in picture.panels]


def _curves(picture: Curves, title: str, lines: Sequence[Numbers]) -> Markup:
    """One panel as SVG: axes, ticks, and a line for each of the series; missing points are left out."""
    values = [float(value) for line in lines for value in line if value is not None]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if picture.logarithmic:
        low, high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
    elif high == low:
        low, high = low - 1, high + 1
    named = picture.names if len(picture.names) > 1 else []
    top = 34 + 16 * len(named)
    axis = _Axes(top, picture.x[0], picture.x[-1], low, high, picture.logarithmic)
    inside = [svg.title(title), *svg.legend(named, 30)]
    for value in axis.ticks(low, high):
        y = axis.y(value)
        inside.append(
            Markup('<path d="M{} {}H{}" stroke="currentColor" stroke-opacity=".2"/>').format(
                LEFT, svg.number(y), WIDTH - RIGHT
            )
        )
        inside.append(svg.text(LEFT - 6, y + 4, short(value), ' text-anchor="end"'))
    for value in axis.ticks(picture.x[0], picture.x[-1]):
        inside.append(svg.text(axis.x(value), top + HEIGHT + 16, short(value)))
    inside.append(svg.text((LEFT + WIDTH - RIGHT) / 2, top + HEIGHT + 36, _(picture.across)))
    for number, line in enumerate(lines):
        points = [(axis.x(x), axis.y(float(y))) for x, y in zip(picture.x, line, strict=True) if y is not None]
        inside.append(svg.line(points, number))
    return svg.svg(WIDTH, top + HEIGHT + BOTTOM, title, inside)


class _Axes:
    """The axes of a panel of curves: from numbers to pixels."""

    def __init__(self, top: int, first: float, last: float, low: float, high: float, logarithmic: bool) -> None:
        """`top` is the upper edge in pixels; x goes from `first` to `last`, y from `low` to `high`, all of them
        values."""
        self.top, self.first, self.last, self.low, self.high = top, first, last, low, high
        self.logarithmic = logarithmic

    def x(self, value: float) -> float:
        """The pixel of a value on the horizontal axis."""
        return LEFT + (WIDTH - LEFT - RIGHT) * self._part(value, self.first, self.last)

    def y(self, value: float) -> float:
        """The pixel of a value on the vertical axis."""
        return self.top + HEIGHT * (1 - self._part(value, self.low, self.high))

    def ticks(self, low: float, high: float) -> list[float]:
        """At most a few round numbers from `low` to `high`, for the marks on an axis."""
        if self.logarithmic:
            first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
            step = max(1, -(-(last - first) // TICKS))
            return [10.0**power for power in range(first, last + 1, step)]
        rough = (high - low) / TICKS or 1.0
        power = 10.0 ** math.floor(math.log10(rough))
        width = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
        return [round(number * width, 10) for number in range(math.ceil(low / width), math.floor(high / width) + 1)]

    def _part(self, value: float, low: float, high: float) -> float:
        """The position of a value between `low` and `high`, 0 to 1; 0.5 if they are equal."""
        if self.logarithmic:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return (value - low) / (high - low) if high > low else 0.5


def _arrows(picture: Arrows, title: str, sets: Sequence[Sequence[Point]]) -> Markup:
    """One panel as SVG: each set of points as arrows from the middle, the longest as long as the circle's radius."""
    longest = max((math.hypot(u, v) for points in sets for u, v in points), default=1.0) or 1.0
    named = picture.names if len(picture.names) > 1 else []
    top = 22 + 16 * len(named)
    middle = SIDE / 2, top + SIDE / 2
    inside = [
        svg.title(title),
        *svg.legend(named, 30),
        Markup('<circle cx="{0}" cy="{1}" r="{2}" fill="none" stroke="currentColor" stroke-opacity=".25"/>').format(
            svg.number(middle[0]), svg.number(middle[1]), REACH
        ),
    ]
    labelled: list[Point] = []
    for number, points in enumerate(sets):
        for index, (u, v) in enumerate(points):
            end = middle[0] + REACH * u / longest, middle[1] - REACH * v / longest
            inside.append(svg.line([middle, end], number, ' stroke-linecap="round"'))
            inside.append(_tip(end, number))
            away = (14 if number == 0 else 26) / (math.hypot(u, v) / longest * REACH or 1)
            label = end[0] + (end[0] - middle[0]) * away, end[1] + (end[1] - middle[1]) * away + 4
            if all(math.dist(label, other) > CLOSEST for other in labelled):
                labelled.append(label)
                inside.append(
                    svg.text(*label, picture.labels[index], f' style="fill:{svg.colour(number)}" font-size="11"')
                )
    return svg.svg(SIDE, top + SIDE, title, inside)


def _tip(end: Point, number: int) -> Markup:
    """The dot at the end of an arrow, in the colour of series `number`."""
    return Markup('<circle cx="{}" cy="{}" r="3.5" style="fill:{}"/>').format(
        svg.number(end[0]), svg.number(end[1]), svg.colour(number)
    )
