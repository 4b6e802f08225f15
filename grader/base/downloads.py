"""Who is in a folder of submissions, as the learning platform that made it names people, and which files are whose."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.base.language import gettext as _
from grader.base.names import look

# How Moodle names the folder of a student: full name, number of the submission, kind.
MOODLE_FOLDER = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_(?P<kind>[a-z]++)\w{0,64}+", re.DOTALL)
# How it names a file where the teacher's download has no folders: the folder's name in front.
MOODLE_FILE = re.compile(
    r"(?P<folder>(?P<name>.+?)_(?P<number>\d+)_assignsubmission_(?P<kind>[a-z]+))_(?P<file>.+)", re.DOTALL
)
# How Canvas names a file of a download: who, whether late, the student's ID, that of the file, its own name; a text
# entry or an address has no file. A name may hold `_`; of an anonymous assignment it is `LATE_anon_x7Ab2_98766_`,
# where no ID of the gradebook stands.
CANVAS_FILE = re.compile(
    r"(?:(?P<early>LATE_)?(?P<anonymous>anon_[A-Za-z0-9]{5})|(?P<login>[^_.].*?)(?P<late>_LATE)?_(?P<id>\d+))"
    r"_(?:\d+_(?P<file>.+)|(?P<online>text|link)\.html)",
    re.DOTALL,  # a name may hold a line break
)
# Gradescope's export, beside the folders `submission_1001`.
GRADESCOPE = "submission_metadata.yml"
GRADESCOPE_FOLDER = re.compile(r"submission_\d+")
# nbgrader's exchange keeps every attempt as `ada+scores+2026-09-14 23:58:59.123456 UTC+random`.
INBOUND = re.compile(r"(?P<student>[^+]+)\+[^+]+\+(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^+]*)(\+.*)?")
ATTEMPT = re.compile(r"(?:attempt|try|version|제출|시도)[ _-]*(\d+)", re.IGNORECASE)
MAX_METADATA = 64 << 20  # bytes: it holds the results of every attempt
NOT_STUDENTS = ("__MACOSX", "__pycache__", ".git", ".DS_Store", "Thumbs.db", "desktop.ini")  # made by programs


class BadDownload(ValueError):
    """What a platform put beside the submissions can't be read. One sentence."""


@dataclass
class Person:
    """Whom a download names: what the row is called, and what is theirs: `folder`, and in a flat download `files`, each
    on the disk by its own name.

    `texts` are further folders of Moodle's, `canvas_id`, `late`, `login` and `handed_in` what a platform says of them;
    `bare` is the name without what was added to tell people apart.
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
    attempts: dict[str, str] = field(default_factory=dict)  # several folders, the last one last, each with its time

    @property
    def key(self) -> str:
        """Who it is in any assignment: Moodle's number in the name is another one in each."""
        return look(self.bare if MOODLE_FOLDER.fullmatch(self.name) else self.name)

    def is_other(self, person: Person) -> bool:
        """Whether two people are known to be different, whatever they are called."""
        return bool(self.login and person.login) and look(self.login) != look(person.login)


def people(submissions: Path) -> dict[str, Person]:
    """Everybody whom a folder names, by what their row is called, in order. Raises BadDownload, OSError."""
    listing = sorted(os.listdir(submissions))
    everybody = _of_gradescope(submissions, listing) or {}
    for person in [*_from_moodle(submissions, listing), *_from_canvas(submissions, listing)]:
        everybody[person.name] = person
    folders = {place for person in everybody.values() for place in (person.folder, *person.texts)}
    for name in listing:
        if name not in folders and name not in NOT_STUDENTS and name[0] != "." and _may_be_folder(submissions / name):
            attempt = INBOUND.fullmatch(name)
            if attempt is None:
                everybody[name] = Person(name, name, attempts=_attempts(submissions / name))
                continue
            person = everybody.setdefault(attempt["student"], Person(attempt["student"]))
            person.attempts[name] = attempt["time"]  # in order: the listing is sorted, and so are times
            person.folder, person.handed_in = name, attempt["time"]
    return {name: everybody[name] for name in sorted(everybody)}


def _attempts(folder: Path) -> dict[str, str]:
    """The attempts in a student's folder, where it holds several and nothing else, by number."""
    try:
        inside = [name for name in os.listdir(folder) if name not in NOT_STUDENTS and not name.startswith(".")]
    except OSError:
        return {}
    numbers = {name: int(match[1]) for name in inside if (match := ATTEMPT.fullmatch(name))}
    if len(numbers) < 2 or len(numbers) < len(inside) or not all(_may_be_folder(folder / name) for name in numbers):
        return {}
    return dict.fromkeys((f"{folder.name}/{name}" for name in sorted(numbers, key=lambda name: numbers[name])), "")


def left_out(submissions: Path) -> list[str]:
    """What lies beside the students' folders and is nobody's: files, and hidden folders, in order."""
    theirs = {file for person in people(submissions).values() for file in person.files.values()}
    names = {name for name in os.listdir(submissions) if name not in NOT_STUDENTS and not name.startswith("._")}
    loose = {name for name in names - theirs if not _may_be_folder(submissions / name)} - {GRADESCOPE}
    hidden = {f"{name}/" for name in names if name.startswith(".") and _may_be_folder(submissions / name)}
    return sorted(loose | hidden)


def _may_be_folder(path: Path) -> bool:
    """Whether it is a folder, or a link that leads where nobody may look: its student is named and not left out."""
    try:
        return path.is_dir()
    except OSError:
        return True


def _from_moodle(submissions: Path, listing: list[str]) -> list[Person]:
    """Of one person, the folder with files and those with texts, or the same in the names of files."""
    everybody: dict[tuple[str, str], Person] = {}
    for name in listing:
        is_folder = _may_be_folder(submissions / name)
        match = MOODLE_FOLDER.fullmatch(name) if is_folder else MOODLE_FILE.fullmatch(name)
        if match is None:
            continue
        called = name if is_folder else match["folder"]
        person = Person(called, name if is_folder else "", bare=match["name"])
        person = everybody.setdefault((match["name"], match["number"]), person)
        if not is_folder:
            _add(person.files, match["file"], name)
            person.name = called if match["kind"] == "file" else person.name
        elif name != person.folder:
            files, text = (name, person.folder) if match["kind"] == "file" else (person.folder, name)
            person.name = person.folder = files
            person.texts.append(text)
    return list(everybody.values())


def _from_canvas(submissions: Path, listing: list[str]) -> list[Person]:
    """The people of a flat download: by login, with the ID behind it where two have the same."""
    everybody: dict[tuple[str, str], Person] = {}
    for name in listing:
        match = CANVAS_FILE.fullmatch(name)
        if match is None or MOODLE_FILE.fullmatch(name) or _may_be_folder(submissions / name):
            continue
        login, number = str(match["anonymous"] or match["login"]), match["id"] or ""
        person = everybody.setdefault((login, number), Person(login, canvas_id=number))
        _add(person.files, match["file"] or f"{match['online']}.html", name)
        person.late |= bool(match["late"] or match["early"])
    logins = [login for login, _number in everybody]
    for (login, number), person in everybody.items():
        if logins.count(login) > 1 or (submissions / login).exists():
            person.name = f"{login}_{number}"
    return list(everybody.values())


def _add(files: dict[str, str], own: str, name: str) -> None:
    """Adds a file under its own name, or with a number where that is taken."""
    stem, dot, ending = own.rpartition(".")
    numbered = (f"{stem}-{count}{dot}{ending}" for count in range(1, len(files) + 1))
    files[own if own not in files else next(free for free in numbered if free not in files)] = name


# --- Gradescope ------------------------------------------------------------------------------------------------------


def _of_gradescope(submissions: Path, listing: list[str]) -> dict[str, Person] | None:
    """The people of an export, each with what was handed in for them; None where it is none. Raises BadDownload."""
    if GRADESCOPE not in listing:
        return None
    about = _metadata(submissions / GRADESCOPE)
    every = [
        (folder, submitter, about[folder].get(":created_at"))
        for folder in listing if GRADESCOPE_FOLDER.fullmatch(folder) and isinstance(about.get(folder), dict)
        for submitter in about[folder].get(":submitters") or () if isinstance(submitter, dict)
    ]  # fmt: skip
    names = Counter(look(_text(submitter, ":name")) for _folder, submitter, _time in every)
    taken = {look(_text(submitter, field)) for _folder, submitter, _time in every for field in (":email", ":sid")}
    taken |= {look(_with_login(folder, submitter)) for folder, submitter, _time in every}
    everybody: dict[str, Person] = {}
    for folder, submitter, time in every:
        name, login = _text(submitter, ":name"), _text(submitter, ":email") or _text(submitter, ":sid")
        is_clear = names[look(name)] == 1 and "@" not in name and look(name) not in taken  # its owner chooses it
        called = (name if is_clear else _with_login(folder, submitter)) or login or folder
        everybody[called] = Person(called, folder, login=login, handed_in=str(time or ""), bare=name)
    return everybody


def _with_login(folder: str, submitter: dict[str, Any]) -> str:
    """What a submitter is called who shares the name with another one."""
    login = _text(submitter, ":email") or _text(submitter, ":sid") or folder
    return f"{_text(submitter, ':name')} ({login})"


def _text(table: dict[str, Any], key: str) -> str:
    return str(table.get(key) or "").replace("/", "_").strip()


def _metadata(file: Path) -> dict[str, Any]:
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
