"""The picture of a difference: the layout of both matrices, their colours, numbers and outlines, and the colour scale.

Pure functions from one `Parting` to one `Drawing`, which `templates/heat_map.svg.j2` renders. Lengths are in CSS
pixels, paths of colours in cells.
"""

from __future__ import annotations

import math
import operator
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TypeVar

from grader.base.results import Parting

# 0 is the paper. The farther a number is from 0, the more colour it has: blue above 0, orange below,
# two colours that all people tell apart. A page has both for light and for dark; elsewhere they are these.
POSITIVE, NEGATIVE = "var(--series-1, #0b62b0)", "var(--series-2, #b8500b)"
LEVELS = 100
GAMMA = 0.75  # below 1: small weights are seen
# The page, positive and negative, by light and by dark, for the contrast of what is written on a colour.
LIGHT = (255, 255, 255), (11, 98, 176), (184, 80, 11)
DARK = (26, 31, 38), (107, 177, 255), (255, 163, 92)
NUMBERED = 8  # most rows and columns of a matrix with numbers in its cells
NUMBER_WIDTH = 5  # characters that fit into a cell
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 60, 30  # space around a matrix for labels
NARROWEST = 88  # height of a title
INSET = 2  # from the edge of a cell to the centre of its outline
BAR = 48  # steps of the colour scale, each 4 wide: both its numbers fit below the narrowest matrices
PAGE_INK = "currentColor"
# What is written on a colour, by whether black is read best on it in light and in dark.
INKS = {
    (True, False): "var(--on-pale, #000000)",
    (True, True): "#000000",
    (False, True): "var(--on-deep, #ffffff)",
    (False, False): "#ffffff",
}

Value = float | bool | None
Matrix = list[list[Value]]
Colour = tuple[int, int, int]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Number:
    """The text of a cell, and the cell's centre."""

    x: int
    y: int
    text: str


@dataclass(frozen=True)
class Panel:
    """One matrix: the path of the cells of each style, and the numbers in each ink."""

    areas: dict[str, str]
    numbers: dict[str, list[Number]]


@dataclass(frozen=True)
class Drawing:
    """Two pictures of one size and their scale: `every` is the step of row and column numbers, `outline` a path around
    cells that differ."""

    width: int
    height: int
    left: int
    top: int
    rows: int
    columns: int
    cell: int
    every: int
    panels: list[Panel]
    outline: str
    bar: dict[str, str]
    low: str
    high: str

    @property
    def grid(self) -> str:
        """A path around the matrix and, if its cells are large, between them."""
        step = self.cell if max(self.rows, self.columns) <= 2 * NUMBERED else 0
        wide, high = self.columns * self.cell, self.rows * self.cell
        across = (f"M0 {y}h{wide}" for y in range(step, high, step)) if step else ()
        down = (f"M{x} 0v{high}" for x in range(step, wide, step)) if step else ()
        return "".join([f"M0 0h{wide}v{high}h-{wide}z", *across, *down])


@dataclass(frozen=True)
class Scale:
    """The colours from one value to another: weights from 0 to 1, numbers of both signs from −x to x, and else from the
    smallest finite value of both matrices to the largest."""

    low: float
    high: float

    def shade(self, value: float) -> int:
        """The amount of a colour for a value, from -LEVELS to LEVELS; 0 for all values when they are equal."""
        if self.low < 0:
            return _level(value / self.high)
        whole = self.high / 2 - self.low / 2  # halved: the difference of the largest floats would overflow
        return _level((value / 2 - self.low / 2) / whole if whole else 0.0)

    @property
    def bar(self) -> dict[str, str]:
        """The scale itself: the path of the cells of each colour."""
        first = -1.0 if self.low < 0 else 0.0
        last = 1.0 if self.high > self.low else 0.0
        return _areas([[_level(first + (last - first) * step / (BAR - 1)) for step in range(BAR)]])


def drawing(parting: Parting) -> Drawing:
    """The layout of the expected matrix and the learner's, on one colour scale and with the cells that differ
    outlined."""
    both = parting.expected, parting.got
    rows, columns = len(parting.expected), len(parting.expected[0])
    largest = max(rows, columns)
    cell = _cell(largest)
    scale = scale_of(both)
    return Drawing(
        width=LEFT + max(columns * cell, NARROWEST) + RIGHT, height=TOP + rows * cell + BOTTOM, left=LEFT, top=TOP,
        rows=rows, columns=columns, cell=cell,
        every=1 if largest <= 2 * NUMBERED else 4,
        panels=[_panel(matrix, scale, cell) for matrix in both],
        outline=_outline(parting.differs, cell),
        bar=scale.bar,
        low=short(scale.low), high=short(scale.high),
    )  # fmt: skip


def written(value: Value) -> str:
    """A value as text, for tables and sentences; None, which is NaN or infinity, is ×."""
    if isinstance(value, bool):
        return str(value)
    return "×" if value is None else f"{value:.6g}"


def short(value: Value) -> str:
    """A value as text of at most NUMBER_WIDTH characters, if it can be: it fits into a cell of the picture."""
    if value is None or isinstance(value, bool):
        return written(value)
    texts = [re.sub(r"e\+?(-?)0*", r"e\1", format(value, form)) for form in (".3g", ".2g", ".1g", ".0e")]
    return next((text for text in texts if len(text) <= NUMBER_WIDTH), texts[-1])


def fill(shade: int) -> str:
    """The CSS of a cell's colour: `shade` goes from -LEVELS, full orange, by 0, the paper, to LEVELS, full blue."""
    return f"fill:{NEGATIVE if shade < 0 else POSITIVE};fill-opacity:{abs(shade) / LEVELS:g}"


def ink(shade: int) -> str:
    """The CSS colour that contrasts more with a cell of this shade, black or white, in light and in dark (WCAG's
    relative luminance)."""
    return INKS[_is_pale(shade, *LIGHT), _is_pale(shade, *DARK)]


def _level(part: float) -> int:
    """The shade, -LEVELS to LEVELS, of a number that is at `part` of the scale, -1 to 1; 0 if it is not finite."""
    if not math.isfinite(part):
        return 0
    return round(math.copysign(min(abs(part), 1.0) ** GAMMA * LEVELS, part))


def _is_pale(shade: int, page: Colour, positive: Colour, negative: Colour) -> bool:
    """Whether black text on this shade has more contrast than white, on a page with these colours (RGB, 0 to 255)."""
    part = abs(shade) / LEVELS
    mixed = [a + (b - a) * part for a, b in zip(page, negative if shade < 0 else positive, strict=True)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in (one / 255 for one in mixed)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05)


def _cell(largest: int) -> int:
    """The side of a cell in pixels, if a matrix has at most `largest` rows and columns; even, so that its centre is a
    whole pixel."""
    if largest <= NUMBERED:
        return 60 if largest <= NUMBERED // 2 else 48
    return 28 if largest <= 2 * NUMBERED else 16


def scale_of(matrices: Iterable[Matrix]) -> Scale:
    """The scale for all numbers of the matrices: symmetric around 0 if one is negative, 0 to 1 if none is larger, else
    from the smallest to the largest."""
    values = [float(value) for matrix in matrices for line in matrix for value in line if value is not None] or [0.0]
    low, high = min(values), max(values)
    if low < 0:
        farthest = max(-low, high)
        return Scale(-farthest, farthest)
    return Scale(0.0, 1.0) if high <= 1 else Scale(low, high)


def _panel(matrix: Matrix, scale: Scale, cell: int) -> Panel:
    """The areas of each colour in cells, and the numbers by their ink in pixels; NaN and infinities (None) always have
    their sign."""
    shades = [[None if value is None else scale.shade(value) for value in line] for line in matrix]
    numbered = max(len(matrix), len(matrix[0])) <= NUMBERED
    numbers: dict[str, list[Number]] = defaultdict(list)
    for row, (line, line_shades) in enumerate(zip(matrix, shades, strict=True)):
        for column, (value, shade) in enumerate(zip(line, line_shades, strict=True)):
            if shade is None or numbered:
                x, y = column * cell + cell // 2, row * cell + cell // 2
                numbers[PAGE_INK if shade is None else ink(shade)].append(Number(x, y, short(value)))
    return Panel(_areas(shades), numbers)


def _areas(shades: Sequence[Sequence[int | None]]) -> dict[str, str]:
    """The path of the cells of each style, adjacent cells of a row merged; cells without a shade are left out."""
    paths: dict[str, str] = defaultdict(str)
    for row, line in enumerate(shades):
        for shade, column, length in _runs(line):
            if shade is not None:
                paths[fill(shade)] += f"M{column} {row}h{length}v1h-{length}z"
    return paths


def _outline(differs: list[list[bool]], cell: int) -> str:
    """A path around the cells that differ: around each, or around whole regions when cells are small."""
    if max(len(differs), len(differs[0])) <= NUMBERED:
        side = cell - 2 * INSET
        return "".join(
            f"M{column * cell + INSET} {row * cell + INSET}h{side}v{side}h-{side}z"
            for row, line in enumerate(differs)
            for column, apart in enumerate(line)
            if apart
        )
    across = (f"M{start * cell} {line * cell}h{length * cell}" for line, start, length in _edges(differs))
    columns = list(zip(*differs, strict=True))
    down = (f"M{line * cell} {start * cell}v{length * cell}" for line, start, length in _edges(columns))
    return "".join([*across, *down])


def _edges(differs: Sequence[Sequence[bool]]) -> Iterator[tuple[int, int, int]]:
    """The borders of the differing cells between one line of cells and the next: line, first cell, count."""
    beyond = [False] * len(differs[0])
    for line, (before, after) in enumerate(pairwise([beyond, *differs, beyond])):
        for edge, start, length in _runs(map(operator.ne, before, after)):
            if edge:
                yield line, start, length


def _runs(items: Iterable[Item]) -> Iterator[tuple[Item, int, int]]:
    """Runs of equal neighbours: item, start, length."""
    start = 0
    for item, equal in groupby(items):
        length = sum(1 for _item in equal)
        yield item, start, length
        start += length
