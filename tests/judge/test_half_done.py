"""A step written in part: the part that is written is diagnosed, and what is left is said."""

from __future__ import annotations

import ast
from types import SimpleNamespace

import pytest

from grader.base import paths
from grader.base.results import leading
from grader.checks.trial import Verdict
from grader.course import stubs, submissions
from grader.judge.grader import Grader
from grader.judge.outcome import Ending
from grader.judge.step_run import DeviceRun
from grader.report import terminal

CORE = paths.ROOT / "solutions" / "core"
STEPS = sorted(folder.name for folder in CORE.glob("step*"))

# The step, the parts that are written, what is wrong in them, and what that is called; the other parts are stubs.
HALVES = [
    ("step05", ["dropout"], ("1.0 / (1.0 - p)", "1.0"), "not_scaled"),
    ("step05", ["dropout", "Dropout"], ("dropout(x, self.p, self.training)", "dropout(x, self.p)"),
     "mode_not_looked_at"),
    ("step08", ["MultiHeadAttentionWrapper"], ("dim=-1", "dim=1"), "another_dimension"),
    ("step08", ["MultiHeadAttention"], (" / math.sqrt(key.shape[-1])", ""), "not_scaled"),
    ("step09", ["fuse_qkv"], ("dim=0", "dim=1"), "another_dimension"),
    ("step09", ["CausalSelfAttention"], ("softmax(dim=-1)", "softmax(dim=-2)"), "softmax_over_queries"),
    ("step10", ["attention_matrix_bytes"], ("num_heads * num_tokens", "num_tokens"), "one_head_counted"),
    ("step10", ["sdpa"], ("dropout_p if training else 0.0", "dropout_p"), "argument_not_used"),
    ("step10", ["flash_attention", "future"], ("context * rescale", "context"), "context_not_rescaled"),
    ("step11", ["LayerNorm"], ("torch.sqrt(variance + self.eps)", "(variance.sqrt() + self.eps)"),
     "eps_outside_the_root"),
    ("step11", ["gelu"], ("x**3", "x**2"), "square_in_gelu"),
    ("step11", ["gelu", "MLP"], ("gelu(self.c_fc(x))", "self.c_fc(x)"), "no_activation"),
    ("step11", ["gelu", "LayerNorm", "Block", "MLP"], ("x = x + self.attn", "x = self.attn"), "attention_not_added"),
    ("step12", ["GPT"], ("self.wte(idx) + self.wpe(positions)", "self.wte(idx)"), "positions_not_added"),
    ("step12", ["GPT", "generate"], ("largest / temperature", "largest * temperature"), "temperature_multiplied"),
    ("step12", ["next_token_batches"], ("token_ids[1 : num_inputs + 1]", "token_ids[:num_inputs]"),
     "targets_not_shifted"),
]  # fmt: skip


def solved(name: str) -> str:
    """A step's reference as a learner's file."""
    return stubs.solved_of((CORE / name / "reference.py").read_text(encoding="utf-8"))


def parts_of(source: str) -> dict[str, str]:
    """The text of each function and class of a file, by its name."""
    nodes = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return {node.name: ast.get_source_segment(source, node) or "" for node in nodes}


def half(name: str, written: list[str], wrong: tuple[str, str], *, left_out: bool = False) -> str:
    """A step of which these parts are written, wrongly in one place; of the others the stubs, or nothing."""
    whole, empty = solved(name), parts_of(stubs.original(CORE / name))
    for part, text in parts_of(whole).items():
        if part in written:
            continue
        whole = whole.replace(text, "" if left_out else empty.get(part, ""))
    assert wrong[0] in whole, "the reference has changed"
    return whole.replace(*wrong)


def graded(grader: Grader, name: str, source: str):  # type: ignore[no-untyped-def]
    """The step's result, the steps before it right."""
    sources = {before: (f"{before}.py", solved(before)) for before in STEPS if before < name}
    sources[name] = (f"{name}.py", source)
    return grader.grade(submissions.Submission("half", sources), [name], device="cpu", seed=3).steps[0]


@pytest.mark.parametrize(
    ("step", "written", "wrong", "called"), HALVES, ids=[f"{step}-{'-'.join(parts)}" for step, parts, *_ in HALVES]
)
def test_what_is_not_written_hides_no_diagnosis(
    grader: Grader, step: str, written: list[str], wrong: tuple[str, str], called: str
) -> None:
    """The part that is written is told of first, and called what it is; the rest is named as left to do."""
    name = next(name for name in STEPS if name.startswith(step))
    result = graded(grader, name, half(name, written, wrong))
    told = leading(result.checks)
    assert told is not None
    assert called in (told.misconception or "").split(" | "), told.message
    missing = parts_of(stubs.original(CORE / name)).keys() - set(written)
    for part in missing:
        assert f"{part}: not written yet" in terminal.parts(result)
    assert all(check.misconception is None for check in result.checks if check.unwritten)


def test_a_part_that_is_not_in_the_file_hides_none_either(grader: Grader) -> None:
    """Step 8's wrapper alone, and no other class."""
    name = next(name for name in STEPS if name.startswith("step08"))
    source = half(name, ["MultiHeadAttentionWrapper"], ("dim=-1", "dim=1"), left_out=True)
    result = graded(grader, name, source)
    told = leading(result.checks)
    assert told is not None
    assert told.misconception == "another_dimension", told.message
    assert "MultiHeadAttention: not written yet" in terminal.parts(result)


def test_what_cannot_be_imported_is_compared_with_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that rests on absent steps is imported anew with each of their references: what failed costs nothing."""
    check = SimpleNamespace(name="test_values")
    failed = Ending("step", check, "cpu", Verdict("fail", "", frozenset()))  # type: ignore[arg-type]  # no more is read
    step = SimpleNamespace(checks=[check], misconceptions=[], track="core", name="step")
    student = SimpleNamespace(could_not_start=True)
    run = DeviceRun(step, student, SimpleNamespace(seed=1), "cpu", endings=[failed])  # type: ignore[arg-type]
    monkeypatch.setattr(DeviceRun, "_question", lambda *given: given)
    assert run._diagnoses() == {}
    student.could_not_start = False
    with pytest.raises(AttributeError, match="witness"):  # it would be asked
        run._diagnoses()
