"""`make screenshots`: the pictures of the README, each drawn by rich from a real run of the grader.

The submissions are made here: untouched stubs, and one with a mask that is upside down in step 4.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

from rich.console import Console

from grader import course, exercises, language, report, submission
from grader.grading import Grader

IMAGES = course.ROOT / "docs" / "images"
WIDTH = 80
SEED = 4


def first_steps(folder: Path) -> None:
    """A learner on the way: three steps done, the fourth with its mask upside down."""
    exercises.write(folder)
    steps = course.steps()
    for step in steps[:3]:
        (folder / f"{step.name}.py").write_text(step.solved(), encoding="utf-8")
    wrong = """import torch


def causal_mask(num_tokens, device=None):
    return torch.triu(torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device))


def masked_softmax(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)


def renormalise(weights, mask):
    weights = weights * mask
    return weights / weights.sum(dim=-1, keepdim=True)
"""
    (folder / f"{steps[3].name}.py").write_text(wrong, encoding="utf-8")


def main() -> None:
    """Draws one picture a language."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, Grader() as grader:
        folder = Path(scratch) / "exercises"
        first_steps(folder)
        for spoken in language.LANGUAGES:
            with language.use(spoken):
                shown = grader.grade(submission.read(folder), device="all", seed=SEED)
                console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
                console.print(report.terminal(shown))
                console.save_svg(str(IMAGES / f"grade.{spoken}.svg"), title="make grade")


if __name__ == "__main__":
    main()
