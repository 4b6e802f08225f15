"""Folders `attempt 1` to `attempt N` in one hand-in are no N gradings."""

from __future__ import annotations

from pathlib import Path

from grader.classes import class_list, roster
from grader.marks import assignments

TERM = '[assignments.a]\ntitle = "A"\nsteps = "1"\nattempts = "best"\n'


def test_the_last_attempts_are_graded(tmp_path: Path) -> None:
    for number in range(1, 8):
        (tmp_path / "eve" / f"attempt {number}").mkdir(parents=True)
        (tmp_path / "eve" / f"attempt {number}" / "step01_scores.py").write_text(f"x = {number}\n")
    (student,) = roster.students(tmp_path, class_list.read(tmp_path), "a", attempts=3)
    tries = [*student.before, student]
    assert [one.submission.sources["step01_scores"][1] for one in tries] == ["x = 5\n", "x = 6\n", "x = 7\n"]
    assert set(student.submission.unread) == {f"attempt {number}/" for number in range(1, 5)}
    assert "the last 3 are graded" in student.submission.unread["attempt 1/"]


def test_it_is_data(tmp_path: Path) -> None:
    file = tmp_path / "assignments.toml"
    file.write_text('title = "t"\ntimezone = "UTC"\n' + TERM)
    assert assignments.read(file).assignments["a"].attempts_at_most == 10
    file.write_text('title = "t"\ntimezone = "UTC"\n' + TERM + "attempts_at_most = 2\n")
    assert assignments.read(file).assignments["a"].attempts_at_most == 2
