"""The parts of every picture: an SVG inside a page, in the page's own colours, its texts and lines.

`standalone` makes an image of it, for pages that can't show an SVG.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup

from grader.base.language import gettext as _
from grader.report.sums import Sums

Point = tuple[float, float]

COLOURS = ("#0b62b0", "#b8500b", "#12784f", "#8c2f9b", "#7a5c00", "#b3123f")  # a page may have others: --series-1, …
DASHES = ("", "6 4", "2 3", "8 3 2 3", "10 3", "4 2")
FONT = "system-ui, 'Apple SD Gothic Neo', 'Malgun Gothic', 'Noto Sans KR', 'Noto Sans CJK KR', sans-serif"
NUMBERED = re.compile(r"([a-z][a-z ]*) (\d+)")
WIDEST = 340  # of a panel: the width of a phone, so that panels wrap and are not cut


def standalone(picture: str) -> str:
    """The picture as a `data:` address of an image, on white: an untrusted notebook shows no SVG of its own."""
    return f"data:image/svg+xml;base64,{base64.b64encode(on_white(picture).encode()).decode()}"


def on_white(picture: str) -> str:
    """The picture as the text of an SVG file, on a white background."""
    head, rest = str(picture).strip().split(">", 1)
    head = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg" color="#1b1f24"', 1)
    return f'{head}><rect width="100%" height="100%" fill="#ffffff"/>{rest}'


def svg(
    width: float, height: float, title: str, inside: Iterable[Markup], description: str = "", role: str = "img"
) -> Markup:
    """An SVG of `width` by `height` pixels with the elements `inside`; `description` says in words what it shows, for
    readers who can't see it; the role of one with buttons in it is `group`."""
    head = Markup(
        '<svg width="{w}" height="{h}" viewBox="0 0 {w} {h}" fill="currentColor" font-family="{font}" font-size="12" '
        'text-anchor="middle" role="{role}" aria-label="{label}">\n<title>{title}</title>\n'
    )
    label = f"{title}: {description}" if description else title
    filled = head.format(w=number(width), h=number(height), font=FONT, title=title, label=label, role=role)
    return filled + Markup("\n").join(inside) + Markup("\n</svg>")


def text(x: float, y: float, words: str, more: str = "") -> Markup:
    """A text centred on x, its baseline at y; `more` are further attributes."""
    return Markup('<text x="{}" y="{}"{}>{}</text>').format(number(x), number(y), Markup(more), words)


def left(x: float, y: float, words: str, more: str = "") -> Markup:
    """A text that starts at x."""
    return text(x, y, words, f' text-anchor="start"{more}')


def right(x: float, y: float, words: str, more: str = "") -> Markup:
    """A text that ends at x."""
    return text(x, y, words, f' text-anchor="end"{more}')


def title(words: str) -> Markup:
    """A panel's title, visible at its top left, in a smaller size if it is long."""
    size = 14 if wide(words) <= 38 else 11
    return left(4, 16, words, f' font-size="{size}" font-weight="bold"')


def titled(words: str) -> str:
    """A title or a label in the language in use; a number at its end is not part of what is translated."""
    match, written = NUMBERED.fullmatch(words), _(words)
    return f"{_(match[1])} {match[2]}" if match and written == words else written


def wide(words: str) -> int:
    """The width of a text in terminal columns: Hangul takes two."""
    return sum(2 if ord(letter) >= 0x1100 else 1 for letter in words)


def line(points: Sequence[Point], series: int, more: str = "", width: float = 2) -> Markup:
    """A line through the points, in the colour and the dashes of this series."""
    path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return Markup('<path d="{}" fill="none" style="stroke:{}" stroke-width="{}" stroke-dasharray="{}"{}/>').format(
        path, colour(series), number(width), DASHES[series % len(DASHES)] or "none", Markup(more)
    )


def rule(path: str, more: str = ' stroke-opacity=".3"') -> Markup:
    """A quiet line in the colour of the text along `path`, SVG path data."""
    return Markup('<path d="{}" fill="none" stroke="currentColor"{}/>').format(path, Markup(more))


def box(x: float, y: float, width: float, height: float, more: str) -> Markup:
    """A rectangle with its top left corner at (x, y); `more` are further attributes."""
    return Markup('<rect x="{}" y="{}" width="{}" height="{}"{}/>').format(
        number(x), number(y), number(width), number(height), Markup(more)
    )


def cell_buttons(
    how: Sums | None, panel: int, size: tuple[int, int], corner: Callable[[int, int], Point], side: float
) -> list[Markup]:
    """The buttons that show the sums of a panel's cells; a cell without a sum can only be lit. `how` returns the sum of
    a row and column, `corner` the cell's top left corner in pixels; `panel` is the panel's index in its figure, `size`
    its rows and columns. The first button is a stop of the tabulator, and arrows go on from there."""
    cells = [(row, column) for row in range(size[0]) for column in range(size[1])]
    sums = {cell: sum_ for cell in cells if how and (sum_ := how(*cell))}
    pressed = (
        ' fill="transparent" class="cell" data-at="{}" data-sum="{}" data-of="{}" role="button" tabindex="{}" '
        'aria-label="{}"'
    )
    buttons = []
    for cell in cells:
        place = ",".join(map(str, (panel, *cell)))
        rest = f' fill="none" class="cell" data-at="{place}"'
        if cell in sums:
            text, of = sums[cell].text, " ".join(",".join(map(str, other)) for other in sums[cell].of)
            rest = Markup(pressed).format(place, text, of, 0 if cell == next(iter(sums)) else -1, text)
        buttons.append(box(*corner(*cell), side, side, rest))
    return buttons


def colour(series: int) -> str:
    """The CSS colour of a series, counted from 0; there are six, used again from the first."""
    place = series % len(COLOURS)
    return f"var(--series-{place + 1}, {COLOURS[place]})"


def number(value: float) -> str:
    """A number of pixels as text, with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def legend(names: Sequence[str], top: int, *, filled: bool = False) -> list[Markup]:
    """A line of each series, or a `filled` box, and its name, one below the other from y = `top`."""
    parts = []
    for index, name in enumerate(names):
        y = top + 16 * index
        mark = (
            box(8, y - 5, 28, 10, f' rx="1" style="fill:{colour(index)}"') if filled else line([(8, y), (36, y)], index)
        )
        parts += [mark, left(42, y + 4, titled(name))]
    return parts
