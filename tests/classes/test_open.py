"""A number is written only if somebody earned it or a rule of the course says so: in every file that a class leaves."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from grader.base.limits import Limits
from grader.base.results import Report, StepResult
from grader.classes import class_run, hand_back, one_round, results
from grader.classes.one_round import Request
from grader.course import steps as course
from grader.feedback import class_table, exports
from grader.marks import marking
from grader.marks.assignments import read
from grader.report import console
from tests.cheap import NAMES, RIGHT, asked, cheaply, run  # noqa: F401  # a fixture

TERM = """
[assignments.week1]
steps = "1-2"
due = 2026-09-14
late = { per_day = 10 }
"""
UNCLEAR = "half past eight"
MAY_BE_NUMBERS = {"student", "name", "ID", "SIS Login ID", "Identifier", "out_of", "max_score", "Maximum Grade", "file"}
POINTS = re.compile(r"(?<![\w.–-])\d+(\.\d+)?\s*(/|of)\s*\d+(?! students)|points \d|score[\"':\s]+\d")


def open_cases(folder: Path) -> None:
    """Four people of whom no point is known: an empty notebook, half a file, two answers, a time that nobody can
    read."""
    named = "{}_{}_assignsubmission_file_"
    cases = {
        "Empty": {"attention.ipynb": b""},
        "Half": {f"{NAMES[number]}.py": "# naïve\n".encode("latin-1") for number in (1, 2)},
        "Twice": {f"{NAMES[number]}-{copy}.py": f"x = {copy}\n".encode() for number in (1, 2) for copy in (1, 2)},
        "Clock": {f"{NAMES[number]}.py": RIGHT[number].encode() for number in (1, 2)},
    }
    for number, (name, files) in enumerate(cases.items(), 31):
        place = folder / named.format(name, number)
        place.mkdir(parents=True)
        for file, content in files.items():
            (place / file).write_bytes(content)


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the open cases, graded by the real judge."""
    folder = tmp_path_factory.mktemp("open")
    open_cases(folder / "in")
    (folder / "assignments.toml").write_text(TERM, encoding="utf-8")
    marked = marking.of(read(folder / "assignments.toml"), "week1")
    with pytest.MonkeyPatch.context() as patched:
        plain = class_run.Ledger.expect

        def expect(self: class_run.Ledger, key: tuple[str, int], *facts: object, late: bool) -> None:
            told = UNCLEAR if "Clock" in key[0] else ""
            plain(self, key, *facts[:3], told, late=late)  # type: ignore[arg-type]

        patched.setattr(class_run.Ledger, "expect", expect)
        request = Request(
            submissions=folder / "in", out=folder / "out", steps=[NAMES[1], NAMES[2]], device="cpu", seed=3,
            limits=Limits(), assignment="week1", marking=marked, also=tuple(exports.STUDENT_FILES),
        )  # fmt: skip
        done = class_run.run(request, lambda total: nullcontext(lambda graded, kept: None))
    assert [one.score for one in done.standings] == [None] * 4
    screen = io.StringIO()
    with console.Console(file=screen, width=200) as shown:  # type: ignore[attr-defined]
        shown.print(class_table.terminal(done.standings, done.kept))
    (folder / "screen.txt").write_text(screen.getvalue(), encoding="utf-8")
    for to in ("moodle",):
        hand_back.build(folder / "out" / f"feedback-{to}.zip", results.read(folder / "out"), to)
    return folder


def numbers_of_json(found: object, key: str = "") -> Iterator[str]:
    """What is a mark in JSON: a number under a name of one."""
    if isinstance(found, dict):
        for name, value in found.items():
            yield from numbers_of_json(value, name)
    elif isinstance(found, list):
        for value in found:
            yield from numbers_of_json(value, key)
    elif key in ("score", "points", "graded", "earned", "percent") and isinstance(found, int | float):
        yield f"{key} {found}"


def numbers(name: str, content: bytes) -> Iterator[str]:
    """Each number in a file that could be taken for somebody's mark."""
    text = content.decode("utf-8-sig")
    if name.endswith(".json"):
        yield from numbers_of_json(json.loads(text))
    elif name.endswith(".csv"):
        for row in csv.DictReader(text.splitlines()):
            if "Points Possible" not in row.get("Student", ""):
                yield from (f"{column} {cell}" for column, cell in row.items()
                            if column not in MAY_BE_NUMBERS and re.search(r"\b\d+(\.\d+)?( /|$)", cell or "")
                            and not re.match(r"\d{4}-\d\d-\d\d", cell))  # fmt: skip
    elif name.endswith(".xml"):
        yield from re.findall(r"<testcase(?![^>]*name=\"grading\")[^>]*>", text)
    else:
        words = re.sub(r"<style.*?</style>|<[^>]+>", " ", text, flags=re.DOTALL)
        yield from (match[0] for match in POINTS.finditer(words))


def test_an_open_case_has_no_number_anywhere(graded: Path) -> None:
    """Every file of the results and of the zip with the feedback."""
    files = [path for path in sorted((graded / "out").rglob("*")) if path.is_file() and path.name != ".lock"]
    contents = {path.relative_to(graded).as_posix(): path.read_bytes() for path in files if path.suffix != ".zip"}
    with zipfile.ZipFile(graded / "out" / "feedback-moodle.zip") as packed:
        contents |= {name: packed.read(name) for name in packed.namelist()}
        assert len(packed.namelist()) == 4
    contents["screen.txt"] = (graded / "screen.txt").read_bytes()
    kinds = {name.rpartition(".")[2] for name in contents}
    assert kinds == {"json", "csv", "html", "xml", "txt"} and len(contents) > 20
    clock = re.compile(rb"^Clock.*\r\n", re.MULTILINE)  # what its steps earned is known, and only the total is open
    found = {
        name: list(numbers(name, clock.sub(b"", content))) for name, content in contents.items() if "Clock" not in name
    }
    assert {name: ones for name, ones in found.items() if ones} == {}
    assert not any(
        re.search(rb"14 (of|/) 14|points\":14", content) for name, content in contents.items() if "Clock" in name
    )
    assert not any(graded.joinpath("out/gradescope").iterdir())


def test_the_page_says_why(graded: Path) -> None:
    """And not that checks have failed that never ran."""
    for page in graded.joinpath("out/pages").iterdir():
        text = page.read_text(encoding="utf-8")
        assert "There is no mark yet: a person must look." in text and "no mark yet" in text
        if "Clock" not in page.name:
            assert "test_scores_by_hand" not in text


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.json", b'{"score": 0.0}'), ("a.html", b"<p>0 of 50</p>"), ("a.html", b"<td>0 / 14</td>"),
     ("a.csv", b"student,points\r\nada,0\r\n"), ("a.xml", b'<testcase name="test_a" />')],
)  # fmt: skip
def test_the_search_finds_a_zero(name: str, content: bytes) -> None:
    assert list(numbers(name, content))


def test_a_step_skipped_for_want_of_a_package_is_graded_once_it_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine decided is not kept; a package that is still missing has nobody graded again."""
    step = course.steps()[0]
    skipped = StepResult(
        name=step.name, title=step.title, status="skipped", score=None, max_score=6.0, seconds=0.0, checks=[]
    )
    report = Report(submission="ada", seed=1, isolation=[], devices={}, score=0.0, max_score=0.0, steps=[skipped])
    assert one_round._could_now_be_graded(report)
    monkeypatch.setattr(type(step), "lacking", "Triton")
    assert not one_round._could_now_be_graded(report)


@pytest.mark.usefixtures("cheaply")
def test_the_page_names_the_seed_under_which_each_was_graded(tmp_path: Path) -> None:
    """An open case that is tried again takes a new one; the others' stays what stands on the page."""
    for name, text in (("ada", RIGHT[1]), ("bob", RIGHT[1]), ("late", "x = 1\n")):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / f"{NAMES[1]}.py").write_text(text)
    first = run(asked(tmp_path / "in", tmp_path / "out")).standings[0].seed
    (tmp_path / "in" / "late" / f"{NAMES[1]}.py").write_text(RIGHT[1])
    done = run(asked(tmp_path / "in", tmp_path / "out"))
    second = next(one.seed for one in done.standings if one.student == "late")
    assert second != first and {one.seed for one in done.standings} == {first, second}
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert re.search(rf"The same run again: [^<]* --seed {first} --again<", page)
    assert re.search(rf"Then, for late: [^<]* --seed {second} --student late<", page)
