"""A class's results for other programs: `TABLES` of the whole class, and `STUDENT_FILES` about each student."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from xml.etree import ElementTree

import msgspec

from grader.base import files, language
from grader.base.language import gettext as _
from grader.base.results import CheckResult, Graded, Report, Status, StepResult
from grader.feedback.standings import Standing
from grader.marks.second_look import appeals_in
from grader.marks.sheets import REMARK_COLUMNS
from grader.report.terminal import number, plain, quoted, unread

# A spreadsheet takes a cell that starts so for a formula; some take the wide forms of East Asian keyboards too.
FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
CUT = re.compile(rf"([;|\t]\s*)(?={FORMULA.pattern})")
KEY = re.compile(r"[+\-@]?[\w.@+-]*")  # no `=`, no parenthesis: what a spreadsheet makes of it is at most a number
NOT_IN_XML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")
JUNIT_TAGS: dict[Status, str] = {
    "fail": "failure", "timeout": "failure", "error": "error", "skipped": "skipped", "todo": "skipped",
}  # fmt: skip


Rows = list[list[str]]


@dataclass(frozen=True)
class WholeClass:
    """The data behind a class's tables: each student's result in the `steps` of an assignment, its column in Canvas,
    the fate of each file, files that belong to no student, and files `given` to all."""

    standings: Sequence[Standing]
    steps: Sequence[str] = ()
    assignment: str = ""
    canvas_column: str = ""
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    nobodys: Sequence[str] = ()
    given_files: Mapping[str, str] = field(default_factory=dict)

    @property
    def points(self) -> float:
        """The points of full marks."""
        return next((standing.max_score for standing in self.standings if standing.score is not None), 0.0)


def _class_rows(whole: WholeClass) -> Rows:
    """One row per student. A student who could not be graded has no score, and the reason in the column `error`.

    So has a file that could not be run, next to the points of the others. `unread` names the files that were not read,
    `references` the steps that were graded with the reference in place of earlier ones. If steps of several tracks were
    graded, each track has a column with its points.
    """
    standings, steps = whole.standings, whole.steps
    tracks = list(dict.fromkeys(track for standing in standings for track in standing.by_track))
    tracks = tracks if len(tracks) > 1 else []
    sections = any(standing.section for standing in standings)
    rows: list[list[str]] = [[
        "student", "status", "score", "max_score", *tracks, *steps, "diagnoses", "error", "unread", "late",
        "references", *(["section"] if sections else []),
    ]]  # fmt: skip
    for standing in standings:
        scores = {step.name: number(step.score) for step in standing.steps}
        diagnoses = [f"{step.name}: {' | '.join(names)}" for step in standing.steps for names in step.diagnoses]
        unusable = dict.fromkeys(step.unusable for step in standing.steps if step.unusable)
        remark = standing.error or standing.absence or " ".join([*unusable, *standing.taken])
        status = "graded" if standing.score is not None else "error" if standing.is_open else "absent"
        rows.append([
            standing.student, status, _score(standing),
            "" if standing.score is None else number(standing.max_score),
            *(number(standing.by_track[track]) if track in standing.by_track else "" for track in tracks),
            *(scores.get(step, "") for step in steps), "; ".join(diagnoses), remark,
            "; ".join(f"{file}: {reason}" for file, reason in standing.unread),
            standing.lateness or ("late" if standing.late else ""),
            "; ".join(step.resting for step in standing.steps if step.resting),
            *([standing.section] if sections else []),
        ])  # fmt: skip
    return rows


def _canvas_rows(whole: WholeClass) -> Rows:
    """The table that Canvas's gradebook imports. Students are found by ID if the submissions came from Canvas's
    download, else by login, for which the folder's name is taken; an empty cell changes nothing there. Canvas has to
    find its own words again, so that a login such as `-2+3` stays as it is: it computes something and calls nothing."""
    rows = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", whole.canvas_column]]
    rows.append(["    Points Possible", "", "", "", "", number(whole.points)])
    for standing in whole.standings:
        login = "" if standing.canvas_id else standing.login or standing.student
        rows.append([standing.student, standing.canvas_id, "", login, standing.section, _score(standing)])
    return rows


@dataclass(frozen=True)
class MoodleWords:
    """Moodle's names for the columns of its worksheet in one language, and its prefix of a participant's number."""

    header: Sequence[str]
    participant: str


# Moodle looks for its own words in the language of who uploads; two of the Korean ones are read by people only.
MOODLE = {
    "en": MoodleWords(("Identifier", "Full name", "Email address", "Grade", "Maximum Grade", "Last modified (grade)",
                       "Feedback comments"), "Participant "),
    "ko": MoodleWords(("식별자", "성명", "이메일 주소", "성적", "최대 성적", "마지막 수정됨(성적)", "피드백 코멘트"),
                      "참가자"),
}  # fmt: skip


def _moodle_rows(whole: WholeClass) -> Rows:
    """Moodle's offline grading worksheet. The number of a participant is that in the names of Moodle's folders, the
    columns have Moodle's names in the language in use.

    Moodle refuses a worksheet without the date of the grade. It is empty as for a first grade: then a grade that is in
    Moodle is only written over when it is told to.
    """
    words = MOODLE[language.current()]
    rows = [list(words.header)]
    for standing in whole.standings:
        identifier = f"{words.participant}{standing.moodle_id}" if standing.moodle_id else ""
        mail = next((label for label in (standing.login, standing.student) if "@" in label), "")
        scores = [f"{step.name}: {number(step.score)} / {number(step.max_score)}" for step in standing.steps]
        points = "" if standing.score is None else number(standing.max_score)
        rows.append(
            [identifier, standing.student, mail, _score(standing), points, "", standing.error or "; ".join(scores)]
        )
    return rows


def _score(standing: Standing) -> str:
    return "" if standing.score is None else number(standing.score)


def _file_rows(whole: WholeClass) -> Rows:
    """A row for every file that was handed in, with what became of it; at the end files of no student, and once each
    the files that all students were given."""
    rows = [["student", "file", "what became of it"]]
    rows += [[student, file, reason] for student, own in whole.files.items() for file, reason in own.items()]
    rows += [["", file, _("not graded: it is in no student's folder")] for file in whole.nobodys]
    return rows + [["", file, reason] for file, reason in whole.given_files.items()]


def _request_rows(whole: WholeClass) -> Rows:
    """The requests for a second look that wait, as rows of `remarks.csv` in which the answer is missing."""
    rows = [list(REMARK_COLUMNS)]
    for standing in whole.standings:
        for request in (request for text in standing.requests for request in appeals_in(text)):
            cells = {"student": standing.student, "step": request.step, "request": request.text}
            rows.append([(cells | {"assignment": whole.assignment}).get(column, "") for column in REMARK_COLUMNS])
    return rows


def key(cell: str) -> str:
    """A cell by which a system finds someone: unchanged if it can't be a formula that calls anything, else harmless."""
    return cell if KEY.fullmatch(cell) else harmless(cell)


def harmless(cell: str) -> str:
    """The cell changed so that no spreadsheet takes it for a formula, and no terminal for a command. If a
    spreadsheet cuts cells at another sign than a comma, what follows that sign is a cell."""
    cell = CUT.sub(r"\1'", plain(cell))
    return f"'{cell}" if FORMULA.match(cell) else cell


class ClassTable(NamedTuple):
    """A table of a class. `quote` makes each cell harmless; a spreadsheet needs the `mark` of UTF-8 to read names."""

    rows: Callable[[WholeClass], Rows]
    quote: Callable[[str], str] = harmless
    mark: bool = False


TABLES = {
    "class.csv": ClassTable(_class_rows, mark=True),
    "files.csv": ClassTable(_file_rows, mark=True),
    "requests.csv": ClassTable(_request_rows, mark=True),
    "canvas.csv": ClassTable(_canvas_rows, quote=key),
    "moodle.csv": ClassTable(_moodle_rows),
}


def csv_text(name: str, whole: WholeClass) -> str:
    """The CSV text of the table of this file name in TABLES."""
    table = TABLES[name]
    return files.table([table.quote(cell) for cell in row] for row in table.rows(whole))


def tables(whole: WholeClass) -> dict[str, bytes]:
    """The CSV of each table as bytes, by its file name."""
    return {
        name: csv_text(name, whole).encode("utf-8-sig" if table.mark else "utf-8") for name, table in TABLES.items()
    }


# --- one student ---


def junit_xml(graded: Graded, reason: str = "") -> bytes:
    """The checks of a student as JUnit's XML: one suite per step. With a `reason` why there is no mark, one error
    instead."""
    suites = ElementTree.Element("testsuites", name=_xml(graded.student))
    reason = reason or graded.error
    if reason:
        suite = _suite(suites, "grading", ["error"], 0.0)
        case = ElementTree.SubElement(suite, "testcase", classname="grading", name="grading", time="0")
        ElementTree.SubElement(case, "error", message=_xml(reason), type="error")
    for step in graded.report.steps if graded.report and not reason else ():
        suite = _suite(suites, step.name, [check.status for check in step.checks], step.seconds)
        for check in step.checks:
            _case(suite, step, check)
        if step.output:
            ElementTree.SubElement(suite, "system-out").text = _xml(step.output)
    ElementTree.indent(suites)
    text: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _suite(suites: ElementTree.Element, name: str, statuses: list[Status], seconds: float) -> ElementTree.Element:
    """Adds a JUnit suite with the counts of its checks' statuses, and returns it."""
    suite = ElementTree.SubElement(suites, "testsuite", name=name, tests=str(len(statuses)), time=str(seconds))
    for amount, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(amount, str(sum(JUNIT_TAGS.get(status) == tag for status in statuses)))
    return suite


def _case(suite: ElementTree.Element, step: StepResult, check: CheckResult) -> None:
    """Adds a check of this step to a JUnit suite."""
    name = check.name if check.device == "cpu" else f"{check.name}[{check.device}]"
    case = ElementTree.SubElement(suite, "testcase", classname=step.name, name=name, time="0")
    tag = JUNIT_TAGS.get(check.status)
    if tag == "skipped":
        ElementTree.SubElement(case, tag, message=_xml(check.message))
    elif tag:
        ElementTree.SubElement(case, tag, message=_xml(check.title), type=check.status).text = _xml(check.message)


def _xml(text: str) -> str:
    """Untrusted text that XML can hold: as `quoted` shows it, with U+FFFD in place of characters that XML forbids."""
    return NOT_IN_XML.sub("\ufffd", quoted(text))


def gradescope(report: Report) -> dict[str, Any]:
    """The content of Gradescope's `results.json`, for JSON: one test per check, with its message."""
    tests = [
        _gradescope_test(f"{number_of_step}.{index}", step, check)
        for number_of_step, step in enumerate(report.steps, 1)
        for index, check in enumerate(step.checks, 1)
    ]
    notes = (plain(f"{step.name}: {step.note}") for step in report.steps if step.note)
    return {
        "score": report.score,
        "execution_time": round(sum(step.seconds for step in report.steps), 3),
        "output": "\n".join([*report.notes, *unread(report), *notes]),
        "output_format": "text",
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {"isolation": report.isolation, "oracle": report.oracle},
    }


def _gradescope_test(number: str, step: StepResult, check: CheckResult) -> dict[str, Any]:
    """A check as one of Gradescope's tests, for JSON; `number` is that of step and check, `2.1`."""
    lines = [quoted(check.message), f"→ {check.hint}" if check.hint else ""]
    return {
        "number": number,
        "name": f"{step.name}: {check.title}",
        "name_format": "text",
        "score": check.points,
        "max_score": check.max_points,
        "status": "passed" if check.status == "pass" else "failed",
        "output": "\n".join(part for part in lines if part),
        "output_format": "text",
        "visibility": "visible",
        "tags": [tag for tag in (step.name, check.device, check.misconception) if tag],
        "extra_data": {"check": check.name, "status": check.status},
    }


class StudentFile(NamedTuple):
    """A file about each student for another program: the ending of its name, and its content from the student, the
    report with the points that count, and the reason why there is no mark. `needs_mark`: it can't say that there is
    none."""

    ending: str
    content: Callable[[Graded, Report | None, str], bytes]
    needs_mark: bool = False


STUDENT_FILES = {
    "gradescope": StudentFile(
        "json", lambda _graded, report, _why: msgspec.json.encode(report and gradescope(report)), needs_mark=True
    ),
    "junit": StudentFile("xml", lambda graded, _report, why: junit_xml(graded, why)),
}
