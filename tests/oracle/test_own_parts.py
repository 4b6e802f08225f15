"""A mistake keeps its name whichever right parts of the learner's own it stands on: their Dropout draws other numbers
than torch's, with which the mistakes of later steps are tried."""

from __future__ import annotations

import pytest

from grader.base.paths import SOLUTIONS, step_folder
from grader.course import stubs
from grader.course.submissions import Submission
from grader.judge.follow_through import with_stock
from grader.judge.grader import Grader

DROPOUT = """
import torch
from torch import nn

def dropout(x, p=0.5, training=True):
    if not training:
        return x
    if not 0 <= p <= 1:
        raise ValueError(p)
    return {drawn}

class Dropout(nn.Module):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, x):
        return dropout(x, self.p, self.training)
"""
DRAWN = {
    "bernoulli": "x * torch.bernoulli(torch.full_like(x, 1 - p)) * (1 / (1 - p) if p < 1 else 0.0)",
    "below": "torch.where(torch.rand(x.shape, device=x.device) < 1 - p, x / max(1 - p, 1e-9), 0.0)",
    "filled": "(x / max(1 - p, 1e-9)).masked_fill(torch.rand_like(x, dtype=torch.float32) < p, 0.0)",
}
OWN, TORCHS = "from exercises.step05_dropout import Dropout\n", "nn.Dropout("
# A mistake of a step, as changes of its reference.
MISTAKES = {
    ("step06_causal_attention", "weights_dropped_twice"): (
        "self.dropout(weights)", "self.dropout(self.dropout(weights))",
    ),
    ("step06_causal_attention", "dropout_on_the_tokens"): (
        "weights = self.dropout(weights)", "",
        "num_tokens = x.shape[1]", "num_tokens = x.shape[1]\n        x = self.dropout(x)",
    ),
    ("step08_multi_head", "dropout_on_weights_and_output"): (
        "self.out_proj(merged)", "self.dropout(self.out_proj(merged))",
    ),
    ("step08_multi_head", "dropout_on_values"): (
        "weights = self.dropout(weights)", "", "weights @ value", "weights @ self.dropout(value)",
    ),
    ("step09_fused_qkv", "no_dropout_on_output"): ("self.resid_dropout(self.c_proj(merged))", "self.c_proj(merged)"),
    ("step09_fused_qkv", "dropout_before_projection"): (
        "self.resid_dropout(self.c_proj(merged))", "self.c_proj(self.resid_dropout(merged))",
    ),
}  # fmt: skip


def written(step: str, *changes: str) -> str:
    """The reference of a step over the learner's own Dropout, changed."""
    text = (step_folder(step) / "reference.py").read_text(encoding="utf-8")
    text = text.replace("solutions.core.step06_causal_attention.reference", "exercises.step06_causal_attention")
    for old, new in [(TORCHS, "Dropout("), *zip(changes[::2], changes[1::2], strict=True)]:
        assert old in text, old
        text = text.replace(old, new)
    return text.replace("import math\n", f"import math\n{OWN}", 1)


CASES = [
    pytest.param(
        step, name, drawn, marks=[] if place % len(DRAWN) == style else pytest.mark.thorough, id=f"{name}-{drawn}"
    )
    for place, (step, name) in enumerate(MISTAKES)
    for style, drawn in enumerate(DRAWN)
]


@pytest.mark.thorough
@pytest.mark.parametrize(("step", "name", "drawn"), CASES)
def test_a_mistake_keeps_its_name(step: str, name: str, drawn: str, grader: Grader) -> None:
    """In every style in which a right Dropout is written."""
    sources = {
        "step05_dropout": DROPOUT.format(drawn=DRAWN[drawn]),
        "step06_causal_attention": written("step06_causal_attention"),
        step: written(step, *MISTAKES[step, name]),
    }
    handed_in = Submission("own parts", {module: (f"{module}.py", text) for module, text in sources.items()})
    (result,) = grader.grade(handed_in, [step], seed=7).steps
    failing = [check for check in result.checks if check.status != "pass"]
    assert failing
    assert [check.misconception for check in failing] == [name] * len(failing)


def test_what_torch_has_defines_what_the_step_asks_for() -> None:
    """A `stock.py` has the public names of its step, and takes the place of no step that was not imported."""
    stock = list(SOLUTIONS.glob("*/step*/stock.py"))
    assert stock
    for file in stock:
        names: dict[str, object] = {}
        exec(file.read_text(encoding="utf-8"), names)
        own_names = {name.partition(".")[0] for name in stubs.arguments(stubs.original(file.parent))}
        assert own_names and own_names <= names.keys()
        own = {file.parent.name: ("own.py", "mine")}
        assert with_stock(own, [file.parent.name]) != own
        assert with_stock(own, []) is None
