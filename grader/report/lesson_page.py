"""A lesson as one page that needs nothing else, or in a notebook's cell: its Markdown, with the pictures drawn."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markupsafe import Markup

from grader.base import language
from grader.base.language import gettext as _
from grader.report import heat_map
from grader.report.page import environment
from grader.report.pictures import Matrices, Picture, drawn, on_white

PLACE = re.compile(r"^!\[(?P<caption>[^\]]+)\]\(picture:(?P<name>\w+)\)\n", re.MULTILINE)


@dataclass(frozen=True)
class Figure:
    """A picture in its panels, and what to see in it."""

    panels: list[Markup]
    caption: Markup


def html(title: str, lesson: str, pictures: Mapping[str, Picture]) -> str:
    """The page of a lesson, in the language in use."""
    parts: list[Markup | Figure] = []
    place = 0
    for match in PLACE.finditer(lesson):
        parts.append(_markdown(lesson[place : match.start()]))
        if match["name"] in pictures:
            parts.append(Figure(panels(pictures[match["name"]], match["name"]), _inline(match["caption"])))
        place = match.end()
    parts.append(_markdown(lesson[place:]))
    template = environment().get_template("lesson.html.j2")
    return template.render(language=language.current(), title=title, parts=parts)


def panels(picture: Picture, name: str) -> list[Markup]:
    """A picture as SVG, panel by panel; `name` is unique on the page."""
    if not isinstance(picture, Matrices):
        return drawn(picture)
    among = [matrix for _title, matrix in picture.panels]
    template = environment().get_template("heat_map.svg.j2")
    words = {"row": _(picture.row), "column": _(picture.column)}
    drawings = [heat_map.single(matrix, among) for matrix in among]
    shown = [
        template.render(
            drawing=drawing, panel=drawing.panels[0], name=f"{name}-{number}", title=_(title), words=words,
            description=_("A matrix as colours, from the smallest value to the largest."),
        )
        for number, (drawing, (title, _matrix)) in enumerate(zip(drawings, picture.panels, strict=True))
    ]  # fmt: skip
    scale = environment().get_template("heat_scale.svg.j2").render(drawing=drawings[0])
    return [Markup(panel) for panel in (*shown, scale)]


def in_a_cell(lesson: str, pictures: Mapping[str, Picture]) -> tuple[str, dict[str, dict[str, str]]]:
    """A lesson for a cell of a notebook: its Markdown, and the pictures that it shows as the cell's attachments."""
    attached: dict[str, dict[str, str]] = {}

    def shown(match: re.Match[str]) -> str:
        if match["name"] not in pictures:
            return ""
        images = []
        for number, panel in enumerate(panels(pictures[match["name"]], match["name"])):
            file = f"{match['name']}-{number}.svg"
            attached[file] = {"image/svg+xml": base64.b64encode(on_white(panel).encode()).decode()}
            images.append(f"![{match['caption']}](attachment:{file})")
        return f"{' '.join(images)}\n\n*{match['caption']}*\n"

    return PLACE.sub(shown, lesson), attached


def _markdown(text: str) -> Markup:
    return Markup(_parser().render(text))


def _inline(text: str) -> Markup:
    return Markup(_parser().renderInline(text))


def _parser() -> MarkdownIt:
    """CommonMark with tables; HTML in a text is escaped."""
    return MarkdownIt("commonmark", {"html": False}).enable("table")
