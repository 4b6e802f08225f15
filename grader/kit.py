"""The learner's copy of the kit: everything needed to write the steps and have them graded, and no solution.

What goes into it is named here. A file that is not named stays where it is.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path

from grader import course, recorder
from grader.language import LANGUAGES
from grader.places import ROOT
from grader.stubs import shipped

# The engine's modules, but for those that only an author or an instructor needs.
ENGINE = (
    "__init__", "__main__", "arguments", "board", "catalogue", "chance", "checks", "cli", "compare", "course",
    "demo", "diagnose", "doctor", "draws", "exercises", "failure", "frames", "github", "grading", "heap",
    "heat_map", "implementation", "isolation", "judge", "judges", "keys", "language", "layout", "lessons", "limits",
    "messages", "namespaces", "notebook", "notebooks", "offlimits", "page", "places", "plugin", "preload",
    "processor", "raised", "remembered", "report", "responder", "results", "sandbox", "saves", "scratch", "screen",
    "show", "student", "stubs", "submission", "tape", "verdict", "vocabulary", "watch", "worker", "zygote",
    "zygote_messages",
)  # fmt: skip
ENGINE_DATA = (
    "data/small.tiktoken",
    "data/text.en.txt",
    "data/text.ko.txt",
    "locale/ko/LC_MESSAGES/kit.mo",
    "templates/heat_map.svg.j2",
    "templates/pieces.html.j2",
    "templates/report.html.j2",
    "templates/verdict.html.j2",
)
PLAIN = ("LICENSE", "requirements.lock")
FROM_TEMPLATES = {
    "README.md": "kit_readme.en.md",
    "README.ko.md": "kit_readme.ko.md",
    ".github/workflows/classroom.yml": "classroom.yml",
}
TARGETS = (
    "help", ".venv/ready", "grade", "report", "watch", "hint", "lesson", "reset", "exercises", "doctor", "demo",
)  # fmt: skip
LESSONS = ("lesson.en.md", "lesson.ko.md")

TOP = "attention-from-scratch"  # the folder inside the zip file
NO_DATE = (1980, 1, 1, 0, 0, 0)  # two builds are the same file
TARGET = re.compile(r"^([\w./-]+):(?!=)", re.MULTILINE)


class NotOurs(FileExistsError):
    """The folder holds something that is no kit: it is not written over."""


def build(folder: Path) -> Path:
    """Builds the kit in `folder`, in place of an older one, and beside it the same as a zip file, which it returns.

    Raises NotOurs when the folder holds something else, NotRecorded when a reference fails one of its checks.
    """
    if folder.exists():
        if any(folder.iterdir()) and not (folder / "steps").is_dir():
            raise NotOurs(str(folder))
        shutil.rmtree(folder)
    for step in course.steps():
        _copy_step(step, folder)
    recorder.record_all(folder / "steps")
    for name in ENGINE:
        _copy(ROOT / "grader" / f"{name}.py", folder / "grader" / f"{name}.py")
    for name in ENGINE_DATA:
        _copy(ROOT / "grader" / name, folder / "grader" / name)
    for name in PLAIN:
        _copy(ROOT / name, folder / name)
    for name, template in FROM_TEMPLATES.items():
        _copy(ROOT / "grader" / "templates" / template, folder / name)
    (folder / "Makefile").write_text(
        learners_makefile((ROOT / "Makefile").read_text(encoding="utf-8")), encoding="utf-8"
    )
    return _zipped(folder)


def learners_makefile(makefile: str) -> str:
    """The Makefile with the targets that a learner needs, and the settings before the first of them."""
    kept = ["# `make grade` does all the set-up."]
    for number, paragraph in enumerate(makefile.strip().split("\n\n")):
        target = TARGET.search(re.sub(r"^\..*", "", paragraph, flags=re.MULTILINE)) or TARGET.match(paragraph)
        if target is None:
            kept.append(paragraph.partition("\n")[2] if number == 0 else paragraph)
        elif target[1] in TARGETS:
            kept.append(paragraph)
    return "\n\n".join(kept).replace("\n\n", "\n", 1) + "\n"


def _copy_step(step: course.Step, folder: Path) -> None:
    to = folder / "steps" / step.name
    for name in (step.check_file.name, *LESSONS):
        _copy(step.folder / name, to / name)
    for spoken in LANGUAGES:
        shipped(to, spoken).write_text(step.stub(spoken), encoding="utf-8")
    exercise = folder / "exercises" / f"{step.name}.py"
    exercise.parent.mkdir(exist_ok=True)
    exercise.write_text(step.stub(), encoding="utf-8")


def _copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, to)


def _zipped(folder: Path) -> Path:
    archive = folder.with_suffix(".zip")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(f"{TOP}/{path.relative_to(folder).as_posix()}", NO_DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            packed.writestr(entry, path.read_bytes())
    return archive
