"""A file that is not valid Python: said once, with its line and a caret, as watch mode says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.base import language
from grader.course.submissions import Submission
from grader.judge.grader import Grader
from grader.learner.syntax import half_written
from grader.report import editor, page, terminal

BROKEN = "import torch\n\n\ndef dot_product_scores(query, key):\n    return query @ (key.mT\n"


@pytest.mark.parametrize("spoken", ["en", "ko"])
def test_a_syntax_error_is_said_once(grader: Grader, spoken: str) -> None:
    submission = Submission("mine", {"step01_scores": ("exercises/step01_scores.py", BROKEN)})
    with language.use(spoken):
        report = grader.grade(submission, ["step01_scores"], device="cpu", seed=1)
        (step,) = report.steps
        assert step.stuck
        watched = half_written(submission, "step01_scores")
        said = " ".join(terminal.as_text(step).split())
        for line in watched.splitlines():
            assert said.count(" ".join(line.split())) == 1, said
        assert "^" in said
        assert step.checks[0].title not in said
        assert "make lesson" not in said
        whole = page.html(report)
        assert whole.count("was never closed") == 1
    assert "dotted with" not in "".join(editor.lines(report, Path("exercises")))


def test_where_the_place_is() -> None:
    said = half_written(Submission("mine", {"step01_scores": ("a.py", BROKEN)}), "step01_scores").splitlines()
    assert said[0] == "a.py, line 5: not valid Python yet (SyntaxError: '(' was never closed)."
    assert said[1].index("(key") == said[2].index("^")


def test_another_file_of_that_name_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caret stands where this source is wrong, also where a folder of the same name holds another one."""
    (tmp_path / "exercises").mkdir()
    (tmp_path / "exercises" / "step01_scores.py").write_text("#\n" * 9, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    line, caret = half_written(
        Submission("mine", {"step01_scores": ("exercises/step01_scores.py", BROKEN)}), "step01_scores"
    ).splitlines()[1:]
    assert caret.index("^") == line.index("(")
