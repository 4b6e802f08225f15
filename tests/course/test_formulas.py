"""Formulas of lessons: LaTeX in a notebook, the picture or the words alone in a terminal and on a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.base import language, paths
from grader.classes import release
from grader.course import formulas, lessons
from grader.course import steps as course
from grader.report import lesson_page
from tests.course.test_lessons import printed

STEPS = [step.name for step in course.steps()]
every_lesson = pytest.mark.parametrize(("step", "spoken"), [(step, to) for step in STEPS for to in language.LANGUAGES])
WORDS = re.compile(r"\\text\{[^{}]*\}")


def written(step: str, spoken: str) -> list[str]:
    """The formulas of a lesson."""
    text = (paths.step_folder(step) / f"lesson.{spoken}.md").read_text(encoding="utf-8")
    assert text.count("$$") == 2 * len(found := formulas.COMMENT.findall(text)), "a comment that is not in one line"
    return list(found)


def test_a_formula_stands_where_its_comment_is() -> None:
    """In place of the picture right below it; else by itself."""
    text = "Before.\n\n<!-- $$ \\frac{a}{b} $$ -->\n```\n a\n---\n b\n```\n\n<!-- $$ c $$ -->\n\n```\nd\n```\n"
    assert formulas.as_latex(text) == "Before.\n\n$$ \\frac{a}{b} $$\n\n$$ c $$\n\n```\nd\n```\n"


@every_lesson
def test_a_lesson_has_its_formulas(step: str, spoken: str) -> None:
    """The same in both languages but for words, with every brace closed; all of them in the notebook."""
    with language.use(spoken):
        shown = release._lesson(course.Step(paths.step_folder(step)))
    here, english = written(step, spoken), written(step, "en")
    assert here and [WORDS.sub("", one) for one in here] == [WORDS.sub("", one) for one in english]
    for one in here:
        assert shown.count(one) == 1 and "<!--" not in shown
        assert one.count("{") - one.count("\\{") == one.count("}") - one.count("\\}")
        assert one.count("\\left") == one.count("\\right") and one.count("\\begin") == one.count("\\end")


@every_lesson
def test_a_terminal_and_a_page_show_no_latex(step: str, spoken: str) -> None:
    """Neither the comment nor what stands in it."""
    with language.use(spoken):
        text = lessons.reading(step)
        shown = [printed(lessons.Lesson(text)), lesson_page.fragment(text, {})]
    assert not [each for each in shown if "$$" in each or "\\frac" in each or "<!--" in each]


def test_no_line_of_a_picture_is_lost_but_by_its_formula() -> None:
    """The pictures that a formula replaces are formulas: three lines at most."""
    for file in Path(paths.SOLUTIONS).glob("*/step*/lesson.*.md"):
        for found in formulas.WITH_PICTURE.finditer(file.read_text(encoding="utf-8")):
            assert found[0].count("\n") <= 5, file
