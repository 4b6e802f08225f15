"""The students of a class: one subfolder each, whatever its name, found without following a link or running a line."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from grader.base.files import walk
from grader.base.language import gettext as _
from grader.base.paths import step_folders, typed
from grader.course import earlier, lab_log
from grader.course.submissions import ARCHIVE, Submission, read, readable

STEP_FILE = re.compile(r".*step\d{2}_\w+.*\.py|.+\.ipynb", re.IGNORECASE)  # renamed ones too
# How Moodle names the folder of a student: full name, number of the submission, kind.
MOODLE_FOLDER = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_(?P<kind>[a-z]+)\w*")
# How it names a file where the teacher's download has no folders: the folder's name in front.
MOODLE_FILE = re.compile(r"(?P<folder>.+?_\d+_assignsubmission_file)_(?P<file>.+)")
# How Canvas names a file of a download: who, whether late, the student's ID, that of the file, its own name. A name may
# hold `_`; of an anonymous assignment it is `LATE_anon_x7Ab2_98766_`, where no ID of the gradebook stands.
CANVAS_FILE = re.compile(
    r"(?:(?P<early>LATE_)?(?P<anonymous>anon_[A-Za-z0-9]{5})|(?P<login>[^_.].*?)(?P<late>_LATE)?_(?P<id>\d+))_\d+_(?P<file>.+)"
)
KNOWN = ("exercises", "submission")  # where a learner's files stand inside what was handed in
NOT_STUDENTS = ("__MACOSX", "__pycache__")
BY_NBGRADER = ("timestamp.txt", "submission_secret.txt")  # what it puts beside a submission
MAX_NAMED = 3  # of the files of a folder that holds no answer
DEEPEST = 3  # folders inside a student's own
NOT_IN_NAMES = re.compile(r'[<>:"/\\|?*%~\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]')
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # on Windows, with any ending
LONGEST = 120  # bytes of a file name before the part that tells it from others


class Impossible(RuntimeError):
    """A class can't be graded so. One line, which ends in the command to type next."""


class NoStudents(ValueError):
    """The folder holds no subfolder that could be a student's."""


@dataclass(frozen=True)
class Student:
    """One subfolder: whose it is, what the files about it are called, and what was handed in.

    `problem` says why nothing can be read there; the student is then an error, and not a zero. `canvas_id` and `late`
    are what Canvas says in the names of the files of its download.
    """

    name: str
    file: str
    submission: Submission = field(repr=False)
    problem: str = ""
    canvas_id: str = ""
    late: bool = False
    labs: tuple[str, ...] = ()  # that the student's own list names


def folders(submissions: Path) -> list[str]:
    """The names of the students' folders, links to folders included, and of the students of a flat download of Canvas;
    in order. Raises NoStudents."""
    found = [name for name in os.listdir(submissions) if not name.startswith(".") and name not in NOT_STUDENTS]
    there = [name for name in found if _may_be_folder(submissions / name)]
    online = {text for texts in _online_texts(there).values() for text in texts}
    found = sorted({*there, *_downloaded(submissions)} - online)
    if not found:
        raise NoStudents(str(submissions))
    return found


def class_folders(submissions: Path, out: Path, earlier: Sequence[Path]) -> list[str]:
    """The students' folders, as `folders` has them. Raises Impossible when there is none, when the results would be
    taken for one, or when one of the folders of earlier assignments is none."""
    for folder in earlier:
        try:
            os.listdir(folder)
        except OSError:
            said = _("{folder} is not a readable folder. Type: python -m grader class SUBMISSIONS --earlier FOLDER")
            raise Impossible(said.format(folder=typed(folder))) from None
    try:
        if out.resolve().is_relative_to(submissions.resolve()):
            raise Impossible(
                _("The results can't go inside {folder}: that is where the students are. "
                  "Type: python -m grader class {folder} --out dist/class").format(folder=typed(submissions))
            )  # fmt: skip
        return folders(submissions)
    except NoStudents:
        problem = _("{folder} contains no student folders. Type: python -m grader class examples/course/submissions")
        loose = left_out(submissions)
        if any(name.endswith(".py") for name in loose) or len(loose) == 1 and loose[0].endswith(".ipynb"):
            problem = _("{folder} is a single submission. Type: python -m grader grade --submission {folder}")
        elif loose:
            problem = _(
                "{folder} holds loose files, but each student needs a folder: put what each handed in, "
                "unpacked, into one. Type: python -m grader class {folder}"
            )
    except FileNotFoundError:
        problem = _("There is no folder {folder}. Type: python -m grader class FOLDER")
    except OSError:
        problem = _("{folder} is not a readable folder. Type: python -m grader class FOLDER")
    raise Impossible(problem.format(folder=typed(submissions)))


def _online_texts(names: list[str]) -> dict[str, list[str]]:
    """What Moodle puts into further folders for somebody who has one with files: by that one."""
    found: dict[str, list[str]] = {}
    known = [(name, match) for name in names if (match := MOODLE_FOLDER.fullmatch(name))]
    files = {(match["name"], match["number"]): name for name, match in known if match["kind"] == "file"}
    for name, match in known:
        own = files.get((match["name"], match["number"]))
        if own is not None and name != own:
            found.setdefault(own, []).append(name)
    return found


def _downloaded(submissions: Path) -> dict[str, list[str]]:
    """The files of a flat download, by student. Canvas's: the login, with the ID behind it where two have the same;
    Moodle's: what it would call the folder."""
    files: dict[tuple[str, str], list[str]] = {}
    for name in sorted(os.listdir(submissions)):
        if moodle := MOODLE_FILE.fullmatch(name):
            if not (submissions / name).is_dir():
                files.setdefault((moodle["folder"], ""), []).append(name)
        elif (match := CANVAS_FILE.fullmatch(name)) and (STEP_FILE.fullmatch(name) or ARCHIVE.fullmatch(name)):
            files.setdefault((_canvas_name(match), match["id"] or ""), []).append(name)
    logins = [login for login, _id in files]
    taken = {login for login in logins if logins.count(login) > 1 or (submissions / login).exists()}
    return {f"{login}_{number}" if login in taken else login: names for (login, number), names in files.items()}


def canvas_names(match: re.Match[str]) -> list[str]:
    """What the student of a file of Canvas's may be called here."""
    return [_canvas_name(match), f"{_canvas_name(match)}_{match['id'] or ''}"]


def _canvas_name(match: re.Match[str]) -> str:
    return str(match["anonymous"] or match["login"])


def _may_be_folder(path: Path) -> bool:
    """Whether it is a folder, or a link that leads where nobody may look: its student is named and not left out."""
    try:
        return path.is_dir()
    except OSError:
        return True


def left_out(submissions: Path) -> list[str]:
    """The files beside the students' folders that somebody may have handed in, in order."""
    loose = (name for name in os.listdir(submissions) if not name.startswith("."))
    handed_in = (name for name in loose if STEP_FILE.fullmatch(name) or ARCHIVE.fullmatch(name))
    read = {name for names in _downloaded(submissions).values() for name in names}
    return sorted(name for name in handed_in if name not in read and os.path.isfile(submissions / name))


def students(submissions: Path, names: list[str], assignment: str, before: Sequence[Path] = ()) -> Iterator[Student]:
    """Each student with what was handed in, read as it is asked for; `before` are the folders of earlier assignments of
    the same class, the last one last."""
    downloaded, online = _downloaded(submissions), _online_texts(os.listdir(submissions))
    classes = [EarlierClass(folder) for folder in before]
    others = _other_assignments(submissions, names, assignment)
    for folder in names:
        if folder in downloaded:
            student = _from_download(submissions, folder, downloaded[folder])
        elif others and _holds_only(submissions / folder, others):  # this one was not handed in
            student = Student(readable(folder), file_name(folder), Submission(readable(folder)))
        else:
            student = _from_folder(submissions, folder, assignment, online.get(folder, ()))
        for one in classes:
            one.add_to(student.submission, folder, assignment)
        yield student


def _other_assignments(submissions: Path, names: list[str], assignment: str) -> set[str]:
    """What stands beside this assignment in students' folders, where they hold several, as nbgrader's do."""
    found: set[str] = set()
    for name in names:
        inside = _inside(submissions / name)
        if assignment in inside:
            found |= inside - {assignment}
    return found


def _holds_only(folder: Path, others: set[str]) -> bool:
    """Whether a student's folder holds nothing but other assignments."""
    inside = _inside(folder)
    return bool(inside) and inside <= others and not any(map(STEP_FILE.fullmatch, os.listdir(folder)))


def _inside(folder: Path) -> set[str]:
    """The folders in a student's own."""
    with suppress(OSError), os.scandir(folder) as listing:
        return {entry.name for entry in listing if entry.is_dir(follow_symlinks=False) and entry.name[0] != "."}
    return set()


class EarlierClass:
    """The folder of an earlier assignment, in which the same people are found by what they are called."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._downloaded = _downloaded(path)
        names = [*self._downloaded, *(name for name in os.listdir(path) if _may_be_folder(path / name))]
        people = [_person(name) for name in names]
        self._folders = {person: name for person, name in zip(people, names, strict=True) if people.count(person) == 1}

    def add_to(self, submission: Submission, folder: str, assignment: str) -> None:
        """Adds what this student handed in there; what can't be read there is no answer."""
        name = self._folders.get(_person(folder))
        if name is None:
            return
        with suppress(OSError):
            files = self._downloaded.get(name)
            found = read(self._path, files) if files else _handed_in(self._path / name, assignment)
            submission.add_earlier(found, readable(self._path.name))


def _person(name: str) -> str:
    """Who a folder belongs to: Moodle's number in its name is another one in each assignment."""
    match = MOODLE_FOLDER.fullmatch(name)
    return match["name"] if match else name


def _from_folder(submissions: Path, folder: str, assignment: str, online: Sequence[str]) -> Student:
    name, problem = readable(folder), ""
    labs: tuple[str, ...] = ()
    try:
        handed_in = _handed_in(submissions / folder, assignment)
        problem = _without_answer(submissions / folder, name, handed_in)
        labs = lab_log.names(step_folder(submissions / folder, assignment))
    except Exception as error:  # whatever is wrong with one folder is nobody else's problem
        handed_in = Submission(name)
        reason = getattr(error, "strerror", None) or error or type(error).__name__
        problem = _("{folder} can't be read ({reason}).").format(folder=name, reason=reason)
    for text in online:
        handed_in.unread[f"{readable(text)}/"] = _("it is a text that was typed into Moodle")
    handed_in.name = name  # and not that of a folder inside the student's own
    return Student(name, file_name(folder), handed_in, problem, labs=labs)


def _from_download(submissions: Path, name: str, files: list[str]) -> Student:
    """A student of a flat download, of Moodle's too."""
    matches = [match for match in map(CANVAS_FILE.fullmatch, files) if match and not MOODLE_FILE.fullmatch(match[0])]
    handed_in = read(submissions, files)
    handed_in.name, problem = readable(name), ""
    if not {step.name for step in step_folders()} & (handed_in.sources.keys() | handed_in.problems.keys()):
        said = _("No answer was found in {files}.")
        problem = said.format(files=", ".join(map(readable, files[:MAX_NAMED])))
    late = any(match["late"] or match["early"] for match in matches)
    number = (matches[0]["id"] or "") if matches else ""
    return Student(handed_in.name, file_name(name), handed_in, problem, number, late)


def file_name(name: str) -> str:
    """A file name for a student, without its ending, that every system can write and no other student gets."""
    plain = NOT_IN_NAMES.sub("_", readable(name)).strip(". ")
    plain = plain.encode()[:LONGEST].decode("utf-8", "ignore").strip(". ")
    if RESERVED.fullmatch(plain):
        plain = f"_{plain}"
    if plain and plain == name:
        return plain
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{plain or 'student'}~{digest}"


def _handed_in(folder: Path, assignment: str) -> Submission:
    if folder.is_symlink():
        raise OSError(errno.ELOOP, _("it is a link; links are not followed"))
    place = step_folder(folder, assignment)
    handed_in = read(place)
    if place == folder / assignment:  # as nbgrader keeps them
        earlier.add_siblings(handed_in, place)
    return handed_in


def _without_answer(folder: Path, name: str, handed_in: Submission) -> str:
    """Why a folder that holds files and no answer can't be graded: they may well be everything. Else nothing."""
    if {step.name for step in step_folders()} & (handed_in.sources.keys() | handed_in.problems.keys()):
        return ""
    there = sorted(_files(folder))
    for file in there:
        if ARCHIVE.fullmatch(file):
            said = _("{folder} holds an archive and no answer: unpack {file} there.")
            return said.format(folder=name, file=readable(file))
    if not there:
        return ""
    files = ", ".join([readable(file) for file in there[:MAX_NAMED]] + ["…"] * (len(there) > MAX_NAMED))
    said = _(
        "No answer was found in {folder}, only {files}. Put the notebook, or step files with names like "
        "{step}.py, directly into that folder."
    )
    return said.format(folder=name, files=files, step=step_folders()[0].name)


def _files(folder: Path) -> Iterator[str]:
    """The names of the files in a student's folder, at any depth, that a person may have put there."""
    return (entry.name for entry in walk(folder, NOT_STUDENTS) if entry.name not in BY_NBGRADER)


def step_folder(folder: Path, assignment: str) -> Path:
    """Where the step files stand: in the folder, in one of a known name inside it, or in its only subfolder."""
    for _level in range(DEEPEST):
        with os.scandir(folder) as listing:
            entries = list(listing)
        if any(STEP_FILE.fullmatch(entry.name) for entry in entries):
            break
        inside = [
            entry.name for entry in entries
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".") and entry.name not in NOT_STUDENTS
        ]  # fmt: skip
        known = [name for name in (assignment, *KNOWN) if name in inside]
        if not known and len(inside) != 1:
            break
        folder /= known[0] if known else inside[0]
    return folder
