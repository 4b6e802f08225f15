"""The doctor: what it finds on a machine that works, and what it says of each thing that does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from grader.base import language, paths
from grader.course import choice
from grader.judge import grader
from grader.judge.launcher import GraderError
from grader.learner import doctor
from grader.learner.doctor import Finding, TorchFacts


def test_machine_that_works(tmp_path: Path) -> None:
    """Everything is looked at, and where the tests run grading works."""
    for name in choice.step_names():
        (tmp_path / f"{name}.py").touch()
    ran = subprocess.run(
        [sys.executable, "-m", "grader", "doctor", "--submission", str(tmp_path), "--lang", "en"],
        cwd=paths.ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for what in ("Python", "packages", "exercises", "torch", "devices", "grading", "isolation", "language",
                 "terminal", ):  # fmt: skip
        assert f"\n{what} " in ran.stdout
    assert ran.stdout.endswith("Type: make grade\n")
    assert max(map(len, ran.stdout.splitlines())) <= 80


def test_torch_that_does_not_import(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is graded then; the reason and the command that mends it are said, and `make grade` does not work."""
    monkeypatch.setattr(doctor, "ASK_TORCH", "import torch_of_nowhere")
    monkeypatch.setattr(doctor, "trial_run", lambda: pytest.fail("graded without torch"))
    findings = list(doctor.examine(tmp_path))
    torch = next(finding for finding in findings if finding.what == "torch")
    assert torch.state == "broken"
    assert "torch_of_nowhere" in torch.says
    assert "pip install" in torch.fix
    assert not doctor.works(findings)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import os; os._exit(3)", "status 3"),
        ("print('not JSON')", "malformed"),
        ("import time; time.sleep(60)", "more than"),
    ],
)
def test_torch_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, script: str, said: str) -> None:
    """A process that dies, talks nonsense or hangs becomes a sentence."""
    monkeypatch.setattr(doctor, "ASK_TORCH", script)
    monkeypatch.setattr(doctor, "TORCH_SECONDS", 1.0 if "sleep" in script else 60.0)
    answer = doctor.ask_torch()
    assert isinstance(answer, str)
    assert said in answer


def test_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing is fine; where it is, a kernel of two lines is run, and a failure says why and how to fix it."""
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    assert doctor.kernels().state == "works"
    assert "make triton" in doctor.kernels().says
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: name)
    for script, state, said in (
        ("print('3.9.0')", "works", "3.9.0"),
        ("raise TypeError('only 0-dimensional arrays')", "limited", "only 0-dimensional arrays"),
        ("print('')", "limited", "interpreter fails"),
    ):
        monkeypatch.setattr(doctor, "ASK_TRITON", script)
        finding = doctor.kernels()
        assert finding.state == state
        assert said in finding.says
    assert "requirements/triton.lock" in finding.fix


def test_grader_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that does not start is found out."""

    def refuse(*arguments: object) -> None:
        raise GraderError("The judge could not be started: no more processes")

    monkeypatch.setattr(grader, "Grader", refuse)
    (finding,) = doctor.trial_run()
    assert finding.state == "broken"
    assert "no more processes" in finding.says
    assert finding.fix.startswith("KIT_DEBUG=1 make grade")


def test_packages(tmp_path: Path) -> None:
    """A missing package breaks grading, another version does not; a local label (+cpu) is the same version."""
    lock = tmp_path / "base.lock"
    assert doctor.packages(lock).state == "limited"
    lock.write_text("# Generated\nrich==0.0.1\n")
    assert doctor.packages(lock).state == "limited"
    lock.write_text("no-such-package-anywhere==1.0\n")
    finding = doctor.packages(lock)
    assert finding.state == "broken"
    assert "no-such-package-anywhere" in finding.says
    assert doctor.packages(paths.ROOT / "requirements/base.lock").state == "works"


def test_exercises(tmp_path: Path) -> None:
    """No folder breaks grading, a missing file does not."""
    assert doctor.exercises(tmp_path / "nowhere").state == "broken"
    assert doctor.exercises(tmp_path).state == "limited"
    assert "make exercises" in doctor.exercises(tmp_path).fix


def test_devices() -> None:
    """An accelerator is named; none is no fault."""
    facts = TorchFacts(version="2.13", seconds=1.0, accelerator="cuda", label="H200", built_for_cuda="13.0")
    assert doctor.devices(facts).says == "cpu, cuda (H200)"
    facts = TorchFacts(version="2.13", seconds=1.0, accelerator="", label="", built_for_cuda="13.0")
    assert doctor.devices(facts).state == "works"


def test_language_and_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A language that is not there, and a terminal that can't show marks."""
    monkeypatch.setenv("KIT_LANG", "tlh")
    assert doctor.spoken() == Finding("language", "broken", "KIT_LANG=tlh: en or ko", "export KIT_LANG=en")
    monkeypatch.setattr(sys, "stdout", type("Output", (), {"encoding": "ascii"})())
    assert doctor.screen().fix == "export PYTHONUTF8=1"


def test_table_fits() -> None:
    """80 columns are enough, in either language; a state is a word as well as a mark."""
    findings = [
        Finding(
            "temporary folder", "broken", "none can be written to " * 8, "mkdir -p ~/tmp && TMPDIR=~/tmp make grade"
        ),
        Finding("torch", "works", "2.13"),
    ]
    for name in language.LANGUAGES:
        with language.use(name):
            console = Console(width=80, no_color=True)
            with console.capture() as captured:
                console.print(doctor.table(findings))
        assert "mkdir -p ~/tmp" in captured.get()


def test_what_git_would_publish_of_a_class_is_named(tmp_path: Path) -> None:
    """Tables, downloads and step files in a folder of any name, unless they are ignored; nothing of the kit's own."""
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    assert list(doctor.published(tmp_path)) == [] and list(doctor.published(tmp_path / "none")) == []
    for name in ("exercises/step01_scores.py", "examples/course/assignments.toml", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert list(doctor.published(tmp_path)) == []
    for name in ("overrides.csv", "week1/ada/step01_scores.py", "week2/Ada_1_assignsubmission_file_/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
        (found,) = doctor.published(tmp_path)
        assert name in found.says and found.state == "limited"
        subprocess.run(found.fix, shell=True, cwd=tmp_path, check=True)
        assert list(doctor.published(tmp_path)) == []


def test_what_instructors_keep_beside_the_kit_is_ignored() -> None:
    """By the kit's own list: one `git add -A` publishes none of it."""
    if not (paths.ROOT / ".git").exists():
        pytest.skip("no clone")
    theirs = ("assignments.toml", "overrides.csv", "handed_in.csv", "remarks.csv", "submissions/ada/step01_scores.py",
              "submitted/ada/attention/attention.ipynb", "gradebook.db")  # fmt: skip
    asked = subprocess.run(["git", "check-ignore", *theirs], cwd=paths.ROOT, capture_output=True, text=True)
    assert asked.stdout.split() == list(theirs)
    example = ["git", "check-ignore", "-q", "examples/course/assignments.toml"]
    assert subprocess.run(example, cwd=paths.ROOT).returncode == 1
