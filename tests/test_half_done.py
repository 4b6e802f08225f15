"""A step written in part: the part that is written is diagnosed, and what is left is said."""

from __future__ import annotations

import re

import pytest

from grader.base import paths
from grader.base.results import leading
from grader.course import stubs, submissions
from grader.judge.grader import Grader
from grader.report import terminal

WRAPPER = "step08_multi_head"
CORE = paths.ROOT / "solutions" / "core"
BEFORE = ("step04_causal_mask", "step05_dropout", "step06_causal_attention")


def wrapper_along_tokens(left: str) -> str:
    """Step 8 with its wrapper concatenated along the tokens; the other class is a stub, or not in the file."""
    stub = stubs.original(CORE / WRAPPER)
    reference = (CORE / WRAPPER / "reference.py").read_text(encoding="utf-8")
    wrapper = re.search(r"^class MultiHeadAttentionWrapper.*?(?=^class )", reference, re.DOTALL | re.MULTILINE)
    assert wrapper is not None
    wrong = wrapper[0].replace("dim=-1", "dim=1")
    assert wrong != wrapper[0]
    imports, _class, _rest = reference.partition("class MultiHeadAttentionWrapper")
    source = (
        imports + wrong + ("class MultiHeadAttention(" + stub.split("class MultiHeadAttention(")[1] if left else "")
    )
    return (
        stubs.solved_of(source)
        .replace("from solutions.core.", "from exercises.")
        .replace(".reference import", " import")
    )


@pytest.mark.parametrize("left", ["a stub", ""])
def test_what_is_not_written_hides_no_diagnosis(grader: Grader, left: str) -> None:
    """Step 8's wrapper alone, concatenated along the wrong dimension, reads that; the rest is named as left to do."""
    sources = {
        name: (f"{name}.py", stubs.solved_of((CORE / name / "reference.py").read_text(encoding="utf-8")))
        for name in BEFORE
    }
    sources[WRAPPER] = (f"{WRAPPER}.py", wrapper_along_tokens(left))
    report = grader.grade(submissions.Submission("half", sources), [WRAPPER], device="cpu", seed=3)
    step = report.steps[0]
    told = leading(step.checks)
    assert told is not None
    assert told.misconception == "heads_concatenated_along_tokens", told.message
    assert "MultiHeadAttention: not written yet" in terminal.parts(step)
    assert all(check.misconception is None for check in step.checks if check.unwritten)
