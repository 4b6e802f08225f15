"""A seed is for one round: whoever hands in again meets draws that nobody has read."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("nbgrader", reason="instructors need it, learners don't")

from grader.classes.last_report import kept_seed


def test_a_changed_submission_meets_a_new_seed(tmp_path: Path) -> None:
    """The same one keeps its own, and so do others; what comes after the change shares the new one."""
    file = tmp_path / ".attention_seed"
    first = kept_seed(file, "ada", "1")
    assert file.stat().st_mode & 0o077 == 0
    assert [kept_seed(file, "bob", "1"), kept_seed(file, "ada", "1"), kept_seed(file)] == [first, first, first]
    second = kept_seed(file, "ada", "2")
    assert second != first
    assert [kept_seed(file, "bob", "1"), kept_seed(file, "cleo", "1"), kept_seed(file, "ada", "2")] == [second] * 3


def test_a_seed_of_an_earlier_version(tmp_path: Path) -> None:
    """A file that holds a number alone is kept."""
    file = tmp_path / ".attention_seed"
    file.write_text("12345\n")
    assert kept_seed(file, "ada", "1") == kept_seed(file) == 12345
    assert kept_seed(file, "ada", "2") != 12345
