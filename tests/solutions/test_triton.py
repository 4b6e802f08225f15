"""Step 29: skipped without points where Triton is missing, run by its interpreter where it is installed."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import types
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import pytest
import torch

from grader.base import language
from grader.base.paths import ROOT
from grader.base.results import CheckResult, Graded, Report, StepResult, as_json, total
from grader.calls import builtins
from grader.calls.builtins import BuiltIns, banned
from grader.calls.call import Call, Options
from grader.calls.modes import KernelLaunches, UnwrittenIsNan
from grader.calls.responder import Responder
from grader.classes import gradebook
from grader.course import tracks
from grader.course.submissions import Submission
from grader.feedback import class_page, exports
from grader.feedback.standings import standing
from grader.judge.grader import Grader
from grader.oracle.live import Solution, solutions
from grader.report import classroom50, page, terminal

STEP: Solution = next(step for step in solutions() if step.number == 29)
IS_THERE = not STEP.lacking
with_triton = pytest.mark.skipif(not IS_THERE, reason="Triton is not installed")
without_triton = pytest.mark.skipif(IS_THERE, reason="Triton is installed")
REASON = "Triton is not installed: the points of this step don't count. To add it on Linux, type: make triton"
KOREAN = "설치되지 않은 패키지: Triton. 이 단계의 배점은 계산에 넣지 않습니다."


def test_the_pins_can_be_installed_together() -> None:
    """Triton's is that of torch's usual build, where this is one."""
    pins = (ROOT / "requirements/base.lock").read_text(encoding="utf-8")
    (torch_pin,) = re.findall(r"^torch==(\S+)$", pins, re.MULTILINE)
    lock = (ROOT / "requirements/triton.lock").read_text(encoding="utf-8")
    (triton_pin,) = re.findall(r"^triton==([^\s;]+);", lock, re.MULTILINE)
    assert f'TRITON = "triton=={triton_pin}"' in (ROOT / "tools" / "lock.py").read_text(encoding="utf-8")
    wanted = [need for need in metadata.requires("torch") or [] if need.startswith("triton==")]
    if metadata.version("torch").partition("+")[0] == torch_pin and wanted:
        assert wanted[0].partition(";")[0] == f"triton=={triton_pin}"


def submitted(source: str) -> Submission:
    return Submission("mine", {STEP.name: (f"mine/{STEP.name}.py", source)})


# --- where it is missing ---


@pytest.mark.parametrize(("version", "lacks"), [("3.2.0", "Triton >=3.3"), ("3.3.0", ""), ("3.10.1", "")])
def test_an_old_triton_will_not_do(monkeypatch: pytest.MonkeyPatch, version: str, lacks: str) -> None:
    """Torch 2.6 brings one whose interpreter fails with NumPy from 2.4 on: the step is skipped, not marked wrong."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(metadata, "version", lambda name: version)
    assert Solution(STEP.folder).lacking == lacks


def skipped() -> Report:
    """A report on two steps: one passes, the other lacks Triton."""
    check = CheckResult(name="test_a", title="A", device="cpu", status="pass", points=8.0, max_points=8.0)
    missing = CheckResult(
        name="test_b", title="B", device="cpu", status="skipped", points=0.0, max_points=0.0, message=REASON
    )
    steps = [
        StepResult(name="step25_window", track="longer_and_faster", title="Window", status="pass", score=8.0,
                   max_score=8.0, seconds=0.1, checks=[check]),
        StepResult(name=STEP.name, track="longer_and_faster", title="Triton", status="skipped", score=None,
                   max_score=10.0, seconds=0.0, checks=[missing, missing], message=REASON),
    ]  # fmt: skip
    score, most = total(steps)
    return Report(
        submission="mine", seed=1, isolation=["process"], devices={"cpu": "checked"}, score=score, max_score=most,
        tracks=tracks.totals(steps), steps=steps,
    )  # fmt: skip


def test_its_points_count_nowhere() -> None:
    """Neither as won nor as lost: in the totals, the terminal, the page, JSON, and the tables of a class."""
    report = skipped()
    assert (report.score, report.max_score) == (8.0, 8.0)
    assert [(track.score, track.max_score) for track in report.tracks] == [(8.0, 8.0)]
    said = as_json(report)
    assert json.loads(said)["steps"][1]["score"] is None
    one = standing(Graded(student="ann", file="ann", key="k", report=report))
    assert (one.score, one.max_score, one.error) == (8.0, 8.0, "")
    whole = exports.WholeClass([one], [step.name for step in report.steps])
    (header, row) = csv.reader(io.StringIO(exports.csv_text("class.csv", whole)))
    assert dict(zip(header, row, strict=True))[STEP.name] == "–"
    assert dict(zip(header, row, strict=True))["max_score"] == "8"
    assert gradebook.mark(report.steps[1]).share is None
    about = dict.fromkeys(("CLASSROOM", "ASSIGNMENT", "SUBMISSION_TAG", "COMMIT_URL", "RELEASE_URL"), "x")
    result = classroom50.result(report, about, datetime.now(UTC))
    assert (result["score"], result["max-score"]) == (800, 800)
    with language.use("ko"):
        shown = class_page.html([one, one], seed=1, submissions="class")
    assert "건너뜀" in shown
    assert "8 / 8" in re.sub(r"<[^>]*>", "", shown)
    made = exports.gradescope(report)
    assert sum(test["max_score"] for test in made["tests"]) == 8.0
    assert b'skipped="2"' in exports.junit_xml(Graded(student="ann", file="ann", key="k", report=report))


@pytest.mark.parametrize(("spoken", "word"), [("en", "skipped"), ("ko", "건너뜀")])
def test_report_says_what_is_missing(spoken: str, word: str) -> None:
    """Once, without a check's title or a count of failing checks; everything else passes."""
    with language.use(spoken):
        report = skipped()
        text = terminal.as_text(report.steps[1])
        assert REASON in " ".join(text.split())
        assert word in text
        assert len(text.splitlines()) <= 3
        assert terminal.next_step(report) is None
        shown = page.html(report)
        assert shown.count("Triton is not installed") == 1
        assert word in shown


@without_triton
def test_graded_where_it_is_missing(grader: Grader) -> None:
    """The stub, a solution, and a file that can't be read: all are skipped, before a line of them runs."""
    for source in (STEP.stub(), STEP.solved(), "raise SystemExit"):
        report = grader.grade(submitted(source), [STEP.name], device="cpu", seed=1)
        (result,) = report.steps
        assert (result.status, result.score) == ("skipped", None)
        assert result.message == REASON.replace("Triton", STEP.lacking)
        assert (report.score, report.max_score) == (0.0, 0.0)
    with language.use("ko"):
        (result,) = grader.grade(submitted(STEP.stub()), [STEP.name], device="cpu", seed=1).steps
    assert result.message.startswith(KOREAN.replace("Triton", STEP.lacking))


@pytest.mark.thorough
@without_triton
def test_a_kit_is_built_without_it() -> None:
    """Recording says what is left out; and where that is all, that nothing is left."""
    asked = [sys.executable, "-m", "grader", "record", "--step", "29"]
    told = subprocess.run(asked, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert told.returncode == 2
    assert "step29_triton is left out: Triton is not installed here" in told.stderr


# --- what the engine has for kernels ---


def test_launches_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the interpreter and compiled ones, as long as the block lasts; nothing is needed to be installed."""

    class GridExecutor:
        def __call__(self, x: int) -> int:
            return x + 1

    class JITFunction:
        def run(self, x: int) -> int:
            return x + 2

    for name, owner in (("interpreter", GridExecutor), ("jit", JITFunction)):
        module = types.ModuleType(f"triton.runtime.{name}")
        setattr(module, owner.__name__, owner)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    with KernelLaunches() as launches:
        assert (GridExecutor()(1), JITFunction().run(1)) == (2, 3)
    GridExecutor()(1)
    assert launches.measured == 2
    responder = Responder({"f": lambda: GridExecutor()(GridExecutor()(0))})
    assert responder.respond(Call("f", options=Options(measures=("launches",)))).measured == {"launches": 2}
    assert responder.respond(Call("f")).measured == {}


@pytest.mark.parametrize(
    ("family", "work"),
    [
        ("product", lambda x: x @ x.mT),
        ("product", lambda x: torch.einsum("ij,kj->ik", x, x)),
        ("product", lambda x: torch.nn.functional.linear(x, x)),
        ("product", lambda x: x[0].dot(x[1])),
        ("exponential", lambda x: x.exp()),
        ("exponential", lambda x: torch.exp_(x)),
        ("exponential", lambda x: 2.0**x),
        ("exponential", lambda x: x.log1p()),
        ("exponential", lambda x: torch.special.expit(x)),
        ("arrays", lambda x: x.numpy()),
        ("arrays", lambda x: x.tolist()),
    ],
)
def test_what_a_kernel_has_to_do_is_seen(family: str, work: object) -> None:
    """In any form, and nothing else is."""
    with BuiltIns([family]) as seen:
        torch.ones(2, 2).expand(2, 2).clone().contiguous().reshape(4).new_empty(3).add_(1).sum()
    assert banned(seen.names, [family]) == []
    with BuiltIns([family]) as seen:
        work(torch.ones(2, 2))  # type: ignore[operator]
    assert banned(seen.names, [family])
    assert family in builtins.FAMILIES


# --- where it is installed ---


@with_triton
def test_solution_passes_in_the_sandbox(grader: Grader) -> None:
    """By the interpreter, within 20 seconds."""
    (result,) = grader.grade(submitted(STEP.solved()), [STEP.name], device="cpu", seed=1).steps
    assert (result.status, result.score) == ("pass", 10.0)
    assert result.seconds < 20


@with_triton
@pytest.mark.parametrize("spoken", ["en", "ko"])
def test_wrong_pointer_is_told(grader: Grader, spoken: str) -> None:
    """It ends the process of the file, at a line of it, and the report says what to look for."""
    wrong = STEP.solved().replace("tl.store(output + at, ", "tl.store(output + at + 1_000_000_000, ")
    assert wrong != STEP.solved()
    with language.use(spoken):
        (result,) = grader.grade(submitted(wrong), [STEP.name], device="cpu", seed=1).steps
    assert (result.status, result.score) == ("fail", 0.0)
    message = result.checks[0].message
    assert "SIGSEGV" in message
    assert f"mine/{STEP.name}.py" in message
    assert "`tl.store`" in message
    assert ("mask" if spoken == "en" else "마스크") in message


@with_triton
def test_mistake_is_named(grader: Grader) -> None:
    """By its catalogue, from the answers of the interpreter alone."""
    wrong = STEP.solved().replace("context = context * rescale[:, None] + tl", "context = context + tl")
    assert wrong != STEP.solved()
    (result,) = grader.grade(submitted(wrong), [STEP.name], device="cpu", seed=1).steps
    assert "context_not_rescaled" in {check.misconception for check in result.checks}


@with_triton
def test_file_runs_by_itself(tmp_path: Path) -> None:
    """With the variable set before the import, as the lesson says."""
    (tmp_path / "mine.py").write_text(
        f"{STEP.solved()}\nx = torch.ones(1, 1, 3, 4)\nprint(flash_forward(x, x, x)[1].tolist())\n"
    )
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    ran = subprocess.run([sys.executable, "mine.py"], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert "3.09" in ran.stdout, ran.stderr


def test_what_no_kernel_writes_is_nan() -> None:
    """Memory that is made without values is filled with NaN where kernels are written, and nothing else is."""
    with UnwrittenIsNan():
        x = torch.zeros(2)
        made = (torch.empty(3), torch.empty_like(x), x.new_empty(2, 2), torch.empty_strided((2,), (1,)))
        made += (torch.empty(3, requires_grad=True),)  # as torch's own checkpoint() makes one
        counts, ones = torch.empty(2, dtype=torch.int64), torch.ones(2)
    assert all(bool(tensor.isnan().all()) for tensor in made)
    assert counts.dtype == torch.int64
    assert not ones.isnan().any()
