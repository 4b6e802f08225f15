"""The students of a class: one subfolder each, whatever its name, found without following a link or running a line."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from grader.base.files import walk
from grader.base.language import gettext as _
from grader.base.layouts import NOT_STUDENTS, Attempt, Person
from grader.base.limited import LimitedProcess, OverBudget
from grader.classes.class_list import KNOWN, STEP_FILE, people
from grader.classes.unpack import MAX_PACKED, NotUnpacked, unpacked
from grader.course import earlier, lab_log, unread
from grader.course.submissions import NoSubmission, Submission, read, readable
from grader.course.unread import cut, note_left
from grader.marks import second_look
from grader.marks.register import NONE, Register
from grader.marks.second_look import Appeal

OF_A_KIT = (
    "grader", "steps", "classroom50", "dist", ".venv", ".vscode", "Makefile", "README.md", "README.ko.md", "LICENSE",
    "conftest.py", "pytest.ini", "requirements",
)  # fmt: skip
DEEPEST = 3  # folders inside a student's own
NOT_IN_NAMES = re.compile(r'[<>:"/\\|?*%~\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]')
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # on Windows, with any ending
LONGEST = 120  # bytes of a file name before the part that tells it from others


@dataclass(frozen=True)
class Student:
    """A student, and what they handed in.

    `problem` says why nothing can be read there; the student is then an error, and not a zero. `handed_in` is the time
    that the learning platform says; `folder` is where the student's files are.
    """

    person: Person
    submission: Submission = field(repr=False)
    problem: str = ""
    labs: tuple[str, ...] = ()  # that the student's own list names
    stranger: bool = False  # they are not on the roster
    handed_in: str = ""
    folder: Path = Path()
    requests: tuple[Appeal, ...] = ()  # for a second look
    before: tuple[Student, ...] = ()  # earlier attempts, the oldest first, if they were asked for

    @property
    def name(self) -> str:
        """The student's name, safe to print in one line."""
        return readable(self.person.name)

    @property
    def file(self) -> str:
        """The name of the files about the student, without its ending."""
        return file_name(self.person.name)


def students(
    submissions: Path, listed: Iterable[Person], assignment: str, before: Sequence[Path] | None = (), *,
    attempts: int = 1, reader: LimitedProcess | None = None, register: Register = NONE,
) -> Iterator[Student]:  # fmt: skip
    """The students with what they handed in, each read when it is asked for. `before` are the folders of earlier
    assignments of the same class, the last one last; None: nothing of another assignment is read. Of each student the
    last `attempts` are read.

    The process `reader` reads each within the time that one may take; a student who takes more gets a problem.
    """
    own = None if reader else LimitedProcess()
    try:
        for person in listed:
            try:
                student: Student = (reader or own or LimitedProcess()).call(
                    read_student, submissions, person, assignment, before and tuple(before), attempts, register
                )
            except OverBudget as over:
                name = readable(person.name)
                problem = _("{folder} can't be read ({reason}).").format(folder=name, reason=over)
                student = Student(person, Submission(name), problem, stranger=register.lacks(person.name))
            yield student
    finally:
        if own:
            own.close()


def read_student(
    submissions: Path, person: Person, assignment: str, before: tuple[Path, ...] | None, attempts: int,
    register: Register,
) -> Student:  # fmt: skip
    """One student of a class, as `students` has them."""
    others, classes, given_files = _class(submissions, assignment, before or (), register)
    if person.missing:
        student = Student(person, Submission(readable(person.name)), person.missing)
    elif person.folder and others and _holds_only(submissions / person.folder, others):  # this one was not handed in
        student = Student(person, Submission(readable(person.name)))
    else:
        student = _last_attempt(submissions, person, assignment, others, attempts, siblings=before is not None)
    for attempt in (student, *student.before):
        given_files.note(attempt)
        for before_this in classes:
            before_this.add_to(attempt.submission, person, assignment)
    return dataclasses.replace(
        student, stranger=register.lacks(person.name), handed_in=student.handed_in or person.handed_in,
        folder=student.folder if person.attempts else submissions / (person.folder or person.name),
    )  # fmt: skip


@lru_cache(1)
def _class(
    submissions: Path, assignment: str, before: tuple[Path, ...], register: Register
) -> tuple[set[str], list[EarlierClass], Given]:
    """The names of other assignments in the students' folders, the classes of earlier ones, and the files given to all;
    cached."""
    students = people(submissions, register).values()
    others = _other_assignments(submissions, [each.folder for each in students if each.folder], assignment)
    classes = [EarlierClass(folder, people(folder, register), students) for folder in before]
    return others, classes, given_to_all(submissions, students)


def _other_assignments(submissions: Path, names: list[str], assignment: str) -> set[str]:
    """The names of the other assignments in students' folders, if these hold several, as nbgrader's do; else empty."""
    others: set[str] = set()
    for name in names:
        inside = _inside(submissions / name)
        if assignment in inside:
            others |= inside - {assignment}
    return others


def _holds_only(folder: Path, others: set[str]) -> bool:
    """Whether a student's folder has folders, all of them named in `others`, the other assignments, and no step file
    next to them; other loose files don't count. False for an empty one."""
    inside = _inside(folder)
    return bool(inside) and inside <= others and not any(map(STEP_FILE.fullmatch, os.listdir(folder)))


def _inside(folder: Path) -> set[str]:
    """The names of the folders in a student's own, but for hidden ones and links."""
    with suppress(OSError), os.scandir(folder) as listing:
        return {entry.name for entry in listing if entry.is_dir(follow_symlinks=False) and entry.name[0] != "."}
    return set()


class EarlierClass:
    """The folder of an earlier assignment, in which those of a `later` one are found by their names, if that is
    clear in both."""

    def __init__(self, path: Path, earlier: Mapping[str, Person], later: Iterable[Person]) -> None:
        self._path = path
        students = list(earlier.values())
        keys, now = Counter(person.key for person in students), Counter(person.key for person in later)
        self._people = {member.key: member for member in students if keys[member.key] == 1 and now[member.key] == 1}

    def add_to(self, submission: Submission, person: Person, assignment: str) -> None:
        """Adds, as `submission.earlier`, this person's answers in the earlier assignment; nothing if they can't be
        read."""
        own = self._people.get(person.key)
        if own is None or own.is_other(person):
            return
        with suppress(OSError):
            handed_in = read(self._path, own.files) if own.files else _handed_in(self._path / own.folder, assignment)[0]
            submission.add_earlier(handed_in, readable(self._path.name))


def _last_attempt(
    submissions: Path, person: Person, assignment: str, others: Collection[str], count: int, *, siblings: bool
) -> Student:
    """A student's last attempt, with up to `count` - 1 earlier ones as `before`; older ones are noted as not read.
    `siblings`: with the steps of other assignments in the student's folder."""
    attempts = person.attempts or [Attempt(person.folder, person.files, person.handed_in)]
    read = []
    for attempt in attempts[-count:]:
        if attempt.files:
            student = _from_download(submissions, person, attempt.files, assignment)
        else:
            student = _from_folder(submissions, person, attempt.folder, assignment, others, siblings=siblings)
        read.append(dataclasses.replace(student, handed_in=attempt.handed_in))
    submission = read[-1].submission
    for attempt in attempts[: -len(read)]:
        for name in [f"{attempt.folder.rpartition('/')[2]}/"] if attempt.folder else attempt.files.values():
            if count == 1:
                submission.files[readable(name)] = _("an earlier attempt: the last counts")
            else:
                sentence = _("an earlier attempt: the last {count} are graded", count=count)
                submission.leave(readable(name), sentence)
    cut(submission)
    return dataclasses.replace(read[-1], before=tuple(read[:-1]))


def _from_folder(
    submissions: Path, person: Person, subfolder: str, assignment: str, others: Collection[str], *, siblings: bool
) -> Student:
    """A student with what the folder `subfolder` of `submissions` holds; `problem` says why it can't be read. `others`:
    names of other assignments; `siblings`: with their steps as earlier ones."""
    name, problem, folder = readable(person.name), "", submissions / subfolder
    labs: tuple[str, ...] = ()
    try:
        handed_in, place = _handed_in(folder, assignment, name)
        handed_in.name = name  # and not that of a folder inside the student's own
        labs = lab_log.names(place)
        _note_beside(handed_in, folder, place, others)
        archives = {file: folder / file for file in handed_in.unread if (folder / file).is_file()}
        handed_in = _with_unpacked(handed_in, archives, assignment)
        if siblings and place == folder / assignment:  # as nbgrader keeps them
            earlier.add_siblings(handed_in, place)
    except Exception as error:  # whatever is wrong with one folder is nobody else's problem
        handed_in = Submission(name)
        reason = getattr(error, "strerror", None) or error or type(error).__name__
        problem = _("{folder} can't be read ({reason}).").format(folder=name, reason=reason)
    for text in person.texts:
        handed_in.leave(f"{readable(text)}/", _("it is a text that was typed into Moodle"))
    requests = _take_appeals(handed_in, {file: folder / file for file in handed_in.unread})
    problem = problem or unread.without_answer(handed_in)
    return Student(person, handed_in, problem, labs=labs, folder=folder, requests=requests)


def _from_download(submissions: Path, person: Person, files: Mapping[str, str], assignment: str) -> Student:
    """A student of a download without folders; `files` has the name of each file there, by the one the student gave
    it."""
    handed_in = read(submissions, files)
    handed_in.name = readable(person.name)
    archives = {readable(own): submissions / file for own, file in files.items()}
    handed_in = _with_unpacked(handed_in, archives, assignment)
    requests = _take_appeals(handed_in, archives)
    problem = unread.without_answer(handed_in)
    return Student(person, handed_in, problem, requests=requests)


def _take_appeals(handed_in: Submission, places: Mapping[str, Path]) -> tuple[Appeal, ...]:
    """The student's requests for a second look, from files of the submission, at `places` on the disk; these files are
    noted as read."""
    found: list[Appeal] = []
    for shown in [file for file in handed_in.unread if second_look.is_request(file.rpartition("/")[2])]:
        if shown in places:
            found += second_look.read(places[shown])
            del handed_in.unread[shown]
            handed_in.files[shown] = _("a request for a second look")
    return tuple(found)


def _with_unpacked(handed_in: Submission, archives: Mapping[str, Path], assignment: str) -> Submission:
    """The submission; if it has no answer, and exactly one of its zip files has, the content of that. `archives`: the
    path of each file."""
    found = {}
    for shown, archive in archives.items():
        if not unread.without_answer(handed_in) or not shown.lower().endswith(".zip") or shown not in handed_in.unread:
            continue
        try:
            with unpacked(archive, shown) as folder:
                inside = read(step_folder(folder, assignment))
                _note_beside(inside, folder, step_folder(folder, assignment), ())
        except (NotUnpacked, NoSubmission, OSError) as problem:
            handed_in.leave(shown, _("it can't be unpacked ({reason})", reason=problem))
            continue
        if not unread.without_answer(inside) and inside.files:
            found[shown] = inside
    if len(found) != 1:
        return handed_in
    ((shown, inside),) = found.items()
    inside.name = handed_in.name
    files = {file: reason for file, reason in handed_in.files.items() if file != shown}
    inside.answers = {f"{shown}/{file}": steps for file, steps in inside.answers.items()}
    inside.files = files | {shown: _("unpacked")} | {f"{shown}/{file}": said for file, said in inside.files.items()}
    rest = {file: reason for file, reason in handed_in.unread.items() if file != shown}
    inside.unread = rest | {f"{shown}/{file}": reason for file, reason in inside.unread.items()}
    inside.sources = {
        module: (f"{handed_in.name}/{file.partition('/')[2] or file}", text)
        for module, (file, text) in inside.sources.items()
    }
    return inside


@dataclass
class Given:
    """Files that all students were given: the same in most folders, by name and content, with the number of folders
    that have each."""

    counts: Mapping[tuple[str, str], int]
    total: int

    def note(self, student: Student) -> None:
        """Moves these files from the student's unread files to `given_files`, with a sentence on each."""
        handed_in = student.submission
        for shown in list(handed_in.unread):
            count = self.counts.get((shown.rstrip("/"), _content(student.folder / shown)), 0)
            if count:
                del handed_in.unread[shown], handed_in.files[shown]
                sentence = _("all students were given it: it is the same in {count} of {total} folders")
                handed_in.given_files[shown] = sentence.format(count=count, total=self.total)


FEWEST_GIVEN = 3  # folders with the same file, before it may be what everyone was given
MAX_GIVEN = 1 << 20  # bytes of a file, or of the files in a hidden folder


def given_to_all(submissions: Path, students: Iterable[Person]) -> Given:
    """Finds the files that most of the students' folders hold: a classroom's README, `.github`, requirements."""
    counts: Counter[tuple[str, str]] = Counter()
    places = [submissions / person.folder for person in students if person.folder and not person.missing]
    for place in set(places):
        with suppress(OSError):
            counts.update((name, digest) for name in os.listdir(place) if (digest := _content(place / name)))
    least = max(FEWEST_GIVEN, len(places) // 2 + 1)
    return Given({key: count for key, count in counts.items() if count >= least}, len(places))


def _content(path: Path) -> str:
    """A digest of a file, or of the files in a hidden folder; empty if it is large, a link or not there."""
    with suppress(OSError):
        if path.is_symlink() or path.name == ".git":
            return ""
        files = sorted(path.rglob("*"))[:MAX_PACKED] if path.is_dir() and path.name.startswith(".") else [path]
        files = [file for file in files if file.is_file() and not file.is_symlink()]
        if not files or sum(file.stat().st_size for file in files) > MAX_GIVEN:
            return ""
        seen = hashlib.sha256()
        for file in files:
            seen.update(file.name.encode(errors="surrogateescape") + b"\0" + file.read_bytes())
        return seen.hexdigest()
    return ""


def _note_beside(handed_in: Submission, folder: Path, place: Path, others: Collection[str]) -> None:
    """Notes as unread all files in a student's `folder` that are outside of its subfolder `place`, which was read."""
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
                    "part of what all students were given"
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


def _handed_in(folder: Path, assignment: str, name: str = "") -> tuple[Submission, Path]:
    """The submission in a student's folder, and the folder of its step files. Raises OSError, for a link too."""
    if folder.is_symlink():
        raise OSError(errno.ELOOP, _("it is a link; links are not followed"))
    place = step_folder(folder, assignment)
    return read(place, called=name if place == folder else ""), place


def step_folder(folder: Path, assignment: str) -> Path:
    """The folder of the step files: the student's own, one of a known name inside it, or its only subfolder."""
    for _level in range(DEEPEST):
        with os.scandir(folder) as listing:
            entries = list(listing)
        if any(STEP_FILE.fullmatch(entry.name) for entry in entries):
            break
        loose = any(entry.name.endswith(".py") for entry in entries)
        inside = [
            entry.name
            for entry in entries
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".") and entry.name not in NOT_STUDENTS
        ]
        names = [name for name in (assignment, *KNOWN) if name in inside]
        if not names and len(inside) != 1:
            break
        further = folder / (names[0] if names else inside[0])
        if loose and not any(STEP_FILE.fullmatch(entry.name) for entry in walk(further, NOT_STUDENTS)):
            break  # the answers may be here, under names of their own
        folder = further
    return folder
