"""The labs of nbgrader's course: an assignment without a mark, each lab a notebook made from its own lesson."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import nbformat
from nbformat import NotebookNode, v4

from grader.base import files
from grader.base.files import NotOverwritten
from grader.base.language import current
from grader.base.language import gettext as _
from grader.course import lab_log
from grader.course.answer_cells import KERNEL
from grader.instructor import release

ASSIGNMENT = "labs"
HEADING = re.compile(r"^(?=## )", re.MULTILINE)


def build(folder: Path, tracks: Collection[str]) -> list[Path]:
    """Writes a notebook for each lab of these tracks, in the language in use; returns their paths.

    Raises NotOverwritten, and writes nothing, when one there was edited; OSError when a file can't be written.
    """
    source = folder / "source" / ASSIGNMENT
    made = {f"{one.name}.ipynb": notebook(one) for one in lab_log.folders() if one.parent.name in tracks}
    for path in source.glob("*.ipynb"):
        if not release.as_written(path):
            raise NotOverwritten(str(path))
    for path in source.glob("*.ipynb"):
        if path.name not in made:
            path.unlink()
    if made:
        source.mkdir(parents=True, exist_ok=True)
    for name, content in made.items():
        files.write(source / name, nbformat.writes(content) + "\n")
    return [source / name for name in made]


def notebook(folder: Path) -> NotebookNode:
    """A lab as a notebook: what it is, the question, the learner's prediction, the run, and what to see in it."""
    name = folder.name.removeprefix("lab_")
    about, question, to_see = HEADING.split(folder.joinpath(f"lesson.{current()}.md").read_text(encoding="utf-8"))
    note = _("# The number of an answer above, or words of your own.")
    outside = _("It runs your answers of the assignment in this notebook's own process, and gives no mark.")
    cells = [
        v4.new_markdown_cell(f"{about.strip()}\n\n{outside}", id="about"),
        v4.new_code_cell(release.setup(), id="setup"),
        v4.new_markdown_cell(question.strip(), id="question"),
        v4.new_code_cell(f'{note}\nprediction = ""', id="prediction"),
        v4.new_code_cell(f'from grader.notebook import lab\n\nlab("{name}", prediction)', id="run"),
        v4.new_markdown_cell(to_see.strip(), id="to-see"),
    ]
    made = v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL, "language_info": {"name": "python"}})
    made.metadata["attention"] = {"digest": release.digest(made)}
    nbformat.validate(made)
    return NotebookNode(made)
