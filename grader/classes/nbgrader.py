"""nbgrader's autograder, with the sandbox in place of a kernel; `configure(c)` in nbgrader_config.py switches it on.

The notebook that a student handed in is data here. Its answer cells are read and graded like any submission; what goes
into the gradebook and into the cells that hold points comes from the report alone, whatever outputs, points or metadata
the notebook came with.
"""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode, v4
from nbformat.warnings import DuplicateCellId, MissingIDFieldWarning
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde
from nbgrader.nbgraderformat import SchemaTooNewError, SchemaTooOldError
from nbgrader.preprocessors import AssignLatePenalties, Execute, NbGraderPreprocessor, SaveAutoGrades
from sqlalchemy.exc import SQLAlchemyError
from traitlets import Float, Integer, Unicode

from grader.base import language
from grader.base.language import gettext as _
from grader.base.limits import Limits
from grader.base.names import Roll
from grader.base.paths import ROOT
from grader.base.results import AssignmentMark, Report, StepResult
from grader.base.untrusted import Unusable
from grader.classes import gradebook, kit_version, markup
from grader.classes.gradebook import Mark
from grader.classes.last_report import LastReport
from grader.course import submissions
from grader.course.answer_cells import ASSIGNMENT, KERNEL, POINTS_CELL, SCHEMA, Cell, one_budget
from grader.judge import grader
from grader.marks import assignments, ledger, moments
from grader.marks import marking as marks
from grader.marks.changes import change, said
from grader.report import page
from grader.report import terminal as reports

MARKS_FOLDER = ".attention_marks"  # the mark of each student, to say what a regrade changes
REBUILT = {"attention": {"rebuilt": True}}  # in the metadata of a notebook that was put together from what can be read


def configure(config: Any) -> None:
    """Makes nbgrader grade with this kit and show notebooks without running anything; `config` is the `c` of
    nbgrader_config.py. Sets KIT_HOME for kernels."""
    gradebook.programs_on_path()
    gradebook.quieten()
    os.environ.setdefault("KIT_HOME", str(ROOT))  # for kernels, in which notebooks are validated and tried out
    config.CourseDirectory.course_id = ASSIGNMENT
    config.ClearSolutions.code_stub = {"python": "raise NotImplementedError"}
    ours = {Execute: GradeSubmission, SaveAutoGrades: SaveMarks, AssignLatePenalties: LatePenalties}
    usual = Autograde.class_traits()["autograde_preprocessors"].default()
    config.Autograde.autograde_preprocessors = [ours.get(preprocessor, preprocessor) for preprocessor in usual]
    config.Autograde.exporter_class = SubmittedNotebooks
    config.HTMLExporter.filters = {  # formgrader, feedback
        "markdown2html": "grader.classes.markup.safe_markdown",
        "clean_html": "grader.classes.markup.safe_output",
    }


class GradeSubmission(NbGraderPreprocessor):  # type: ignore[misc]  # nbgrader carries no types
    """In place of Execute: grades the answer cells in the sandbox, and shows what came of it."""

    seed = Integer(None, allow_none=True, help="The seed of the draws; by default that kept in the course folder.")
    device = Unicode("all", help="Where the checks run: cpu, an accelerator as torch names it, or all.")
    lang = Unicode("", help="The language of the reports, en or ko; by default the system's.")
    require_isolation = Unicode("", help="Grade nothing without these layers: landlock,seccomp.")
    patience = Float(1.0, help="What every deadline is multiplied by: 3 for a slow machine.")
    assignments = Unicode("", help="The file assignments.toml; what it says of an assignment counts.")
    for trait in (seed, device, lang, require_isolation, patience, assignments):
        trait.tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Grades the submission, puts the marks into `resources["nbgrader"]`, and shows each in the outputs of the cell
        with the step's points. Returns both arguments."""
        about = resources["nbgrader"]
        with Gradebook(about["db_url"]) as book:
            places = gradebook.places(book, about["assignment"])
            cells = _known_cells(book, about)
        about["rebuilt"] = REBUILT.items() <= nb.metadata.items()
        markup.make_showable(nb, {cell.source for cell in cells.values()}, self._drawings(about))
        with language.use(language.choose(self.lang or None)):
            marking = None
            report: Report | str = ""  # an assignment of another kind
            if places:
                try:
                    marking = self._marking(about)
                    report = self._report(about, sorted(places), marking)
                except assignments.BadTerm as bad:
                    self.log.error("%s", bad)
                    report = str(bad)
            about["marks"] = {step: _mark(report, step) for step in places}
            about["counted"], report = self._counted(about, report, marking)
            for step in (step for step, notebook in places.items() if notebook == about["notebook"]):
                points = cells[POINTS_CELL.format(step=step)]
                _put(nb, points, _outputs(about["marks"][step], report, step, points.metadata.nbgrader.points))
        about["places"] = places
        return nb, resources

    def _drawings(self, about: Any) -> set[str]:
        """The drawings of the lessons, as the notebook was released; none if it is not there any more."""
        place = self._converter.coursedir
        for folder in (place.release_directory, place.source_directory):
            file = Path(place.format_path(folder, ".", about["assignment"])) / f"{about['notebook']}.ipynb"
            with suppress(OSError, ValueError):
                return markup.drawings(nbformat.read(file, as_version=4))
        return set()

    def _report(self, about: Any, steps: list[str], marking: marks.Marking | None) -> Report | str:
        """The report on these steps of the student's submission; a sentence, which is logged, if it can't be graded."""
        converter = self._converter
        if not hasattr(converter, "attention_desk"):
            required = grader.required_layers(self.require_isolation) if self.require_isolation else ()
            limits = Limits(patience=self.patience, required=required)
            converter.attention_desk = LastReport(self.seed, self.device, limits)
            weakref.finalize(converter, converter.attention_desk.close)
        root, folder = Path(converter.coursedir.root), self._folder(about)
        has_others = folder.parts[-2:] == (
            about["student"],
            about["assignment"],
        )  # as nbgrader arranges them by default
        report: Report | str = converter.attention_desk.report(root, folder, steps, marking, has_others)
        if isinstance(report, str):
            self.log.error("%s", report)
        return report

    def _marking(self, about: Any) -> marks.Marking | None:
        """The marking of the assignment; None if `assignments.toml` lacks it, or is not set. Raises BadTerm."""
        if not self.assignments:
            return None
        try:
            term = assignments.read(Path(self.assignments))
        except FileNotFoundError:
            raise assignments.BadTerm(_("There is no file {file}.").format(file=self.assignments)) from None
        return marks.of(term, about["assignment"]) if about["assignment"] in term.assignments else None

    def _counted(
        self, about: Any, report: Report | str, marking: marks.Marking | None
    ) -> tuple[AssignmentMark | None, Report | str]:
        """Saves the student's mark, logs what has changed since the last one, and returns it and the report with the
        points that count; None and the report as it is, if `assignments.toml` does not mark it or there is no
        report."""
        if marking is None or isinstance(report, str):
            return None, report
        student, name, root = about["student"], about["assignment"], Path(self._converter.coursedir.root)
        file = root / MARKS_FOLDER / name / f"{student}.json"
        stamp, unclear = moments.stamped(marks.stamp(root / self._folder(about)), marking.term.local)
        work = ledger.digests(self._converter.attention_desk.submission)
        with Gradebook(about["db_url"]) as book:
            students = {each.id: [each.email or ""] for each in book.students}
        own = marking.for_class(Roll({student: (), **students}))
        own = ledger.with_days_used(own, root / MARKS_FOLDER, student)
        mark = own.mark(
            student, report, stamp, said_by="nbgrader", unclear=unclear, kit=kit_version.kit_version(), work=work
        )
        if changed := change(student, ledger.load(file), mark):
            self.log.warning("%s", said(changed))
        ledger.save(file, mark)
        return mark, marks.marked(report, mark)

    @property
    def _converter(self) -> Any:
        return getattr(self.parent, "parent", None) or self

    def _folder(self, about: Any) -> Path:
        """The folder of the submission, relative to the root of the course."""
        directory = self._converter.coursedir
        return Path(directory.format_path(directory.submitted_directory, about["student"], about["assignment"]))


class SaveMarks(SaveAutoGrades):  # type: ignore[misc]  # nbgrader carries no types
    """Replaces SaveAutoGrades: writes the marks of the sandbox, and leaves cells that a person grades to it."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Writes the marks into the gradebook, also those of answers that were handed in under another notebook's name.

        Cells with tests that are not the kit's were not run: a person must look. So must one if the notebook was
        rebuilt: a written answer that was not found may yet be there.
        """
        nb, resources = super().preprocess(nb, resources)
        about = resources["nbgrader"]
        place = {name: about[name] for name in ("notebook", "assignment", "student")}
        with Gradebook(about["db_url"]) as book:
            gradebook.write(book, about["marks"], about["places"], about["assignment"], about["student"])
            if about["counted"]:
                gradebook.count(book, about["counted"], about["places"], about["assignment"], about["student"])
            ours = {POINTS_CELL.format(step=step) for step in about["marks"]}
            for name, cell in _known_cells(book, about).items():
                marks = cell.metadata.nbgrader
                foreign = cell.cell_type == "code" and marks.grade and not marks.solution and name not in ours
                if foreign:
                    self.log.warning("The cell %s is none of the kit's and was not run: grade it by hand.", name)
                if foreign or about["rebuilt"] and marks.grade and marks.solution:
                    grade = book.find_grade(name, **place)
                    grade.auto_score, grade.needs_manual_grade = None, True
            book.db.commit()
        return nb, resources


class LatePenalties(AssignLatePenalties):  # type: ignore[misc]  # nbgrader carries no types
    """In place of nbgrader's own: in an assignment of `assignments.toml`, that file says what lateness costs."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Writes the late penalty of the mark into the gradebook; in another assignment, that of nbgrader's plugin."""
        about = resources["nbgrader"]
        if not about.get("counted"):
            nb, resources = super().preprocess(nb, resources)
            return nb, resources
        with Gradebook(about["db_url"]) as book:
            gradebook.penalise(book.find_submission(about["assignment"], about["student"]), about["counted"])
            book.db.commit()
        return nb, resources


class SubmittedNotebooks(NotebookExporter):
    """Reads what a student handed in. A notebook that nbgrader can't read is rebuilt from what was released.

    Without it one damaged notebook would leave its student with a zero that looks real, or stop the whole command.
    """

    def from_filename(self, filename: str, resources: Any = None, **options: Any) -> tuple[NotebookNode, Any]:
        """The notebook in a file, rebuilt if nbgrader can't read it, after the exporter's preprocessors; and the
        resources.
        """
        with warnings.catch_warnings():
            for odd in (MissingIDFieldWarning, DuplicateCellId):  # a student's editor, not ours to fix
                warnings.simplefilter("ignore", odd)
            if not getattr(self.parent, "_sanitizing", False):
                return super().from_filename(filename, resources, **options)
            try:
                submissions.notebook_cells(Path(filename))  # whether it can be read, before anything is parsed
                return super().from_filename(filename, resources, **options)
            except SQLAlchemyError:
                raise
            except Exception as error:  # whatever nbgrader stumbles over in a notebook that anyone may have made
                reason = (str(error) or type(error).__name__).splitlines()[0]
                if isinstance(error, SchemaTooOldError | SchemaTooNewError):
                    reason = "its cells are not marked as they were released"
                self.log.warning("%s is rebuilt from what was released: %s", filename, reason)
                rebuilt = _rebuilt(Path(filename), resources["nbgrader"])
                return self.from_notebook_node(rebuilt, resources, **options)  # type: ignore  # it carries no types


def _mark(report: Report | str, step: str) -> Mark:
    """The gradebook's mark for a step, from the report, or from the sentence in its place."""
    if isinstance(report, str):
        return gradebook.ungraded(report)
    return gradebook.mark(_result(report, step), [*report.notes, *reports.unread(report)])


def _result(report: Report, step: str) -> StepResult:
    return next(result for result in report.steps if result.name == step)


def _outputs(mark: Mark, report: Report | str, step: str, max_score: float) -> list[NotebookNode]:
    """The outputs of the cell with a step's points: first the number that nbgrader reads, or an error,
    then the report."""
    data = {"text/plain": mark.comment}
    if isinstance(report, Report):
        data["text/html"] = page.fragment(msgspec.structs.replace(report, steps=[_result(report, step)]))
    if mark.share is None:
        first = v4.new_output("error", ename="NotGraded", evalue="", traceback=[mark.comment.partition("\n")[0]])
    else:
        first = v4.new_output("execute_result", data={"text/plain": repr(gradebook.score(mark, max_score))})
    return [first, v4.new_output("display_data", data=data)]


def _put(nb: NotebookNode, cell: NotebookNode, outputs: list[NotebookNode]) -> None:
    """Sets the outputs of the notebook's cell with this cell's name; a cell that was deleted is put back."""
    name = cell.metadata.nbgrader.grade_id
    there = [other for other in nb.cells if other.metadata.get("nbgrader", {}).get("grade_id") == name]
    if not there:
        if (nb.nbformat, nb.nbformat_minor) < (4, 5):
            cell.pop("id", None)  # such a notebook, as of Colab, knows none
        nb.cells.append(cell)
        there = [cell]
    there[0].outputs = outputs


def _known_cells(book: Gradebook, about: Any) -> dict[str, NotebookNode]:
    """The cells of a notebook that nbgrader knows, as they were released, by name."""
    notebook = book.find_notebook(about["notebook"], about["assignment"])
    worth = {cell.name: float(cell.max_score) for cell in [*notebook.grade_cells, *notebook.task_cells]}
    solutions, tasks = ({cell.name for cell in cells} for cells in (notebook.solution_cells, notebook.task_cells))
    by_name = {}
    for source in notebook.source_cells:
        name = source.name
        marks = {
            "schema_version": SCHEMA, "grade_id": name, "solution": name in solutions, "task": name in tasks,
            "grade": name in worth and name not in tasks, "locked": bool(source.locked), "checksum": source.checksum,
            "cell_type": source.cell_type,
        }  # fmt: skip
        if name in worth:
            marks["points"] = worth[name]
        make: Callable[..., NotebookNode] = v4.new_code_cell if source.cell_type == "code" else v4.new_markdown_cell
        by_name[name] = make(source.source or "", metadata={"nbgrader": marks})
    return by_name


def _rebuilt(path: Path, about: Any) -> NotebookNode:
    """The notebook that was handed in, as far as it can be read, around the cells that nbgrader knows."""
    with Gradebook(about["db_url"]) as book:
        cells_of_book = _known_cells(book, about)
    cells = list(cells_of_book.values())
    with suppress(Unusable), one_budget():  # the report says so
        cells = _put_together(cells_of_book, submissions.notebook_answers(path)[0], submissions.notebook_cells(path))
    note = _("The notebook that was handed in could not be read as is. This one was rebuilt from its answers.")
    rebuilt = v4.new_notebook(cells=[v4.new_markdown_cell(note), *cells], metadata={"kernelspec": KERNEL, **REBUILT})
    return NotebookNode(rebuilt)


def _put_together(
    cells_of_book: dict[str, NotebookNode], answers: dict[str, list[str]], handed_in: list[Cell]
) -> list[NotebookNode]:
    """The cells in the order in which they were handed in: those that nbgrader knows once each, with the answers in
    them, and the others, further tries at an answer among them, for a person to read."""
    answerable = {name for name, cell in cells_of_book.items() if cell.metadata.nbgrader.solution}
    written = {step: sources[-1] for step, sources in answers.items() if sources and step in answerable}
    for cell in handed_in:
        if cell.identity in answerable and cell.source.strip() not in ("", cells_of_book[cell.identity].source.strip()):
            written.setdefault(cell.identity, cell.source)
    there = {cell.source for cell in cells_of_book.values()} | set(written.values())
    for name, source in written.items():
        cells_of_book[name].source = source
    waiting, cells = dict(cells_of_book), []
    for cell in handed_in:
        if cell.identity in waiting:
            cells.append(waiting.pop(cell.identity))
        elif cell.source.strip() and cell.source not in there:
            make: Callable[..., NotebookNode] = v4.new_code_cell if cell.kind == "code" else v4.new_markdown_cell
            cells.append(make(cell.source))
    return [*cells, *waiting.values()]
