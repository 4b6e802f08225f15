"""Reads a download as each learning platform arranges it: its students, and the files of each.

Each reader takes the folder and the sorted names in it, and returns the students that it recognises; if none does, each
folder is a student, as in nbgrader.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from grader.base.language import gettext as _
from grader.base.names import look

# How Moodle names the folder of a student: full name, number of the submission, kind.
MOODLE_FOLDER = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_(?P<kind>[a-z]++)\w{0,64}+", re.DOTALL)
# In a teacher's download without folders, a file's name starts with the folder's.
MOODLE_FILE = re.compile(
    r"(?P<folder>(?P<name>.+?)_(?P<number>\d+)_assignsubmission_(?P<kind>[a-z]+))_(?P<file>.+)", re.DOTALL
)
# How Canvas names a file of a download: who, whether late, the student's ID, that of the file, its own name; a text
# entry or an address has no file. A name may hold `_`; of an anonymous assignment it is `LATE_anon_x7Ab2_98766_`,
# if no ID of the gradebook is.
CANVAS_FILE = re.compile(
    r"(?:(?P<early>LATE_)?(?P<anonymous>anon_[A-Za-z0-9]{5})|(?P<login>[^_.].*?)(?P<late>_LATE)?_(?P<id>\d+))"
    r"_(?:\d+_(?P<file>.+)|(?P<online>text|link)\.html)",
    re.DOTALL,  # a name may hold a line break
)
# Blackboard: the assignment, who, when; then the file's own name, or next to each attempt a text about it.
BLACKBOARD_FILE = re.compile(
    r"(?P<title>[^/]+?)_(?P<login>[^_]+)_attempt_(?P<time>\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d)(?:_(?P<file>.+)|\.txt)",
    re.DOTALL,
)
BLACKBOARD_NAMES = ("Name:", "이름:")  # the first line of that text: `Name: Ada Lovelace (ada)`
# Brightspace: a folder an attempt, with two numbers, who and when.
BRIGHTSPACE_FOLDER = re.compile(
    r"(?P<numbers>\d+-\d+) ?- (?P<name>[^\n]+?) ?- (?P<time>[A-Z][a-z]{2,8}\.? \d{1,2}, \d{4} \d{1,2}:?\d\d [AP]M)"
)
# Gradescope's export, next to the folders `submission_1001`.
GRADESCOPE = "submission_metadata.yml"
GRADESCOPE_FOLDER = re.compile(r"submission_\d+")
# nbgrader's exchange keeps every attempt as `ada+scores+2026-09-14 23:58:59.123456 UTC+random`.
INBOUND = re.compile(r"(?P<student>[^+]+)\+[^+]+\+(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^+]*)(\+.*)?")
ATTEMPT = re.compile(r"(?:attempt|try|version|제출|시도)[ _-]*(\d+)", re.IGNORECASE)
# If each file is one student's: the prefix that a copy of Drive's, or a platform, adds to a name.
COPY_OF = re.compile(r"(?:copy of |copia de |kopie van |사본 - |사본_)", re.IGNORECASE)
ALONE = (".ipynb", ".py", ".zip")
STEP = re.compile(r"step\d\d(?:_[a-z0-9]+)*", re.IGNORECASE)
AROUND = " \t_-+()[]"  # what separates the parts of a file's name
NOT_STUDENTS = ("__MACOSX", "__pycache__", ".git", ".DS_Store", "Thumbs.db", "desktop.ini")  # made by programs
MAX_METADATA = 64 << 20  # bytes: it holds the results of every attempt
MAX_ABOUT = 64 << 10  # bytes of a text next to an attempt


class BadDownload(ValueError):
    """A platform's own file next to the submissions can't be read. One sentence."""


@dataclass
class Attempt:
    """One attempt of a student: a folder, or in a flat download the files; with the time that the platform says."""

    folder: str = ""
    files: dict[str, str] = field(default_factory=dict)
    handed_in: str = ""


@dataclass
class Person:
    """A student in a download: the name of their row, and their files: `folder`, and in a flat download `files`, each
    on the disk by its own name.

    `texts` are further folders of Moodle's, `canvas_id`, `moodle_id`, `late`, `login` and `handed_in` what a platform
    says of them; `bare` is the name without what was added to tell people apart. `back` is how the platform's own names
    start, by which it finds the student of a page that is uploaded. `missing` says why they have no files here, and
    `section` is the roster's; `attempts`, if there are several, has the last one last; `shared` are the names
    of the student who handed in for the group.
    """

    name: str
    folder: str = ""
    files: dict[str, str] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    canvas_id: str = ""
    late: bool = False
    login: str = ""
    handed_in: str = ""
    bare: str = ""
    attempts: list[Attempt] = field(default_factory=list)
    moodle_id: str = ""
    back: str = ""
    missing: str = ""
    section: str = ""
    is_absent: bool = False  # the roster has them, and the download has not
    shared: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The person's key in any assignment: Moodle's number differs in each."""
        return look(self.bare if self.moodle_id else self.name)

    def is_other(self, person: Person) -> bool:
        """True if both have a login and the two differ in more than their look, as case; neither their names nor
        `canvas_id` and `moodle_id` count."""
        return bool(self.login and person.login) and look(self.login) != look(person.login)


def may_be_folder(path: Path) -> bool:
    """True for a folder, and for a link that can't be followed for lack of permission: its student is listed, not left
    out."""
    try:
        return path.is_dir()
    except OSError:
        return True


def add_file(files: dict[str, str], own: str, name: str) -> None:
    """Adds the file called `name` on the disk under its `own` name, with a number in it if that is taken."""
    stem, dot, ending = own.rpartition(".")
    numbered = (f"{stem}-{count}{dot}{ending}" for count in range(1, len(files) + 1))
    files[own if own not in files else next(free for free in numbered if free not in files)] = name


def told_apart(students: Iterable[Person], number: Callable[[Person], str]) -> list[Person]:
    """The same people, each `name` set to the bare one; names that look alike get the platform's number behind them."""
    people = list(students)
    looks = Counter(look(person.bare) for person in people)
    for person in people:
        person.name = person.bare if looks[look(person.bare)] == 1 else f"{person.bare} ({number(person)})"
    return people


# --- Moodle ----------------------------------------------------------------------------------------------------------


def from_moodle(submissions: Path, listing: list[str]) -> list[Person]:
    """The people of a download of Moodle's: each has a folder of files and folders of texts, or the same in the names
    of files."""
    students: dict[tuple[str, str], Person] = {}
    for name in listing:
        is_folder = may_be_folder(submissions / name)
        match = MOODLE_FOLDER.fullmatch(name) if is_folder else MOODLE_FILE.fullmatch(name)
        if match is None:
            continue
        person = students.setdefault((match["name"], match["number"]), Person(
            name, name if is_folder else "", bare=match["name"], moodle_id=match["number"],
            back=f"{match['name']}_{match['number']}_assignsubmission_file_",
        ))  # fmt: skip
        if not is_folder:
            add_file(person.files, match["file"], name)
        elif name != person.folder:
            files, text = (name, person.folder) if match["kind"] == "file" else (person.folder, name)
            person.folder = files
            person.texts.append(text)
    return told_apart(students.values(), lambda person: person.moodle_id)


# --- Canvas ----------------------------------------------------------------------------------------------------------


def from_canvas(submissions: Path, listing: list[str]) -> list[Person]:
    """The people of a flat download, each named by their login, and the ID behind it if two have the same."""
    students: dict[tuple[str, str], Person] = {}
    for name in listing:
        match = CANVAS_FILE.fullmatch(name)
        if match is None or _is_of_another(name) or may_be_folder(submissions / name):
            continue
        login, number = str(match["anonymous"] or match["login"]), match["id"] or ""
        person = students.setdefault((login, number), Person(login, canvas_id=number))
        add_file(person.files, match["file"] or f"{match['online']}.html", name)
        person.late |= bool(match["late"] or match["early"])
        if match["file"] and not person.back:  # a text entry has no file, and no place for one
            person.back = name[: match.start("file")]
    logins = [login for login, _number in students]
    for (login, number), person in students.items():
        if logins.count(login) > 1 or (submissions / login).exists():
            person.name = f"{login}_{number}"
    return list(students.values())


def _is_of_another(name: str) -> bool:
    """Whether a file is named as Moodle or Blackboard name theirs."""
    return bool(MOODLE_FILE.fullmatch(name) or BLACKBOARD_FILE.fullmatch(name))


# --- Blackboard ------------------------------------------------------------------------------------------------------


def from_blackboard(submissions: Path, listing: list[str]) -> list[Person]:
    """The people of a flat download: the names of an attempt's files hold its time, and a text next to them says which
    student it is of."""
    students: dict[str, Person] = {}
    tries: dict[tuple[str, str], Attempt] = {}
    for name in listing:
        match = BLACKBOARD_FILE.fullmatch(name)
        if match is None or MOODLE_FILE.fullmatch(name) or may_be_folder(submissions / name):
            continue
        login, time = match["login"], match["time"]
        person = students.setdefault(login, Person(login, login=login, bare=login))
        if (login, time) not in tries:
            day, clock = time[:10], time[11:].replace("-", ":")
            tries[login, time] = Attempt(handed_in=f"{day} {clock}")
            person.attempts.append(tries[login, time])
        if match["file"]:
            add_file(tries[login, time].files, match["file"], name)
        else:
            person.bare = _named_by_blackboard(submissions / name, login) or person.bare
            tries[login, time].files[f"{time}.txt"] = name
    for person in students.values():
        last = person.attempts[-1]  # the listing is sorted, and so are times
        person.files, person.handed_in = last.files, last.handed_in
    return told_apart(students.values(), lambda person: person.login)


def _named_by_blackboard(file: Path, login: str) -> str:
    """The full name of this login, from the text that Blackboard puts next to an attempt; empty if it has none."""
    with suppress(OSError), file.open("rb") as text:
        line = text.readline(MAX_ABOUT).decode("utf-8-sig", "replace").strip()
        name, _bracket, named = line.rstrip(")").rpartition("(")
        for begins in BLACKBOARD_NAMES:
            if name.startswith(begins) and look(named) == look(login):
                return name.removeprefix(begins).strip()
    return ""


# --- Brightspace -----------------------------------------------------------------------------------------------------


def from_brightspace(submissions: Path, listing: list[str]) -> list[Person]:
    """The people of a download with one folder per attempt; the first of its name's two numbers is the student's."""
    students: dict[tuple[str, str], Person] = {}
    for name in listing:
        match = BRIGHTSPACE_FOLDER.fullmatch(name)
        if match is None or not may_be_folder(submissions / name):
            continue
        number = match["numbers"].partition("-")[0]
        person = students.setdefault((match["name"], number), Person(name, login=number, bare=match["name"]))
        person.attempts.append(Attempt(name, handed_in=_brightspace_time(match["time"])))
    for person in students.values():
        person.attempts.sort(key=lambda attempt: attempt.handed_in)
        person.folder, person.handed_in = person.attempts[-1].folder, person.attempts[-1].handed_in
    return told_apart(students.values(), lambda person: person.login)


MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def _brightspace_time(text: str) -> str:
    """`Sep 14, 2026 1158 PM` in ISO 8601; unchanged if it can't be read."""
    month, day, year, clock, half = text.replace(",", "").split()
    digits = clock.replace(":", "").zfill(4)
    hour = int(digits[:2]) % 12 + (12 if half == "PM" else 0)
    try:
        when = datetime(int(year), MONTHS.index(month[:3].lower()) + 1, int(day), hour, int(digits[2:]))
    except ValueError:
        return text
    return f"{when:%Y-%m-%d %H:%M}"


# --- nbgrader, and folders -------------------------------------------------------------------------------------------


def from_folders(submissions: Path, names: Iterable[str]) -> list[Person]:
    """The people of a download with one folder per student, or in nbgrader's exchange one per attempt."""
    students: dict[str, Person] = {}
    names = list(names)
    before = _shared(names) if len(names) > 2 else 0  # a classroom's repositories: `homework1-ada`
    for name in names:
        attempt = INBOUND.fullmatch(name)
        if attempt is None:
            students[name] = Person(name, name, bare=name[before:], attempts=attempts_in(submissions / name))
            continue
        person = students.setdefault(attempt["student"], Person(attempt["student"]))
        person.attempts.append(Attempt(name, handed_in=attempt["time"]))  # the listing is sorted, and so are times
        person.folder, person.handed_in = name, attempt["time"]
    return list(students.values())


def attempts_in(folder: Path) -> list[Attempt]:
    """The attempts in a student's folder, in the order of their numbers; empty unless it holds several, and no more."""
    try:
        inside = [name for name in os.listdir(folder) if name not in NOT_STUDENTS and not name.startswith(".")]
    except OSError:
        return []
    numbers = {name: int(match[1]) for name in inside if (match := ATTEMPT.fullmatch(name))}
    if len(numbers) < 2 or len(numbers) < len(inside) or not all(may_be_folder(folder / name) for name in numbers):
        return []
    return [Attempt(f"{folder.name}/{name}") for name in sorted(numbers, key=lambda name: numbers[name])]


# --- a file a student ------------------------------------------------------------------------------------------------


def from_files(listing: list[str]) -> list[Person]:
    """The people of a folder in which each has one file, or files of steps, and the name is part of the file's own.

    What all the names have in common, the name of a step, and what Drive adds to a copy are not part of it. Empty if a
    file is left without a name: then all files are one student's.
    """
    stems = {}
    for file in (name for name in listing if name[0] != "." and name.lower().endswith(ALONE)):
        stem = COPY_OF.sub("", file.rpartition(".")[0])
        stems[file] = STEP.sub("", stem).strip(AROUND)
    several = len(set(stems.values())) > 1
    before = _shared(stems.values()) if several else 0
    behind = _shared(stem[::-1] for stem in stems.values()) if several else 0
    students: dict[str, Person] = {}
    for file, stem in stems.items():
        name = stem[before : len(stem) - behind].strip(AROUND)
        if not name or not any(letter.isalpha() for letter in name) and not name.isdigit():
            return []
        person = students.setdefault(look(name), Person(name, bare=name))
        add_file(person.files, _own_name(file), file)
    return list(students.values()) if len(students) > 1 else []


def _own_name(file: str) -> str:
    """A file's name without its student's: `step01_scores.py` of `ada_step01_scores.py`; the whole without a step."""
    step, ending = STEP.search(file), file.rpartition(".")[2]
    return f"{step[0]}.{ending}" if step else file


def _shared(names: Iterable[str]) -> int:
    """The number of letters that all the names start with, up to the end of a word."""
    common = os.path.commonprefix(list(names))
    while common and common[-1] not in "_-":  # a space is inside of names
        common = common[:-1]
    return len(common)


# --- Gradescope ------------------------------------------------------------------------------------------------------


def from_gradescope(submissions: Path, listing: list[str]) -> list[Person]:
    """The people of a Gradescope export, each with the submission made for them, also those without a folder. Raises
    BadDownload."""
    if GRADESCOPE not in listing:
        return []
    about = _metadata(submissions / GRADESCOPE)
    every = [
        (str(folder), submitter, table.get(":created_at"))
        for folder, table in about.items()
        if isinstance(table, dict) and GRADESCOPE_FOLDER.fullmatch(str(folder))
        for submitter in table.get(":submitters") or ()
        if isinstance(submitter, dict)
    ]
    names = Counter(look(_text(submitter, ":name")) for _folder, submitter, _time in every)
    taken = {look(_text(submitter, field)) for _folder, submitter, _time in every for field in (":email", ":sid")}
    taken |= {look(_with_login(folder, submitter)) for folder, submitter, _time in every}
    students: dict[str, Person] = {}
    for folder, submitter, time in every:
        name, login = _text(submitter, ":name"), _text(submitter, ":email") or _text(submitter, ":sid")
        is_clear = names[look(name)] == 1 and "@" not in name and look(name) not in taken  # its owner chooses it
        called = (name if is_clear else _with_login(folder, submitter)) or login or folder
        person = Person(called, folder, login=login, handed_in=str(time or ""), bare=name)
        if folder not in listing:
            person.folder = ""
            sentence = _("{file} names {folder}, and there is no such folder: download the export again.")
            person.missing = sentence.format(file=GRADESCOPE, folder=folder)
        students[called] = person
    return list(students.values())


def _with_login(folder: str, submitter: dict[str, Any]) -> str:
    """A submitter's name with their login, or without one the folder, behind it: for a name that several have."""
    login = _text(submitter, ":email") or _text(submitter, ":sid") or folder
    return f"{_text(submitter, ':name')} ({login})"


def _text(table: dict[str, Any], key: str) -> str:
    """An entry of the table as text that can be part of a path: each slash is an underscore, and spaces around it are
    removed; empty without an entry."""
    return str(table.get(key) or "").replace("/", "_").strip()


def _metadata(file: Path) -> dict[str, Any]:
    """The content of a YAML file. Raises BadDownload if it can't be read, or is no table."""
    try:
        import yaml

        load: Callable[..., Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        with file.open("rb") as stream:
            read = yaml.load(stream.read(MAX_METADATA), load)
    except ImportError:
        raise BadDownload(_("What instructors need is not installed: {file} can't be read.", file=file)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise BadDownload(_("{file} can't be read ({reason}).", file=file, reason=reason)) from None
    if not isinstance(read, dict):
        raise BadDownload(_("{file} can't be read ({reason}).", file=file, reason=type(read).__name__))
    return read
