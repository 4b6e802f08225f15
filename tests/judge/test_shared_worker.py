"""Steps of one submission share a worker, and what one leaves behind never reaches the next."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from grader.calls.call import Call, Load
from grader.calls.values import PlacedTensor
from grader.course.steps import steps
from grader.course.submissions import Submission
from grader.judge import shared_worker
from grader.judge.grader import Grader
from grader.judge.launcher import ForkingLauncher
from grader.judge.shared_worker import SharedWorker, is_ordinary
from grader.judge.worker_backend import WorkerBackend
from grader.sandbox.forked import ForkedProcess
from grader.sandbox.process import Launcher
from tests.hostile import LIMITS, eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a warm process is forked from on Linux only")

QUIET = """
import torch
from torch import nn

def right(x):
    return x @ x.mT

class Module(nn.Module):
    def forward(self, x):
        return x + 1
"""
SECOND = "import torch\n\ndef right(x):\n    return x * 2\n"
# What is set at the top of a file is taken back.
WHEN_CALLED = "class Right:\n    def __call__(self, x):\n        {}\n        return x\nright = Right()"
# What the first step does when it is imported, or asked.
LEAVES = {
    "a default dtype": WHEN_CALLED.format("torch.set_default_dtype(torch.float64)"),
    "a default device": WHEN_CALLED.format("torch.set_default_device('meta')"),
    "the mode of gradients": WHEN_CALLED.format("torch.set_grad_enabled(False)"),
    "a mode held open": "def hold():\n    with torch.no_grad():\n        yield\n"
    "import sys; sys.kept = hold(); next(sys.kept)",
    "inference mode": "import sys\nsys.kept = torch.inference_mode(True)\nsys.kept.__enter__()",
    "a function mode": "from torch.overrides import BaseTorchFunctionMode\nBaseTorchFunctionMode().__enter__()",
    "a dispatch mode": "from torch.utils._python_dispatch import TorchDispatchMode\n"
    "class Through(TorchDispatchMode):\n    def __torch_dispatch__(self, f, t, args=(), kwargs=None):\n"
    "        return f(*args, **(kwargs or {}))\nThrough().__enter__()",
    "autocast": WHEN_CALLED.format("torch.autocast('cpu').__enter__()"),
    "anomaly mode": WHEN_CALLED.format("torch.autograd.set_detect_anomaly(True)"),
    "no subnormal numbers": "torch.set_flush_denormal(True)",
    "a kernel switched off": "torch.backends.mkldnn.set_flags(False)",
    "hooks of every module": "nn.modules.module.register_module_forward_hook(lambda m, i, o: o + 1)",
    "hooks of what is saved": "torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x).__enter__()",
    "hooks of optimizers": "from torch.optim.optimizer import register_optimizer_step_pre_hook as on\non(print)",
    "a function of torch's": "torch.exp = lambda x: x",
    "a function of another name": "F = nn.functional\nF.softmax = lambda x, dim: x",
    "a method of tensors": "torch.Tensor.exp = lambda x: x",
    "a method of modules": "nn.Linear.forward = lambda self, x: x",
    "a method of all modules": "nn.Module.__call__ = lambda self, x: x",
    "a name of Python's": "import builtins\nbuiltins.sum = lambda x: 0",
    "a name of math's": "import math\nmath.sqrt = lambda x: 0",
    "a module": "import colorsys",
    "a module of its own making": "import sys, types\nsys.modules['colorsys'] = types.ModuleType('colorsys')",
    "a finder of modules": "import sys\nsys.path_hooks.append(lambda place: None)",
    "a filter of warnings": "import warnings\nwarnings.simplefilter('error')",
    "a limit of recursion": "import sys\nsys.setrecursionlimit(5000)",
    "a variable of the environment": "import os\nos.environ['LEFT'] = '1'",
    "a timer": "import signal\nsignal.signal(26, lambda *a: None)\nsignal.setitimer(signal.ITIMER_VIRTUAL, 60)",
    "a trace": "import threading\nthreading.settrace(lambda *a: None)",
    "a switch of the collector": "import gc\ngc.disable()",
    "a callback of the collector": "import gc\ngc.callbacks.append(lambda *a: None)",
    "something at exit": "import atexit\natexit.register(lambda: None)",
    "NumPy's way with errors": "import numpy\n" + WHEN_CALLED.format("numpy.seterr(all='raise')"),
    "NumPy's random stream": "import numpy\nnumpy.random.seed(1)",
    "another output": "import io, sys\nsys.stdout = io.StringIO()",
    "what it printed": "print('here')",
    "what a finaliser prints": "class Last:\n    def __del__(self):\n        print('gone', flush=True)\nlast = Last()",
    "half of the memory": "import operator\noperator.kept = torch.ones(1 << 26)",
    "a patched watcher": "from grader.calls import responder\nresponder.cotangents = lambda outputs: iter(outputs)",
}  # fmt: skip
# What its functions, classes and tensors are left in, wherever that is.
KEPT = {
    "a function in a module": "import enum\nenum.kept = lambda x: x",
    "a function in a list": "torch.__all__.append(lambda x: x)",
    "a function on a function": "nn.functional.relu.__dict__.update(kept=lambda x: x)",
    "a class in a class": "import collections\nclass Kept:\n    pass\ncollections.Counter.kept = Kept",
    "a tensor in a table": "import copy\ncopy._deepcopy_dispatch['kept'] = torch.ones(2)",
    "a generator": "import typing\ntyping.__all__.append(i for i in (1, 2))",
}
# What only a look at the text can tell.
OUT_OF_SIGHT = (
    "open('file', 'w')",
    "torch.save(1, 'file')",
    "import ctypes",
    "__import__('os')",
    "from torch import utils",
    "nn.attention.restore_flash_attention_impl()",
    "myself.attention.restore_flash_attention_impl()",
    "from torch.nn import attention",
    "torch.builtins.open('file', 'w')",
    "torch.  sys",
    "(torch.\n  sys)",
    "x = 1.\nimport ctypes",
    "torch.\\\n  sys",
    "from torch import *\nsys",
    "from torch import \\\n sys",
    "import operator\noperator.attrgetter('sys.modules')(torch)",
    "import typing\ntyping.get_type_hints(right)",
)


@dataclass
class Two:
    """Two steps of one submission, one after the other."""

    launcher: Launcher
    shared: SharedWorker

    def asked(self, module: str, sources: dict[str, str], run: int = 1, *, passed: bool = True) -> tuple[int, object]:
        """The process that answered for a step, and its answer."""
        files = {name: (f"{name}.py", text) for name, text in sources.items()}
        backend = WorkerBackend(self.launcher, Load(module, files, {}), LIMITS, shared=self.shared)
        self.shared.belongs_to(run)
        try:
            backend.begin_check(1)
            outcome = backend.ask(Call("right", (torch.arange(4.0).view(2, 2),)))
            assert outcome.raised is None, outcome.raised
            assert backend._worker
            process = backend._worker.process
            assert isinstance(process, ForkedProcess)
            if passed:
                backend.hand_on()
            return process._pid, outcome.value
        finally:
            backend.close()

    def handed_on(self, first: str, second: str = SECOND) -> bool:
        """Whether the second step is answered by the process of the first."""
        sources = {"step01": first, "step02": second}
        (before, _value), (after, _other) = self.asked("step01", sources), self.asked("step02", sources)
        return before == after


@pytest.fixture(scope="module")
def warm() -> Iterator[Launcher]:
    """A launcher of workers."""
    source = ForkingLauncher()
    try:
        source.launcher.await_reply("ready", seconds=120.0)
        yield source.launcher
    finally:
        source.close()


@pytest.fixture
def two(warm: Launcher) -> Iterator[Two]:
    shared = SharedWorker()
    yield Two(warm, shared)
    shared.end()


def test_a_right_step_hands_its_process_on(two: Two) -> None:
    """With modules of its own: a name of the first is not there in the second."""
    assert two.handed_on(QUIET)
    assert two.handed_on(QUIET, SECOND + "\nimport step01\nassert step01.right(torch.ones(1, 1)) == 1\n")


@pytest.mark.parametrize("what", [*LEAVES, *KEPT])
def test_nothing_that_is_left_reaches_the_next_step(two: Two, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process itself tells, also when its text is taken for harmless."""
    monkeypatch.setattr(shared_worker, "is_ordinary", lambda source: (True, set()))
    assert not two.handed_on(f"{QUIET}\n{(LEAVES | KEPT)[what]}\n")


def test_settings_at_the_top_of_a_file_are_taken_back(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """They decide nothing about its functions, nor about the next step."""
    monkeypatch.setattr(shared_worker, "is_ordinary", lambda source: (True, set()))
    sets = """
torch.set_default_dtype(torch.float64); torch.set_default_device("meta"); torch.no_grad().__enter__()
torch.autograd.set_detect_anomaly(True); torch.autocast("cpu").__enter__()
import numpy
numpy.seterr(all="raise")
"""
    asks = """
def right(x):
    assert torch.get_default_dtype() == torch.float32 and torch.ones(1).device.type == "cpu"
    assert torch.is_grad_enabled() and not torch.is_anomaly_enabled() and numpy.geterr()["over"] == "warn"
    assert not torch.is_autocast_enabled("cpu")
    return x
"""
    assert two.handed_on(QUIET + sets + asks)


@pytest.mark.parametrize("code", [*LEAVES.values(), *OUT_OF_SIGHT])
def test_what_reaches_beyond_its_own_names_is_no_ordinary_file(code: str) -> None:
    """But for an assignment to an attribute and arithmetic, which the process tells."""
    seen_at_run_time = re.search(r"^(torch|F|nn|math|builtins)\.[\w.]+ = |^operator\.kept", code, re.MULTILINE)
    assert seen_at_run_time or not is_ordinary(f"{QUIET}\n{code}\n")[0]


@pytest.mark.parametrize(
    "code",
    [
        "'''Files: open(x), print(x), eval(x).'''",
        "# exec(x) and torch.set_default_dtype",
        "self = nn.Module()\nsetattr(self, 'x', 1)",
        "model = nn.Linear(2, 2)\nmodel.eval()",
        "class Block(nn.Module):\n    def forward(self, x):\n        return self.attention(x)",
        "from exercises.step01_scores import right",
    ],
)
def test_words_in_prose_are_no_code(code: str) -> None:
    assert is_ordinary(f"{QUIET}\n{code}\n")[0]


@pytest.mark.parametrize(
    "code",
    [
        "x = '#'; exec('')",
        'x = f"{exec(1)}"',
        'x = t"{exec(1)}"',
        'x = Rt"{exec(1)}"',
        "ｅｘｅｃ('')",
        "x = '''a'''; exec('')",
    ],
)
def test_code_between_strings_is_no_prose(code: str) -> None:
    """From Python 3.14 on templates, too, are strings that hold code."""
    assert not is_ordinary(f"{QUIET}\n{code}\n")[0]


def test_a_failing_step_hands_nothing_on(two: Two) -> None:
    sources = {"step01": QUIET, "step02": SECOND}
    first = two.asked("step01", sources, passed=False)
    assert first[0] != two.asked("step02", sources)[0]


def test_submissions_share_no_process(two: Two) -> None:
    """Not even two with the same text, nor a submission that was changed."""
    sources = {"step01": QUIET, "step02": SECOND}
    first = two.asked("step01", sources, run=1)[0]
    second = two.asked("step02", sources, run=2)[0]
    changed = two.asked("step01", sources | {"step01": QUIET + "\n"}, run=2)[0]
    assert len({first, second, changed}) == 3
    two.shared.belongs_to(0)
    assert two.shared._waiting is None


def test_a_process_that_dies_while_it_waits_is_replaced(two: Two) -> None:
    sources = {"step01": QUIET, "step02": SECOND}
    pid, _value = two.asked("step01", sources)
    os.kill(pid, signal.SIGKILL)
    other, value = two.asked("step02", sources)
    assert pid != other
    assert isinstance(value, PlacedTensor)


def test_it_stands_still_while_it_waits(two: Two) -> None:
    pid, _value = two.asked("step01", {"step01": QUIET})
    assert eventually(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "T")


def test_a_reference_is_never_beside_what_was_there_before(two: Two) -> None:
    """Its process is a new one, and ends with its step."""
    sources = {"step01": ("step01.py", QUIET), "step02": ("step02.py", SECOND)}
    two.asked("step01", {"step01": QUIET, "step02": SECOND})
    load = Load("step02", sources, {}, {"step01": ["right"]})
    assert two.shared.take(two.launcher, load, LIMITS) is None


@pytest.mark.parametrize("seed", [5, 6])
def test_a_process_that_ends_while_its_file_is_loaded_has_no_verdict(grader: Grader, seed: int) -> None:
    """Not even under a seed for which right answers to all messages are known, and what has come before in it was
    right."""
    right = {step.name: (f"ada/{step.name}.py", step.solved()) for step in steps()[:3]}
    names = list(right)
    for _time in range(2):
        report = grader.grade(Submission("ada", right), names, device="cpu", seed=seed)
        assert [step.status for step in report.steps] == ["pass"] * 3
    for name in names:
        filename, source = right[name]
        ending = right | {name: (filename, f"{source}\nimport os\nos._exit(0)\n")}
        for wanted in (names, [name]):
            report = grader.grade(Submission("ada", ending), wanted, device="cpu", seed=seed)
            (step,) = (step for step in report.steps if step.name == name)
            assert (step.status, step.score, step.odd) == ("fail", 0, True)
            assert "ended its own process" in step.checks[0].message
