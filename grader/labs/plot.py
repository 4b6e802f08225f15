"""Drawings for a lab's page: matplotlib's SVG, with the page's own colours and fonts in place of fixed ones.

What is drawn in `INK`, `QUIET`, `LINE` or a colour of `SERIES` adapts to the page's dark mode. Series differ by marker
and dash too, so that colour is never the only difference.
"""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from grader.report.heat_map import GAMMA

INK, QUIET, LINE, PAGE = "#010101", "#020202", "#030303", "#040404"
SERIES = tuple(f"#0101{number:02x}" for number in range(0x11, 0x19))
MARKERS, DASHES = "osD^vP*X", ("-", "--", "-.", ":", "-", "--", "-.", ":")
WIDE, NARROW = (7.2, 3.8), (4.4, 3.4)  # inches, of 72 pixels
PHONE = 4.8  # inches, of a drawing on a phone
STEPS = 20  # of the colours of weights

_VARIABLES = {INK: "var(--text)", QUIET: "var(--quiet)", LINE: "var(--line)", PAGE: "var(--page)"} | {
    colour: f"var(--series-{number})" for number, colour in enumerate(SERIES, 1)
}
_COLOURS = re.compile("|".join(_VARIABLES))
_STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "lab", "font.size": 11, "font.family": "sans-serif",
    "axes.edgecolor": QUIET, "text.color": INK, "axes.labelcolor": INK, "xtick.color": QUIET, "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK, "axes.facecolor": "none", "figure.facecolor": "none", "grid.color": LINE,
    "axes.grid": True, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "legend.facecolor": PAGE, "legend.edgecolor": "none", "legend.framealpha": 0.85,
    "lines.linewidth": 1.8, "lines.markersize": 5, "axes.unicode_minus": False, "savefig.facecolor": "none",
}  # fmt: skip
_names = itertools.count()
_is_narrow: ContextVar[bool] = ContextVar("narrow", default=False)


class PlotFigure:
    """A figure that becomes SVG: `axes` is what to draw on."""

    def __init__(self, figure: Any, axes: Any) -> None:
        """Wraps matplotlib's figure, and its axes or array of axes."""
        self.figure, self.axes = figure, axes
        self.svg = ""

    def legend(self) -> None:
        """Adds the names of the curves, above them, so that it hides none."""
        self.figure.legend(loc="outside upper left", ncols=1 if _is_narrow.get() else 2, frameon=False)

    def colour_bar(self, axes: Any, label: str, largest: float = 1.0) -> None:
        """Adds the colour scale of a `shade` next to the axes, up to the `largest` weight, with its label."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import ListedColormap, Normalize, to_rgba

        steps = [to_rgba(SERIES[0], _part(step)) for step in range(STEPS + 1)]
        shades = ScalarMappable(Normalize(0.0, largest), ListedColormap(steps))
        bar = self.figure.colorbar(shades, ax=axes, shrink=0.6, aspect=12, label=label, drawedges=False)
        bar.outline.set_edgecolor(LINE)


@contextmanager
def narrow() -> Iterator[None]:
    """Within the block, drawings are for a phone: as wide as its screen, with letters as large."""
    token = _is_narrow.set(True)
    try:
        yield
    finally:
        _is_narrow.reset(token)


def every(count: int, fit: int) -> int:
    """The step from one labelled mark to the next if only `fit` of `count` labels have room on a phone; 1 on a wide
    screen."""
    return -(-count // fit) if _is_narrow.get() else 1


@contextmanager
def drawing(size: tuple[float, float] = WIDE, rows: int = 1, columns: int = 1, **options: Any) -> Iterator[PlotFigure]:
    """Yields a figure of `size` inches to draw on inside the block; its `svg` is set when the block ends. `options` are
    those of matplotlib's `subplots`."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # The browser has the fonts for Hangul; matplotlib, which only guesses widths, need not.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        warnings.filterwarnings("ignore", message=".*tight_layout.*", category=UserWarning)
        if _is_narrow.get() and size[0] > PHONE:
            size = (PHONE, max(2.4, size[1] * (PHONE / size[0]) ** 0.5 if columns == 1 else size[1] * PHONE / size[0]))
        figure = Figure(figsize=size, layout="constrained")
        drawn = PlotFigure(figure, figure.subplots(rows, columns, **options))
        yield drawn
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        drawn.svg = _adopted(file.getvalue(), f"d{next(_names)}-")


def style(number: int) -> dict[str, str]:
    """Colour, marker and dash of the series with this number, from 0, as arguments of matplotlib's `plot`."""
    index = number % len(SERIES)
    return {"color": SERIES[index], "marker": MARKERS[index], "linestyle": DASHES[index]}


def line(number: int) -> dict[str, str]:
    """Colour and dash of the series with this number, without a marker: for curves of many points."""
    return {"color": SERIES[number % len(SERIES)], "linestyle": DASHES[number % len(SERIES)]}


def shade(axes: Any, matrix: Any, largest: float = 1.0) -> None:
    """Draws a heat map in the colours that weights have everywhere: the page's for 0, blue for the largest.

    Drawn as boxes and not as an image. Equal neighbours in a row are merged.
    """
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    by_depth: dict[int, list[Any]] = {}
    for row, values in enumerate(matrix):
        column = 0
        depths = [min(STEPS, round(STEPS * float(value) / (largest or 1.0))) for value in values]
        for depth, run in itertools.groupby(depths):
            length = len(list(run))
            if depth:
                by_depth.setdefault(depth, []).append(Rectangle((column - 0.5, row - 0.5), length, 1))
            column += length
    for depth, boxes in by_depth.items():
        axes.add_collection(
            PatchCollection(boxes, facecolor=SERIES[0], alpha=_part(depth), edgecolor="none", antialiased=False)
        )
    axes.set_xlim(-0.5, len(matrix[0]) - 0.5)
    axes.set_ylim(len(matrix) - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.spines[:].set(visible=True, color=LINE)
    axes.grid(visible=False)


def _part(depth: int) -> float:
    """The opacity, 0 to 1, that a weight of this depth (0 to STEPS) has on every page."""
    return float((depth / STEPS) ** GAMMA)


def _adopted(svg: str, prefix: str) -> str:
    """The SVG as part of a page: without an XML header, in the page's colours, its ids starting with `prefix`."""
    body = svg[svg.index("<svg") :]
    body = _COLOURS.sub(lambda match: _VARIABLES[match[0]], body)
    body = re.sub(r'\bid="', f'id="{prefix}', body)
    body = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", body)
    before, _start, after = body.partition("<metadata>")
    return before + after.partition("</metadata>")[2].lstrip()
