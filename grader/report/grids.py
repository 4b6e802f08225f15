"""Matrices as SVG, panel by panel: every cell in its colour, with its number if there is space.

No panel is wider than a phone: cells of a larger matrix are smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from grader.base.language import gettext as _
from grader.report import svg
from grader.report.heat_map import BAR, PAGE_INK, Scale, fill, ink, scale_of, short
from grader.report.pictures import Grid, Matrices
from grader.report.sums import Sums

LETTER = 7  # the mean width of one, at the size of labels
EDGE, ABOVE, BELOW = 8, 30, 26  # next to a matrix, for its title and the name of its columns
LARGEST, NUMBERED, FINE = 40, 26, 36  # side of a cell: at most, the least with a number, below it in a smaller size
MOST_TOLD = 8  # most rows and columns of a matrix with numbers that are told to readers who can't see it
GAP = 3  # between blocks
STEP = 2  # of the scale of colours
LINES = ' stroke="currentColor" stroke-opacity=".15"'  # between cells


@dataclass(frozen=True)
class _Frame:
    """The position of the cells of one matrix, in pixels."""

    left: float
    top: float
    cell: float
    cut: tuple[int, int]
    slanted: bool

    def x(self, column: int) -> float:
        """The left edge of a column."""
        return self.left + column * self.cell + (column // self.cut[1] * GAP if self.cut[1] else 0)

    def y(self, row: int) -> float:
        """The upper edge of a row."""
        return self.top + row * self.cell + (row // self.cut[0] * GAP if self.cut[0] else 0)


def panels(
    picture: Matrices, same_scale: Sequence[Matrices] = (), explained: Sequence[Sums | None] = (), first: int = 0
) -> list[Markup]:
    """One SVG for each matrix of the picture, the last one with the scale of colours, which fits all pictures in
    `same_scale`. `explained` has the sums behind the cells of each panel of the figure that this picture is part of
    (none: cells can't be pressed); `first` is the index of this picture's first panel among them."""
    scale = scale_of(matrix for drawn in (same_scale or [picture]) for _title, matrix in drawn.panels)
    return [_panel(picture, index, scale, explained, first + index) for index in range(len(picture.panels))]


def _scale_bar(scale: Scale, x: float, y: float) -> Markup:
    """The SVG of the colour scale, with the numbers at both ends, and 0 in the middle if there are negative ones; (x,
    y) is the top left corner of the bar."""
    drawn = (Markup('<path style="{}" d="{}"/>').format(shade, path) for shade, path in scale.bar.items())
    across = STEP * BAR
    texts = [svg.right(-6, 10, short(scale.low)), svg.left(across + 6, 10, short(scale.high))]
    if scale.low < 0:
        texts.append(svg.text(across / 2, 23, "0", ' font-size="10"'))
    placed = '<g transform="translate({} {})"><g transform="scale({} 12)" shape-rendering="crispEdges">{}</g>{}</g>'
    edge = svg.box(0, 0, across, 12, ' fill="none" stroke="currentColor" stroke-opacity=".3"')
    inside = Markup("").join(drawn), edge + Markup("").join(texts)
    return Markup(placed).format(svg.number(x), svg.number(y), STEP, *inside)


def _coloured(matrix: Grid) -> bool:
    """True if the matrix has numbers; a mask, of booleans alone, needs no scale of colours."""
    return any(value is not None and not isinstance(value, bool) for line in matrix for value in line)


def _panel(picture: Matrices, index: int, scale: Scale, explained: Sequence[Sums | None], number: int) -> Markup:
    """Matrix `index` of the picture as SVG, with labels, outlines of what differs, and the colour scale below the last
    one; `explained[number]` has the sums behind its cells."""
    title, matrix = svg.titled(picture.panels[index][0]), picture.panels[index][1]
    rows, columns = len(matrix), len(matrix[0])
    frame = _frame(picture, rows, columns)
    inside = [svg.title(title), *_labels(picture, frame, rows, columns)]
    for row, line in enumerate(matrix):
        for column, value in enumerate(line):
            inside += _cell(frame, row, column, value, scale, picture.blank)
    if picture.differs:
        inside += [_outline(frame, row, column) for row, column in picture.differs[index]]
    right = frame.x(columns - 1) + frame.cell + EDGE
    if frame.slanted:
        ends = (frame.x(index) + frame.cell / 2 + _slant(label) for index, label in enumerate(picture.columns))
        right = max(right, *ends)
    width = max(right, min(svg.WIDEST, 8 + 8.8 * svg.wide(title)), 96)
    bottom = frame.y(rows - 1) + frame.cell + BELOW
    if index == len(picture.panels) - 1 and any(_coloured(matrix) for _title, matrix in picture.panels):
        inside.append(_scale_bar(scale, frame.left, bottom + 4))
        width, bottom = max(width, frame.left + STEP * BAR + 44), bottom + (32 if scale.low < 0 else 22)
    how = explained[number] if any(explained) else None
    if any(explained):
        inside += svg.cell_buttons(
            how, number, (rows, columns), lambda row, column: (frame.x(column), frame.y(row)), frame.cell
        )
    return svg.svg(round(width), round(bottom), title, inside, _description(matrix), "group" if how else "img")


def _frame(picture: Matrices, rows: int, columns: int) -> _Frame:
    """The layout of a matrix that fits a phone's width; its column labels are slanted if a cell is too narrow."""
    left = 26 + max((LETTER * svg.wide(svg.titled(label)) for label in picture.rows), default=14)
    room = svg.WIDEST - left - EDGE - (GAP * (columns // picture.cut[1]) if picture.cut[1] else 0)
    cell = min(LARGEST, int(room / max(columns, rows * 0.8)))
    slanted = any(LETTER * svg.wide(svg.titled(label)) > cell for label in picture.columns)
    return _Frame(left, ABOVE + (10 + max(map(_slant, picture.columns)) if slanted else 16), cell, picture.cut, slanted)


def _slant(label: str) -> float:
    """The height and width of a label at 45 degrees, in pixels."""
    return 0.7 * LETTER * svg.wide(svg.titled(label))


def _labels(picture: Matrices, frame: _Frame, rows: int, columns: int) -> list[Markup]:
    """The SVG texts of a matrix: the labels of its rows and columns, and the names of both axes."""
    every = 1 if frame.cell >= 17 else 4
    parts = []
    for row in range(rows):
        if picture.rows or row % every == 0:
            label = svg.titled(picture.rows[row]) if picture.rows else f"{row}"
            parts.append(svg.right(frame.left - 6, frame.y(row) + frame.cell / 2 + 4, label))
    for column in range(columns):
        if not picture.columns and column % every:
            continue
        label = svg.titled(picture.columns[column]) if picture.columns else f"{column}"
        x, y = frame.x(column) + frame.cell / 2, frame.top - 6
        turned = f' transform="rotate(-45 {svg.number(x)} {svg.number(y)})"'
        parts.append(svg.left(x, y, label, turned) if frame.slanted else svg.text(x, y, label))
    middle = (frame.y(0) + frame.y(rows - 1) + frame.cell) / 2
    name, quiet = _(picture.row), ' fill-opacity=".75"'
    upright = "" if len(name) == 1 else f' transform="rotate(-90 11 {svg.number(middle)})"'
    parts.append(svg.text(11, middle + (4 if not upright else 3), name, quiet + upright))
    across = (frame.left + frame.x(columns - 1) + frame.cell) / 2
    return [*parts, svg.text(across, frame.y(rows - 1) + frame.cell + 18, _(picture.column), quiet)]


def _cell(frame: _Frame, row: int, column: int, value: float | bool | None, scale: Scale, blank: bool) -> list[Markup]:
    """The SVG of one cell: its colour, and its number or sign if there is space. A None is a × or, with `blank`, an
    empty box."""
    x, y, cell = frame.x(column), frame.y(row), frame.cell
    if value is None and blank:
        return [svg.box(x + 0.5, y + 0.5, cell - 1, cell - 1, ' fill="none" stroke="currentColor" stroke-opacity=".2"')]
    parts, shade = [], PAGE_INK
    if value is not None:
        level = scale.shade(float(value))
        shade = ink(level)
        parts = [svg.box(x, y, cell, cell, f' style="{fill(level)}"{LINES} shape-rendering="crispEdges"')]
    if cell >= NUMBERED or value is None:
        size = 12 if cell >= FINE else 10 if cell >= 16 else 8
        text = {True: "✓", False: "·"}[value] if isinstance(value, bool) else short(value)
        parts.append(svg.text(x + cell / 2, y + cell / 2 + 4, text, f' style="fill:{shade}" font-size="{size}"'))
    return parts


def _outline(frame: _Frame, row: int, column: int) -> Markup:
    """The outline of a cell, white on black: one of the two is visible on any colour, and on paper."""
    x, y, side = frame.x(column) + 2, frame.y(row) + 2, frame.cell - 4
    both = (
        svg.box(x, y, side, side, f' fill="none" stroke="{ink}" stroke-width="{width}"')
        for ink, width in (("#000000", 3.5), ("#ffffff", 1.5))
    )
    return Markup("").join(both)


def _description(matrix: Grid) -> str:
    """The numbers of a small matrix, row by row, for readers who can't see it; for a large one, that it is shown as
    colours alone."""
    if max(len(matrix), len(matrix[0])) > MOST_TOLD:
        return _("A matrix as colours, from the smallest value to the largest.")
    return "; ".join(" ".join(short(value) for value in line) for line in matrix)
