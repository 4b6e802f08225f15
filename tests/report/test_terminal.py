"""The terminal report: within 80 columns in both languages, plain without colour, and nothing of a learner's obeyed."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from grader.base import language
from grader.base.results import CheckResult, Parting, Report, StepResult
from grader.report import console as screen  # corrects rich
from grader.report import reasons, terminal


def drawn(spoken: str, *, colour: bool = False) -> str:
    """A report with a failing step, as it is printed 80 columns wide."""
    check = CheckResult(
        name="test_by_hand", title="A title that is " + "long " * 15, device="cpu", status="fail", points=0.0,
        max_points=2.0, message="called    softmax([1.0, 2.0])\nfirst difference at [0]: \x1b[31m[red]1.0[/red]",
        parting=Parting(
            expected=[[0.25, 0.75]], got=[[0.5, None]], differs=[[True, True]], slice=[], place=[0, 0]
        ),
    )  # fmt: skip
    failing = StepResult(
        name="step02_softmax", title="A softmax that never overflows", status="fail", score=0.0, max_score=8.0,
        seconds=0.1, checks=[check], output="한글 \x07" + "x" * 300,
    )  # fmt: skip
    todo = StepResult(
        name="step06_causal_attention", title="드롭아웃이 있는 코잘 어텐션, 그리고 그보다 훨씬 더 긴 제목",
        status="todo", score=0.0, max_score=10.0, seconds=0.0, checks=[],
    )  # fmt: skip
    whole = Report(
        submission="exercises", seed=7, isolation=["process", "limits"], devices={"cpu": "checked"}, score=0.0,
        max_score=18.0, steps=[failing, todo],
    )  # fmt: skip
    screen = io.StringIO()
    console = Console(file=screen, width=80, force_terminal=colour, no_color=not colour, highlight=False)
    with language.use(spoken):
        console.print(terminal.terminal(whole))
    return screen.getvalue()


@pytest.mark.parametrize("spoken", language.LANGUAGES)
def test_it_fits_80_columns(spoken: str) -> None:
    """No line is wider than the screen, Hangul counted as two columns."""
    assert max(cell_len(line) for line in drawn(spoken).splitlines()) <= 80


@pytest.mark.parametrize("spoken", language.LANGUAGES)
def test_without_colour_it_says_the_same(spoken: str) -> None:
    """No escape sequence without colour; statuses and differences are words and signs."""
    said = drawn(spoken)
    assert "\x1b" not in said
    assert {"en": "fail", "ko": "실패"}[spoken] in said
    assert "0.5*" in said
    assert "make lesson STEP=2" in said
    assert "nan*" in said


def test_what_a_learner_wrote_is_shown_and_not_obeyed() -> None:
    """Control characters and markup in messages and output."""
    said = drawn("en")
    assert "\\x1b[31m[red]1.0[/red]" in said
    assert "\\x07" in said
    assert "\x07" not in drawn("en", colour=True)


def test_a_name_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither markup nor a picture is made of it."""
    screen.say("a:boom:b [red]c[/red]")
    assert capsys.readouterr().out == "a:boom:b [red]c[/red]\n"


@pytest.mark.parametrize(
    ("failing", "said"),
    [(2, "1 more check of this step fails."), (3, "2 more checks of this step fail.")],
)
def test_other_checks_are_counted(failing: int, said: str) -> None:
    """One is one."""
    checks = [
        CheckResult(
            name=f"test_{number}", title="", device="cpu", status="fail", points=0.0, max_points=1.0, message=""
        )
        for number in range(failing)
    ]
    step = StepResult(
        name="step02_softmax", title="", status="fail", score=0.0, max_score=8.0, seconds=0.1, checks=checks
    )
    screen = io.StringIO()
    Console(file=screen, width=80).print(terminal.detail(step))
    assert said in screen.getvalue()


@pytest.mark.parametrize("spoken", language.LANGUAGES)
def test_narrow_screens_lose_no_word(spoken: str) -> None:
    """Titles are folded in 60 columns, and not cut."""
    screen = io.StringIO()
    titled = StepResult(
        name="step06_causal_attention", title="헤드로 나누고 다시 합치기", status="todo", score=0.0, max_score=6.0,
        seconds=0.0, checks=[],
    )  # fmt: skip
    whole = Report(
        submission="exercises", seed=7, isolation=[], devices={"cpu": "checked"}, score=0.0, max_score=6.0,
        steps=[titled],
    )  # fmt: skip
    with language.use(spoken):
        Console(file=screen, width=60, highlight=False).print(terminal.steps_table(whole))
    assert "…" not in screen.getvalue()


def test_the_next_step_is_named() -> None:
    """At nothing it says where to start, and the command to type."""
    assert "start with step02_softmax" in drawn("en")
    assert "make grade" in drawn("ko")


@pytest.mark.parametrize(("status", "said"), [("fail", "step03 does not pass yet"), ("todo", "next is step03")])
def test_a_step_that_fails_is_not_called_next(status: str, said: str) -> None:
    """It was tried; what is next has not been begun."""
    steps = [
        StepResult(name="step02", title="", status="pass", score=1.0, max_score=1.0, seconds=0.0, checks=[]),
        StepResult(name="step03", title="", status=status, score=0.0, max_score=1.0, seconds=0.0, checks=[]),  # type: ignore[arg-type]
    ]
    report = Report(submission="exercises", seed=1, isolation=[], devices={}, score=1.0, max_score=2.0, steps=steps)
    assert said in terminal.closing(report).plain


def test_hangul_that_fills_a_line_keeps_its_end() -> None:
    """At every width: rich takes the space after such a line for one more letter, and ends it with an ellipsis."""
    words = "모든 제한 시간에 이 수를 곱합니다. 느린 컴퓨터라면 3."
    for width in range(10, 60):
        table = Table(box=None, padding=0, show_header=False)
        table.add_column(width=width)
        table.add_row(words)
        shown = Console(width=width, file=io.StringIO(), record=True)
        shown.print(table)
        lines = shown.export_text().splitlines()
        assert " ".join(" ".join(line.split()) for line in lines) == words
        assert all(cell_len(line) <= width for line in lines)


def test_one_reason_is_said_once() -> None:
    """Checks that fail at the same line, or for the same mistake in one name, are counted apart from the others."""

    def check(name: str, message: str, **more: str) -> CheckResult:
        return CheckResult(
            name=name, title=name, device="cpu", status="fail", points=0.0, max_points=1.0, message=message, **more
        )

    at = "at line 7 of ex/step01_scores.py, in f: return kye"
    checks = [
        check("first", f"called    f(1)\nf raised NameError\n{at}"),
        check("second", f"called    g(2)\ng raised\n{at}"),
        check("third", f"h raised\n{at}"),
        check("other", "expected  1\ngot       2"),
    ]
    step = StepResult(
        name="step01_scores", title="T", status="fail", score=0.0, max_score=4.0, seconds=0.0, checks=checks
    )
    text = terminal.as_text(step)
    assert "2 more checks fail for the same reason." in text
    assert "1 more check of this step fails." in text
    mistaken = [check("a", "x", misconception="m", refused="f"), check("b", "y", misconception="m", refused="f")]
    assert reasons.same(*mistaken)
    assert not reasons.same(mistaken[0], check("c", "y", misconception="m", refused="g"))
    assert not reasons.same(check("d", "x"), check("e", "x"))
