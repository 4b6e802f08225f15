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

# Cividis (Nuñez, Anderton and Renslow 2018): its lightness increases evenly, so it is readable in grey and with any
# kind of colour vision. Each of its 256 colours is within one level of the linear interpolation between two of these
# (number, colour).
CIVIDIS = (
    (0, (0, 34, 78)), (18, (0, 47, 109)), (23, (1, 50, 113)), (26, (12, 52, 112)), (32, (26, 56, 111)),
    (47, (49, 67, 109)), (83, (85, 92, 109)), (130, (126, 125, 120)), (162, (157, 149, 118)), (195, (191, 176, 107)),
    (224, (222, 201, 88)), (242, (242, 218, 68)), (251, (253, 227, 52)), (255, (254, 232, 56)),
)  # fmt: skip
LAST = CIVIDIS[-1][0]
# Numbers of both signs, as far from white as from 0: below it blue, above it orange, which everybody tells apart. Their
# colours are numbered on from those of cividis.
SIGNED = (
    (256, (9, 62, 120)),
    (320, (92, 146, 200)),
    (384, (245, 243, 239)),
    (448, (226, 140, 70)),
    (511, (134, 52, 4)),
)
NUMBERED = 8  # most rows and columns of a matrix whose cells show numbers
NUMBER_WIDTH = 5  # characters that fit into a cell
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 60, 30  # space around a matrix for labels
NARROWEST = 88  # height of a title
INSET = 2  # from the edge of a cell to the centre of its outline
BAR = 48  # steps of the colour scale, each 4 wide: both its numbers fit below the narrowest matrices
BLACK, WHITE, PAGE_INK = "#000000", "#ffffff", "currentColor"

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
    """One matrix: the path of the cells of each colour, and the numbers in each ink."""

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


@dataclass(frozen=True)
class Scale:
    """The colours from one value to another: weights from 0 to 1, numbers of both signs from −x to x, and else from the
    smallest finite value of both matrices to the largest."""

    low: float
    high: float

    @property
    def first(self) -> int:
        """The number of the colour of `low`."""
        return SIGNED[0][0] if self.low < 0 else 0

    def shade(self, value: float) -> int:
        """The number of the value's colour; the first for all of them when they are equal."""
        whole = self.high / 2 - self.low / 2  # halved: the difference of the largest floats would overflow
        part = (value / 2 - self.low / 2) / whole if whole else 0.0
        return self.first + min(int(part * (LAST + 1)), LAST) if math.isfinite(part) else self.first

    @property
    def bar(self) -> dict[str, str]:
        """The scale itself: the path of the cells of each colour."""
        steps = range(BAR)
        return _areas([[self.first + (LAST * step // (BAR - 1) if self.high > self.low else 0) for step in steps]])


def drawing(parting: Parting) -> Drawing:
    """The expected matrix and the learner's, on one colour scale: beside each other, or one below the other."""
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
    """A value as text, for tables and sentences."""
    if isinstance(value, bool):
        return str(value)
    return "×" if value is None else f"{value:.6g}"


def short(value: Value) -> str:
    """A value as text that fits into a cell of the picture."""
    if value is None or isinstance(value, bool):
        return written(value)
    texts = [re.sub(r"e\+?(-?)0*", r"e\1", format(value, form)) for form in (".3g", ".2g", ".1g", ".0e")]
    return next((text for text in texts if len(text) <= NUMBER_WIDTH), texts[-1])


def colour(number: int) -> Colour:
    """A colour of cividis, from 0 for the smallest value to 255 for the largest, or of signed numbers, from 256 to 511:
    red, green and blue up to 255."""
    stops = CIVIDIS if number <= LAST else SIGNED
    (low, start), (high, end) = next(pair for pair in pairwise(stops) if number <= pair[1][0])
    red, green, blue = (round(a + (b - a) * (number - low) / (high - low)) for a, b in zip(start, end, strict=True))
    return red, green, blue


def ink(colour: Colour) -> str:
    """Black or white, whichever stands out more on the colour (WCAG's relative luminance)."""
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return BLACK if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else WHITE


def _cell(largest: int) -> int:
    """The side of a cell; even, so that its centre is a whole pixel."""
    if largest <= NUMBERED:
        return 60 if largest <= NUMBERED // 2 else 48
    return 28 if largest <= 2 * NUMBERED else 16


def scale_of(matrices: Iterable[Matrix]) -> Scale:
    """The scale that suits all of these."""
    values = [float(value) for matrix in matrices for line in matrix for value in line if value is not None] or [0.0]
    low, high = min(values), max(values)
    if low < 0:
        farthest = max(-low, high)
        return Scale(-farthest, farthest)
    return Scale(0.0, 1.0) if high <= 1 else Scale(low, high)


def _panel(matrix: Matrix, scale: Scale, cell: int) -> Panel:
    shades = [[None if value is None else scale.shade(value) for value in line] for line in matrix]
    numbered = max(len(matrix), len(matrix[0])) <= NUMBERED
    numbers: dict[str, list[Number]] = defaultdict(list)
    for row, (line, line_shades) in enumerate(zip(matrix, shades, strict=True)):
        for column, (value, shade) in enumerate(zip(line, line_shades, strict=True)):
            if shade is None or numbered:
                x, y = column * cell + cell // 2, row * cell + cell // 2
                numbers[PAGE_INK if shade is None else ink(colour(shade))].append(Number(x, y, short(value)))
    return Panel(_areas(shades), numbers)


def _areas(shades: Sequence[Sequence[int | None]]) -> dict[str, str]:
    """The path of the cells of each colour, adjacent cells of a row merged; cells without a shade are left out."""
    paths: dict[str, str] = defaultdict(str)
    for row, line in enumerate(shades):
        for shade, column, length in _runs(line):
            if shade is not None:
                paths["#" + bytes(colour(shade)).hex()] += f"M{column} {row}h{length}v1h-{length}z"
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
