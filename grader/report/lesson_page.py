"""A lesson in a page or in a notebook's cell: its Markdown, with the pictures drawn and the formulas set as MathML."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from markupsafe import Markup

from grader.base.language import gettext as _
from grader.report import diagrams, grids, sums
from grader.report.page import environment, formatted
from grader.report.pictures import Bars, Matrices, Picture, Sheet, Slider, Still, Stream, WeightedSum, drawn
from grader.report.svg import on_white

PLACE = re.compile(r"^!\[(?P<caption>[^\]\n]++)\]\(picture:(?P<name>\w+)\)\n", re.MULTILINE)

FORMULA = re.compile(r"^\$\$ ([^\n]+) \$\$$", re.MULTILINE)  # a paragraph of its own
# In a formula: the converter takes such a "<" for a tag, and the rest for what a tag has.
HTML = re.compile(r"<[a-z/!?]|&#?\w+;|\\(?:href|style|class|id)\b", re.IGNORECASE)

LETTER = re.compile(r'<mi mathvariant="normal">(\w)</mi>')
LETTERS = re.compile(rf"(?:{LETTER.pattern}){{2,}}")  # a name in upright letters, which is read as one word

# A picture in characters right above the place of a drawn one.
IN_CHARACTERS = re.compile(r"^```\n(?:(?!```).*\n)*```\n\s*\Z", re.MULTILINE)


@dataclass(frozen=True)
class Figure:
    """A picture in its frames, each of stills in panels, and what to see in it; if there are several, a slider goes
    through their `values` and starts `at` one of them."""

    frames: list[list[list[Markup]]]
    caption: Markup
    label: str = ""
    values: Sequence[str] = ()
    at: int = 0

    @property
    def has_sums(self) -> bool:
        """True if a cell of the picture can be pressed to see its sum."""
        return any("data-sum" in panel for frame in self.frames for still in frame for panel in still)


def fragment(lesson: str, pictures: Mapping[str, Picture]) -> Markup:
    """A lesson's Markdown as HTML for a page that has pictures.css and pictures.js. `pictures` are by their name in the
    lesson; without one there, the picture in characters stays."""
    parts = []
    place = 0
    for match in PLACE.finditer(lesson):
        text = lesson[place : match.start()]
        in_characters = IN_CHARACTERS.search(text) if match["name"] in pictures else None
        parts.append(_part(text[: in_characters.start()] if in_characters else text))
        if match["name"] in pictures:
            parts.append(figure(pictures[match["name"]], match["caption"]))
        if in_characters:  # what a terminal shows in the picture's place
            folded = Markup('<details class="part characters"><summary>{}</summary>\n{}</details>')
            parts.append(folded.format(_("In characters"), formatted(in_characters[0])))
        place = match.end()
    parts.append(_part(lesson[place:]))
    return Markup("\n").join(parts)


def figure(picture: Picture, caption: str) -> Markup:
    """A picture as HTML, with its caption: a line of Markdown that says what to see in it."""
    shown = Figure([_frame(picture, 0)], formatted(caption, inline=True))
    if isinstance(picture, Slider):
        drawn = [_frame(picture, number) for number in range(len(picture.frames))]
        values = [_(value) for value in picture.values]
        shown = Figure(drawn, shown.caption, _(picture.label), values, picture.at)
    return Markup(environment().get_template("picture.html.j2").render(figure=shown))


def panels(picture: Picture) -> list[Markup]:
    """A picture as SVG, panel by panel; of a slider, the frame that is shown first."""
    frame = _frame(picture, picture.at if isinstance(picture, Slider) else 0, with_sums=False)
    return [panel for still in frame for panel in still]


def _frame(picture: Picture, number: int, *, with_sums: bool = True) -> list[list[Markup]]:
    """The SVGs of one frame: for each picture in it, one per panel. A slider's frame has this `number` (from 0), and
    its matrices are on the same scale as those in their position in other frames. `with_sums`: cells can be pressed."""
    stills = picture.frames[number] if isinstance(picture, Slider) else _stills(picture)
    matrices = [still.panels if isinstance(still, Matrices) else [] for still in stills]
    behind = [matrix for still in stills if isinstance(still, Matrices) for matrix in still.behind]
    explained = sums.explain([matrix for panels in matrices for _title, matrix in panels], behind) if with_sums else []
    made, first = [], 0
    for index, still in enumerate(stills):
        others = [frame[index] for frame in picture.frames if index < len(frame)] if isinstance(picture, Slider) else []
        made.append(_panels(still, [other for other in others if isinstance(other, Matrices)], explained, first))
        first += len(matrices[index])
    return made


def _stills(picture: Sheet | Still) -> Sequence[Still]:
    """The pictures that are shown side by side: those of a sheet, else this one alone."""
    return picture.stills if isinstance(picture, Sheet) else [picture]


def _panels(
    picture: Still, same_scale: Sequence[Matrices], explained: Sequence[sums.Sums | None], first: int
) -> list[Markup]:
    """The SVGs of a picture, one per panel; colours, `explained` sums and `first` are as in `grids.panels`."""
    match picture:
        case Matrices():
            return grids.panels(picture, same_scale, explained, first)
        case Bars():
            return diagrams.bars(picture)
        case WeightedSum():
            return diagrams.weighted_sum(picture)
        case Stream():
            return diagrams.stream(picture)
    return drawn(picture)


def in_a_cell(lesson: str, pictures: Mapping[str, Picture]) -> tuple[str, dict[str, dict[str, str]]]:
    """A lesson for a cell of a notebook: its Markdown, and the pictures that it shows as the cell's attachments, file
    name to MIME type to base64."""
    attached: dict[str, dict[str, str]] = {}

    def shown(match: re.Match[str]) -> str:
        """The Markdown of one picture: its panels as attached images, and the caption."""
        if match["name"] not in pictures:
            return ""
        images = []
        for number, panel in enumerate(panels(pictures[match["name"]])):
            file = f"{match['name']}-{number}.svg"
            attached[file] = {"image/svg+xml": base64.b64encode(on_white(panel).encode()).decode()}
            images.append(f"![{match['caption']}](attachment:{file})")
        return f"{' '.join(images)}\n\n*{match['caption']}*\n"

    return PLACE.sub(shown, lesson), attached


def _part(text: str) -> Markup:
    """Markdown between two pictures as HTML; a formula or a table that is too wide scrolls by itself."""
    parts = FORMULA.split(text)  # text, formula, text, …
    shown = [formula(part) if number % 2 else formatted(part) for number, part in enumerate(parts)]
    return Markup('<div class="part">\n{}</div>').format(Markup("\n").join(shown))


# --- formulas ---


def formula(latex: str) -> Markup:
    """A formula as a line of HTML that scrolls by itself if it is too wide; its LaTeX as code if the converter is not
    installed, or if it is no formula but HTML."""
    try:
        html = None if HTML.search(latex) else _converted(latex)
    except ModuleNotFoundError:
        html = None
    if html is None:
        return Markup("<pre><code>{}</code></pre>").format(latex)
    return Markup('<div class="formula" tabindex="0" role="group" aria-label="{}">{}</div>').format(_("Formula"), html)


@cache
def _converted(latex: str) -> Markup:
    """A formula in LaTeX as MathML. Raises ModuleNotFoundError without the package latex2mathml."""
    from latex2mathml import converter  # takes a while to load, and only lessons on a page need it

    supported = latex.replace("\\!", "").replace("{aligned}", "{split}")  # the converter's name for the same
    mathml = converter.convert(supported, display="block").replace("\\_", "_").replace("\n", " ")
    return Markup(LETTERS.sub(lambda match: f"<mi>{''.join(LETTER.findall(match[0]))}</mi>", mathml))


def with_formulas(text: str) -> str:
    """The same Markdown with each formula (a paragraph in $$) as HTML."""
    return FORMULA.sub(lambda match: str(formula(match[1])), text)
