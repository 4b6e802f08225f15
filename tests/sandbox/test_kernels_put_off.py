"""A process that grades once has not imported torch's kernels in Python.

What is asked of them is answered all the same, and what is off limits is seen in them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from grader.judge.grader import Grader
from grader.judge.launcher import ForkingLauncher
from grader.judge.zygote_process import ZygoteProcess
from tests import hostile
from tests.sandbox.test_torch_in_the_sandbox import said_of
from tests.sandbox.torch_features import FEATURES
from tests.whole import sample

ROOT = Path(__file__).parents[2]

PUT_OFF = """
import sys
from grader.sandbox import no_compiler, preload
preload.load_torch(once=True)
import torch
preload.warm_up()
from grader.sandbox import worker
worker.rehearse()
torch.Generator().manual_seed(1)
assert no_compiler.kernels_wait and "torch._refs.nn" not in sys.modules, "torch needs them for what every grade does"
"""
# By what a learner's code may come to ask for one.
ASKING = [
    "torch._refs.softmax",
    "from torch._decomp import decomposition_table; assert torch.ops.aten._softmax.default in decomposition_table",
    "import torch._refs.nn.functional as F; F.gelu",
    "from torch import _prims; _prims.exp",
    "import torch._meta_registrations as kernels; kernels.activate_meta",
    "import torch._prims.rng_prims as prims; prims.run_and_save_rng_state; prims.__spec__.loader.get_source",
    "torch.ops.prims.exp(torch.ones(2)); torch.ops.prims.device_put.default",
    "assert torch.empty(3, device='meta').isnan().shape == (3,)",
    "torch.polar(x := torch.empty(3, device='meta'), x)",
    "torch.nn.functional.conv1d(torch.empty(1, 1, 5, device='meta'), torch.empty(1, 1, 3, device='meta'))",
]


@pytest.mark.thorough
@pytest.mark.parametrize("use", sample(ASKING, 4))
def test_they_are_there_when_they_are_asked_for(use: str) -> None:
    """And then what they are made of is looked at."""
    code = f"""{PUT_OFF}
from grader.calls.builtins import FAMILIES, BuiltIns
{use}
assert not no_compiler.kernels_wait
with BuiltIns(FAMILIES) as seen:
    torch._refs.softmax(torch.ones(2), 0)
assert any("softmax" in name for name in seen.names), seen.names
with BuiltIns(FAMILIES) as seen:
    torch._decomp.decomposition_table[torch.ops.aten._softmax.default](torch.ones(2), 0, False)
assert any("softmax" in name for name in seen.names), seen.names
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize("part", ["step05", *sample(["step12", "step18", "step24", "step28", "step01", "step21"], 3)])
def test_known_mistakes_are_made_without_them(part: str) -> None:
    """A judge that grades once runs their code, what their blocks share too: step 5's have a generator of their own."""
    code = f"""{PUT_OFF}
from grader.oracle.live import solutions
(solution,) = (each for each in solutions() if each.name.startswith("{part}"))
for mistake in solution.misconceptions:
    dict(mistake.replaced)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


# Each on `meta` as on the CPU, where torch's own in Python says so too: shape, dtype and memory, or an error.
X = "torch.empty(2, 3, 4, device=device)"
ASKED = f"""
x, ids, n = {X}, torch.zeros(2, dtype=torch.long, device=device), torch.zeros(4, dtype=torch.long, device=device)
mask, half, row = x > 0, x.bfloat16(), x[0, 0]
calls = [
    lambda: x.index_select(1, ids), lambda: x.index_select(-1, ids), lambda: x.index_select(3, ids),
    lambda: x.mT.index_select(0, ids), lambda: torch.nn.functional.embedding(ids.view(2, 1), x[0]),
    lambda: x.max(), lambda: half.max(), lambda: n.max(),
    lambda: torch.where(mask, x, -1e4), lambda: torch.where(mask[:1], x, half), lambda: torch.where(mask, x, x[:, :2]),
    lambda: torch.where(mask.mT, x.mT, 0.0), lambda: torch.where(row > 0, row, x), lambda: torch.where(x, x, x),
    lambda: torch.where(mask, torch.tensor(1.0, dtype=torch.float64), half), lambda: torch.where(mask, n, row),
    lambda: x.var(-1, keepdim=True), lambda: x.var((0, 2), correction=0), lambda: x.var(), lambda: x.var(5),
    lambda: half.var(1), lambda: x.var((0, 0)), lambda: x.std(-1),
    lambda: torch.var_mean(x, -1), lambda: torch.var_mean(x, (0, 1), correction=0, keepdim=True),
    lambda: torch.var_mean(n),
    lambda: x.abs(), lambda: n.abs(), lambda: x.cfloat().abs(), lambda: x.abs_(),
    lambda: torch.abs(x, out=torch.empty(0, device=device)), lambda: torch.abs(x, out=torch.empty_like(n)),
    lambda: mask.logical_not(), lambda: x.logical_not(),
    lambda: row.dot(row), lambda: row.dot(x[0]), lambda: row.dot(row.half()), lambda: row.vdot(row),
    lambda: row.dot(row[:2]),
    lambda: x.flip(0), lambda: x.flip((-1, 0)), lambda: x.flip((0, 0)), lambda: x.flip(7), lambda: x.mT.flip(1),
    lambda: x[0, 0, 0].flip(()), lambda: mask.flip(1),
]
"""
MADE = """
def told(call):
    try:
        found = call()
    except Exception as error:
        return type(error).__name__
    every = found if isinstance(found, tuple) else (found,)
    return [(tuple(each.shape), each.dtype, each.stride()) for each in every]
"""


@pytest.mark.thorough
@pytest.mark.parametrize("once", [True, False])
def test_our_kernels_say_what_the_cpu_does(once: bool) -> None:
    """In the ordinary cases by themselves, in the others by what torch has in Python."""
    code = f"""
from grader.sandbox import preload
preload.load_torch(once={once})
import torch
{MADE}
answers = []
for device in ("cpu", "meta"):
{ASKED.replace(chr(10), chr(10) + "    ")}
    answers.append([told(call) for call in calls])
differ = [(number, one, other) for number, (one, other) in enumerate(zip(*answers)) if one != other]
assert not [each for each in differ if (each[1], each[2]) != ("IndexError", "RuntimeError")], differ
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.fixture(scope="module")
def once() -> Iterator[Grader]:
    """As `make grade` starts one."""
    with Grader(1, hostile.PATIENT, source=ForkingLauncher(ZygoteProcess(once=True))) as grader:
        yield grader
        grader._source.close()


BY_OTHER_WAYS = """
import importlib.machinery
import importlib.util
import sys
import torch

Found = importlib.machinery
sys.meta_path[:] = [Found.BuiltinImporter, Found.FrozenImporter, Found.PathFinder]
for name in ("_meta_registrations", "_decomp", "_prims", "_refs"):
    sys.modules.pop(f"torch.{name}", None)
    if hasattr(torch, name):
        delattr(torch, name)
import torch._refs

def softmax(x, dim=-1):
    return torch._refs.softmax(x, dim)
"""
TAKEN_APART = (Path(__file__).parents[1] / "attacks" / "forge_builtin_taken_apart.py").read_text(encoding="utf-8")


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is put off")
@pytest.mark.parametrize("source", [BY_OTHER_WAYS, TAKEN_APART], ids=["by other ways", "taken apart"])
def test_no_built_in_is_had_by_them(once: Grader, source: str) -> None:
    """Whoever removes what stands in for them gets no second chance, and what they do with one is seen."""
    (step,) = once.grade(hostile.one_file(hostile.STEP, source), [hostile.STEP], device="cpu", seed=3).steps
    assert step.score == 0


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is put off")
@pytest.mark.parametrize("name", sample(list(FEATURES), 8))
def test_everyday_torch_works(once: Grader, name: str) -> None:
    """As in a process that has them: see `test_torch_in_the_sandbox`."""
    assert said_of(once, FEATURES[name]) == ("pass", "")


WRONG = """import torch
def dropout(x, p=0.5, training=True):
    return x * (torch.rand_like(x) >= p) if training else x
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is put off")
def test_a_mistake_has_its_name(once: Grader) -> None:
    (step,) = once.grade(hostile.one_file("step05_dropout", WRONG), ["step05_dropout"], device="cpu", seed=3).steps
    assert any("not_scaled" in (check.misconception or "") for check in step.checks), step


HONEST = hostile.GOOD.replace("x.detach()", "torch._refs.clone(x.detach())")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is put off")
@pytest.mark.parametrize("source", [hostile.GOOD, f"import torch\n{HONEST}"], ids=["without", "with"])
def test_a_right_answer_may_use_them(once: Grader, source: str) -> None:
    (step,) = once.grade(hostile.one_file(hostile.STEP, source), [hostile.STEP], device="cpu", seed=3).steps
    assert step.status == "pass", step


def test_this_process_has_them() -> None:
    """So that nothing of this was asked of a process that had put them off by chance."""
    assert "torch._refs" in sys.modules
    assert torch._refs.softmax
