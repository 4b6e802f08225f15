"""Bars, weighted sums and the residual stream as SVG, panel by panel, each at most as wide as a phone."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from grader.base.language import gettext as _
from grader.report import svg
from grader.report.heat_map import Scale, fill, ink, scale_of, short
from grader.report.pictures import Bars, Numbers, Stream, WeightedSum

LETTER = 7
BAR, BETWEEN = 14, 8  # the height of a bar, and the space between the bars of two labels
CELL, ROW = 34, 44  # of a value, and from one to the next
LEVEL = 58  # from one branch of a stream to the next
PIPE = 34  # the widest


def bars(picture: Bars) -> list[Markup]:
    """One SVG per panel of the picture."""
    return [_bars(picture, svg.titled(title), series) for title, series in picture.panels]


def _bars(picture: Bars, title: str, series: Sequence[Numbers]) -> Markup:
    """One panel as SVG: for each label a bar with its number for each of `series`, which has one value per label."""
    several = len(picture.names) > 1
    top = 32 + (16 * len(picture.names) if several else 0)
    left = 12 + max((LETTER * svg.wide(svg.titled(label)) for label in picture.labels), default=0)
    numbers = [float(value) for line in series for value in line if value is not None]
    low, high = min([0.0, *numbers]), picture.most or max([0.0, *numbers]) or 1.0
    room = svg.WIDEST - left - 46 - (40 if low < 0 else 0)
    zero = left + (40 if low < 0 else 0) + room * -low / (high - low)
    inside = [svg.title(title), *(svg.legend(picture.names, 30, filled=True) if several else [])]
    sentences, y = [], float(top)
    for index, label in enumerate(picture.labels):
        inside.append(svg.right(left - 6, y + len(series) * BAR / 2 + 4, svg.titled(label)))
        for number, line in enumerate(series):
            value = line[index]
            inside += _bar(zero, y, value, room / (high - low), number, picture.missing)
            sentences.append(f"{svg.titled(label)} {picture.missing if value is None else _written(value)}")
            y += BAR
        y += BETWEEN
    inside.append(svg.rule(f"M{svg.number(zero)} {top - 4}V{svg.number(y - 2)}"))
    return svg.svg(svg.WIDEST, round(y + 4), title, inside, ", ".join(sentences))


def _written(value: float | bool) -> str:
    """A number as text, thousands in full: a bar has room for them."""
    return f"{value:,.0f}" if abs(value) >= 1000 else short(value)


def _bar(zero: float, y: float, value: float | bool | None, scale: float, series: int, missing: str) -> list[Markup]:
    """The SVG of a bar and of the number at its end, or of the word `missing` if `value` is None. In pixels: `zero` is
    the x of the value 0, `y` the top, `scale` the length of one unit; `series` (from 0) chooses the colour."""
    if value is None:
        return [svg.left(zero + 6, y + 11, missing)]
    length = float(value) * scale
    filled = svg.box(
        min(zero, zero + length), y + 1, abs(length), BAR - 2, f' rx="1" style="fill:{svg.colour(series)}"'
    )
    beside = (
        svg.left(zero + length + 5, y + 11, _written(value))
        if length >= 0
        else svg.right(zero + length - 5, y + 11, _written(value))
    )
    return [filled, beside]


# --- a weighted sum --------------------------------------------------------------------------------------------------


def weighted_sum(picture: WeightedSum) -> list[Markup]:
    """One SVG per panel of the picture, all on one scale of colours."""
    scale = scale_of([list(map(list, picture.values)), list(map(list, picture.results))])
    return [_sum(picture, index, scale) for index in range(len(picture.panels))]


def _sum(picture: WeightedSum, index: int, scale: Scale) -> Markup:
    """Panel `index` as SVG: the vectors, an arrow as thick as each weight, and their weighted sum."""
    title, weights = svg.titled(picture.panels[index][0]), picture.panels[index][1]
    result = picture.results[index]
    left = 12 + max(LETTER * svg.wide(svg.titled(label)) for label in picture.labels)
    end, start = svg.WIDEST - 8 - CELL * len(result), left + CELL * len(result)
    top, height = 58, ROW * (len(weights) - 1) + CELL
    middle = top + height / 2
    heads = (
        ((left + start) / 2, _(picture.names[0])),
        ((start + end) / 2, _("weight")),
        (end + CELL * len(result) / 2, _(picture.names[1])),
    )
    inside = [svg.title(title), *(svg.text(x, 44, words) for x, words in heads)]
    for number, weight in enumerate(weights):
        y = top + ROW * number
        inside += [
            svg.right(left - 6, y + CELL / 2 + 4, svg.titled(picture.labels[number])),
            *_vector(left, y, picture.values[number], scale),
        ]
        inside += _arrow((start + 2, y + CELL / 2), (end - 4, middle), weight)
    inside += _vector(end, middle - CELL / 2, result, scale)
    terms = " + ".join(
        f"{short(weight)} · ({', '.join(map(short, value))})"
        for weight, value in zip(weights, picture.values, strict=True)
    )
    return svg.svg(svg.WIDEST, round(top + height + 10), title, inside, f"{terms} = ({', '.join(map(short, result))})")


def _vector(x: float, y: float, values: Sequence[float], scale: Scale) -> list[Markup]:
    """A vector as a row of coloured cells, each with its number; (x, y) is its top left corner."""
    parts = []
    for index, value in enumerate(values):
        level, at = scale.shade(value), x + CELL * index
        style = f' style="{fill(level)}" stroke="currentColor" stroke-opacity=".3" shape-rendering="crispEdges"'
        parts.append(svg.box(at, y, CELL, CELL, style))
        shown = f' style="fill:{ink(level)}" font-size="11"'
        parts.append(svg.text(at + CELL / 2, y + CELL / 2 + 4, short(value), shown))
    return parts


def _arrow(start: svg.Point, end: svg.Point, weight: float) -> list[Markup]:
    """A line as thick as its weight (0 to 1), with the weight written above its first third; without a weight, a short
    faint stroke at its start."""
    x, y = (start[0] + (end[0] - start[0]) * 0.3, start[1] + (end[1] - start[1]) * 0.3)
    number = svg.text(x + 4, y - 6 - 5 * weight, short(weight), ' font-size="11"')
    if weight <= 0:
        return [svg.rule(f"M{svg.number(start[0])} {svg.number(start[1])}h10", ' stroke-opacity=".35"'), number]
    return [svg.line([start, end], 0, ' stroke-opacity=".85" stroke-linecap="round"', 0.8 + 10 * weight), number]


# --- a stream --------------------------------------------------------------------------------------------------------


def stream(picture: Stream) -> list[Markup]:
    """One SVG per panel: the stream runs down, as wide as its vectors are long."""
    most = picture.most or max(
        size for _title, first, stages in picture.panels for size in (first, *(stage[2] for stage in stages))
    )
    return [_stream(svg.titled(title), first, stages, most) for title, first, stages in picture.panels]


def _stream(title: str, first: float, stages: Sequence[tuple[str, float, float]], most: float) -> Markup:
    """One panel as SVG: the stream downwards, as wide as its size at each stage, and the branch that each part adds. A
    stage is the branch's name, the size of what it adds, and the stream's size after it; `most` is the size drawn at
    full width."""
    x, y = 56.0, 46.0
    inside = [svg.title(title), svg.text(x, 38, f"x  {short(first)}")]
    sentences, size = [f"x {short(first)}"], first
    for name, added, after in stages:
        inside += _pipe(x, y, size / most)
        inside += _branch(x, y, _(name), added, most)
        sentences.append(f"{_(name)} +{short(added)} → {short(after)}")
        y, size = y + LEVEL, after
    inside += [*_pipe(x, y, size / most, 16), svg.text(x, y + 32, short(size))]
    return svg.svg(svg.WIDEST, round(y + 40), title, inside, "; ".join(sentences))


def _pipe(x: float, y: float, part: float, length: float = LEVEL) -> list[Markup]:
    """A piece of the stream's line, `part` (0 to 1) of its full width; x is its middle, y its top, in pixels."""
    width = 3 + PIPE * part
    return [svg.box(x - width / 2, y, width, length, f' style="fill:{svg.colour(0)}" fill-opacity=".55"')]


def _branch(x: float, y: float, name: str, added: float, most: float) -> list[Markup]:
    """The SVG of a branch, which reads the stream at (x, y) and adds to it below; its bar is as long as the size
    `added`, of at most `most`."""
    left, right = 122, svg.WIDEST - 8
    out = f"M{svg.number(x)} {svg.number(y + 12)}H{left}"
    back = f"M{left} {svg.number(y + 46)}H{svg.number(x + 9)}"
    return [
        svg.rule(out, ' stroke-opacity=".6"'),
        svg.rule(back, ' stroke-opacity=".6"'),
        svg.box(left, y + 4, right - left, 50, ' rx="4" fill="none" stroke="currentColor" stroke-opacity=".5"'),
        svg.left(left + 8, y + 21, name),
        svg.box(left + 8, y + 32, (right - left - 76) * added / most, 12, f' rx="1" style="fill:{svg.colour(1)}"'),
        svg.left(left + 14 + (right - left - 76) * added / most, y + 42, f"+ {short(added)}"),
        Markup('<circle cx="{0}" cy="{1}" r="8" fill="var(--page, #ffffff)" stroke="currentColor"/>').format(
            svg.number(x), svg.number(y + 46)
        ),
        svg.text(x, y + 50.5, "+", ' font-size="14"'),
    ]
