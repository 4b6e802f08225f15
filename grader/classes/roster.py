"""The students of a class: one subfolder each, whatever its name, found without following a link or running a line."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from grader.base.downloads import NOT_STUDENTS, BadDownload, Person, left_out, people
from grader.base.files import walk
from grader.base.language import gettext as _
from grader.base.limited import Limited, OverBudget
from grader.base.names import Roll
from grader.base.paths import typed
from grader.course import earlier, lab_log, unread
from grader.course.submissions import Submission, read, readable
from grader.course.unread import ARCHIVE, cut, note_left

STEP_FILE = re.compile(r"(?:(?!step\d{2}_\w).)*+step\d{2}_\w.*\.py|.+\.ipynb", re.IGNORECASE)  # renamed ones too
KNOWN = ("exercises", "submission")  # where a learner's files stand inside what was handed in
OF_A_KIT = (
    "grader", "steps", "classroom50", "dist", ".venv", ".vscode", "Makefile", "README.md", "README.ko.md", "LICENSE",
    "conftest.py", "pytest.ini", "requirements",
)  # fmt: skip
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

    `problem` says why nothing can be read there; the student is then an error, and not a zero. `canvas_id`, `late`,
    `login` and `handed_in` are what the learning platform says; `folder` is where the student's files are.
    """

    name: str
    file: str
    submission: Submission = field(repr=False)
    problem: str = ""
    canvas_id: str = ""
    late: bool = False
    labs: tuple[str, ...] = ()  # that the student's own list names
    login: str = ""
    handed_in: str = ""
    folder: Path = Path()
    before: tuple[Student, ...] = ()  # earlier attempts, the oldest first, where they were asked for


def folders(submissions: Path) -> list[str]:
    """What the students of a class are called, in order. Raises NoStudents, BadDownload."""
    everybody = list(people(submissions))
    if not everybody:
        raise NoStudents(str(submissions))
    return everybody


def roll(submissions: Path) -> Roll:
    """The students by what they are called, with the names and logins that a learning platform gives."""
    everybody = {readable(name): person for name, person in people(submissions).items()}
    bare = {name: person.bare for name, person in everybody.items() if person.bare}
    return Roll({name: [person.login] for name, person in everybody.items()}, bare)


def class_folders(submissions: Path, out: Path, earlier: Sequence[Path]) -> list[str]:
    """The students' folders, as `folders` has them. Raises Impossible when there is none, when the results would be
    taken for one, or when one of the folders of earlier assignments is none."""
    for folder in earlier:
        try:
            os.listdir(folder)
        except OSError:
            sentence = _("{folder} is not a readable folder. Type: python -m grader class SUBMISSIONS --earlier FOLDER")
            raise Impossible(sentence.format(folder=typed(folder))) from None
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
        elif any(STEP_FILE.fullmatch(name) or ARCHIVE.fullmatch(name) for name in loose):
            problem = _(
                "{folder} holds loose files, but each student needs a folder: put what each handed in, "
                "unpacked, into one. Type: python -m grader class {folder}"
            )
    except BadDownload as bad:
        raise Impossible(_("{problem} Type: {command}").format(problem=bad, command="make release")) from None
    except FileNotFoundError:
        problem = _("There is no folder {folder}. Type: python -m grader class FOLDER")
    except OSError:
        problem = _("{folder} is not a readable folder. Type: python -m grader class FOLDER")
    raise Impossible(problem.format(folder=typed(submissions)))


def students(
    submissions: Path, names: list[str], assignment: str, before: Sequence[Path] = (), *, attempts: int = 1,
    reader: Limited | None = None,
) -> Iterator[Student]:  # fmt: skip
    """Each student with what was handed in, read as it is asked for; `before` are the folders of earlier assignments of
    the same class, the last one last. Of several attempts so many are read, the last ones.

    Each is read by the `reader`, within a budget of one person; what is over it is a problem of theirs.
    """
    own = None if reader else Limited()
    try:
        for name in names:
            try:
                student: Student = (reader or own or Limited()).call(
                    one, submissions, name, assignment, before, attempts
                )
            except OverBudget as over:
                problem = _("{folder} can't be read ({reason}).").format(folder=readable(name), reason=over)
                student = Student(readable(name), file_name(name), Submission(readable(name)), problem)
            yield student
    finally:
        if own:
            own.close()


def one(submissions: Path, name: str, assignment: str, before: Sequence[Path], attempts: int) -> Student:
    """One student of a class, as `students` has them."""
    everybody, others, classes = _class(submissions, assignment, tuple(before))
    person = everybody[name]
    if person.files:
        student = _from_download(submissions, person)
    elif others and _holds_only(submissions / person.folder, others):  # this one was not handed in
        student = Student(readable(name), file_name(name), Submission(readable(name)))
    else:
        student = _last_attempt(submissions, person, assignment, others, attempts)
    for before_this in classes:
        for attempt in (student, *student.before):
            before_this.add_to(attempt.submission, person, assignment)
    return dataclasses.replace(
        student, canvas_id=person.canvas_id, late=person.late, login=person.login,
        handed_in=student.handed_in or person.handed_in,
        folder=student.folder if person.attempts else submissions / (person.folder or person.name),
    )  # fmt: skip


@lru_cache(1)
def _class(
    submissions: Path, assignment: str, before: tuple[Path, ...]
) -> tuple[dict[str, Person], set[str], list[EarlierClass]]:
    """Whom the folder names, the other assignments in their folders, and the earlier ones: looked for once."""
    everybody = people(submissions)
    others = _other_assignments(submissions, [each.folder for each in everybody.values() if each.folder], assignment)
    return everybody, others, [EarlierClass(folder, everybody.values()) for folder in before]


def _other_assignments(submissions: Path, names: list[str], assignment: str) -> set[str]:
    """What stands beside this assignment in students' folders, where they hold several, as nbgrader's do."""
    others: set[str] = set()
    for name in names:
        inside = _inside(submissions / name)
        if assignment in inside:
            others |= inside - {assignment}
    return others


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
    """The folder of an earlier assignment, in which those of a `later` one are found by their names, if that is
    clear in both."""

    def __init__(self, path: Path, later: Iterable[Person]) -> None:
        self._path = path
        everybody = list(people(path).values())
        keys, now = Counter(person.key for person in everybody), Counter(person.key for person in later)
        self._people = {member.key: member for member in everybody if keys[member.key] == 1 and now[member.key] == 1}

    def add_to(self, submission: Submission, person: Person, assignment: str) -> None:
        """Adds what this student handed in there; what can't be read there is no answer."""
        own = self._people.get(person.key)
        if own is None or own.is_other(person):
            return
        with suppress(OSError):
            handed_in = read(self._path, own.files) if own.files else _handed_in(self._path / own.folder, assignment)
            submission.add_earlier(handed_in, readable(self._path.name))


def _last_attempt(
    submissions: Path, person: Person, assignment: str, others: Collection[str], attempts: int
) -> Student:  # fmt: skip
    """A student's last attempts, so many of them."""
    folders = person.attempts or {person.folder: person.handed_in}
    read = [
        dataclasses.replace(_from_folder(submissions, person, folder, assignment, others), handed_in=when)
        for folder, when in list(folders.items())[-attempts:]
    ]
    submission = read[-1].submission
    for name in (f"{readable(folder.rpartition('/')[2])}/" for folder in list(folders)[: -len(read)]):
        if attempts == 1:
            submission.files[name] = _("an earlier attempt: the last counts")
        else:
            submission.leave(name, _("an earlier attempt: the last {count} are graded", count=attempts))
    cut(submission)
    return dataclasses.replace(read[-1], before=tuple(read[:-1]))


def _from_folder(
    submissions: Path, person: Person, where: str, assignment: str, others: Collection[str]
) -> Student:  # fmt: skip
    name, problem, folder = readable(person.name), "", submissions / where
    labs: tuple[str, ...] = ()
    try:
        handed_in = _handed_in(folder, assignment)
        handed_in.name = name  # and not that of a folder inside the student's own
        place = step_folder(folder, assignment)
        labs = lab_log.names(place)
        _note_beside(handed_in, folder, place, others)
    except Exception as error:  # whatever is wrong with one folder is nobody else's problem
        handed_in = Submission(name)
        reason = getattr(error, "strerror", None) or error or type(error).__name__
        problem = _("{folder} can't be read ({reason}).").format(folder=name, reason=reason)
    for text in person.texts:
        handed_in.leave(f"{readable(text)}/", _("it is a text that was typed into Moodle"))
    problem = problem or unread.without_answer(handed_in)
    return Student(name, file_name(person.name), handed_in, problem, labs=labs, folder=folder)


def _from_download(submissions: Path, person: Person) -> Student:
    """A student of a flat download, of Moodle's too."""
    handed_in = read(submissions, person.files)
    handed_in.name = readable(person.name)
    return Student(handed_in.name, file_name(person.name), handed_in, unread.without_answer(handed_in))


def _note_beside(handed_in: Submission, folder: Path, place: Path, others: Collection[str]) -> None:
    """Names what lies in a student's folder outside of the one that was read: on the way to it, folder by folder."""
    while place != folder:
        place, inside = place.parent, place.name
        kit = (place / "grader").is_dir() and (place / "steps").is_dir()  # the student's copy of the whole kit
        for name in sorted(os.listdir(place)):
            shown = readable((place / name).relative_to(folder).as_posix())
            if name == inside:
                continue
            if place == folder and name in others:
                handed_in.files[f"{shown}/"] = _("another assignment")
            elif kit and name in OF_A_KIT:
                handed_in.files[f"{shown}/" if (place / name).is_dir() else shown] = _(
                    "part of what everybody was given"
                )
            else:
                reason = _("it is outside of {folder}, where the answers are").format(folder=f"{inside}/")
                note_left(handed_in, place / name, shown, reason)
    cut(handed_in)


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


def step_folder(folder: Path, assignment: str) -> Path:
    """Where the step files stand: in the folder, in one of a known name inside it, or in its only subfolder."""
    for _level in range(DEEPEST):
        with os.scandir(folder) as listing:
            entries = list(listing)
        if any(STEP_FILE.fullmatch(entry.name) for entry in entries):
            break
        loose = any(entry.name.endswith(".py") for entry in entries)
        inside = [
            entry.name for entry in entries
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".") and entry.name not in NOT_STUDENTS
        ]  # fmt: skip
        names = [name for name in (assignment, *KNOWN) if name in inside]
        if not names and len(inside) != 1:
            break
        further = folder / (names[0] if names else inside[0])
        if loose and not any(STEP_FILE.fullmatch(entry.name) for entry in walk(further, NOT_STUDENTS)):
            break  # the answers may be here, under names of their own
        folder = further
    return folder
