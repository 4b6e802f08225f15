"""The learner's kit: everything needed to write the steps and grade them, and no solution.

Its content is listed here; a file that is not listed is left out.
"""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from grader.author import recorder
from grader.base import language
from grader.base.files import NotOverwritten, pack
from grader.base.language import LANGUAGES
from grader.base.language import gettext as _
from grader.base.paths import ROOT, SOLUTIONS, step_folders
from grader.course import choice, solutions, steps, tracks
from grader.course.stubs import shipped
from grader.oracle import pictures

# Rooms of the engine that only an author, an instructor or a publisher needs.
NOT_FOR_LEARNERS = ("author", "classes", "feedback", "marks", "publish")
DOORS = ("nbgrader.py",)  # into those rooms
ENGINE_FILES = ("*.py", "templates/*", "assets/*")
LAB_FILES = ("*.py", "lesson.*.md", "*.safetensors", "data/*")
NOT_OF_A_LAB = ("ship.py",)  # makes what is shipped
TEMPLATES = Path(__file__).parent / "templates"
OF_EDITORS = (".vscode/launch.json", ".vscode/tasks.json")
PINS = ("requirements/base.lock", "requirements/lab.lock", "requirements/page.lock", "requirements/triton.lock")
PLAIN = ("LICENSE", "conftest.py", "grader/locale/make.ko.txt", *PINS, *OF_EDITORS)
FROM_TEMPLATES = {
    "README.md": "kit_readme.en.md",
    "pytest.ini": "kit_pytest.ini",
    "README.ko.md": "kit_readme.ko.md",
    "classroom50/autograder.py": "classroom50_autograder.py",
}
TARGETS = (
    "help", ".venv/ready", "grade", "report", "watch", "hint", "repro", "lesson", "solution", "reset", "tracks",
    "begin", "exercises", "doctor", ".venv/ready-lab", ".venv/ready-page", "course", "explore", "lab", "demo", "train",
    "generate", "gpt2", "triton",
)  # fmt: skip
# The READMEs' sentences without solutions in the kit, and with them.
WITHOUT_AND_WITH = {
    "This copy holds no solutions.": (
        "This copy holds the solutions of its steps: `make solution` shows one once its step passes."
    ),
    "이 배포본에는 풀이가 없습니다.": "이 배포본에는 풀이가 있고, 통과한 단계의 풀이를 `make solution`이 보여 줍니다.",
}
LESSONS = ("lesson.en.md", "lesson.ko.md")

TOP = "attention-from-scratch"  # the folder inside the zip file
TARGET = re.compile(r"^([\w./-]+):(?!=)", re.MULTILINE)


def build(
    folder: Path, chosen: Collection[str] = (), on_step: Callable[[str, int], None] = lambda name, size: None,
    *, with_solutions: bool = False,
) -> Path:  # fmt: skip
    """Builds the kit in `folder`, replacing an older one, and next to it the same as a zip file, which it returns.

    It has the chosen steps and those that they import, all with their stubs in `exercises/`; by default it has every
    step, and `exercises/` the core, to which `make begin` adds. `on_step` is called with each recorded step and its
    size in bytes. `with_solutions`: it also holds what `make solution` shows of a step that passes. A step that lacks a
    package here can't be recorded and is left out: see `steps.lacking`.

    Raises NotOverwritten if the folder holds something else, NotRecorded when a reference fails one of its checks.
    """
    require_replaceable(folder)
    if folder.exists():
        shutil.rmtree(folder)
    names = tracks.with_needed(chosen)
    handed_out = choice.or_core(names)
    for step in steps.steps():
        if (not names or step.name in names) and not step.lacking:
            _copy_step(step, folder, handed_out=step.name in handed_out)
    _copy_labs(folder / "steps")
    for name in engine_files():
        _copy(ROOT / "grader" / name, folder / "grader" / name)
    (folder / "grader" / "locale").mkdir()
    for spoken, whose in itertools.product(LANGUAGES[1:], (language.ENGINE, language.STEPS)):  # English needs none
        file = language.cached(whose, spoken)
        text = language.packed(language.messages(whose, spoken), [])
        (folder / file.relative_to(ROOT)).write_text(text, encoding="utf-8")
    for name in PLAIN:
        _copy(ROOT / name, folder / name)
    for name, template in FROM_TEMPLATES.items():
        _copy(TEMPLATES / template, folder / name)
    if with_solutions:
        _add_solutions(folder)
    (folder / "Makefile").write_text(
        learners_makefile((ROOT / "Makefile").read_text(encoding="utf-8")), encoding="utf-8"
    )
    recorder.record_all(folder / "steps", on_step, steps=names)  # each step can be used as soon as it is there
    return _zipped(folder)


def _add_solutions(folder: Path) -> None:
    """Adds to each step of the kit in `folder` what `make solution` shows, and a sentence about it to the READMEs."""
    for step in step_folders(folder / "steps"):
        (step / solutions.SHIPPED).write_bytes(solutions.shipped(step.name))
    for readme, (without, with_solutions) in zip(("README.md", "README.ko.md"), WITHOUT_AND_WITH.items(), strict=True):
        text = (folder / readme).read_text(encoding="utf-8")
        (folder / readme).write_text(text.replace(without, with_solutions), encoding="utf-8")


def require_replaceable(folder: Path) -> None:
    """Raises NotOverwritten if `folder` holds something other than a kit, OSError if it is no folder."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "steps").is_dir():
        raise NotOverwritten(str(folder))


def engine_files() -> list[str]:
    """The engine's files that a learner's kit holds, as paths below `grader/`: all but those of the rooms for staff."""
    grader = ROOT / "grader"
    files = sorted({path.relative_to(grader) for kind in ENGINE_FILES for path in grader.rglob(kind)})
    return [str(file) for file in files if file.parts[0] not in (*NOT_FOR_LEARNERS, *DOORS)]


def learners_makefile(makefile: str) -> str:
    """The text of a Makefile with only the targets that a learner needs, and the settings before the first of them."""
    paragraphs = ["# `make grade` does all the set-up."]
    for number, paragraph in enumerate(makefile.strip().split("\n\n")):
        target = TARGET.search(re.sub(r"^\..*", "", paragraph, flags=re.MULTILINE)) or TARGET.match(paragraph)
        if target is None:
            paragraphs.append(paragraph.partition("\n")[2] if number == 0 else paragraph)
        elif "##>" in paragraph:  # the commands, one a line
            paragraphs.append("\n".join(line for line in paragraph.splitlines() if _is_learners(line)))
        elif target[1] in TARGETS:
            paragraphs.append(paragraph)
    return "\n\n".join(paragraphs).replace("\n\n", "\n", 1) + "\n"


def _is_learners(line: str) -> bool:
    """True for a line of the Makefile about a target that learners have."""
    target = TARGET.match(line)
    return target is None or target[1] in TARGETS


def _copy_step(step: steps.Step, folder: Path, *, handed_out: bool) -> None:
    """Copies a step's checks, lessons, pictures and stubs into the kit; its stub also into `exercises/` if
    `handed_out`."""
    to = folder / "steps" / step.track / step.name
    for text in step.folder.parent.glob("track.*.md"):
        _copy(text, to.parent / text.name)
    for name in (step.check_file.name, *LESSONS):
        _copy(step.folder / name, to / name)
    for name in ("built.py", "stock.py"):
        if (step.folder / name).is_file():
            _copy(step.folder / name, to / name)
    if drawn := pictures.kept(step.folder):
        (to / pictures.KEPT).write_bytes(drawn)
    for spoken in LANGUAGES:
        shipped(to, spoken).write_text(step.stub(spoken), encoding="utf-8")
    if not handed_out:
        return
    exercise = folder / "exercises" / f"{step.name}.py"
    exercise.parent.mkdir(exist_ok=True)
    exercise.write_text(step.stub(), encoding="utf-8")


def _copy_labs(to: Path) -> None:
    """Copies the labs and the capstone: they bring their own simple parts in place of references."""
    for folder in lab_folders():
        for file in (file for kind in LAB_FILES for file in folder.glob(kind)):
            if file.name not in NOT_OF_A_LAB:
                _copy(file, to / file.relative_to(SOLUTIONS))


def lab_folders() -> list[Path]:
    """The folders of labs, the capstone's among them."""
    return sorted(path for path in SOLUTIONS.glob("*/lab_*") if path.is_dir())


def _copy(file: Path, to: Path) -> None:
    """Copies a file of the course to the file `to`, with new folders if need be. Raises NotRecorded if it is a link
    that leads out of the course."""
    if not file.resolve().is_relative_to(
        ROOT.resolve()
    ):  # a step of others may hold a link to any file of this machine
        raise recorder.NotRecorded(_("{file} leads out of the course: put a copy in its place.").format(file=file.name))
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, to)


def _zipped(folder: Path) -> Path:
    """Packs the kit's folder next to it; returns the zip file, which it replaces."""
    archive = folder.with_suffix(".zip")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    pack(archive, ((f"{TOP}/{path.relative_to(folder).as_posix()}", path, 0o644) for path in files))
    return archive
