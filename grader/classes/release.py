"""nbgrader's course folder, made from the solutions: what an instructor releases.

In the source notebooks each answer cell holds the reference between `### BEGIN SOLUTION` and `### END SOLUTION`, which
nbgrader cuts out. They are never to be handed out as they are.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import nbformat
from nbformat import NotebookNode, v4

from grader.base import files
from grader.base.files import NotOverwritten
from grader.base.language import current
from grader.base.language import gettext as _
from grader.base.paths import ROOT
from grader.course import choice, formulas, lab_log, lessons, stubs
from grader.course import steps as course
from grader.course.answer_cells import ASSIGNMENT, KERNEL, POINTS_CELL, SCHEMA
from grader.marks import moments
from grader.marks.marking import Marking
from grader.oracle import pictures
from grader.report import lesson_page

LABS = "labs"  # the assignment of those
LAB_SECTION = re.compile(r"^(?=## )", re.MULTILINE)
ADJOINING = re.compile(rf"^ *{stubs.END}\n\s*^{stubs.BEGIN}\n", re.MULTILINE)
SETUP = """\
import os
import sys
from pathlib import Path

os.environ.setdefault("KIT_LANG", "{language}")
{own}near = [Path(os.environ.get("KIT_HOME", ".")), *Path("here").absolute().parents]
kits = [kit for place in near for kit in (place, place / "attention-from-scratch")]
kits = [kit.resolve() for kit in kits if (kit / "grader" / "notebook.py").is_file()]
if kits:
    sys.path.insert(0, str(kits[0]))
    from grader.notebook import check
else:
    print("{missing}")
"""
CONFIG = """\
# Released once by `make release`. It is yours to add to: it is not written over.
import sys
from pathlib import Path

KIT = Path(__file__).resolve().parent / "{kit}"  # where the kit is; change it when you move this folder
sys.path.insert(0, str(KIT.resolve()))

from grader.nbgrader import configure

c = get_config()
configure(c)
c.GradeSubmission.lang = "{language}"  # of the reports, as of the notebooks
"""
TERM = """\
c.GradeSubmission.assignments = str(Path(__file__).resolve().parent / "{file}")  # dates, weights, decisions
"""


@dataclass(frozen=True)
class ReleaseResult:
    """The notebooks that were written, and whether a configuration was there already."""

    notebooks: list[Path] = field(default_factory=list)
    kept_configuration: bool = False


def build(
    folder: Path, chosen: Collection[str] = (), *, per_step: bool = False, marking: Marking | None = None,
    assignment: str = ASSIGNMENT,
) -> ReleaseResult:  # fmt: skip
    """Writes an assignment in the language in use: one notebook, or one per step, of the chosen steps or of the core;
    with `marking`, under its own name and with its weights.

    Raises NotOverwritten, and writes nothing, when a notebook there was edited; OSError when a file can't be written.
    """
    chosen = marking.assignment.everything if marking else chosen
    names = choice.or_core(chosen)
    steps = [step for step in course.steps() if step.name in names]
    name = marking.assignment.name if marking else assignment
    if per_step:
        notebooks = {f"{step.name}.ipynb": notebook([step], marking) for step in steps}
    else:
        notebooks = {f"{name}.ipynb": notebook(steps, marking)}
    written = _replace(folder / "source" / name, notebooks)
    configuration = folder / "nbgrader_config.py"
    was_configured = configuration.exists()
    if not was_configured:
        text = CONFIG.format(kit=Path(os.path.relpath(ROOT, folder)).as_posix(), language=current())
        if marking:
            text += TERM.format(file=Path(os.path.relpath(marking.term.file, folder)).as_posix())
        files.write(configuration, text)
    return ReleaseResult(written, was_configured)


def _replace(source: Path, notebooks: Mapping[str, NotebookNode]) -> list[Path]:
    """Writes notebooks, by file name, into the folder `source`, and removes those that an earlier release wrote there.
    Returns their paths. Raises NotOverwritten, and changes nothing, if one there was edited; OSError."""
    for path in source.glob("*.ipynb"):
        if not as_written(path):
            raise NotOverwritten(str(path))
    for path in source.glob("*.ipynb"):
        if path.name not in notebooks:
            path.unlink()
    if notebooks:
        source.mkdir(parents=True, exist_ok=True)
    for name, content in notebooks.items():
        files.write(source / name, nbformat.writes(content) + "\n")
    return [source / name for name in notebooks]


def notebook(steps: Iterable[course.Step], marking: Marking | None = None) -> NotebookNode:
    """The source notebook of some steps, in the language in use; of an assignment if `marking` is given."""
    steps = list(steps)
    cells = [
        v4.new_markdown_cell(_introduction(steps, marking), id="introduction"),
        v4.new_code_cell(setup(choice.numbers([step.name for step in steps]) if marking else ""), id="setup"),
    ]
    for step in steps:
        cells += _cells(step, marking)
    return _notebook_of(cells)


def _notebook_of(cells: list[NotebookNode]) -> NotebookNode:
    """A valid notebook of these cells, with the digest that shows if it was edited."""
    book = v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL, "language_info": {"name": "python"}})
    book.metadata["attention"] = {"digest": digest(book)}
    nbformat.validate(book)
    return NotebookNode(book)


def answer(step: course.Step) -> str:
    """The text of a step's answer cell in the source notebook: the reference, with the marks at which nbgrader cuts."""
    head = _("# {step}: write your code where it says NotImplementedError.").format(step=step.name)
    # nbgrader puts a stub in place of each region. Joined to the one above, a helper of the reference leaves none.
    return f"{head}\n{ADJOINING.sub('', step.marked(current()))}".strip()


def setup(steps: str = "") -> str:
    """The code of the cell that finds the kit, in the language in use; `check()` there grades `steps`, such as `1-3,
    6`."""
    missing = _("The kit was not found next to this notebook. Unpack kit.zip here, and run this cell again.")
    own = f'os.environ["KIT_STEPS"] = "{steps}"\n' if steps else ""
    return SETUP.format(language=current(), missing=missing, own=own).strip()


def _introduction(steps: Iterable[course.Step], marking: Marking | None) -> str:
    """The first cell, as Markdown: the title, how steps count, how to answer, how to find the kit."""
    title = marking.assignment.title if marking else _("Attention from scratch")
    return "\n\n".join(
        [
            f"# {title}",
            *([_what_counts(steps, marking)] if marking else []),
            _(
                "Write your code in the cells that say `NotImplementedError`, run them, and run the cell below "
                "each: it tells what is right, what is wrong, and why. Only these answer cells are graded, so "
                "put a helper function into the answer cell that uses it. Names from the answer cells above "
                "can be used."
            ),
            _(
                "The next cell looks for the kit: a folder `attention-from-scratch` next to this notebook or above it, "
                "or the one that the variable KIT_HOME names. On Colab, upload `kit.zip` and run this first:"
            ),
            "```\n!unzip -q kit.zip && pip install -q msgspec safetensors tiktoken pytest rich jinja2\n```",
        ]
    )


def _what_counts(steps: Iterable[course.Step], marking: Marking) -> str:
    """The deadline and the points of each step, as Markdown for students."""
    assignment, lines = marking.assignment, []
    if assignment.opens:
        lines.append(_("Opens: {moment}").format(moment=moments.shown(assignment.opens)))
    if assignment.due:
        lines.append(_("Due: {moment}").format(moment=moments.shown(assignment.due)))
    if assignment.per_day:
        text = _("Late: each day or part of a day costs {percent} % of the points, at most {most} %.")
        lines.append(text.format(percent=f"{100 * assignment.per_day:g}", most=f"{100 * assignment.at_most:g}"))
    if assignment.per_day and (days := marking.term.late_days).free:
        text = _("Late days for nothing in the whole term: {free}, of which at most {most} in one assignment.")
        lines.append(text.format(free=days.free, most=days.per_assignment))
    for step in steps:
        points = f"{marking.worth(step.name, step.points):g}"
        text = (
            _("{step}: {points} points, extra credit")
            if step.name in assignment.extra
            else _("{step}: {points} points")
        )
        lines.append(text.format(step=f"`{step.name}`", points=points))
    return "\n".join(f"- {line}" for line in lines)


def _cells(step: course.Step, marking: Marking | None) -> list[NotebookNode]:
    """The cells of a step: its lesson, answer, check and points."""
    check = f'check("{step.name}")'
    worth = _worth(step, marking)
    counts = "" if worth == step.points else f", worth={worth:g}"
    points = f'from grader.notebook import points\n\npoints("{step.name}"{counts})'
    note = _("# Locked: the points of this step.")
    lesson, attachments = lesson_page.in_a_cell(_lesson(step), pictures.pictures(step.folder))
    drawn = {"attachments": attachments} if attachments else {}
    return [
        v4.new_markdown_cell(lesson, id=f"{step.name}-lesson", **drawn),
        v4.new_code_cell(answer(step), id=f"{step.name}-answer", metadata=_marks(step.name, solution=True)),
        v4.new_code_cell(check, id=f"{step.name}-check"),
        v4.new_code_cell(
            f"{note}\n{points}",
            id=f"{step.name}-points",
            metadata=_marks(POINTS_CELL.format(step=step.name), points=worth),
        ),
    ]


def _worth(step: course.Step, marking: Marking | None) -> float:
    """The points of the locked cell. Extra credit is on top of the total, for nbgrader as well: its cell has none."""
    if marking is None:
        return step.points
    return 0.0 if step.name in marking.assignment.extra else marking.worth(step.name, step.points)


def _marks(identity: str, *, solution: bool = False, points: float | None = None) -> dict[str, object]:
    """nbgrader's metadata of an answer cell, or of a locked cell worth points."""
    marks = {
        "schema_version": SCHEMA, "grade_id": identity, "solution": solution, "grade": points is not None,
        "locked": points is not None, "task": False, "cell_type": "code",
    }  # fmt: skip
    return {"nbgrader": marks if points is None else marks | {"points": points}}


def _lesson(step: course.Step) -> str:
    """A step's lesson as Markdown, its hints folded."""
    text, hints = lessons.HINTS_HEADING.split(lessons.lesson(step.name))[0].strip(), lessons.hints(step.name)
    text = formulas.as_latex(text)
    title = _("Hint {number} of {total}")
    folded = (
        f"<details><summary>{title.format(number=number, total=len(hints))}</summary>\n\n{hint}\n\n</details>"
        for number, hint in enumerate(hints, 1)
    )
    return "\n\n".join([text, *folded])


def digest(notebook: NotebookNode) -> str:
    """A digest of what an author could have changed in a notebook: not of outputs, nor of the kernel's name."""
    content = [[cell.cell_type, cell.source, cell.metadata.get("nbgrader", {})] for cell in notebook.cells]
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def as_written(path: Path) -> bool:
    """Whether the notebook in a file is as it was written here; False if it can't be read."""
    try:
        there = nbformat.read(path, as_version=4)
        return bool(there.metadata["attention"]["digest"] == digest(there))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return False


# --- labs: an assignment without a mark -------------------------------------------------------------------------------


def build_labs(folder: Path, tracks: Collection[str]) -> list[Path]:
    """Writes a notebook for each lab of these tracks, in the language in use; returns their paths.

    Raises NotOverwritten, and writes nothing, when one there was edited; OSError when a file can't be written.
    """
    notebooks = {f"{lab.name}.ipynb": lab_notebook(lab) for lab in lab_log.folders() if lab.parent.name in tracks}
    return _replace(folder / "source" / LABS, notebooks)


def lab_notebook(folder: Path) -> NotebookNode:
    """The lab in this folder as a notebook: about, question, the learner's prediction, the run, and what to see in
    it."""
    name = folder.name.removeprefix("lab_")
    about, question, to_see = LAB_SECTION.split(folder.joinpath(f"lesson.{current()}.md").read_text(encoding="utf-8"))
    note = _("# The number of an answer above, or words of your own.")
    outside = _("It runs your answers of the assignment in this notebook's own process, and gives no mark.")
    cells = [
        v4.new_markdown_cell(f"{about.strip()}\n\n{outside}", id="about"),
        v4.new_code_cell(setup(), id="setup"),
        v4.new_markdown_cell(question.strip(), id="question"),
        v4.new_code_cell(f'{note}\nprediction = ""', id="prediction"),
        v4.new_code_cell(f'from grader.notebook import lab\n\nlab("{name}", prediction)', id="run"),
        v4.new_markdown_cell(lab_log.CONDITION.sub("", to_see).strip(), id="to-see"),
    ]
    return _notebook_of(cells)
