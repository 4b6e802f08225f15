"""A term with the real nbgrader: release, fetch, submit, collect, autograde, feedback, export; then what others see."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="what instructors need is not installed: make test installs it")
from nbgrader.api import Gradebook  # noqa: E402  # behind the check above

from grader.base import files, language, paths  # noqa: E402
from grader.base.results import Report  # noqa: E402
from grader.classes import gradebook, release  # noqa: E402
from grader.classes.last_report import SEED_FILE, kept_seed  # noqa: E402
from grader.classes.markup import drawings, make_showable  # noqa: E402
from grader.course import choice, submissions  # noqa: E402
from grader.course import steps as course  # noqa: E402
from grader.course.answer_cells import ASSIGNMENT, POINTS_CELL  # noqa: E402
from grader.course.choice import CORE  # noqa: E402
from grader.judge import grader as grading  # noqa: E402
from grader.report.terminal import as_text  # noqa: E402
from tools.fresh import solution_lines  # noqa: E402

EXAMPLES = paths.ROOT / "examples" / "course" / "submissions"
STEPS = {step.name: step for step in course.steps() if step.track == CORE}
NOISE = ("Warning", "deprecat", "Traceback", "DuplicateCellId", "JSON is invalid")
SCRIPT = "<script>alert(1)</script>"
LATE = "2020-01-02 00:00:00 UTC"
DUE = "2020-01-01 00:00:00 UTC"
POSTGRESQL = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))

Notebook = Any  # nbformat's nodes have no fixed attributes


def nbgrader(folder: Path, *arguments: str) -> str:
    """What one command of nbgrader says, in a process of its own that knows nothing of this machine's user."""
    return finished(begun(folder, *arguments))


def begun(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A command of nbgrader that has begun."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "nbgrader", *arguments, f"--Exchange.root={folder.parent / 'exchange'}"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder,
        env={"PATH": os.defpath, "HOME": str(home), "LANG": "C.UTF-8", "KIT_LANG": "en", "USER": "root"},
    )  # fmt: skip


def finished(command: subprocess.Popen[str]) -> str:
    """What it said; it must have done its work, without noise."""
    said, _errors = command.communicate(timeout=600)
    assert command.returncode == 0, said
    assert not [line for line in said.splitlines() for noise in NOISE if noise in line], said
    return said


# --- what students hand in -------------------------------------------------------------------------------------------


def cells(notebook: Notebook) -> dict[str, Notebook]:
    """The cells that nbgrader knows, by name."""
    return {cell.metadata.nbgrader.grade_id: cell for cell in notebook.cells if "nbgrader" in cell.metadata}


def solve(notebook: Notebook, *names: str) -> None:
    """Writes the references into the answer cells of these steps, of all by default."""
    for name in names or STEPS:
        cells(notebook)[name].source = f"# {name}\n{STEPS[name].solved()}"


def half(notebook: Notebook) -> None:
    """Six steps, one of them partly right, and one upside down; a note holds markup."""
    note = f"<b>x</b> <https://example.org> {SCRIPT} <img src=x onerror=alert(1)>\n\n> quoted"
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell(note))
    solve(notebook, *list(STEPS)[:6])
    there = cells(notebook)
    there["step02_softmax"].source = there["step02_softmax"].source.replace("keepdim=True", "keepdim=False")
    there["step04_causal_mask"].source = there["step04_causal_mask"].source.replace(".tril()", ".triu()")


def hostile(notebook: Notebook) -> None:
    """Points, outputs and marks are edited, cells copied and deleted, code kills its process and prints markup."""
    solve(notebook, "step01_scores")
    there = cells(notebook)
    there["step03_attention"].source = "import os\nos._exit(0)\n"
    there["step04_causal_mask"].source = f"print({SCRIPT!r})\nraise ValueError({SCRIPT!r})\n"
    full = nbformat.v4.new_output("execute_result", data={"text/plain": "10.0"})
    for name in STEPS:
        points = there[POINTS_CELL.format(step=name)]
        points.outputs = [full]
        points.metadata.nbgrader.points = 1000
    there["step05_dropout_points"].source = "8.0"
    notebook.cells.append(nbformat.v4.new_code_cell("8.0", metadata=there["step06_causal_attention_points"].metadata))
    notebook.cells.remove(there["step02_softmax_points"])
    notebook.cells.reverse()


def unmarked(notebook: Notebook) -> None:
    """nbgrader itself gives up on it: a locked cell is no longer one that has points."""
    solve(notebook, "step01_scores", "step07_heads")
    cells(notebook)["step07_heads_points"].metadata.nbgrader.grade = False


def as_learners_type(notebook: Notebook) -> None:
    """Imports stand in the first cell alone, and earlier names are used as they are; one cell holds a command."""
    solve(notebook, "step01_scores", "step06_causal_attention", "step08_multi_head", "step12_gpt")
    there = cells(notebook)
    step08 = there["step08_multi_head"]
    step08.source = "\n".join(line for line in step08.source.splitlines() if "import" not in line)
    there["step12_gpt"].source = f"%%time\n{there['step12_gpt'].source}"


def as_in_the_examples(notebook: Notebook, student: str) -> None:
    """What a student of the course that comes with the kit wrote."""
    for file in (EXAMPLES / student).glob("step*.py"):
        cells(notebook)[file.stem].source = f"# {file.stem}\n{file.read_text(encoding='utf-8')}"


def in_another_cell(notebook: Notebook) -> None:
    """Two answers stand below their stubs: one begins with the step's name, of the other only the code is there."""
    for name, head in (("step01_scores", "# step01_scores\n"), ("step07_heads", "")):
        place = notebook.cells.index(cells(notebook)[name]) + 1
        notebook.cells.insert(place, nbformat.v4.new_code_cell(head + STEPS[name].solved()))


def saved_by_colab(notebook: Notebook) -> None:
    """No identities, an older format, and nbgrader's marks gone; widgets have no state, and a picture was lost."""
    solve(notebook, "step01_scores")
    notebook.cells[0].source += "\n\n![The picture](attachment:picture.png)"
    notebook.nbformat_minor = 0
    notebook.metadata = {
        "colab": {"provenance": []},
        "kernelspec": {"name": "python3", "display_name": "Python 3"},
        "widgets": {"application/vnd.jupyter.widget-state+json": {"4f2a": {}}},
    }
    for number, cell in enumerate(notebook.cells):
        del cell["id"]
        cell.metadata = {"id": f"colab{number}"}


def copied(notebook: Notebook) -> None:
    """Every cell has the same identity, as after an editor's copying."""
    solve(notebook, "step01_scores")
    for cell in notebook.cells:
        cell.id = "same"


STUDENTS: dict[str, Callable[[Notebook], None]] = {
    "ada": solve,
    "brook": partial(as_in_the_examples, student="brook"),
    "chen wei": half,
    "colab": saved_by_colab,
    "copied": copied,
    "dora": as_learners_type,
    "emre": partial(as_in_the_examples, student="emre"),
    "grace": partial(as_in_the_examples, student="grace"),
    "mallory": hostile,
    "nobody": lambda notebook: None,
    "nora": in_another_cell,
    "oscar": unmarked,
    "김민서": lambda notebook: None,  # beside it stands a step file
}


@dataclass(frozen=True)
class Term:
    """A course folder after a term, and the reports of the grader on the same submissions under the same seed."""

    folder: Path
    reports: dict[str, Report]
    autograding: str
    validating: str

    def feedback(self, student: str) -> str:
        """The page a student gets."""
        return (self.folder / "feedback" / student / ASSIGNMENT / f"{ASSIGNMENT}.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def term(tmp_path_factory: pytest.TempPathFactory) -> Term:
    """The term, played once."""
    folder = tmp_path_factory.mktemp("term") / "course"
    (folder.parent / "exchange").mkdir(mode=0o777)
    (folder.parent / "exchange").chmod(0o777)
    student = folder.parent / "student"
    student.mkdir()
    release.build(folder)
    with (folder / "nbgrader_config.py").open("a") as configuration:
        configuration.write('c.LateSubmissionPlugin.penalty_method = "zero"\n')
    nbgrader(folder, "generate_assignment", ASSIGNMENT)
    nbgrader(folder, "release_assignment", ASSIGNMENT)
    nbgrader(student, "fetch_assignment", ASSIGNMENT, "--course", ASSIGNMENT)
    submitting = begun(student, "submit", ASSIGNMENT, "--course", ASSIGNMENT)
    hand_in(folder, student / ASSIGNMENT / f"{ASSIGNMENT}.ipynb")
    # What needs nothing of each other runs side by side.
    validating = begun(folder, "validate", str(folder / "submitted" / "ada" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"))
    finished(submitting)
    nbgrader(folder, "collect", ASSIGNMENT)
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        book.update_or_create_assignment(ASSIGNMENT, duedate=DUE)
    said = nbgrader(folder, "autograde", ASSIGNMENT)
    giving, exporting = begun(folder, "generate_feedback", ASSIGNMENT), begun(folder, "export")
    reports = {}
    with grading.Grader() as grader:
        for name in [*STUDENTS, "damaged"]:
            read = submissions.read(folder / "submitted" / name / ASSIGNMENT)
            wanted = choice.by_default(read.sources, read.problems)
            reports[name] = grader.grade(read, wanted, seed=kept_seed(folder / SEED_FILE))
    finished(giving)
    finished(exporting)
    return Term(folder, reports, said, finished(validating))


def hand_in(folder: Path, fetched: Path) -> None:
    """Every student's submission, made of the notebook that was fetched."""
    for student, work in STUDENTS.items():
        notebook = nbformat.read(fetched, as_version=4)
        work(notebook)
        to = folder / "submitted" / student / ASSIGNMENT
        to.mkdir(parents=True)
        (to / fetched.name).write_text(json.dumps(notebook), encoding="utf-8")  # as it is: nbformat would mend it
    (folder / "submitted" / "dora" / ASSIGNMENT / "timestamp.txt").write_text(LATE)
    (folder / "submitted" / "김민서" / ASSIGNMENT / "step05_dropout.py").write_text(STEPS["step05_dropout"].solved())
    damaged = folder / "submitted" / "damaged" / ASSIGNMENT
    damaged.mkdir(parents=True)
    (damaged / fetched.name).write_text('{"cells": [')


def rows(url: str, students: list[str]) -> dict[tuple[str, str], tuple[Any, ...]]:
    """What a gradebook holds of each student's steps: points, whether a person must look, the comment."""
    found = {}
    with Gradebook(url) as book:
        for student in students:
            (notebook,) = book.find_submission(ASSIGNMENT, student).notebooks
            comments = {comment.name: comment.auto_comment for comment in notebook.comments}
            for grade in notebook.grades:
                step = grade.name.removesuffix("_points")
                found[student, step] = (grade.auto_score, grade.needs_manual_grade, comments[step])
    return found


# --- release ---------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_nothing_of_a_solution_is_released(term: Term) -> None:
    """Neither a line of a reference nor a check, in whatever was written for students."""
    telling = {line for step in STEPS.values() for line in solution_lines(step)}
    for folder in (term.folder / "release", term.folder.parent / "exchange", term.folder.parent / "student"):
        for path in (path for path in folder.rglob("*") if path.is_file()):
            text = path.read_text(encoding="utf-8").replace('\\"', '"')
            assert not [line for line in telling if line in text], path
            assert "def test_" not in text


@pytest.mark.thorough
def test_what_is_released_is_the_stub(term: Term) -> None:
    """nbgrader cuts where the kit cuts; both kinds of cell are marked as what they are."""
    path = term.folder / "release" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    there = cells(nbformat.read(path, as_version=4))
    assert set(there) == {name for step in STEPS for name in (step, POINTS_CELL.format(step=step))}
    for name, step in STEPS.items():
        first, rest = there[name].source.split("\n", 1)
        assert first.startswith(f"# {name}")
        assert rest.strip() == step.stub().split("\n", 1)[1].strip()
        points = there[POINTS_CELL.format(step=name)].metadata
        assert (points.nbgrader.points, points.nbgrader.locked, points.editable) == (step.points, True, False)


def test_korean_and_one_notebook_a_step(tmp_path: Path) -> None:
    """Lessons, docstrings and what surrounds them; an edited notebook and a configuration are not written over."""
    with language.use("ko"):
        written = release.build(tmp_path, per_step=True)
    assert [path.stem for path in written.notebooks] == list(STEPS)
    assert not written.kept_configuration
    assert 'c.GradeSubmission.lang = "ko"' in (tmp_path / "nbgrader_config.py").read_text()
    notebook = nbformat.read(written.notebooks[3], as_version=4)
    assert set(cells(notebook)) == {"step04_causal_mask", "step04_causal_mask_points"}
    assert "코잘 마스크" in notebook.cells[2].source
    assert notebook.cells[2].source.count("<details>") == 3
    assert "힌트" in notebook.cells[2].source
    assert 'KIT_LANG", "ko"' in notebook.cells[1].source
    assert release.build(tmp_path).kept_configuration
    (only,) = (tmp_path / "source" / ASSIGNMENT).iterdir()
    only.write_text(only.read_text().replace("Attention from scratch", "Attention at our school"))
    with pytest.raises(files.NotOverwritten):
        release.build(tmp_path)


# --- marks -----------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_gradebook_holds_what_the_grader_gives(term: Term) -> None:
    """Step for step, whatever the notebooks claim; the export shows the sums."""
    found = rows(f"sqlite:///{term.folder}/gradebook.db", list(term.reports))
    for student, report in term.reports.items():
        given = {step: found[student, step][0] for step in STEPS}
        assert given == {step.name: step.score for step in report.steps}, student
    with (term.folder / "grades.csv").open(encoding="utf-8") as file:
        sums = {row["student_id"]: float(row["raw_score"]) for row in csv.DictReader(file)}
    for student, report in term.reports.items():
        assert sums[student] == pytest.approx(report.score), student
    assert sums["ada"] == sum(step.points for step in STEPS.values())
    assert sums["nobody"] == 0
    assert sums["mallory"] == STEPS["step01_scores"].points
    assert sums["oscar"] == STEPS["step01_scores"].points + STEPS["step07_heads"].points
    assert sums["colab"] == sums["copied"] == STEPS["step01_scores"].points
    assert sums["nora"] == STEPS["step01_scores"].points + STEPS["step07_heads"].points
    assert sums["김민서"] == STEPS["step05_dropout"].points
    assert 0 < sums["chen wei"] < sum(step.points for step in list(STEPS.values())[:6])


@pytest.mark.thorough
def test_partial_credit_is_kept(term: Term) -> None:
    """A step that is partly right has a part of its points."""
    partly = [step for step in term.reports["chen wei"].steps if 0 < step.score < step.max_score]
    assert partly


@pytest.mark.thorough
def test_names_from_earlier_cells_count(term: Term) -> None:
    """What runs in the notebook is right in the gradebook, and a `%%time` above an answer costs nothing."""
    steps = {step.name: step for step in term.reports["dora"].steps}
    assert steps["step08_multi_head"].status == "pass"
    last = steps["step12_gpt"]  # it imports steps that were not written
    assert (last.status, last.score) == ("skipped", last.max_score)


@pytest.mark.thorough
def test_a_kernel_was_never_started(term: Term) -> None:
    """No word of one, and a term of it in a fraction of the time that one kernel takes."""
    assert "kernel" not in term.autograding.lower()


@pytest.mark.thorough
def test_damaged_notebooks_are_graded_and_asked_about(term: Term) -> None:
    """Their pages say why, and a person is asked to look: it is no zero like another."""
    found = rows(f"sqlite:///{term.folder}/gradebook.db", ["damaged", "nobody"])
    assert all(row[:2] == (None, True) and "is cut off" in row[2] for key, row in found.items() if key[0] == "damaged")
    assert all(row[:2] == (0.0, False) for key, row in found.items() if key[0] == "nobody")
    assert "is cut off: the end is missing" in term.feedback("damaged")
    assert "was rebuilt from its answers" in term.feedback("oscar")


def twice(notebook: Notebook) -> None:
    """nbgrader itself gives up on cells of one name: an answer with an older try, a written one below the empty one."""
    solve(notebook, "step01_scores")
    there = cells(notebook)
    for name, source in (("step01_scores", "old_try = 1"), ("essay", "So that the spread stays the same.")):
        copy = nbformat.v4.new_markdown_cell if name == "essay" else nbformat.v4.new_code_cell
        added = copy(source, metadata=there[name].metadata)
        notebook.cells.insert(notebook.cells.index(there[name]) + 1, added)


def renamed(notebook: Notebook) -> None:
    """A written answer under a name that nbgrader does not know."""
    solve(notebook, "step01_scores")
    cells(notebook)["essay"].source = "So that the spread stays the same."
    cells(notebook)["essay"].metadata.nbgrader.grade_id = "my essay"
    notebook.cells.append(nbformat.v4.new_markdown_cell("A note of my own."))


def older(notebook: Notebook) -> None:
    """Its cells are marked as an older nbgrader did, or by hand."""
    solve(notebook, "step01_scores")
    for number, cell in enumerate(cells(notebook).values()):
        cell.metadata.nbgrader.pop("schema_version") if number % 2 else cell.metadata.nbgrader.update(schema_version=1)


@pytest.mark.thorough
def test_nothing_is_lost_where_a_notebook_is_rebuilt(tmp_path: Path) -> None:
    """Written answers and further tries are there for a person, who is asked to look, and cells keep their order."""
    folder = tmp_path / "course"
    release.build(folder)
    source = release.notebook(course.steps()[:1])
    marks = {"schema_version": 3, "grade_id": "essay", "solution": True, "grade": True, "locked": False, "task": False}
    source.cells.append(nbformat.v4.new_markdown_cell("Why?", metadata={"nbgrader": marks | {"points": 5}}))
    nbformat.write(source, folder / "source" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb")
    nbgrader(folder, "generate_assignment", ASSIGNMENT)
    released = folder / "release" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    for work in (twice, renamed, older):
        notebook = nbformat.read(released, as_version=4)
        work(notebook)
        to = folder / "submitted" / work.__name__ / ASSIGNMENT
        to.mkdir(parents=True)
        (to / released.name).write_text(json.dumps(notebook), encoding="utf-8")
    command = begun(folder, "autograde", ASSIGNMENT)
    said, _errors = command.communicate(timeout=600)
    assert command.returncode == 0 and said.count("is rebuilt from what was released") == 3, said
    assert said.count("its cells are not marked as they were released") == 2 and "Outdated schema" not in said, said
    for student, points, ends in (
        ("twice", None, ["So that the spread stays the same."]),
        ("older", 6.0, ["YOUR ANSWER HERE"]),
        ("renamed", 6.0, ["So that the spread stays the same.", "A note of my own.", "YOUR ANSWER HERE"]),
    ):
        graded = nbformat.read(folder / "autograded" / student / ASSIGNMENT / released.name, as_version=4)
        sources = [cell.source for cell in graded.cells]
        assert sources[-len(ends) :] == ends and "check(" in "".join(sources)
        assert ("old_try = 1" in sources) == (student == "twice")
        with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
            essay = book.find_grade("essay", ASSIGNMENT, ASSIGNMENT, student)
            assert (essay.auto_score, essay.needs_manual_grade) == (None, True)
            assert book.find_grade("step01_scores_points", ASSIGNMENT, ASSIGNMENT, student).auto_score == points


@pytest.mark.thorough
def test_late_penalties_work(term: Term) -> None:
    """The autograder's points stay, and nbgrader takes its penalty from them."""
    with Gradebook(f"sqlite:///{term.folder}/gradebook.db") as book:
        late = book.find_submission(ASSIGNMENT, "dora")
        assert late.score == late.late_submission_penalty == term.reports["dora"].score > 0


@pytest.mark.thorough
def test_manual_grades_are_kept(term: Term, tmp_path: Path) -> None:
    """What a person gave counts, also after the submission is graded again."""
    folder = tmp_path / "course"
    shutil.copytree(term.folder, folder)
    url = f"sqlite:///{folder}/gradebook.db"
    with Gradebook(url) as book:
        book.find_grade("step01_scores_points", ASSIGNMENT, ASSIGNMENT, "nobody").manual_score = 2.5
        book.find_comment("step01_scores", ASSIGNMENT, ASSIGNMENT, "nobody").manual_comment = "seen"
        book.db.commit()
    configuration = folder / "nbgrader_config.py"
    lines = configuration.read_text().splitlines()
    moved = [f"KIT = Path({str(paths.ROOT)!r})" if line.startswith("KIT =") else line for line in lines]
    configuration.write_text("\n".join(moved))
    (folder / SEED_FILE).write_text("no number\n")
    nbgrader(folder, "autograde", ASSIGNMENT, "--student", "nobody", "--force")
    with Gradebook(url) as book:
        grade = book.find_grade("step01_scores_points", ASSIGNMENT, ASSIGNMENT, "nobody")
        assert (grade.score, grade.needs_manual_grade) == (2.5, True)
        assert book.find_comment("step01_scores", ASSIGNMENT, ASSIGNMENT, "nobody").comment == "seen"
        # The grader could not work: nothing was found, and that is not a zero.
        grade = book.find_grade("step02_softmax_points", ASSIGNMENT, ASSIGNMENT, "nobody")
        assert (grade.auto_score, grade.needs_manual_grade) == (None, True)
        comment = book.find_comment("step02_softmax", ASSIGNMENT, ASSIGNMENT, "nobody").comment
        assert "holds no seed" in comment
        assert "has no score" in comment


@pytest.mark.thorough
def test_one_notebook_a_step_and_one_of_them_renamed(tmp_path: Path) -> None:
    """nbgrader passes over a notebook that it does not know; its answer is graded with the others all the same."""
    asked = ["step01_scores", "step02_softmax", "step03_attention"]
    folder = tmp_path / "course"
    release.build(folder, per_step=True)
    for path in (folder / "source" / ASSIGNMENT).iterdir():
        if path.stem not in asked:
            path.unlink()
    nbgrader(folder, "generate_assignment", ASSIGNMENT)
    names = {"ada": "step02_softmax (1)", "brook": "step02_softmax", "chen wei": ""}
    for student, softmax in names.items():
        to = folder / "submitted" / student / ASSIGNMENT
        to.mkdir(parents=True)
        for name, saved in zip(asked, (asked[0], softmax, asked[2]), strict=True):
            notebook = nbformat.read(folder / "release" / ASSIGNMENT / f"{name}.ipynb", as_version=4)
            solve(notebook, name)
            if saved:
                nbformat.write(notebook, to / f"{saved}.ipynb")
    said = nbgrader(folder, "autograde", ASSIGNMENT)
    assert "Skipping unknown notebook" in said
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as book:
        for student, softmax in names.items():
            graded = book.find_submission(ASSIGNMENT, student)
            grades = {grade.name: grade for notebook in graded.notebooks for grade in notebook.grades}
            points = {POINTS_CELL.format(step=name): STEPS[name].points for name in asked}
            if not softmax:  # step 2 was not handed in
                points["step02_softmax_points"] = 0
            assert {name: grade.auto_score for name, grade in grades.items()} == points, student
            assert not any(grade.needs_manual_grade for grade in grades.values())
            assert graded.max_score == sum(STEPS[name].points for name in asked)
    nbgrader(folder, "generate_feedback", ASSIGNMENT)
    pages = {page.stem for page in (folder / "feedback" / "ada" / ASSIGNMENT).glob("*.html")}
    assert pages == {"step01_scores", "step03_attention"}  # as docs/instructor.md says


# --- feedback --------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_feedback_says_why_and_shows_it(term: Term) -> None:
    """The check, what came, the named misconception and a picture, as in the kit's own page."""
    page = term.feedback("chen wei")
    assert "attention-verdict" in page
    assert re.search(r'<img [^>]*src="data:image/svg\+xml;base64,', page)
    wrong = next(step for step in term.reports["chen wei"].steps if step.name == "step04_causal_mask")
    named = [check for check in wrong.checks if check.misconception]
    assert named
    assert "The mask of three tokens is the one you can draw by hand." in page


@pytest.mark.thorough
def test_feedback_holds_no_solution_and_no_live_markup(term: Term) -> None:
    """For those who did not write it themselves."""
    telling = {line for step in STEPS.values() for line in solution_lines(step)}
    for student in ("nobody", "damaged", "root"):
        page = term.feedback(student)
        assert not [line for line in telling if line in page], student
        assert "def test_" not in page
    for student in ("mallory", "chen wei"):
        page = term.feedback(student)
        assert "alert(1)" in page
        assert SCRIPT not in page
    assert all(said in page for said in ("<b>x</b>", '<a href="https://example.org">', "<blockquote>"))
    assert "onerror=" in page and not re.search(r"<[^>]*onerror=", page)


@pytest.mark.parametrize("spoken", ["en", "ko"])
def test_lessons_are_shown_as_they_were_released(spoken: str) -> None:
    """Their hints stay folded, although nbgrader knows nothing of these cells."""
    with language.use(spoken):
        notebook = release.notebook(course.steps())
    given = [cell.source for cell in notebook.cells]
    make_showable(notebook, set(), drawings(notebook))
    assert [cell.source for cell in notebook.cells] == given


# --- the gradebook by itself -----------------------------------------------------------------------------------------


def entries(term: Term) -> list[tuple[str, Report | None, str, None]]:
    """What a class hands over: reports, and one submission that could not be graded."""
    graded = [(student, report, "", None) for student, report in term.reports.items()]
    return [*graded, ("broken", None, f"{SCRIPT} failed", None)]


@pytest.fixture(scope="module")
def made(term: Term, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gradebook that never saw a release, with the class in it."""
    file = tmp_path_factory.mktemp("made") / "new.db"
    with language.use("en"):
        assert gradebook.save(f"sqlite:///{file}", ASSIGNMENT, entries(term)) == len(term.reports) + 1
    return file


@pytest.mark.thorough
def test_a_class_writes_what_the_autograder_writes(term: Term, made: Path, tmp_path: Path) -> None:
    """Into a copy of the same gradebook, or into a new one: the same rows, comments included."""
    expected = rows(f"sqlite:///{term.folder}/gradebook.db", list(term.reports))
    copy = shutil.copy(term.folder / "gradebook.db", tmp_path)
    with language.use("en"):
        gradebook.save(f"sqlite:///{copy}", ASSIGNMENT, entries(term))
    for file in (copy, made):
        found = rows(f"sqlite:///{file}", [*term.reports, "broken"])
        assert {key: row for key, row in found.items() if key in expected} == expected
        for step in STEPS:
            assert found["broken", step][:2] == (None, True)
            assert found["broken", step][2].endswith(f"    {SCRIPT} failed")


@pytest.mark.thorough
def test_points_that_an_instructor_changed_are_kept_to(term: Term, made: Path, tmp_path: Path) -> None:
    """A step that counts double gives double."""
    url = f"sqlite:///{shutil.copy(made, tmp_path)}"
    with Gradebook(url) as book:
        book.find_grade_cell("step07_heads_points", ASSIGNMENT, ASSIGNMENT).max_score = 12
        book.db.commit()
    gradebook.save(url, ASSIGNMENT, [("ada", term.reports["ada"], "", None)])
    assert rows(url, ["ada"])["ada", "step07_heads"][0] == 12


@pytest.mark.thorough
def test_an_assignment_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    """It would have a notebook and a hundred points more, for everyone."""
    gradebook.programs_on_path()
    url = f"sqlite:///{tmp_path}/gradebook.db"
    with Gradebook(url) as book:
        book.update_or_create_assignment("essay")
        book.update_or_create_notebook("essay", "essay")
    with pytest.raises(gradebook.NoGradebook, match="it has a different assignment named essay"):
        gradebook.save(url, "essay", [])
    with Gradebook(url) as book:
        assert [notebook.name for notebook in book.find_assignment("essay").notebooks] == ["essay"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "url", ["postgresql+psycopg://nobody@127.0.0.1:1/none", "sqlite:////nowhere/at/all.db", "what"]
)
def test_a_gradebook_that_can_not_be_reached(url: str, term: Term) -> None:
    """One line says why."""
    with pytest.raises(gradebook.NoGradebook) as refused:
        gradebook.save(url, ASSIGNMENT, entries(term))
    assert str(refused.value).count("\n") == 0
    assert str(refused.value)


@pytest.fixture
def postgresql() -> Iterator[str]:
    """The URL of a real PostgreSQL server, run by an ordinary user in a folder of its own."""
    if not POSTGRESQL:
        pytest.skip("PostgreSQL is not installed here")
    programs = POSTGRESQL[-1].parent
    with tempfile.TemporaryDirectory(prefix="kit-") as folder:  # pytest's own folders are closed to other users
        as_user: list[str] = []
        if os.geteuid() == 0:  # PostgreSQL refuses to be run by root
            as_user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
            shutil.chown(folder, "nobody", "nogroup")
        run(*as_user, programs / "initdb", "-D", f"{folder}/data", "-U", "kit", "--auth=trust", "-E", "UTF8", "-N")
        control = [*as_user, programs / "pg_ctl", "-D", f"{folder}/data"]
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        run(*control, "-o", options, "-l", f"{folder}/log", "-w", "start")
        try:
            yield f"postgresql+psycopg://kit@/postgres?host={folder}"
        finally:
            run(*control, "-m", "immediate", "stop")


def run(*command: str | Path) -> None:
    """One program, whose words are shown when it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough
def test_postgresql(postgresql: str, term: Term, made: Path) -> None:
    """The same rows as in SQLite, also when some are written again."""
    with language.use("en"):
        for some in (entries(term), entries(term)[:2]):
            gradebook.save(postgresql, ASSIGNMENT, some)
    students = [*term.reports, "broken"]
    assert rows(postgresql, students) == rows(f"sqlite:///{made}", students)


@pytest.mark.thorough
def test_a_name_longer_than_its_column(postgresql: str, term: Term, capfd: pytest.CaptureFixture[str]) -> None:
    """One line that names the student; the others are written. SQLite knows no such bound."""
    long, report = "x" * 200, term.reports["ada"]
    with language.use("en"), pytest.raises(gradebook.NoGradebook) as refused:
        gradebook.save(postgresql, "other", [(long, report, "", None), ("김민서", report, "", None)])
    assert str(refused.value).startswith(f"it has no marks of {long} (value too long for type ")
    assert "\n" not in str(refused.value)
    assert capfd.readouterr() == ("", "")
    with Gradebook(postgresql) as book:
        assert [one.student.id for one in book.assignment_submissions("other")] == ["김민서"]


# --- in a kernel -----------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_solved_notebook_validates(term: Term) -> None:
    """In a kernel, by nbgrader's own word."""
    assert "Success! Your notebook passes all the tests." in term.validating


@pytest.mark.thorough
def test_a_notebook_says_what_the_terminal_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same verdict, words, name of the misconception and picture, on the cell as it was run last."""
    nbclient = pytest.importorskip("nbclient")
    wrong = (
        "# step04_causal_mask\nimport torch\ndef causal_mask(num_tokens, device=None):\n"
        "    i = torch.arange(num_tokens, device=device)\n    return i[:, None] <= i[None, :]\n"
    )
    monkeypatch.setenv("KIT_HOME", str(paths.ROOT))
    monkeypatch.setenv("KIT_LANG", "en")
    monkeypatch.setenv("HOME", str(tmp_path))
    right = f"# step04_causal_mask\n{STEPS['step04_causal_mask'].solved()}"
    sources = [
        release.setup(),
        'check("step04_causal_mask")',
        right,
        wrong,
        'check("step04_causal_mask", seed=7)',
        'from grader.notebook import points; points("step04_causal_mask")',
        right,
        'points("step04_causal_mask")',
        "# step07_heads\ndef split_heads(x): raise NotImplementedError",
        "points(7)",
        "from exercises.step04_causal_mask import causal_mask; causal_mask(2).tolist()",
        'check("step99")',
        "from exercises.step01_scores import dot_product_scores; dot_product_scores.__name__",
        STEPS["step07_heads"].solved(),  # beside the stub, without the step's name
        "points(7)",
    ]
    beside = nbformat.v4.new_code_cell(f"# step01_scores\n{STEPS['step01_scores'].solved()}")
    nbformat.write(nbformat.v4.new_notebook(cells=[beside]), tmp_path / "step01_scores.ipynb")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbclient.NotebookClient(
        notebook, timeout=600, allow_errors=True, resources={"metadata": {"path": tmp_path}}
    ).execute()
    outputs = [cell.outputs for cell in notebook.cells]
    assert [output for cell in outputs for output in cell if output.output_type == "stream"] == []
    assert "Run the answer cell of step04_causal_mask first." in outputs[1][0].data["text/plain"]
    (tmp_path / "step04_causal_mask.py").write_text(wrong)
    with grading.Grader() as grader, language.use("en"):
        report = grader.grade(submissions.read(tmp_path), ["step04_causal_mask"], seed=7)
    (shown,) = outputs[4]
    checks = report.steps[0].checks
    assert shown.output_type == "execute_result"
    with language.use("en"):
        assert shown.data["text/plain"] == as_text(report.steps[0]).replace(
            f"{tmp_path.name}/step04_causal_mask.py", "notebook[step04_causal_mask]"
        )
    assert checks[0].misconception
    assert checks[0].hint in shown.data["text/plain"]
    assert '<img src="data:image/svg+xml;base64,' in shown.data["text/html"]
    assert outputs[5][0].data["text/plain"] == repr(report.score)
    assert [outputs[place][0].data["text/plain"] for place in (7, 9)] == ["8.0", "0.0"]
    assert outputs[10][0].data["text/plain"] == "[[True, False], [True, True]]"
    assert outputs[12][0].data["text/plain"] == "'dot_product_scores'"
    assert outputs[14][0].data["text/plain"] == "6.0"
    assert outputs[11][0].traceback[-1].startswith("There is no step step99.")
    assert "Traceback" not in "".join(outputs[11][0].traceback)
