"""Recording tapes: stopped at once, and each step of an unfinished kit can be used."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from grader.author import recorder
from grader.base import paths
from grader.course import steps as course
from grader.judge import grader as judging

FIRST, SECOND, THIRD = (step.name for step in course.steps()[:3])
SECONDS = 60.0


def slow(folder: Path) -> bytes:
    """In place of a recording, in a process of its own: the first one is done at once."""
    time.sleep(0 if folder.name == FIRST else SECONDS)
    return b"tape"


@pytest.mark.thorough
def test_a_recording_that_is_stopped_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps that wait are not recorded first, and what is there is kept for the next time."""
    monkeypatch.setattr(recorder, "_record", slow)
    monkeypatch.setattr(recorder, "KEPT", tmp_path / "tapes")

    stopped: list[float] = []

    def stop(name: str, size: int) -> None:
        stopped.append(time.monotonic())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recorder.record_all(tmp_path / "steps", stop, steps=[FIRST, SECOND, THIRD])
    assert time.monotonic() - stopped[0] < SECONDS
    assert [file.name.partition("-")[0] for file in (tmp_path / "tapes").iterdir()] == [FIRST]
    made: list[str] = []
    recorder.record_all(tmp_path / "steps", lambda name, size: made.append(name), steps=[FIRST])
    assert made == [FIRST]


def test_a_step_of_an_unfinished_kit_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the tapes of the steps that are graded are needed; one of another version is refused all the same."""
    folders = [tmp_path / name for name in (FIRST, SECOND)]
    for folder in folders:
        folder.mkdir()
    (folders[0] / paths.TAPE).write_bytes(b"tape")
    version = judging.__version__
    monkeypatch.setattr(judging, "step_folders", lambda: folders)
    monkeypatch.setattr(judging, "ROOT", tmp_path)
    monkeypatch.setattr(judging, "tape_version", lambda tape: tape.read_bytes() and version)
    judging.require_fitting_tapes([FIRST])
    with pytest.raises(judging.UnfitCopy, match=f"{SECOND}/.* is missing"):
        judging.require_fitting_tapes([FIRST, SECOND])
    monkeypatch.setattr(judging, "tape_version", lambda tape: tape.read_bytes() and "0.0.1")
    with pytest.raises(judging.UnfitCopy, match=r"0\.0\.1"):
        judging.require_fitting_tapes([SECOND])
