"""Folders named for a situation, graded as a learner's would be: each says what its report must hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader.course import submissions
from grader.judge.grader import Grader

SITUATIONS = sorted(path for path in (Path(__file__).parents[1] / "situations").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", SITUATIONS, ids=lambda folder: folder.name)
def test_situation(folder: Path, grader: Grader) -> None:
    """The status, the score and the words are those that the situation calls for."""
    expected = json.loads((folder / "expected.json").read_text())
    report = grader.grade(submissions.read(folder), list(expected), device="cpu", seed=11)
    for step in report.steps:
        wanted = expected[step.name]
        said = "\n".join([step.message, step.note, *(check.message for check in step.checks)])
        assert step.status == wanted["status"], said
        assert wanted.get("score", step.score) == step.score, said
        assert bool(step.score) == bool(wanted.get("score") or wanted.get("some_points"))
        for words in wanted["says"]:
            assert words in said
        for words in wanted.get("never", []):
            assert words not in said
