"""Gradescope: an autograder as one zip file, and what runs inside it.

The zip file holds the whole kit, solutions included: it goes to Gradescope's machine, where only a learner's process is
not trusted. `python -m grader.gradescope SUBMISSION RESULTS` is what its `run_autograder` calls.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader import exports, grading, language, students, submission
from grader.language import gettext as _
from grader.places import ROOT

SCRIPTS = {"setup.sh": "gradescope_setup.sh", "run_autograder": "gradescope_run.sh"}  # from grader/templates
PARTS = ("grader/**/*", "solutions/**/*", "requirements.lock", "LICENSE")
LEFT_OUT = ("__pycache__", ".safetensors", ".po")
NO_DATE = (1980, 1, 1, 0, 0, 0)  # two builds are the same file


class NotGraded(RuntimeError):
    """There is no score to report: Gradescope then shows that the autograder failed, and not a zero."""


def build(archive: Path) -> None:
    """Writes the zip file that is uploaded as the autograder, whole or not at all."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_name(f".{archive.name}.unfinished")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, file, mode in _contents():
                entry = zipfile.ZipInfo(name, NO_DATE)
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, mode << 16
                packed.writestr(entry, file.read_bytes())
        unfinished.replace(archive)
    finally:
        unfinished.unlink(missing_ok=True)


def _contents() -> Iterator[tuple[str, Path, int]]:
    """Each file of the archive: its name there, where it stands here, its mode."""
    for name, template in SCRIPTS.items():
        yield name, ROOT / "grader" / "templates" / template, 0o755
    for pattern in PARTS:
        for file in sorted(ROOT.glob(pattern)):
            name = file.relative_to(ROOT).as_posix()
            if file.is_file() and not any(part in name for part in LEFT_OUT):
                yield f"kit/{name}", file, 0o644


def grade(folder: Path, results: Path) -> None:
    """Grades what a student has uploaded and writes `results.json`. Raises NotGraded, GraderError and OSError."""
    handed_in = submission.read(students.step_folder(folder, "attention"))
    with grading.Grader() as grader:
        report = grader.grade(handed_in)
    failed = [step.name for step in report.steps if step.status == "error"]
    if failed:
        raise NotGraded(_("The grader itself failed in {steps}.").format(steps=", ".join(failed)))
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_bytes(msgspec.json.encode(exports.gradescope(report)))


def main(arguments: list[str]) -> int:
    """What `run_autograder` calls: 0 once there are results, 1 with a line on standard error when there are none."""
    folder, results = arguments
    with language.use(language.choose()):
        try:
            grade(Path(folder), Path(results))
        except (NotGraded, grading.GraderError, OSError) as reason:
            print(_("Nothing was graded, and there is no score: {reason}").format(reason=reason), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
