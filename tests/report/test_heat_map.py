"""The picture of a parting: every cell has its colour, numbers can be read, outlines go around what differs."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest

from grader.base.results import Parting
from grader.report import heat_map
from grader.report import page as report_page
from grader.report.heat_map import Drawing, Panel

LARGEST = 1.7976931348623157e308
READABLE = 4.5  # WCAG's least contrast of text
SHADES = range(-heat_map.LEVELS, heat_map.LEVELS + 1)
PALETTE = (report_page.TEMPLATES / "palette.css").read_text(encoding="utf-8")
NOTHING, HIGHEST, LOWEST = heat_map.fill(0), heat_map.fill(heat_map.LEVELS), heat_map.fill(-heat_map.LEVELS)


def parting(expected: heat_map.Matrix, got: heat_map.Matrix, differs: list[list[bool]] | None = None) -> Parting:
    """These two matrices; by default each cell differs."""
    everywhere = [[True] * len(line) for line in expected]
    return Parting(expected=expected, got=got, differs=differs or everywhere, slice=[], place=[0, 0])


def drawn(expected: heat_map.Matrix, got: heat_map.Matrix, differs: list[list[bool]] | None = None) -> Drawing:
    """The drawing of these two matrices."""
    return heat_map.drawing(parting(expected, got, differs))


def cells(panel: Panel) -> dict[tuple[int, int], str]:
    """The colour at each row and column; none has two."""
    found: list[tuple[tuple[int, int], str]] = []
    for colour, path in panel.areas.items():
        pieces = re.findall(r"M(\d+) (\d+)h(\d+)v1h-(\d+)z", path)
        assert "".join("M{} {}h{}v1h-{}z".format(*piece) for piece in pieces) == path
        for column, row, length, back in (map(int, piece) for piece in pieces):
            assert length == back
            found += [((row, column + more), colour) for more in range(length)]
    assert len(dict(found)) == len(found)
    return dict(found)


def luminance(colour: Sequence[float]) -> float:
    """WCAG's relative luminance."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (one / 255 for one in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def by_scheme(name: str) -> tuple[heat_map.Colour, heat_map.Colour]:
    """A colour of the palette, in light and in dark."""
    match = re.search(rf"--{name}: light-dark\(#(\w{{6}}), #(\w{{6}})\)", PALETTE)
    assert match, name
    light, dark = (tuple(bytes.fromhex(one)) for one in match.groups())
    return light, dark  # type: ignore[return-value]


def on_paper(shade: int, scheme: int) -> list[float]:
    """The colour of a shade on a page, light (0) or dark (1)."""
    page, full = by_scheme("raised")[scheme], by_scheme("series-1" if shade >= 0 else "series-2")[scheme]
    return [a + (b - a) * abs(shade) / heat_map.LEVELS for a, b in zip(page, full, strict=True)]


def test_its_colours_are_those_of_the_palette() -> None:
    """What a number is read on is computed from the colours of pages; without a palette they are the light ones."""
    for scheme, colours in enumerate((heat_map.LIGHT, heat_map.DARK)):
        assert colours == tuple(by_scheme(name)[scheme] for name in ("raised", "series-1", "series-2"))
    for style, colour in ((heat_map.POSITIVE, heat_map.LIGHT[1]), (heat_map.NEGATIVE, heat_map.LIGHT[2])):
        assert "#" + bytes(colour).hex() in style


@pytest.mark.parametrize("scheme", [0, 1])
def test_numbers_stand_out_more_the_farther_they_are_from_zero(scheme: int) -> None:
    """On both sides, on a light page darker and on a dark one lighter; blue above 0 and orange below it."""
    lights = [luminance(on_paper(shade, scheme)) for shade in SHADES]
    for half in (lights[: heat_map.LEVELS + 1][::-1], lights[heat_map.LEVELS :]):
        assert all((after > before) is bool(scheme) for before, after in pairwise(half))
    for shade in SHADES:
        red, _green, blue = on_paper(shade, scheme)
        assert abs(shade) < 20 or (blue > red) is (shade > 0)


@pytest.mark.parametrize("scheme", [0, 1])
def test_numbers_can_be_read_on_every_colour(scheme: int) -> None:
    """In light and in dark, whatever of the two is chosen."""
    for shade in SHADES:
        ink = heat_map.ink(shade)
        name = re.match(r"var\(--([\w-]+), (#\w+)\)", ink)
        written = by_scheme(name[1])[scheme] if name else tuple(bytes.fromhex(ink[1:]))
        if name:
            assert bytes(by_scheme(name[1])[0]).hex() == name[2][1:]  # without a palette: on white
        high, low = sorted((luminance(written), luminance(on_paper(shade, scheme))), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= READABLE, shade


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 4), (8, 8), (9, 1), (1, 30), (12, 12), (32, 32)])
def test_every_cell_has_one_colour(rows: int, columns: int) -> None:
    """Drawn numbers: the farthest from 0 has an end of the scale, a cell without a number has no colour."""
    draw = random.Random(rows * columns)
    expected: heat_map.Matrix = [[draw.gauss() for _column in range(columns)] for _row in range(rows)]
    got: heat_map.Matrix = [[None if draw.random() < 0.1 else draw.gauss() for _value in line] for line in expected]
    drawing = drawn(expected, got)
    values = [value for matrix in (expected, got) for line in matrix for value in line if value is not None]
    farthest = max(values, key=abs)
    ends = {farthest: HIGHEST if farthest > 0 else LOWEST} if min(values) < 0 else {}
    for matrix, panel in zip((expected, got), drawing.panels, strict=True):
        coloured = cells(panel)
        for row, line in enumerate(matrix):
            for column, value in enumerate(line):
                assert ((row, column) in coloured) == (value is not None)
                if value in ends:
                    assert coloured[row, column] == ends[value]
        texts = [number.text for numbers in panel.numbers.values() for number in numbers]
        empty = sum(value is None for line in matrix for value in line)
        assert texts.count("×") == empty == len(panel.numbers.get(heat_map.PAGE_INK, []))
        assert len(texts) == (rows * columns if max(rows, columns) <= heat_map.NUMBERED else empty)


def test_the_scale_shows_its_colours_and_both_ends() -> None:
    """Weights from 0 to 1, signed numbers as far to both sides, others from the smallest to the largest; one colour
    where there is one number above 1."""
    for expected, ends, colours in (
        ([[0.25, 0.5]], ("0", "1"), (NOTHING, HIGHEST)),
        ([[-1.0, 0.5, 2.0]], ("-2", "2"), (LOWEST, HIGHEST)),
        ([[3.0, 7.0]], ("3", "7"), (NOTHING, HIGHEST)),
        ([[2.5]], ("2.5", "2.5"), (NOTHING, NOTHING)),
        ([[True]], ("0", "1"), (NOTHING, HIGHEST)),
        ([[None]], ("0", "1"), (NOTHING, HIGHEST)),
    ):
        scale = drawn(expected, expected)
        bar = cells(Panel(scale.bar, {}))
        assert (scale.low, scale.high) == ends
        assert len(bar) == heat_map.BAR
        assert (bar[0, 0], bar[0, heat_map.BAR - 1]) == colours


def test_a_weight_has_the_same_colour_wherever_it_stands() -> None:
    """Whatever is beside it."""
    alone, beside = cells(drawn([[0.3]], [[0.3]]).panels[0]), cells(drawn([[0.3, 0.9]], [[0.0, 0.1]]).panels[0])
    assert alone[0, 0] == beside[0, 0]


@pytest.mark.parametrize("size", [LARGEST, 1e300, 1.0, 1e-30, 1e-300])
def test_colours_of_huge_and_tiny_numbers(size: float) -> None:
    """The middle of a scale is in its middle, however long the scale is."""
    coloured = cells(drawn([[-size, 0.0, size]], [[0.0, 0.0, 0.0]]).panels[0])
    assert [coloured[0, column] for column in range(3)] == [LOWEST, NOTHING, HIGHEST]


def test_numbers_too_small_to_be_halved() -> None:
    """Drawn as if they were equal, and told apart by what is written."""
    drawing = drawn([[-5e-324]], [[0.0]])
    first, second = (
        [number.text for numbers in panel.numbers.values() for number in numbers] for panel in drawing.panels
    )
    assert (first, second) == (["-5e-324"], ["0"])


def test_numbers_are_short() -> None:
    """Five characters, or seven where an exponent has three digits: a cell and the ends of the scale have room."""
    for value, text in {
        0.0: "0", -0.25: "-0.25", 1234567.0: "1.2e6", 0.000123: "1e-4", -99999.0: "-1e5", 1e-10: "1e-10",
        -2e-308: "-2e-308", -LARGEST: "-2e308", 123.456: "123", -0.0456: "-0.05",
    }.items():  # fmt: skip
        assert heat_map.short(value) == text


def test_each_small_cell_that_differs_has_an_outline() -> None:
    """As many squares as cells that differ, each within its own cell."""
    drawing = drawn([[0.0, 1.0], [2.0, 3.0]], [[0.0, 1.0], [2.0, 3.0]], [[True, True], [False, True]])
    squares = re.findall(r"M(\d+) (\d+)h(\d+)v(\d+)h-(\d+)z", drawing.outline)
    assert "".join("M{} {}h{}v{}h-{}z".format(*square) for square in squares) == drawing.outline
    inside = drawing.cell - 2 * heat_map.INSET
    corners = [(0, 0), (1, 0), (1, 1)]
    assert [tuple(map(int, square)) for square in squares] == [
        (x * drawing.cell + heat_map.INSET, y * drawing.cell + heat_map.INSET, inside, inside, inside)
        for x, y in corners
    ]


@pytest.mark.parametrize(("rows", "columns"), [(9, 1), (1, 30), (12, 12), (32, 32), (9, 32)])
def test_outlines_of_regions(rows: int, columns: int) -> None:
    """An edge wherever a cell that differs meets one that does not, or the border: each once, and no other."""
    draw = random.Random(7)
    differs = [[draw.random() < 0.4 for _column in range(columns)] for _row in range(rows)]
    zeros: heat_map.Matrix = [[0.0] * columns for _row in range(rows)]
    drawing = drawn(zeros, zeros, differs)
    apart = {(row, column) for row in range(rows) for column in range(columns) if differs[row][column]}
    expected = {
        (axis, *edge)
        for row, column in apart
        for axis, edge, beside in (
            ("h", (row, column), (row - 1, column)),
            ("h", (row + 1, column), (row + 1, column)),
            ("v", (row, column), (row, column - 1)),
            ("v", (row, column + 1), (row, column + 1)),
        )
        if beside not in apart
    }
    lines = re.findall(r"M(\d+) (\d+)([hv])(\d+)", drawing.outline)
    assert "".join("M{} {}{}{}".format(*line) for line in lines) == drawing.outline
    found = Counter(
        (axis, int(y) // drawing.cell + (axis == "v") * more, int(x) // drawing.cell + (axis == "h") * more)
        for x, y, axis, length in lines
        for more in range(int(length) // drawing.cell)
    )
    assert set(found) == expected
    assert set(found.values()) == {1}


def test_row_and_column_numbers_have_room() -> None:
    """Each up to sixteen, every fourth from there on."""
    for rows, columns, every in ((1, 1, 1), (16, 16, 1), (17, 3, 4), (1, 30, 4), (32, 32, 4)):
        zeros: heat_map.Matrix = [[0.0] * columns for _row in range(rows)]
        drawing = drawn(zeros, zeros)
        assert drawing.every == every
        assert drawing.every * drawing.cell >= 24  # two digits and some space
        assert 0 < drawing.left < drawing.left + columns * drawing.cell < drawing.width
