"""What staff look at, in a browser: every page at the width of a telephone and of a desk, in both languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.base import language
from grader.base.results import AssignmentMark, CheckResult, Graded, LineRemark, Report, StepResult
from grader.feedback import class_page, history, items, pages
from grader.feedback.standings import standing
from grader.feedback.table import TermRow
from grader.marks.assignments import alone
from grader.report import page
from tests.browser import AXE, Tab, needed

pytestmark = needed
STEPS = [
    f"step{number:02}_{name}" for number, name in ((1, "scores"), (6, "causal_attention"), (19, "encoder_decoder"))
]
HEIGHT = 12_000  # pixels of any of these at 390: the table of checks had one letter a line, and 232,000


def check(step: str, number: int, status: str) -> CheckResult:
    """A check with a long title, as they are."""
    title = f"The weights of {step} fall on visible positions alone, for any mask and any batch dimensions ({number})."
    return CheckResult(name=f"test_{step}_{number}", title=title, device="cpu", status=status, points=0.5,  # type: ignore[arg-type]
                       max_points=1.0, message="expected  0.5\ngot       0.25")  # fmt: skip


def student(name: str, section: str, status: str) -> Graded:
    """Somebody with every kind of thing on the page: open steps too."""
    steps = [
        StepResult(name=step, title=f"What {step} is about", status="fail", score=None if status == "open" else 3.0,
                   max_score=6.0, seconds=0.1, message="attention.ipynb is damaged." if status == "open" else "",
                   checks=[] if status == "open" else [check(step, number, "fail") for number in range(6)],
                   remarks=[LineRemark(line=3, code="return q @ k.mT / q.shape[-1] ** 0.5", text="Remark: why?")])
        for step in STEPS
    ]  # fmt: skip
    total = None if status == "open" else 9.0
    report = Report(submission=name, seed=1, isolation=[], devices={"cpu": "checked"}, score=total, max_score=18.0,
                    steps=steps, notes=["A second look was asked for: " + "why " * 30], ask="mailto:a@b")  # fmt: skip
    mark = AssignmentMark(assignment="week1", points=total, earned=total, out_of=18.0)
    return Graded(student=name, file=name, key="", report=report, mark=mark, section=section)


@pytest.mark.parametrize("spoken", ["en", "ko"])
def test_every_page_fits_and_can_be_read(spoken: str, tmp_path: Path) -> None:
    """Nothing goes beyond the window, nothing is too faint or too small, and no table is a column of letters."""
    graded = [
        student(f"Student {number:02} of a long name", "AB"[number % 2], "open" if number == 3 else "fail")
        for number in range(12)
    ]
    standings = [standing(one) for one in graded]
    row = TermRow("Ada", "A", {"week1": 9.0, "week2": None}, "50.00", {"week2": "Excused (" + "ill " * 20 + ")."})
    term = alone("week1", STEPS)
    term.assignments["week2"] = term.assignments["week1"]  # type: ignore[index]
    with language.use(spoken):
        made = {
            "index": class_page.html(standings, seed=1, submissions="submissions"),
            "items": pages.items(items.items(graded), items.clusters(graded), 12, results="dist/class"),
            "history": history.html(term, row, {"week1": graded[0]}),
            "student": page.html(graded[0].report, of_class=True),  # type: ignore[arg-type]
            "open": page.html(graded[3].report, of_class=True),  # type: ignore[arg-type]
        }
    for name, text in made.items():
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    with Tab((tmp_path / "index.html").as_uri(), tmp_path / "profile") as tab:
        for name in made:
            tab.open((tmp_path / f"{name}.html").as_uri())
            for width in (390, 1280):
                tab.look(width)
                assert {kind: found for kind, found in tab.misfits().items() if found} == {}, (name, width)
                assert tab.value("document.documentElement.scrollHeight") < HEIGHT, (name, width)
                if AXE.is_file():
                    assert tab.inaccessible() == [], (name, width)
