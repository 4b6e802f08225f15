"""The students of a class: those of the download, named as the roster names them, and those on the roster alone."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from grader.base.downloads import left_out
from grader.base.downloads import people as named_in
from grader.base.files import walk
from grader.base.language import gettext as _
from grader.base.layouts import ATTEMPT, NOT_STUDENTS, BadDownload, Person, may_be_folder
from grader.base.names import Roll, look
from grader.base.paths import STEP_NAME, typed
from grader.course.submissions import readable
from grader.course.unread import ARCHIVE
from grader.marks.register import NONE, Register, RosterEntry

STEP_FILE = re.compile(r"(?:(?!step\d{2}_\w).)*+step\d{2}_\w.*\.py|.+\.ipynb", re.IGNORECASE)  # renamed ones too
HANGUL = re.compile("[가-힣]")
KNOWN = ("exercises", "submission")  # folders of a learner's files inside a submission
SUBMITTED = "submitted"  # in a course of nbgrader's


class Impossible(RuntimeError):
    """A class can't be graded so. One line, which ends in the command to type next."""


class NoStudents(ValueError):
    """The folder holds no subfolder that could be a student's."""


def people(submissions: Path, register: Register = NONE) -> dict[str, Person]:
    """All students of a class by the name of their row, sorted: those in the folder of submissions, called as the
    roster calls them, and those on the roster alone. Raises BadDownload, OSError."""
    found = named_in(submissions)
    if not register.people and not register.groups:
        return found
    students = {person.name: person for person in _called(found.values(), register)}
    for group, members in register.groups.items():
        _share(students, group, members, register)
    for name, entry in register.people.items():
        if name not in students:
            absent = Person(name, is_absent=True, missing=_("Nothing was handed in: only the roster names them."))
            students[name] = _enrolled(absent, entry)
    return {name: students[name] for name in sorted(students)}


def _called(found: Iterable[Person], register: Register) -> list[Person]:
    """The people by their names on the roster; if two may be the same student there, both keep the platform's name."""
    roll, by_number = register.roll, {entry.canvas_id: entry for entry in register.people.values() if entry.canvas_id}
    meant = [(person, _entry(person, register, roll, by_number)) for person in found]
    several = Counter(entry.name for _person, entry in meant if entry)
    return [_enrolled(person, entry) if entry and several[entry.name] == 1 else person for person, entry in meant]


def _entry(person: Person, register: Register, roll: Roll, by_number: dict[str, RosterEntry]) -> RosterEntry | None:
    """The roster's entry for a person: found by a platform's ids, then by name, unless their addresses differ; None if
    none or several fit."""
    if person.canvas_id in by_number:
        return by_number[person.canvas_id]
    for label in filter(None, (person.login, person.bare, person.name)):
        if names := roll.meant(label):
            entry = register.people[names[0]]
            addresses = [look(login) for login in entry.logins if "@" in login]
            is_other = "@" in person.login and addresses and look(person.login) not in addresses
            return None if len(names) > 1 or is_other else entry
    own = (person.name if person.canvas_id else person.bare).partition("_")[0]
    if person.canvas_id or HANGUL.search(own):  # `lovelaceada` at Canvas is Ada Lovelace, and `민서 김` is 김민서
        run_on = [entry for name, entry in register.people.items() if _run_on(own) & _run_on(name)]
        return run_on[0] if len(run_on) == 1 else None
    return None


def _run_on(name: str) -> set[str]:
    """The spellings of a name without spaces, once with each of its words first."""
    words = look(name).split()
    return {"".join(words[index:] + words[:index]) for index in range(len(words))}


def _enrolled(person: Person, entry: RosterEntry) -> Person:
    """A copy of this student of the download, with the name and section of the roster. The roster's first login and its
    Canvas id count only if the download has none; `bare` keeps the name in the download."""
    login = person.login or next(iter(entry.logins), "")
    return replace(
        person, name=entry.name, bare=person.bare or person.name, login=login,
        canvas_id=person.canvas_id or entry.canvas_id, section=entry.section,
    )  # fmt: skip


def _share(students: dict[str, Person], group: str, members: Sequence[str], register: Register) -> None:
    """Puts each member of a group into `students` with the group's submission, which is under its name, and removed
    from there, or that of one member. Members with a submission of their own keep it."""
    roll = Roll(
        {name: [person.login] for name, person in students.items()},
        {name: person.bare for name, person in students.items() if person.bare},
    )
    own = {member: register.roll.own(member) if member not in roll.meant(member) else member for member in members}
    own = {member: roll.own(name) for member, name in own.items()}
    there = [students[name] for name in own.values() if name in students]
    together = [person for name, person in students.items() if look(person.bare or name) == look(group)]
    handed_in = together or there
    for name in own.values():
        if name in students:
            continue
        entry = register.people.get(name, RosterEntry(name))
        shared = Person(name, missing=_("Nothing was handed in, and several of the group {group} handed in: a person "
                                        "must say which counts.", group=group))  # fmt: skip
        if len(handed_in) == 1:
            first = handed_in[0]
            names = (first.name, first.bare, first.login)
            shared = replace(first, name=name, login="", canvas_id="", moodle_id="", back="", bare="", shared=names)
        elif not handed_in:
            continue
        students[name] = _enrolled(shared, entry)
    for person in together:
        if person.name not in own.values():
            students.pop(person.name, None)


def strangers(students: Iterable[Person], register: Register) -> list[str]:
    """The names of the people who handed in and aren't on the roster; empty without a roster."""
    return [person.name for person in students if register.lacks(person.name)]


def read(submissions: Path, register: Register = NONE) -> list[Person]:
    """The students of a class, by name. Raises NoStudents if no one handed in, BadDownload."""
    students = list(people(submissions, register).values())
    if all(person.is_absent for person in students):
        raise NoStudents(str(submissions))
    return students


def roll(listed: Iterable[Person], register: Register = NONE) -> Roll:
    """The names of the students' rows, with the other names and logins that a learning platform or the roster has."""
    students = {readable(person.name): person for person in listed}
    bare = {name: person.bare for name, person in students.items() if person.bare}
    logins: dict[str, list[str]] = defaultdict(list)
    for name, person in students.items():
        entry = register.people.get(name, RosterEntry(name))
        logins[name] = [login for login in (person.login, *entry.logins) if login]
    return Roll({name: logins[name] for name in students}, bare)


def shared(listed: Iterable[Person]) -> dict[str, tuple[str, ...]]:
    """For each student with the submission of another member of the group, the names by which a table may know that
    one."""
    return {readable(person.name): person.shared for person in listed if person.shared}


def required(
    submissions: Path, out: Path, earlier: Sequence[Path], register: Register = NONE, assignment: str = "attention"
) -> list[Person]:
    """The students of a class, as `read` has them. Raises Impossible without a folder, when the results would be
    taken for one, when the class lies in another folder, or when one of the folders of earlier assignments is not a
    folder."""
    for folder in earlier:
        try:
            os.listdir(folder)
        except OSError:
            sentence = _("{folder} is not a readable folder. Type: python -m grader class SUBMISSIONS --earlier FOLDER")
            raise Impossible(sentence.format(folder=typed(folder))) from None
    try:
        if out.resolve().is_relative_to(submissions.resolve()):
            raise Impossible(
                _(
                    "The results can't go inside {folder}: that is where the students are. "
                    "Type: python -m grader class {folder} --out dist/class"
                ).format(folder=typed(submissions))
            )
        _require_level(submissions, assignment)
        return read(submissions, register)
    except NoStudents:
        problem = _no_students(submissions)
    except BadDownload as bad:
        raise Impossible(_("{problem} Type: {command}").format(problem=bad, command="make class")) from None
    except FileNotFoundError:
        problem = _("There is no folder {folder}. Type: python -m grader class FOLDER")
    except OSError:
        problem = _("{folder} is not a readable folder. Type: python -m grader class FOLDER")
    raise Impossible(problem.format(folder=typed(submissions)))


def _no_students(submissions: Path) -> str:
    """A sentence on a folder without students, `{folder}` in it: what it seems to be, and the command for that."""
    loose = left_out(submissions)
    if any(name.endswith(".py") for name in loose) or len(loose) == 1 and loose[0].endswith(".ipynb"):
        return _("{folder} is a single submission. Type: python -m grader grade --submission {folder}")
    if any(STEP_FILE.fullmatch(name) or ARCHIVE.fullmatch(name) for name in loose):
        return _(
            "{folder} holds loose files, but each student needs a folder: put what each handed in, "
            "unpacked, into one. Type: python -m grader class {folder}"
        )
    return _("{folder} contains no student folders. Type: python -m grader class examples/course/submissions")


def _require_level(submissions: Path, assignment: str) -> None:
    """Raises Impossible if the class is in a subfolder, or the folder is that of one student."""
    names = [name for name in os.listdir(submissions) if name not in NOT_STUDENTS and not name.startswith(".")]
    inside = [name for name in names if may_be_folder(submissions / name)]
    if {SUBMITTED, "source"} <= set(inside):
        raise _elsewhere(
            _("{folder} is a course of nbgrader's, with the submissions in {right}."),
            submissions,
            submissions / SUBMITTED,
        )
    if len(inside) == 1 and len(names) == 1 and _is_class(submissions / inside[0], assignment):
        raise _elsewhere(
            _("{folder} holds only {right}, in which the students are: it is one folder too high."),
            submissions,
            submissions / inside[0],
        )
    own = [name for name in names if STEP_NAME.fullmatch(name.removesuffix(".py")) and name.endswith(".py")]
    is_own = own and not _named_in_flat(submissions) or inside and set(inside) <= {"exercises"}
    parent = submissions.resolve().parent
    if is_own and _is_class(parent, assignment):
        raise _elsewhere(
            _("{folder} is one student's, and the class is in {right}: it is one folder too low."), submissions, parent
        )


def _elsewhere(sentence: str, submissions: Path, right: Path) -> Impossible:
    """The error, not raised, for a class in the folder `right`, with the command for it; `sentence` names `{folder}`
    and `{right}`."""
    with suppress(ValueError):
        right = right.relative_to(Path.cwd())
    text = sentence.format(folder=typed(submissions), right=typed(right))
    return Impossible(_("{problem} Type: {command}", problem=text, command=f"python -m grader class {typed(right)}"))


def _named_in_flat(submissions: Path) -> bool:
    """True if a download is flat: its files, not folders, name the students."""
    with suppress(BadDownload, OSError):
        return any(person.files for person in named_in(submissions).values())
    return False


def _is_class(folder: Path, assignment: str) -> bool:
    """True if a folder holds several students' folders, each with something to grade, and is not itself a student's."""
    with suppress(BadDownload, OSError):
        names = set(os.listdir(folder))
        if names & {assignment, *KNOWN} or any(map(STEP_FILE.fullmatch, names)):
            return _named_in_flat(folder)
        students = named_in(folder).values()
        places = [folder / (person.folder or person.name) for person in students if not person.files]
        theirs = [place for place in places if any(map(STEP_FILE.fullmatch, _names(place)))]
        several = sum(bool(person.files) for person in students) + len(theirs)
        return several > 1 and not all(ATTEMPT.fullmatch(person.name) for person in students)
    return False


def _names(place: Path) -> list[str]:
    """The names of the files in a folder and in those inside it."""
    return [entry.name for entry in walk(place, NOT_STUDENTS)]
