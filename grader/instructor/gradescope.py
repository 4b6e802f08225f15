"""Gradescope: an autograder as one zip file, and what runs inside it.

The zip file holds the whole kit, solutions included: it goes to Gradescope's machine, where only a learner's process is
not trusted. `python -m grader.instructor.gradescope SUBMISSION RESULTS` is what its `run_autograder` calls.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from grader.base import language
from grader.base.files import pack
from grader.base.language import gettext as _
from grader.base.paths import ROOT
from grader.course import choice, submissions
from grader.instructor import exports, roster
from grader.judge import grader as grading
from grader.judge.launcher import GraderError

SCRIPTS = {"setup.sh": "gradescope_setup.sh", "run_autograder": "gradescope_run.sh"}
PARTS = ("grader/**/*", "solutions/**/*", "requirements.lock", "LICENSE")
TEMPLATES = Path(__file__).parent / "templates"
CHOSEN = "steps.txt"  # beside them: the steps that are graded
LEFT_OUT = ("__pycache__", ".safetensors", "locale/ko.json")


class NotGraded(RuntimeError):
    """There is no score to report: Gradescope then shows that the autograder failed, and not a zero."""


def build(archive: Path, chosen: Sequence[str] = ()) -> None:
    """Writes the zip file that is uploaded as the autograder, whole or not at all. It grades the chosen steps, by
    default those of the core: an assignment there has a fixed number of points."""
    names = "\n".join(chosen or choice.step_names(None, choice.CORE))
    pack(archive, [*_contents(), (f"kit/{CHOSEN}", names.encode(), 0o644)])


def _contents() -> Iterator[tuple[str, Path, int]]:
    """Each file of the archive: its name there, where it stands here, its mode."""
    for name, template in SCRIPTS.items():
        yield name, TEMPLATES / template, 0o755
    for pattern in PARTS:
        for file in sorted(ROOT.glob(pattern)):
            name = file.relative_to(ROOT).as_posix()
            if file.is_file() and not any(part in name for part in LEFT_OUT):
                yield f"kit/{name}", file, 0o644


def grade(folder: Path, results: Path) -> None:
    """Grades what a student has uploaded and writes `results.json`. Raises NotGraded, GraderError and OSError."""
    handed_in = submissions.read(roster.step_folder(folder, "attention"))
    with grading.Grader() as grader:
        report = grader.grade(handed_in, _chosen())
    failed = [step.name for step in report.steps if step.status == "error"]
    if failed:
        raise NotGraded(_("The grader itself failed in {steps}.").format(steps=", ".join(failed)))
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_bytes(msgspec.json.encode(exports.gradescope(report)))


def _chosen() -> list[str] | None:
    """The steps that this autograder was built for; None where it was not built, but runs from a checkout."""
    file = ROOT / CHOSEN
    return file.read_text(encoding="utf-8").split() if file.is_file() else None


def main(arguments: list[str]) -> int:
    """What `run_autograder` calls: 0 once there are results, 1 with a line on standard error when there are none."""
    folder, results = arguments
    with language.use(language.choose()):
        try:
            grade(Path(folder), Path(results))
        except (NotGraded, GraderError, OSError) as reason:
            print(_("Nothing was graded, so there is no score: {reason}").format(reason=reason), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
