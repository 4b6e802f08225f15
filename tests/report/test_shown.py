"""What a learner's code says is shown and not obeyed, and what it returns is not computed with beyond a bound."""

from __future__ import annotations

import argparse
import subprocess
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import torch
from torch import Tensor

from grader.base.results import CheckResult, Graded, Report, Reproduction, StepResult, as_json
from grader.calls.responder import Responder
from grader.checks.assertions import Draw, Implementation, holds
from grader.checks.backends import LocalBackend
from grader.checks.trial import run_check
from grader.course import submissions
from grader.feedback import exports
from grader.labs import command as lab_command
from grader.labs import parts
from grader.learner import pytest_plugin, repro
from grader.report import classroom50
from grader.report.terminal import as_text, plain, quoted

HIDDEN = "\x9b31m\u202egnp\u2066\u200b\u200d\u00ad\ufeff\u2060\u3164\U000e0041"


def step_that_says(text: str) -> StepResult:
    """A step whose code has printed this, and failed with it."""
    check = CheckResult(name="test_a", title="A", device="cpu", status="fail", points=0.0, max_points=1.0, message=text)
    return StepResult(
        name="step02_softmax", track="core", title="S", status="fail", score=0.0, max_score=1.0, seconds=0.0,
        checks=[check], output=text,
    )  # fmt: skip


def test_json_for_a_terminal() -> None:
    """Everything that a terminal obeys, or does not show, is escaped, and means the same."""
    text = as_json({"name": HIDDEN})  # type: ignore[arg-type]
    assert text.isascii()
    assert msgspec.json.decode(text)["name"] == HIDDEN


def test_nothing_is_hidden() -> None:
    """Each is shown by its number."""
    said = plain(HIDDEN)
    assert said.isascii() and said.startswith(r"\x9b31m\u202egnp\u2066\u200b")
    assert plain("가나다 – é 🎉") == "가나다 – é 🎉"


def test_a_workflows_log_obeys_nothing() -> None:
    """Two colons at the beginning of a line are a command there."""
    for line in ("::error::x", "  ::set-output name=a::b", "##[group]x"):
        assert not plain(f"a\n{line}").splitlines()[1].lstrip().startswith(("::", "##["))
    assert plain("a::b") == "a::b"


def test_printed_lines_are_not_the_graders() -> None:
    """None of them begins as a result does."""
    said = as_text(step_that_says("✓ step02_softmax  8 / 8  pass\n  → well done"))
    assert [line for line in said.splitlines() if line.lstrip().startswith("✓")] == []
    assert quoted("✓ pass") == "| ✓ pass"


def test_shapes_that_spread_are_refused() -> None:
    """Two answers of a million numbers each are not compared over a million millions."""

    def test_it(student: Implementation, reference: Implementation, draw: Draw) -> None:
        first, second = student.f(True).tensor(), student.f(False).tensor()
        holds((first == second).all(), "they differ")

    def f(tall: bool) -> Tensor:
        return torch.zeros(1 << 20, 1) if tall else torch.zeros(1, 1 << 20)

    student = LocalBackend(Responder({"f": f}))
    right = LocalBackend(Responder({"f": lambda tall: torch.zeros(3)}))
    begin = time.process_time()
    verdict = run_check(test_it, student, right, seed=1)
    assert verdict.status == "fail" and "(1048576, 1), (1, 1048576)" in verdict.message
    assert time.process_time() - begin < 5.0


@pytest.mark.parametrize("size", [3, 1000])
def test_ordinary_work_is_not(size: int) -> None:
    """A matrix with its row beside it."""

    def test_it(student: Implementation, reference: Implementation, draw: Draw) -> None:
        x = student.f().tensor()
        holds((x - x[:1] == 0).all(), "they differ")

    right = LocalBackend(Responder({"f": lambda: torch.zeros(size, size)}))
    assert run_check(test_it, right, right, seed=1).status == "pass"


def test_notebooks_have_one_budget(tmp_path: Path) -> None:
    """Many large ones are not read one after another."""
    notebook = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    for number in range(3):
        (tmp_path / f"large{number}.ipynb").write_text(notebook + " " * (submissions.MAX_NOTEBOOK // 2))
    read = submissions.read(tmp_path)
    assert any("large1.ipynb" in problem for problem in read.problems.values())


SAID = "✓ step02_softmax  8 / 8  pass\n::error::x\n\x1b[2J\u202e"


def test_no_record_obeys_or_imitates() -> None:
    """JUnit's, Gradescope's, Classroom 50's and pytest's texts show what a learner says, as the terminal does."""
    step = step_that_says(SAID)
    report = Report(
        submission="a", seed=1, isolation=[], devices={}, score=0.0, max_score=1.0, steps=[step],
    )  # fmt: skip
    graded = Graded(student="a", file="a", key="", report=report)
    about = dict.fromkeys(("CLASSROOM", "ASSIGNMENT", "SUBMISSION_TAG", "COMMIT_URL", "RELEASE_URL"), "")
    texts = {
        "junit": exports.junit_xml(graded).decode(),
        "gradescope": exports.gradescope(report)["tests"][0]["output"],
        "classroom50": classroom50.result(report, about, datetime.now(UTC))["tests"][0]["message"],
        "pytest": pytest_plugin._text(step.checks, step),
    }
    for where, text in texts.items():
        lines = text.splitlines()
        assert not [line for line in lines if line.lstrip().startswith(("✓", "::"))], where
        assert "| ✓ step02" in text and r"\::error" in text and r"\x1b[2J\u202e" in text, where
        assert "\x1b" not in text and "\u202e" not in text, where


def test_labs_say_first_where_code_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything of a learner's is imported; and what its errors say is shown and not obeyed."""
    (tmp_path / "step02_softmax.py").write_text("print('IMPORTED')\nraise ValueError('\\x1b[2J')\n")
    monkeypatch.setattr(parts, "grading", lambda folder: lambda steps: dict.fromkeys(steps, ("pass", 1.0, 1.0)))
    given = argparse.Namespace(submission=tmp_path, model=None)
    with pytest.raises(parts.Stop, match=r"\\x1b\[2J"):
        lab_command.gathered((parts.Need("step02_softmax", ("softmax",)),), given)
    said = " ".join(capsys.readouterr().out.split())
    assert 0 <= said.index("outside the sandbox") < said.index("IMPORTED")


def test_repro_says_first_where_code_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the program starts."""
    monkeypatch.chdir(tmp_path)
    found = step_that_says("wrong"), Reproduction(check="test_a", text="")
    warm = SimpleNamespace(reproduce=lambda *args, **kwargs: found)
    monkeypatch.setattr(repro, "Grader", lambda judges: nullcontext(warm))
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: print("STARTED"))
    repro.run(tmp_path, "step02_softmax", device="cpu", seed=1, runs=True)
    said = " ".join(capsys.readouterr().out.split())
    assert 0 <= said.index("outside the sandbox") < said.index("STARTED")
