"""Whose word counts: of who handed in, when, and what stands in a cell or a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader.base import downloads
from grader.base.paths import SOLUTIONS
from grader.classes import gradescope, one_round
from grader.course import steps as course
from grader.course.submissions import Submission
from grader.feedback import class_page, exports, similarity
from grader.feedback.standings import Standing
from grader.marks import changes, ledger, marking
from grader.marks.assignments import read
from grader.report import layers

TERM = """
timezone = "UTC"
[assignments.week1]
steps = "1"
due = 2026-09-14
[[extensions]]
student = "bob@example.org"
assignment = "week1"
more = "9 days"
reason = "ill"
"""


@pytest.fixture
def week1(tmp_path: Path) -> marking.Marking:
    (tmp_path / "assignments.toml").write_text(TERM, encoding="utf-8")
    return marking.of(read(tmp_path / "assignments.toml"), "week1")


@pytest.mark.parametrize(
    ("user", "known"),
    [
        ({"email": "bob@example.org", "name": "Bob"}, "bob@example.org"),
        ({"email": "m@example.org", "name": "bob@example.org"}, "m@example.org"),
        ({"email": "m@example.org", "name": "M", "sid": "bob@example.org"}, "m@example.org"),
        ({"email": "m@example.org", "name": "M", "sid": "123"}, "m@example.org"),
    ],
)
def test_a_name_on_gradescope_is_nobodys(user: dict[str, str], known: str) -> None:
    """A display name, or a number that looks like an address, is whatever its owner likes."""
    person = json.dumps(user).encode()
    import msgspec

    assert next(gradescope._identities(msgspec.json.decode(person, type=gradescope._Person))) == known
    found = list(gradescope._identities(msgspec.json.decode(person, type=gradescope._Person)))
    assert ("bob@example.org" in found) == (user["email"] == "bob@example.org")


def test_a_name_in_gradescopes_export_that_is_an_address(tmp_path: Path) -> None:
    """It is shown with the address of its owner, so that no table means it."""
    people = [("Bob", "bob@example.org"), ("bob@example.org", "mallory@example.org")]
    lines = []
    for number, (name, mail) in enumerate(people, 1):
        (tmp_path / f"submission_{number}").mkdir()
        lines.append(f"submission_{number}:\n  :submitters:\n  - :name: {name}\n    :email: {mail}\n")
    (tmp_path / "submission_metadata.yml").write_text("---\n" + "".join(lines), encoding="utf-8")
    assert set(downloads.people(tmp_path)) == {"Bob", "bob@example.org (mallory@example.org)"}


@pytest.mark.parametrize("own", ["nbgrader_config.py", None])
def test_a_students_own_time_is_not_believed(week1: marking.Marking, tmp_path: Path, own: str | None) -> None:
    """Only nbgrader's, in a course of its own, and what the platform says comes first."""
    if own:
        (tmp_path / own).touch()
    folder = tmp_path / "submitted" / "ada"
    (folder / "week1").mkdir(parents=True)
    for place in (folder, folder / "week1"):
        (place / "timestamp.txt").write_text("2026-09-01 00:00:00 UTC")
    book = ledger.Ledger(week1)
    book.expect("ada", folder, Submission("ada"), None)
    assert (book.facts["ada"].handed_in is not None) == (own is not None)
    book.expect("ada", folder, Submission("ada"), None, "2026-09-20 00:00:00 UTC")
    facts = book.facts["ada"]
    assert facts.handed_in is not None
    assert (facts.handed_in.day, facts.said_by) == (20, "the learning platform")


@pytest.mark.parametrize(
    ("cell", "harmless"),
    [("bob;=1+2", "bob;'=1+2"), ("bob; @f()", "bob; '@f()"), ("a|-1", "a|'-1"), ("=1", "'=1"), ("bob", "bob"),
     ("a;b", "a;b")],
)  # fmt: skip
def test_a_formula_behind_another_separator(cell: str, harmless: str) -> None:
    assert exports.harmless(cell) == harmless


def test_a_reason_in_the_list_of_changes_is_one_plain_line() -> None:
    """Marks of direction and new lines are shown, and not obeyed."""
    line = changes.said(changes.Change("ada\u202e", 1.0, 2.0, ["so\n::error::\u202eyes"]))
    assert "\n" not in line and "\u202e" not in line


def test_the_kits_own_files_are_known() -> None:
    """A lab's code word for word, and not who writes by themselves."""
    step = next(step for step in course.steps() if step.name == "step12_gpt")
    lab = (SOLUTIONS / "core" / "lab_flash" / "lab.py").read_text(encoding="utf-8")
    assert similarity.taken_from_the_kit(lab, step.stub()) > similarity.HONEST
    assert similarity.taken_from_the_kit(step.solved(), step.stub()) < similarity.HONEST / 2
    submission = Submission("ada", {step.name: ("ada/x.py", lab)})
    assert one_round._from_kit(submission, [step.name, "step01_scores"]) == (step.name,)


def test_a_long_file_is_compared() -> None:
    """As long as what may be handed in."""
    text = "".join(f"def f{number}(x):\n    return x @ x.mT / x.shape[-1] ** {number}\n" for number in range(3000))
    assert len(text) > 150_000
    assert similarity.not_comparable({"step01": text}) == []


def test_each_missing_layer_is_named() -> None:
    everything = ("process", "limits", "namespaces", "landlock", "seccomp")
    assert layers.missing(everything) == []
    for layer in everything[2:]:
        (sentence,) = layers.missing([one for one in everything if one != layer])
        assert layer in sentence


def test_the_class_page_names_missing_layers() -> None:
    """Of the reports of which it is known, the layers that not all had."""

    def one(isolation: tuple[str, ...]) -> Standing:
        return Standing(student="ada", file="ada", key="", score=1.0, max_score=2.0, isolation=isolation)

    everything = ("process", "limits", "namespaces", "landlock", "seccomp")
    assert "namespaces" not in class_page.html([one(everything)], seed=1, submissions="x")
    page = class_page.html([one(everything), one(everything[:2] + everything[3:])], seed=1, submissions="x")
    assert "Without namespaces a submission" in page
