"""Every submission in `attacks/` has the outcome that its header names, and leaves the grader as it was."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.grading import ROOT, Grader
from grader.limits import Limits
from grader.report import plain
from grader.results import as_json
from grader.scratch import BASE
from grader.submission import Submission

ATTACKS = sorted((Path(__file__).parent / "attacks").glob("*.py"))
HEADER = re.compile(r"# step: (\w+)\n# expect: ([\w ]+)\n# A perfect judge: .+\n")
LIMITS = Limits(call_seconds=2.0, step_seconds=8.0, memory=512 << 20, disk=32 << 20)
PATIENT = Limits(call_seconds=20.0, step_seconds=40.0)  # parts of torch that few use are imported when they are used
SLACK = 6.0  # seconds: ending a process, removing its files, a busy machine
GOOD = """
def softmax(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the layers are Linux's")


@pytest.fixture(scope="module")
def warm() -> Iterator[Grader]:
    """One grader for all attacks, started with a secret in its environment."""
    os.environ["KIT_TEST_SECRET_TOKEN"] = "1"
    with Grader(1, LIMITS) as grader:
        yield grader
    del os.environ["KIT_TEST_SECRET_TOKEN"]


def one_file(step: str, source: str) -> Submission:
    """A submission of one step."""
    return Submission("attack", {step: (f"attack/{step}.py", source)})


def zygote_pid(grader: Grader) -> int:
    """The process that everything is forked from."""
    return int(grader._start.process.pid)  # type: ignore[attr-defined]


def descendants(pid: int) -> list[int]:
    """Every process below `pid`."""
    found, waiting = [], [pid]
    while waiting:
        parent = waiting.pop()
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            waiting += (children := [int(child) for child in task.read_text().split()])
            found += children
    return found


def workers_files(grader: Grader) -> list[str]:
    """What is left in the folders of workers."""
    return [str(path) for base in Path(tempfile.gettempdir()).glob(f"{BASE}*") for path in base.iterdir()]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda path: path.stem)
def test_attack(attack: Path, warm: Grader) -> None:
    """Its own outcome, in time, and nothing is left of it: a good submission is graded right afterwards."""
    source = attack.read_text(encoding="utf-8")
    header = HEADER.match(source)
    assert header, "the header names step, outcome and what a perfect judge says"
    step, expected = header[1], header[2].split(" or ")
    limits = warm.limits = PATIENT if attack.stem.startswith("honest") else LIMITS
    begin = time.monotonic()
    report = warm.grade(one_file(step, source), [step], device="cpu", seed=3)
    took = time.monotonic() - begin
    (result,) = report.steps
    said = "\n".join(f"{check.name}: {check.status}: {check.message}" for check in result.checks)
    assert result.status in expected, said
    assert "error" not in {check.status for check in result.checks}, said
    assert (result.score == result.max_score) == (result.status == "pass"), said
    assert took < limits.step_seconds + SLACK
    assert len(as_json(report)) < 1 << 20
    assert "\x1b" not in plain(said + result.output)
    assert len(descendants(zygote_pid(warm))) == 1, "only the judge lives on"
    assert workers_files(warm) == []
    warm.limits = PATIENT
    (good,) = warm.grade(one_file("step02_softmax", GOOD), ["step02_softmax"], device="cpu", seed=4).steps
    assert good.status == "pass"


def test_layers_are_reported(warm: Grader) -> None:
    """The report names what was in force."""
    report = warm.grade(one_file("step02_softmax", GOOD), ["step02_softmax"], device="cpu")
    assert report.isolation[:2] == ["process", "limits"]
    assert set(report.isolation[2:]) <= {"landlock", "seccomp"}


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="these tests already run as an ordinary user"
)
def test_attacks_as_an_ordinary_user() -> None:
    """The same as a user without any privilege."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("there is no setpriv")
    as_nobody = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]
    try:
        tried = subprocess.run([*as_nobody, sys.executable, "-c", "import torch"], capture_output=True, cwd=ROOT)
    except OSError as error:
        pytest.skip(f"no process of another user can be started: {error}")
    if tried.returncode != 0:
        pytest.skip("an ordinary user can't read this Python")
    ran = subprocess.run(
        [*as_nobody, sys.executable, "-m", "pytest", "-q", "-x", "-o", "addopts=--import-mode=importlib -p no:cacheprovider", __file__],
        capture_output=True, text=True, cwd=ROOT, env=os.environ | {"HOME": "/nonexistent"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-3000:]
