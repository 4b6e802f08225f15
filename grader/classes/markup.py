"""Markdown of a notebook as inert HTML: graders open what students wrote."""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from typing import Any

import nh3
from jinja2 import pass_context
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode

from grader.course.answer_cells import KERNEL

TAGS = frozenset((
    "a", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4",
    "h5", "h6", "hr", "i", "img", "kbd", "li", "ol", "p", "pre", "s", "small", "span", "strong", "sub", "summary",
    "sup", "table", "tbody", "td", "th", "thead", "tr", "u", "ul",
))  # fmt: skip
ATTRIBUTES = {tag: {"title"} for tag in TAGS} | {
    "a": {"href", "title"}, "img": {"src", "alt", "title"}, "td": {"align", "title"}, "th": {"align", "title"},
    "details": {"open", "title"}, **{tag: {"class", "title"} for tag in ("div", "span", "pre", "code")},
    **{tag: {"id", "title"} for tag in ("h1", "h2", "h3", "h4", "h5", "h6")},
}  # fmt: skip
SCHEMES = {"http", "https", "mailto", "data"}  # for links and pictures further restricted by LINK and PICTURE
OUTPUT_TAGS = TAGS | {"article", "caption", "figcaption", "figure", "header"}  # and those of a verdict
LINK = re.compile(r"(https?://|mailto:|#)[^\x00-\x20]*", re.IGNORECASE)
PICTURE = re.compile(r"https?://[^\x00-\x20]*|data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*", re.IGNORECASE)
# A drawing of ours: in an image it runs nothing and fetches nothing. A student's could still take forever to draw.
SVG = "image/svg+xml"
DRAWING = re.compile(rf"data:{re.escape(SVG)};base64,[A-Za-z0-9+/=]*")
# What MathJax makes a link, a style or a loader of: its formulas are made into elements after this.
MATH = re.compile(r"\\(?=(href|require|style|class|cssId|data|mmlToken|bbox|unicode|html\w*)\b)", re.IGNORECASE)
# A picture that a cell brings along, or lost when it was copied.
ATTACHED = re.compile(r"\battachment:([^\s)\"'>]+)")
# A "<" at which HTML may start, but for links and for what only sets words, or folds the hints of a lesson. What else a
# student writes into Markdown would act in the name of whoever opens the page, who may be the one that gives the marks.
ACTING = re.compile(
    r"<(?=[a-z/!?])(?!https?://[^\s<>\"']+>"
    r"|/?(?:b|br|code|del|details|em|hr|i|kbd|p|s|small|strong|sub|summary|sup|u)\s*/?>)",
    re.IGNORECASE,
)
WORD_JOINER = "\u2060"  # invisible, and it ends the name of a command or a tag


@pass_context
def safe_markdown(context: Any, source: str) -> str:
    """The HTML of Markdown, as nbconvert's filter `markdown2html` makes it, without scripts, styles, forms and other
    elements and attributes that do more than show something."""
    attachments = context.get("cell", {}).get("attachments", {})
    renderer = IPythonRenderer(escape=False, attachments=attachments)
    lessons = {f"data:{SVG};base64,{data[SVG]}" for data in attachments.values() if SVG in data}  # see `make_showable`
    return cleaned(MarkdownWithMath(renderer=renderer).render(source), lessons.__contains__)


def cleaned(html: str, is_drawing: Callable[[str], object] = lambda source: False) -> str:
    """The HTML without forbidden elements, attributes and commands of MathJax; `is_drawing` decides which data URLs are
    allowed as drawings."""
    return MATH.sub(rf"\\{WORD_JOINER}", _clean(html, TAGS, is_drawing))


def safe_output(html: str | bytes) -> str:
    """The HTML of an output without elements and attributes that do more than show something; a verdict keeps its
    pictures. In place of nbconvert's filter `clean_html`.

    Every output of an autograded notebook is the grader's own; what a student wrote goes through `safe_markdown`.
    """
    html = html.decode() if isinstance(html, bytes) else str(html)
    return _clean(html, OUTPUT_TAGS, DRAWING.fullmatch)


def _clean(html: str, tags: Set[str], is_drawing: Callable[[str], object]) -> str:
    """The HTML with the elements `tags` and allowed attributes alone; `is_drawing` allows further URLs of pictures."""

    def kept(tag: str, name: str, value: str) -> str | None:
        is_ours = (tag, name) == ("img", "src") and is_drawing(value)
        return value if is_ours or _is_allowed(tag, name, value) else None

    return nh3.clean(
        html, tags=set(tags), attributes=ATTRIBUTES, attribute_filter=kept, url_schemes=SCHEMES, link_rel=None
    )


def _is_allowed(tag: str, name: str, value: str) -> bool:
    """Whether an attribute `name` of an element may have this value."""
    match tag, name:
        case "a", "href":
            return LINK.fullmatch(value) is not None
        case "img", "src":
            return PICTURE.fullmatch(value) is not None
        case ("div" | "span" | "pre" | "code", "class"):  # the colours of code
            return re.fullmatch(r"highlight|hl-\w+|language-\w+|[a-z][a-z0-9]?", value) is not None
        case _, "id":
            return re.fullmatch(r"[\w%.-]+", value) is not None
    return True


def drawings(nb: NotebookNode) -> set[str]:
    """The drawings attached to the cells of a released notebook: SVG in base64."""
    return {svg for cell in nb.cells for data in _attached(cell) if (svg := data.get(SVG))}


def _attached(cell: NotebookNode) -> list[Any]:
    """The files attached to a cell: the data of each, by media type."""
    attachments = cell.get("attachments", {})
    return [data for data in attachments.values() if isinstance(data, dict)] if isinstance(attachments, dict) else []


def make_showable(nb: NotebookNode, released: Set[str], drawn: Set[str] = frozenset()) -> None:
    """Removes from a notebook the outputs, which mean nothing, and anything on which nbconvert would fail when it makes
    the feedback.

    Markup that acts is shown as it was typed, in all that was not `released`; of attached drawings those are shown that
    were `drawn` for the lessons.
    """
    nb.metadata = NotebookNode(kernelspec=KERNEL, language_info={"name": "python"})  # Colab's widgets have no state
    for cell in nb.cells:
        for data in _attached(cell):
            if str(data.get(SVG)) not in drawn:
                data.pop(SVG, None)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        elif cell.cell_type == "raw":
            cell.source = cell.source.replace("<", f"<{WORD_JOINER}")  # goes into the page as it is
        elif cell.source not in released:
            cell.source = ACTING.sub(f"<{WORD_JOINER}", _without_lost_pictures(cell))


def _without_lost_pictures(cell: NotebookNode) -> str:
    """The cell's source, with the name alone of each attached picture that is not there."""
    there = {name for name, data in cell.get("attachments", {}).items() if data}
    return ATTACHED.sub(lambda match: match[0] if match[1] in there else match[1], cell.source)
