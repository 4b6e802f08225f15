"""What stands in the middle of the page: a step's lesson, its hints so far, and after green the other right ways."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from markupsafe import Markup

from grader.base.language import gettext as _
from grader.base.paths import step_folder
from grader.course import lessons, solutions
from grader.report import lesson_page
from grader.report import page as report_page
from grader.web.server import TEMPLATES
from grader.web.verdict import CodeLine, highlighted

DRAWING = threading.Lock()  # two tabs may ask at once, and torch is imported by one thread


def text(name: str) -> str:
    """The lesson as HTML, its pictures drawn; empty where there is none. The first call loads torch."""
    try:
        read = lessons.reading(name, pictured=True, commands=False)
    except lessons.NoLesson:
        return ""
    with DRAWING:
        from grader.oracle import pictures

        drawn = pictures.pictures(step_folder(name))
    return str(lesson_page.fragment(read, drawn))


def hints(name: str, folder: Path, *, one_more: bool = False) -> dict[str, Any]:
    """The hints that the learner has seen, and how many there are; with `one_more`, the next one too."""
    try:
        given = lessons.next_hint(name, folder) if one_more else lessons.hints_so_far(name, folder)
    except lessons.NoLesson:
        return {"given": [], "total": 0}
    return {"given": [str(report_page.formatted(hint)) for hint in given.given], "total": given.total}


def solution(name: str) -> str:
    """The reference and other right ways, and what each trades, as HTML; empty where this copy holds none."""
    try:
        solved = solutions.solution(name)
    except solutions.NoSolution:
        return ""
    ways = [(_("The reference"), "", _lines(solved.reference))]
    ways += [(way.name, _(way.trades), _lines(way.code)) for way in solved.ways]
    template = report_page.environment(TEMPLATES).get_template("step_solution.html.j2")
    return template.render(**report_page.of_pieces(), ways=ways)


def _lines(source: str) -> list[CodeLine]:
    lines: list[Markup] = highlighted(source.strip("\n"))
    return [CodeLine(number, line, about=False, fault=False) for number, line in enumerate(lines, 1)]
