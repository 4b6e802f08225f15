"""The middle of the page: a step's lesson, its hints so far, and after green the other right ways."""

from __future__ import annotations

import re
import threading
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from grader.base import language
from grader.base.language import gettext as _
from grader.base.paths import step_folder
from grader.course import lessons, solutions
from grader.course.steps import step_titles
from grader.report import lesson_page
from grader.report import page as report_page
from grader.web import comparison
from grader.web.server import TEMPLATES
from grader.web.verdict import CodeLine, highlighted

MOST_FOUND, MOST_WORDS, AROUND = 12, 8, 60  # lessons that a search lists, words of it, letters around what it found
DRAWING = threading.Lock()  # two tabs may ask at once, and torch is imported by one thread


def text(name: str) -> str:
    """A step's lesson as HTML, its pictures drawn; empty if it has no lesson. The first call loads torch."""
    try:
        read = lessons.reading(name, pictured=True, commands=False)
    except lessons.NoLesson:
        return ""
    with DRAWING:
        from grader.oracle import pictures

        drawn = pictures.pictures(step_folder(name))
    return str(lesson_page.fragment(read, drawn))


def found(query: str) -> list[dict[str, Any]]:
    """The lessons that have every word of a query, at most MOST_FOUND: `number` and `title` of the step, and an
    `excerpt` around the first word, as pairs of a text and whether it is the word that was looked for."""
    words = query.lower().split()[:MOST_WORDS]
    results = []
    for name, title in step_titles().items():
        text = f"{_(title)}. {_words(name)}"
        lower = text.lower()
        if words and all(word in lower for word in words):
            at = lower.index(words[0])
            start, end = max(at - AROUND, 0), at + len(words[0])
            before = text[start:at].partition(" ")[2] if start else text[:at]
            behind = text[end : end + AROUND].rpartition(" ")[0]
            excerpt = [(f"… {before}" if start else before, False), (text[at:end], True), (f"{behind} …", False)]
            results.append({"number": int(name[4:6]), "title": _(title), "excerpt": excerpt})
    return results[:MOST_FOUND]


@cache
def _read(name: str, spoken: str) -> str:
    """The words of a step's lesson in a language, without marks of Markdown; empty if it has no lesson."""
    try:
        return " ".join(re.sub(r"[#*`>|]|!?\[|\]\([^()]*+\)", "", lessons.reading(name, commands=False)).split())
    except lessons.NoLesson:
        return ""


def _words(name: str) -> str:
    """The words of a step's lesson in the language in use."""
    return _read(name, language.current())


def hints(name: str, folder: Path, *, one_more: bool = False) -> dict[str, Any]:
    """The hints that the learner has seen, as HTML (`given`), and how many there are (`total`). `one_more` shows the
    next one, and records that in the learner's folder."""
    try:
        so_far = lessons.next_hint(name, folder) if one_more else lessons.hints_so_far(name, folder)
    except lessons.NoLesson:
        return {"given": [], "total": 0}
    return {"given": [str(report_page.formatted(hint)) for hint in so_far.given], "total": so_far.total}


def solution(name: str, own: str = "") -> str:
    """The reference and other right ways as HTML: each with what it trades for what, its code, and next to it the
    learner's `own`; empty if this copy has no solutions."""
    try:
        solved = solutions.solution(name)
    except solutions.NoSolution:
        return ""
    ways = [(_("The reference"), "", solved.reference)]
    ways += [(way.name, _(way.trades), way.code) for way in solved.ways]
    template = report_page.environment(TEMPLATES).get_template("step_solution.html.j2")
    shown = [(title, trades, _lines(code), comparison.rows(own, code)) for title, trades, code in ways]
    return template.render(**report_page.template_values(), ways=shown)


def _lines(source: str) -> list[CodeLine]:
    """The lines of a source in colours, with their numbers."""
    lines: list[Markup] = highlighted(source.strip("\n"))
    return [CodeLine(number, line, about=False, fault=False) for number, line in enumerate(lines, 1)]
