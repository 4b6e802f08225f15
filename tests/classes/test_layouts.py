"""Nine further layouts of a download, of twenty made-up people each, as the systems document them; and the wrong
folder."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.base import layouts
from grader.base.downloads import people
from grader.base.paths import ROOT
from grader.classes import class_list, unpack
from grader.marks.register import Register, RosterEntry
from tests.cheap import NAMES, RIGHT, asked, cheaply, rows, run  # noqa: F401  # a fixture
from tests.twenty import NAMED, OPEN, PEOPLE, Files, accounted_for, notebook, put

pytestmark = pytest.mark.usefixtures("cheaply")

WHOLE = {name: f"{name.title()} Lee" for name in PEOPLE}  # as a platform calls them
ABOUT = (
    "Name: {whole} ({name})\nAssignment: Homework 1\nDate Submitted: Monday, September 14, 2026 11:58:59 PM KST\n"
    "Current Grade: Needs Grading\n\nSubmission Field:\nThere is no student submission text data for this assignment.\n"
)


def packed(files: Files) -> bytes:
    """A zip file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"work/{name}", content)
    return made.getvalue()


def blackboard(*times: str) -> Callable[[Path], None]:
    """A file an attempt and a text beside it; of several attempts the earlier ones are empty."""

    def make(folder: Path) -> None:
        for name, (files, _worth) in PEOPLE.items():
            for time in times:
                begins = f"Homework 1_{name}_attempt_{time}"
                put(folder / f"{begins}.txt", ABOUT.format(whole=WHOLE[name], name=name).encode())
                for file, content in files.items():
                    put(folder / f"{begins}_{file}", content if time == times[-1] else b"")

    return make


def brightspace(*times: str) -> Callable[[Path], None]:
    """A folder an attempt, so that two attempts are two folders."""

    def make(folder: Path) -> None:
        put(folder / "index.html", b"<p>Homework 1</p>")
        for number, (name, (files, _worth)) in enumerate(PEOPLE.items(), 1001):
            for time in times:
                for file, content in files.items():
                    put(folder / f"{number}-77 - {WHOLE[name]} - {time}" / file, content if time == times[-1] else b"")

    return make


def drive(folder: Path) -> None:
    """Copies of Drive's."""
    for name, (files, _worth) in PEOPLE.items():
        for file, content in files.items():
            put(folder / WHOLE[name] / f"Copy of {file}", content)


def zips(folder: Path) -> None:
    """One zip file each, in the student's folder."""
    for name, (files, _worth) in PEOPLE.items():
        put(folder / WHOLE[name] / "homework.zip", packed(files))


def flat_zips(folder: Path) -> None:
    """One zip file each, in a flat download of Canvas's."""
    for number, (name, (files, _worth)) in enumerate(PEOPLE.items(), 1001):
        put(folder / f"{name}_{number}_70001_homework.zip", packed(files))


def repositories(folder: Path) -> None:
    """Clones of a classroom's, each with what everybody was given."""
    for name, (files, _worth) in PEOPLE.items():
        place = folder / f"homework1-{name}"
        for file, content in files.items():
            put(place / file, content)
        put(place / "README.md", b"# Homework 1\n")
        put(place / "requirements.txt", b"torch\n")
        put(place / ".github" / "workflows" / "classroom.yml", b"on: push\n")
        put(place / ".git" / "HEAD", b"ref: refs/heads/main\n")


def gradescope_with_gaps(folder: Path) -> None:
    """An export that names somebody whose folder did not come along."""
    lines = ["---"]
    for number, (name, (files, _worth)) in enumerate([*PEOPLE.items(), ("ghost", ({}, OPEN))], 1001):
        for file, content in files.items():
            put(folder / f"submission_{number}" / file, content)
        lines += [f"submission_{number}:", "  :submitters:", f"  - :name: {name.title()} Lee",
                  f"    :email: {name}@uni.edu"]  # fmt: skip
    put(folder / "submission_metadata.yml", "\n".join(lines).encode())


LAYOUTS: dict[str, Callable[[Path], None]] = {
    "blackboard": blackboard("2026-09-14-23-58-59"),
    "blackboard, two attempts": blackboard("2026-09-13-08-00-00", "2026-09-14-23-58-59"),
    "brightspace": brightspace("Sep 14, 2026 1158 PM"),
    "brightspace, two attempts": brightspace("Sep 13, 2026 800 AM", "Sep 14, 2026 11:58 PM"),
    "drive": drive,
    "zips": zips,
    "flat zips": flat_zips,
    "repositories": repositories,
    "gradescope with gaps": gradescope_with_gaps,
}


def person(row: str) -> str:
    """Who of PEOPLE a row is about."""
    return row.removeprefix("homework1-").removesuffix(" Lee").lower()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_person_and_every_file_is_accounted_for(layout: str, tmp_path: Path) -> None:
    """One row each, with the mark that the work is worth, or open."""
    submissions, out = tmp_path / "in", tmp_path / "out"
    LAYOUTS[layout](submissions)
    done = run(asked(submissions, out))
    worth = {person(one.student): one.score if one.score is not None else OPEN for one in done.standings}
    known = {name: points for name, (_files, points) in PEOPLE.items()}
    assert worth == known | ({"ghost": OPEN} if "gaps" in layout else {})
    assert done.left_out == []
    if "zip" not in layout:
        accounted_for(submissions, out, done)
    named = {file.rpartition("/")[2].removeprefix("Copy of ") for one in done.standings for file, _why in one.unread}
    assert named >= NAMED - {f"{NAMES[3]}.py"}


def test_times_of_blackboard_and_brightspace(tmp_path: Path) -> None:
    """In the names, to the second or the minute; twelve o'clock is noon with PM, midnight with AM."""
    blackboard("2026-09-13-08-00-00", "2026-09-14-23-58-59")(tmp_path / "b")
    ada = people(tmp_path / "b")["Ada Lee"]
    assert (ada.login, ada.handed_in, len(ada.attempts)) == ("ada", "2026-09-14 23:58:59", 2)
    read = [layouts._brightspace_time(f"Sept 4, 2026 {clock}") for clock in ("1205 AM", "12:05 PM", "905 PM", "99 PM")]
    assert read == ["2026-09-04 00:05", "2026-09-04 12:05", "2026-09-04 21:05", "Sept 4, 2026 99 PM"]


def test_what_everybody_was_given_is_named_once(tmp_path: Path) -> None:
    """And is in nobody's list of what was not read; a file of one's own with such a name is."""
    repositories(tmp_path / "in")
    put(tmp_path / "in" / "homework1-ada" / "README.md", b"# What I did\n")
    done = {one.student: one for one in run(asked(tmp_path / "in", tmp_path / "out")).standings}
    files = [row["file"] for row in rows(tmp_path / "out" / "files.csv")]
    assert [files.count(name) for name in ("README.md", "requirements.txt", ".github/")] == [2, 1, 1]
    assert [file for file, _why in done["homework1-ada"].unread] == ["README.md"]
    assert done["homework1-brook"].unread == ()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ({f"{name}.ipynb" for name in PEOPLE}, list(PEOPLE)),
        ({f"{WHOLE[name]} - attention.ipynb" for name in PEOPLE}, sorted(WHOLE.values())),
        ({f"Copy of attention_{name}.ipynb" for name in PEOPLE}, list(PEOPLE)),
        ({f"{name}_{step}.py" for name in PEOPLE for step in (NAMES[1], NAMES[2])}, list(PEOPLE)),
        ({f"{name}.zip" for name in PEOPLE}, list(PEOPLE)),
        ({f"{NAMES[1]}.py", f"{NAMES[2]}.py", "helper.py"}, []),
        ({"attention.ipynb"}, []),
    ],
)
def test_a_flat_folder_has_a_file_a_student(names: set[str], found: list[str], tmp_path: Path) -> None:
    """Or the files of one student, who has no name in them."""
    for name in names:
        put(tmp_path / "in" / name, b"x = 1\n")
    assert list(people(tmp_path / "in")) == found


def test_a_flat_folder_of_notebooks_is_graded(tmp_path: Path) -> None:
    for name, right in (("ada", 3), ("brook", 1)):
        put(tmp_path / "in" / f"attention_{name}.ipynb", notebook(*(RIGHT[number] for number in range(1, right + 1))))
    put(tmp_path / "in" / "attention_lena.ipynb", notebook(RIGHT[1])[:-80])
    done = run(asked(tmp_path / "in", tmp_path / "out"))
    assert {one.student: one.score for one in done.standings} == {"ada": 30, "brook": 10, "lena": None}


# --- zip files ---


@pytest.mark.parametrize("kind", ["climbs", "link", "many", "large", "encrypted", "damaged", "two", "nested"])
def test_a_zip_file_that_means_harm(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written outside, nothing beyond the limits; the student is open and the next one is graded."""
    monkeypatch.setattr(unpack, "MAX_UNPACKED", 1 << 20)
    right = {f"{NAMES[number]}.py": RIGHT[number].encode() for number in (1, 2, 3)}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        if kind == "climbs":
            archive.writestr("../../../escaped.py", "x = 1\n")
            archive.writestr("/absolute.py", "x = 1\n")
        if kind == "link":
            entry = zipfile.ZipInfo(f"{NAMES[1]}.py")
            entry.external_attr = 0o120777 << 16
            archive.writestr(entry, "/etc/passwd")
        if kind == "many":
            for number in range(unpack.MAX_PACKED + 1):
                archive.writestr(f"{number}.txt", "")
        if kind == "large":
            archive.writestr(f"{NAMES[1]}.py", b"#" * (2 << 20))
        if kind == "nested":
            archive.writestr("again.zip", packed(right))
        archive.writestr("notes.txt", "hello")
    content = made.getvalue()
    if kind == "encrypted":
        content = content.replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01", 1)
    put(tmp_path / "in" / "mallory" / "work.zip", content[:-30] if kind == "damaged" else content)
    if kind == "two":
        for name in ("a.zip", "b.zip"):
            put(tmp_path / "in" / "mallory" / name, packed(right))
    put(tmp_path / "in" / "ada" / "homework.zip", packed(right))
    done = run(asked(tmp_path / "in", tmp_path / "out"))
    assert {one.student: one.score for one in done.standings} == {"ada": 30, "mallory": None}
    mallory = next(one for one in done.standings if one.student == "mallory")
    assert "zip" in mallory.error
    assert not list(tmp_path.rglob("escaped.py")) and not Path("/absolute.py").exists()


def test_names_in_a_zip_file_of_korean_windows(tmp_path: Path) -> None:
    """It writes them in cp949, and says so nowhere."""
    entry = zipfile.ZipInfo("과제.py")
    entry.flag_bits, entry.filename = 0, "과제.py".encode("cp949").decode("cp437")
    assert unpack._parts(entry) == ["과제.py"]


# --- the wrong folder ---


def course(folder: Path) -> None:
    """Two students of a course."""
    for name in ("ada", "brook"):
        for number in (1, 2):
            put(folder / name / f"{NAMES[number]}.py", RIGHT[number].encode())


@pytest.mark.parametrize(
    ("given", "right"),
    [("", "assignment_555_export"), ("assignment_555_export/ada", "assignment_555_export"),
     ("course", "course/submitted")],
)  # fmt: skip
def test_a_folder_too_high_or_too_low_offers_the_right_one(given: str, right: str, tmp_path: Path) -> None:
    """In place of one row with the name of the folder, or of advice to grade a single submission."""
    course(tmp_path / "x" / "assignment_555_export")
    if given == "course":
        course(tmp_path / "x" / "course" / "submitted")
        (tmp_path / "x" / "course" / "source").mkdir()
    with pytest.raises(class_list.Impossible) as raised:
        class_list.required(tmp_path / "x" / given, tmp_path / "out", [])
    assert str(raised.value).endswith(f"Type: python -m grader class {tmp_path / 'x' / right}")


def test_one_student_is_a_class(tmp_path: Path) -> None:
    """Whose work lies in a folder of its own, in attempts, or in several assignments."""
    for name in ("ada/homework/step01_scores.py", "bo/attempt 1/step01_scores.py", "bo/attempt 2/step01_scores.py",
                 "cy/attention/attention.ipynb", "cy/week2/attention.ipynb"):  # fmt: skip
        put(tmp_path / name[:2] / name, b"x = 1\n")
    for name in ("ad", "bo", "cy"):
        assert len(class_list.required(tmp_path / name, tmp_path / "out", [])) == 1


# --- a roster ---


def test_a_roster_calls_people_and_names_who_is_missing(tmp_path: Path) -> None:
    """By number, login or address first; a repository by what is behind the assignment's name."""
    repositories(tmp_path / "in")
    entries = [RosterEntry(WHOLE[name], (name, f"{name}@uni.edu"), section="A") for name in list(PEOPLE)[:19]]
    register = Register({entry.name: entry for entry in [*entries, RosterEntry("Zoe", section="B")]})
    done = run(asked(tmp_path / "in", tmp_path / "out", register=register, also=("junit",)))
    names = {one.student for one in done.standings}
    assert names == {entry.name for entry in entries} | {"Zoe", "homework1-tove"}
    found = {one.student: one for one in done.standings}
    assert found["Zoe"].score is None and found["Zoe"].absence and not found["Zoe"].is_open
    assert found["homework1-tove"].stranger and not found["Ada Lee"].stranger
    for table, column in (("class.csv", "student"), ("marks.csv", "student"), ("canvas.csv", "Student")):
        assert {row[column] for row in rows(tmp_path / "out" / table)} - {"    Points Possible"} == names, table
    assert os.listdir(tmp_path / "out" / "junit")


# --- what is installed for it ---

ALONE = """
import sys
for name in ("nbgrader", "jupyterlab", "notebook", "nbconvert", "jupyter_server"):
    sys.modules[name] = None
from grader.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.thorough
def test_a_release_needs_no_jupyterlab(tmp_path: Path) -> None:
    """Nor nbgrader: it writes notebooks, and those who go on with nbgrader add it."""
    told = [sys.executable, "-c", ALONE, "release", "--step", "1", "--folder", str(tmp_path / "course")]
    done = subprocess.run(told, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "course" / "source").rglob("*.ipynb"))


def test_a_fresh_clone_reads_every_download() -> None:
    """What reads Gradescope's export is among what `make class` installs, and nothing of a server."""
    pins = (ROOT / "requirements" / "class.lock").read_text(encoding="utf-8").lower()
    assert "pyyaml==" in pins and "nbformat==" in pins and "jupyterlab" not in pins and "nbgrader" not in pins
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in ("class", "similar", "feedback", "release"):
        assert f"\n{name}: .venv/ready-class ##>" in makefile, name


def test_a_split_cell_says_every_step_it_was_graded_as(tmp_path: Path) -> None:
    """In the table of files; and no step outside of the assignment, which it isn't graded as."""
    both = notebook(RIGHT[1], RIGHT[2], RIGHT[4], marked=1)
    put(tmp_path / "in" / "ada" / "attention.ipynb", both)
    run(asked(tmp_path / "in", tmp_path / "out"))
    (row,) = rows(tmp_path / "out" / "files.csv")
    assert row["what became of it"] == (f"graded as {NAMES[1]}, {NAMES[2]}; {NAMES[4]}: not part of this assignment")
