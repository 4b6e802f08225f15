"""`make repro STEP=4`: the first failing call of a step as a small program that runs in the learner's own process.

There `breakpoint()`, `print` and an editor's debugger work, which they can't in the sandbox.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from grader.base import files
from grader.base.language import gettext as _
from grader.base.paths import typed
from grader.base.results import Reproduction, StepResult
from grader.course import submissions
from grader.judge.grader import Grader
from grader.learner import current
from grader.report import terminal

FOLDER = Path("dist") / "repro"
PACKAGE = "exercises"  # what a learner's files import one another from
FOUND = "sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the folder of exercises/"
ELSEWHERE = """exercises = sys.modules["exercises"] = type(sys)("exercises")
exercises.__path__ = [{folder!r}]"""


def run(folder: Path, step: str | None, *, device: str, seed: int | None, runs: bool) -> None:
    """Grades a step, by default the current one, writes the program that repeats its first failing call, prints its
    path, and runs it if `runs`. Without such a call, prints why."""
    read = submissions.read(folder)
    with Grader(1) as grader:
        step = step or current.step(grader, folder)
        if step is None:
            print(_("Every step passes: there is nothing to reproduce."))
            return
        result, reproduction = grader.reproduce(read, step, device=device, seed=seed)
    if reproduction is None or result.blocked_by:
        print(_why_not(folder, result))
        return
    program = write_program(reproduction, step, folder)
    sentence = _("{file} makes the call that fails: {check}").format(file=typed(program), check=reproduction.check)
    print(sentence, flush=True)
    if runs:
        print(
            _("Running it in your own process, outside the sandbox. breakpoint() in {file} stops there.").format(
                file=typed(folder / f"{step}.py")
            ),
            flush=True,
        )
        interpreted = {} if device == "cuda" else {"TRITON_INTERPRET": "1"}  # step 29's kernel, as when it was graded
        subprocess.run([sys.executable, str(program)], check=False, env=interpreted | os.environ)


def write_program(reproduction: Reproduction, step: str, folder: Path) -> Path:
    """Writes the program, which imports the step files in `folder`, and next to it a file of large tensors, if there
    are some. Returns its path."""
    program = FOLDER / f"{step}.py"
    program.parent.mkdir(parents=True, exist_ok=True)
    text = reproduction.text
    if folder.resolve() != Path(PACKAGE).resolve():  # another folder of step files, under whatever name
        text = text.replace(FOUND, ELSEWHERE.format(folder=str(folder.resolve())))
    files.write(program, text)
    aside = program.with_suffix(".safetensors")
    if reproduction.tensors:
        files.write(aside, reproduction.tensors)
    else:
        aside.unlink(missing_ok=True)
    return program


def _why_not(folder: Path, result: StepResult) -> str:
    """The reason why there is no call to make, and what to type next."""
    number = int(result.name[4:6])
    if result.blocked_by:
        sentence = _("{step} is blocked by {other}. Type: make repro STEP={number}")
        return sentence.format(step=result.name, other=result.blocked_by, number=int(result.blocked_by[4:6]))
    if result.status == "pass":
        return _("{step} passes: there is nothing to reproduce.").format(step=result.name)
    if result.status == "todo":
        file = typed(folder / f"{result.name}.py")
        return _("{step} is not written yet: edit {file}, then type: make grade").format(step=result.name, file=file)
    reason = terminal.plain(result.message or next((check.message for check in result.checks), ""))
    return reason + "\n" + _("No call fails here. Type: make grade STEP={number}").format(number=number)
