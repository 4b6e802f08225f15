"""The first failing call as a program: it fails as the check does, and passes once the code is right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grader.base import paths
from grader.course import stubs, submissions
from grader.judge.grader import Grader
from grader.learner import current, repro
from tests.whole import sample

CORE = sorted((paths.ROOT / "solutions" / "core").glob("step*"))
# In which step, what is replaced by what, and what the program then says.
MISTAKES = {
    "a value": ("step04_causal_mask", "device=device).tril()", "device=device).triu()", "AssertionError"),
    "a gradient": ("step01_scores", "return query @", "return query.detach() @", "AssertionError"),
    "weights": ("step09_fused_qkv", "query, key, value = self.c_attn", "key, query, value = self.c_attn", "Assert"),
    "an error": (
        "step07_heads",
        "batch, num_tokens, width = x.shape",
        "batch, num_tokens, width = x.nothing",
        "AttributeError",
    ),
    "no error": ("step05_dropout", "if not 0.0 <= p <= 1.0:", "if False:", "AssertionError"),
    "names": ("step03_attention", "W_query", "W_q", "AssertionError"),
    "breakpoint": (
        "step04_causal_mask",
        "    visible = ",
        "    breakpoint(); return weights; visible = ",
        "AssertionError",
    ),
}


def solved(folder: Path, step: str, right: str = "", wrong: str = "") -> str:
    """A submission of right answers in a folder, but for what is replaced in one step; returns the right text of it."""
    folder.mkdir(exist_ok=True)
    for solution in CORE:
        text = stubs.solved_of((solution / "reference.py").read_text(encoding="utf-8"))
        if solution.name == step:
            assert not right or right in text
            whole, text = text, text.replace(right, wrong) if right else text
        (folder / f"{solution.name}.py").write_text(text, encoding="utf-8")
    return whole


def ran(program: Path) -> tuple[int, str]:
    """The exit code of a program, and what it says."""
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False, input="c\nc\nc\n", timeout=600
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("mistake", sample([*MISTAKES], 2))
def test_fails_until_it_is_right(mistake: str, grader: Grader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program fails with the mistake, in the learner's own file, and not without it."""
    monkeypatch.chdir(tmp_path)
    folder = Path("exercises")
    step, right, wrong, says = MISTAKES[mistake]
    whole = solved(folder, step, right, wrong)
    result, reproduction = grader.reproduce(submissions.read(folder), step, seed=3)
    assert result.status == "fail"
    assert reproduction is not None
    program = repro.write_program(reproduction, step, folder)
    code, said = ran(program)
    assert code != 0
    assert says in said
    (folder / f"{step}.py").write_text(whole, encoding="utf-8")
    assert ran(program)[0] == 0, ran(program)[1]


def test_breakpoint_in_the_sandbox(grader: Grader, tmp_path: Path) -> None:
    """It does not stop, changes no mark, and names the command that does."""
    solved(tmp_path, "step04_causal_mask", "    visible = ", "    breakpoint(); visible = ")
    step = grader.grade(submissions.read(tmp_path), ["step04_causal_mask"], device="cpu").steps[0]
    assert step.status == "pass"
    assert step.output.count("make repro") == 1
    solved(tmp_path, "step04_causal_mask", "    visible = ", "    input(); visible = ")
    step = grader.grade(submissions.read(tmp_path), ["step04_causal_mask"], device="cpu").steps[0]
    assert any("make repro" in check.message for check in step.checks)


@pytest.mark.thorough
def test_another_folder(grader: Grader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Step files of any folder import one another as `exercises.stepNN_name`; large tensors lie beside the program."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "mine"
    step = "step08_multi_head"
    whole = solved(folder, step, "self.out_proj(", "(")
    _result, reproduction = grader.reproduce(submissions.read(folder), step, seed=3)
    assert reproduction is not None
    program = repro.write_program(reproduction, step, folder)
    assert ran(program)[0] != 0
    (folder / f"{step}.py").write_text(whole, encoding="utf-8")
    assert ran(program)[0] == 0


def test_current_step(grader: Grader, tmp_path: Path) -> None:
    """The first that does not pass, also where all before an untouched one do; none at the end."""
    solved(tmp_path, "step02_softmax", "", "")
    assert current.step(grader, tmp_path) is None
    untouched = paths.ROOT / "exercises" / "step03_attention.py"
    (tmp_path / untouched.name).write_text(untouched.read_text(encoding="utf-8"), encoding="utf-8")
    assert current.step(grader, tmp_path) == "step03_attention"
    (tmp_path / "step02_softmax.py").write_text("def softmax(x, dim=-1): return x", encoding="utf-8")
    assert current.step(grader, tmp_path) == "step02_softmax"


def test_a_file_runs_alone(tmp_path: Path) -> None:
    """`python exercises/step08_….py` finds what it imports, as .venv has it: by a path beside its packages."""
    solved(tmp_path / "exercises", "step08_multi_head")
    site = tmp_path / ".venv" / "lib" / "python3" / "site-packages"
    site.mkdir(parents=True)
    recipe = (paths.ROOT / "Makefile").read_text(encoding="utf-8")
    assert '"exercises.pth").write_text("../../../..\\n"' in recipe
    (site / "exercises.pth").write_text("../../../..\n", encoding="utf-8")
    run = "import site, sys, runpy; site.addsitedir(sys.argv[1]); sys.path.remove(''); runpy.run_path(sys.argv[2])"
    file = tmp_path / "exercises" / "step08_multi_head.py"
    done = subprocess.run(
        [sys.executable, "-c", run, str(site), str(file)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
