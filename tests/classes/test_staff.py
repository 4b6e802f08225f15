"""For course staff: nobody vanishes, nothing is a silent zero, no record is lost."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from grader.base.paths import step_folders
from tests.cheap import NAMES, RIGHT, asked, cheaply, rows, run  # noqa: F401  # a fixture
from tests.twenty import NAMED, OPEN, PEOPLE, accounted_for, put
from tests.whole import THOROUGH

pytestmark = pytest.mark.usefixtures("cheaply")

# --- seventeen layouts ------------------------------------------------------------------------------------------------


def inside(place: str, beside: Mapping[str, bytes] | None = None) -> Callable[[Path], None]:
    """A folder a student, with the files in `place`, a pattern, and more files beside them."""

    def make(folder: Path) -> None:
        for number, (name, (files, _worth)) in enumerate(PEOPLE.items(), 101):
            at = folder / place.format(name=name, number=number)
            for file, content in files.items():
                put(at / file, content)
            for file, content in (beside or {}).items():
                put(folder / file.format(name=name, number=number), content)

    return make


def flat(prefix: str, special: str = "") -> Callable[[Path], None]:
    """A download without folders: each file's name behind who sent it."""

    def make(folder: Path) -> None:
        for number, (name, (files, _worth)) in enumerate(PEOPLE.items(), 1001):
            for own, (file, content) in enumerate(files.items(), 70001):
                put(folder / (prefix.format(name=name, number=number, own=own) + file), content)
        if special:
            put(folder / special, b"<p>what I think</p>")

    return make


def gradescope(folder: Path) -> None:
    """An export: numbers for names, and a file that says who is who."""
    lines = ["---"]
    for number, (name, (files, _worth)) in enumerate(PEOPLE.items(), 1001):
        for file, content in files.items():
            put(folder / f"submission_{number}" / file, content)
        lines += [f"submission_{number}:", "  :submitters:", f"  - :name: {name}", f"    :sid: '{number}'",
                  f"    :email: {name}@uni.edu", "  :created_at: 2026-09-14 23:00:00.123456000 Z"]  # fmt: skip
    (folder / "submission_metadata.yml").write_text("\n".join(lines))


def attempts(place: str) -> Callable[[Path], None]:
    """Two attempts: an empty first one."""

    def make(folder: Path) -> None:
        for name, (files, _worth) in PEOPLE.items():
            for count in (1, 2):
                for file, content in files.items():
                    put(folder / place.format(name=name, count=count) / file, content if count == 2 else b"")

    return make


KIT = {"{name}/attention-from-scratch/" + file: b"x" for file in ("Makefile", "README.md", "grader/a.py", "steps/b.py")}
LAYOUTS: dict[str, Callable[[Path], None]] = {
    "folders": inside("{name}"),
    "exercises": inside("{name}/exercises"),
    "nbgrader": inside("{name}/attention", {"{name}/attention/timestamp.txt": b"2026-09-14 23:00:00 UTC"}),
    "nbgrader, several": inside("{name}/attention", {f"{{name}}/week2/{NAMES[4]}.py": RIGHT[4].encode()}),
    "unpacked archive": inside("{name}/{name}-main"),
    "nested": inside("{name}/homework/final/exercises"),
    "the whole kit": inside("{name}/attention-from-scratch/exercises", KIT),
    "from a Mac": inside("{name}/work", {"__MACOSX/._x": b"x", "{name}/.DS_Store": b"x", "{name}/__MACOSX/._a": b"x"}),
    "git": inside("{name}", {"{name}/.git/config": b"x", "{name}/README.md": b"# Homework\n"}),
    "canvas": flat("{name}_{number}_{own}_"),
    "canvas, late": flat("{name}_LATE_{number}_{own}_", "tara_1050_text.html"),
    "canvas, anonymous": flat("anon_{name:x<5.5}_{own}_", "LATE_anon_zzzzz_text.html"),
    "moodle": inside("{name} L_{number}_assignsubmission_file_"),
    "moodle, texts": inside(
        "{name} L_{number}_assignsubmission_file_",
        {"{name} L_{number}_assignsubmission_onlinetext_/onlinetext.html": b"<p>see the file</p>"},
    ),
    "moodle, flat": flat(
        "{name} L_{number}_assignsubmission_file_", "Tara L_9_assignsubmission_onlinetext_onlinetext.html"
    ),
    "gradescope": gradescope,
    "attempts": attempts("{name}/attempt {count}"),
    "nbgrader's exchange": attempts("{name}+attention+2026-09-1{count} 23:00:00.000000 UTC+ab"),
}


def person(row: str) -> str:
    """Who of PEOPLE a row is about; itself where it is somebody else."""
    name = row.removesuffix(" L").removeprefix("anon_").partition("_")[0].rstrip("x")
    return next((known for known in PEOPLE if known[:5].rstrip("x") == name or known == name), row)


@pytest.mark.parametrize("layout", LAYOUTS if THOROUGH else [*LAYOUTS][:2])
def test_every_person_and_every_file_is_accounted_for(layout: str, tmp_path: Path) -> None:
    """Each is a row, with the mark that the work is worth or an error that says what was found; each file that came was
    graded, was everybody's, or is named with a reason on the page, in the tables and on the screen."""
    submissions, out = tmp_path / "in", tmp_path / "out"
    LAYOUTS[layout](submissions)
    put(submissions / "stray.py", b"x = 1\n")
    put(submissions / "park.pdf", b"%PDF")
    put(submissions / ".old" / "a.py", b"x = 1\n")
    done = run(asked(submissions, out))
    worth = {person(one.student): one.score if one.score is not None else OPEN for one in done.standings}
    assert {name: worth.get(name) for name in PEOPLE} == {name: points for name, (_files, points) in PEOPLE.items()}
    texts = [name for name in os.listdir(submissions) if name.endswith(".html")]
    assert [worth[name] for name in worth.keys() - PEOPLE.keys()] == [OPEN] * len(texts)
    assert done.left_out == [".old/", "park.pdf", "stray.py"]
    page = (out / "index.html").read_text(encoding="utf-8")
    assert all(name in page for name in done.left_out)
    accounted_for(submissions, out, done)
    first = re.findall(r'<tr[^>]*><th scope="row">(?:<a href="[^"]*">)?([^<]+)', page.partition('class="grid"')[2])
    count = sum(points == OPEN for points in worth.values())
    assert all(worth[person(name)] == OPEN for name in first[:count])  # listed first
    for table, column in (("canvas.csv", "attention"), ("moodle.csv", "Grade")):
        assert sum(not row[column] for row in rows(out / table)) == count, table


def test_there_are_seventeen_layouts_of_twenty_people() -> None:
    """As the contract says, and one more."""
    assert len(LAYOUTS) >= 17 and len(PEOPLE) == 20 and len(step_folders()) >= 12


def test_what_was_taken_for_a_step_and_what_was_not_is_said(tmp_path: Path) -> None:
    """On the student's page, the page of the class and in the table."""
    LAYOUTS["folders"](tmp_path / "in")
    done = {one.student: one for one in run(asked(tmp_path / "in", tmp_path / "out")).standings}
    assert done["chen"].taken == (
        "attention3.py is graded as step03_attention: it defines what this step asks for.",
        "softmax.py is graded as step02_softmax: it defines what this step asks for.",
    ) or len(done["chen"].taken) == 2  # fmt: skip
    assert done["fatima"].taken and "attention.ipynb[3]" in done["fatima"].taken[0]
    assert {file for one in done.values() for file, _reason in one.unread} >= NAMED
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "softmax.py is graded as step02_softmax" in page
