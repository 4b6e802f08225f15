"""Everyday torch works where a learner's code runs, and what does not says why."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from grader.base.limits import Limits
from grader.course.submissions import Submission
from grader.judge.grader import Grader
from grader.sandbox import no_compiler
from tests.sandbox.torch_features import FEATURES, REFUSED
from tests.whole import sample

STEP = "step07_heads"
SOURCE = """import torch
import torch.nn.functional as F
from torch import nn


def feature():
{body}


with torch.enable_grad():
    feature()


def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)
"""
PAGES = [
    Path(__file__).parents[2] / "docs" / name for name in ("torch_in_the_sandbox.md", "torch_in_the_sandbox.ko.md")
]
# Where torch reads names of its compiler although nothing is compiled.
READERS = (
    "optim/optimizer.py",
    "utils/checkpoint.py",
    "_compile.py",
    "_functorch/eager_transforms.py",
    "nn/attention/bias.py",
)


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    """A grader with time for what a line imports of torch: seconds on a slow machine."""
    with Grader(1, Limits(call_seconds=80.0, step_seconds=200.0)) as patient:
        yield patient


def said_of(grader: Grader, body: str) -> tuple[str, str]:
    """The status of the step in whose file this runs, and what was left out of it, or the first complaint."""
    source = SOURCE.format(body=textwrap.indent(body.strip("\n"), "    "))
    report = grader.grade(Submission("it", {STEP: (f"it/{STEP}.py", source)}), [STEP], device="cpu", seed=3)
    step = report.steps[0]
    failed = next((check.message for check in step.checks if check.status != "pass"), step.message)
    return step.status, " ".join([*report.notes, failed or ""]).strip()


@pytest.mark.thorough
@pytest.mark.parametrize("name", sample(list(FEATURES), 3))
def test_it_works(name: str, grader: Grader) -> None:
    """A file that uses it is graded like any other."""
    assert said_of(grader, FEATURES[name]) == ("pass", "")


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_a_reason(name: str, grader: Grader) -> None:
    """What the sandbox keeps from a learner's code is an error in it that says so; the line is left out, or fails."""
    body, words = REFUSED[name]
    assert words in said_of(grader, body)[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_has_a_row_for_each(page: Path) -> None:
    """The table that learners read is the one that is tested here."""
    rows = re.findall(r"^\| `([^|]+)` \|", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert rows == [*FEATURES, *REFUSED]


@pytest.mark.thorough
def test_optimiser_imports_no_compiler() -> None:
    """A step of an optimiser, a checkpoint, torch.func and a loss on meta leave the compiler alone; what needs it gets
    it."""
    code = """
import sys, torch
from torch import nn
from grader.sandbox import no_compiler, preload
preload.load_torch()
layer = nn.Linear(2, 2)
torch.utils.checkpoint.checkpoint(layer, torch.ones(1, 2), use_reentrant=False).sum().backward()
torch.optim.AdamW(layer.parameters()).step()
torch.func.grad(lambda x: x.sum())(torch.ones(2))
from grader.calls.modes import OneDevice
with OneDevice():  # a decomposition in Python, which torch puts there, would import all of it
    nn.functional.cross_entropy(torch.ones(2, 3, device="meta"), torch.zeros(2, dtype=torch.long, device="meta"))
assert isinstance(torch._dynamo, no_compiler.LazyModule)
from torch._dynamo import config, external_utils
assert external_utils.__spec__ and not isinstance(sys.modules["torch._dynamo"], no_compiler.LazyModule)
torch._dynamo.reset()
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "use",
    [
        "import sympy; assert str(sympy.Symbol('n') + 1) == 'n + 1'",
        "from sympy import *; assert Integer(4) ** Rational(1, 2) == 2",
        "from sympy.core import numbers; assert numbers.pi",
        "from torch.utils._sympy.functions import FloorDiv; assert FloorDiv",
        "from torch.utils._sympy.numbers import int_oo; assert int_oo > 1",
        "from torch.fx.experimental.symbolic_shapes import ShapeEnv; assert ShapeEnv()",
        "from torch._subclasses import FakeTensorMode\nwith FakeTensorMode(): assert (torch.ones(2) @ torch.ones(2)).ndim == 0",  # noqa: E501
    ],
)
def test_sympy_is_imported_when_it_is_used(use: str) -> None:
    """The ops of attention on `meta`, and their gradients, leave sympy alone; what needs it gets it."""
    code = f"""
import sys, torch
from grader.sandbox import no_compiler, preload
preload.load_torch()
preload.warm_up()
from grader.sandbox import worker
worker.rehearse()
x = torch.ones(2, 3, device="meta", requires_grad=True)
torch.where(x > 0, x.softmax(-1), x.cumsum(-1)).sum().backward()
from grader.calls.modes import OneDevice
with OneDevice():  # decompositions in Python, which ask whether a tensor is dense
    half = x.bfloat16().transpose(0, 1)
    torch.var_mean(half, dim=-1, correction=0), half.var(-1, unbiased=False), half.std(-1), half.sum(-1), half.exp()
names = {{no_compiler.SYMBOLS, no_compiler.SHAPES, no_compiler.FUNCTIONS}}
assert all(isinstance(sys.modules[name], no_compiler.LazyModule) for name in names)
{use}
assert not any(isinstance(sys.modules[name], no_compiler.LazyModule) for name in names)
x.exp().sum().backward()
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_names_that_torch_reads_are_known() -> None:
    """This version of torch reads no name of its compiler, where nothing is compiled, that would import it."""
    folder = Path(torch.__file__).parent
    known = {*no_compiler.MARKS, *no_compiler.NEWS, "config", "is_compiling", "compiled_autograd"}
    for file in READERS:
        code = re.sub(r'"""[\s\S]*?"""|#.*', "", (folder / file).read_text(encoding="utf-8"))
        read = set(re.findall(r"torch\._dynamo\.(\w+)", code))
        assert read <= known, f"{file} reads {read - known} of torch._dynamo: put them in grader/sandbox/no_compiler.py"
