"""A step whose checks use every kind of value and every way of calling, live in a sandboxed worker and from a tape."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator

import pytest

from grader.author import recorder
from grader.base.limits import Limits
from grader.base.paths import ROOT, TAPE
from grader.calls.call import Load
from grader.checks.backends import Backend, LocalBackend, Oracle
from grader.checks.trial import Verdict, run_check
from grader.judge.worker_backend import WorkerBackend
from grader.oracle.diagnostician import Diagnostician
from grader.oracle.live import Solution
from grader.oracle.tape import Tape
from grader.oracle.witness import Question, Witness
from grader.sandbox.spawned import SpawnLauncher

NAME = "step90_kinds"
PATIENT = Limits(call_seconds=60.0, step_seconds=300.0)
REFERENCE = '''
"""Kinds"""
import numpy as np
import torch
from torch import nn

def softmax(x):
    """Rows of weights."""
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)

def row_sums(x):
    """The sums of the rows of exp(x xᵀ)."""
    return np.stack([np.exp(x @ row).sum() for row in x])

def summary(x):
    """What there is to say of a tensor."""
    return {"largest": x.max(), "count": 2**70 + x.numel(), "rows": (x.sum(-1), x.numpy() * 2)}

class Two(nn.Module):
    """Two parts that drop."""
    def __init__(self, width=20_000):
        super().__init__()
        self.first, self.second = nn.Dropout(0.5), nn.Dropout(0.5)
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return self.first(x), self.second(x)
'''
CHECKS = '''
"""The checks."""
from grader.checks.assertions import Draw, Implementation, agree, exactly, holds, points, unmodified

OFF_LIMITS = {"softmax": ("torch",), "row_sums": ("torch",)}

@points(1)
def test_arrays(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Arrays."""
    x = draw.arrays.normal(3, 4)
    for scores in (x, x.T, draw.arrays.uniform(2, 5, dtype=__import__("numpy").float64)):
        answer = student.softmax(scores)
        agree(answer, reference.softmax(scores), terms=4)
        unmodified(answer)
    agree(student.using(strided=True).softmax(x), reference.softmax(x), terms=4)

@points(1)
def test_memory(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Memory."""
    x = draw.arrays.normal(600, 4)
    answer = student.using(measures=("peak",)).row_sums(x)
    agree(answer, reference.row_sums(x), terms=600)
    holds(answer.measured("peak") < 4 * 600 * 300, "too much memory")

@points(1)
def test_summary(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Dictionaries."""
    x = draw.normal(2, 3)
    agree(student.using(no_grad=True).summary(x), reference.summary(x), terms=3)

@points(1)
def test_parts(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Parts and defaults."""
    shapes = {name: tuple(value.shape) for name, value in student.using(made_on_meta=True).Two().parameters().items()}
    holds(shapes == {"linear.weight": (20_000, 20_000), "linear.bias": (20_000,)}, f"the defaults give {shapes}")
    x = draw.normal(50)
    first, second = student.Two(2).eval().train("second")(x).tensors(2)
    holds(bool((first == x).all()), "first drops")
    holds(bool((second == 0).any()), "second does not drop")
'''
MISTAKES = """
# Wrong ways

## not_divided
Not divided.
Rows must sum to 1.
> Divide.
- `softmax` · caught by `test_arrays`
```python
def softmax(x):
    return np.exp(x - x.max(axis=-1, keepdims=True))
```

## a_tensor
A tensor.
An array is due.
> Stay in NumPy.
- `softmax` · caught by `test_arrays`
```python
def softmax(x):
    return torch.softmax(torch.from_numpy(x.copy()), -1)
```

## all_at_once
All at once.
Too much memory.
> Go row by row.
- `row_sums` · caught by `test_memory`
```python
def row_sums(x):
    return np.exp(x @ x.T).sum(-1)
```

## entry_left_out
Left out.
An entry is missing.
> Add it.
- `summary` · caught by `test_summary`
```python
def summary(x):
    return {"largest": x.max(), "count": 2**70 + x.numel()}
```

## counted_wrong
Miscounted.
The count is off.
> Count again.
- `summary` · caught by `test_summary`
```python
def summary(x):
    return {"largest": x.max(), "count": 2**70, "rows": (x.sum(-1), x.numpy() * 2)}
```
"""
# How each wrong way is written by somebody else, and the check that refuses it with this sentence.
THEIRS = {
    "not_divided": ("test_arrays", "softmax", "def softmax(x):\n    return np.exp(x - np.amax(x, -1, keepdims=True))"),
    "a_tensor": ("test_arrays", "softmax", "def softmax(x):\n    return torch.tensor(x).softmax(dim=1)"),
    "all_at_once": ("test_memory", "too much memory", "def row_sums(x):\n    s = np.exp(x @ x.T)\n    return s.sum(1)"),
    "entry_left_out": (
        "test_summary", "missing: rows", "def summary(t):\n    return dict(count=2**70 + t.numel(), largest=t.amax())",
    ),
    "counted_wrong": (
        "test_summary", "In entry `count`:\nexpected  1180591620717411303430\ngot       1180591620717411303424",
        "def summary(t):\n    return {'rows': [t.sum(1), 2 * t.numpy()], 'count': 1 << 70, 'largest': t.max()}",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Solution]:
    """The step, in a folder of its own."""
    root = tmp_path_factory.mktemp("kinds")
    folder = root / "solutions_of_kinds" / "core" / NAME
    folder.mkdir(parents=True)
    for name, text in (("reference.py", REFERENCE), ("test_kinds.py", CHECKS), ("mistakes.md", MISTAKES)):
        (folder / name).write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
    sys.path.insert(0, str(root))
    yield Solution(folder)
    sys.path.remove(str(root))


@pytest.fixture(scope="module")
def tape(step: Solution) -> Tape:
    """The step's tape."""
    file = step.folder / TAPE
    file.write_bytes(recorder.record(step))
    assert recorder.record(step, (1,)) == recorder.record(step, (1,))
    return Tape(file)


def in_a_worker(step: Solution, added: str = "") -> WorkerBackend:
    """The reference as a learner's file, with something added, in a process of its own."""
    source = f"{textwrap.dedent(REFERENCE).lstrip()}\n{added}\n"
    load = Load(NAME, {NAME: (f"{NAME}.py", source)}, step.off_limits)
    return WorkerBackend(SpawnLauncher(str(ROOT)), load, PATIENT)


def verdicts(step: Solution, student: Backend, oracle: Oracle, seed: int) -> dict[str, Verdict]:
    """What every check says."""
    return {check.name: run_check(check.function, student, oracle, seed=seed) for check in step.checks}


def diagnosed(step: Solution, witness: Witness, said: dict[str, Verdict], seed: int) -> dict[str, list[str]]:
    """What the failing checks are put down to."""
    checks = {check.name: check.function for check in step.checks}
    questions = [
        Question(checks[name], seed, "cpu", verdict) for name, verdict in said.items() if verdict.status == "fail"
    ]
    found = Diagnostician(step.misconceptions, witness, []).diagnose(questions, lambda question, further: None)
    return {name: [wrong.name for wrong in group] for name, group in found.items()}


@pytest.mark.thorough
def test_right_answers_pass_live_and_on_tape(step: Solution, tape: Tape) -> None:
    seed = tape.index.seeds[0]
    student = in_a_worker(step)
    try:
        for oracle in (LocalBackend(step.responder()), tape):
            said = verdicts(step, student, oracle, seed)
            assert {name: verdict.message for name, verdict in said.items() if verdict.status != "pass"} == {}
    finally:
        student.close()


@pytest.mark.thorough
@pytest.mark.parametrize("name", THEIRS)
def test_wrong_answers_are_refused_and_named(step: Solution, tape: Tape, name: str) -> None:
    check, sentence, code = THEIRS[name]
    seed = tape.index.seeds[1]
    reference = LocalBackend(step.responder())
    student = in_a_worker(step, code)
    try:
        for oracle, witness in ((reference, step.witness(reference)), (tape, Witness(tape))):
            said = verdicts(step, student, oracle, seed)
            assert {name for name, verdict in said.items() if verdict.status != "pass"} == {check}
            assert sentence in said[check].message
            if name != "a_tensor":  # refused for what it used, before anything is compared
                assert diagnosed(step, witness, said, seed) == {check: [name]}
    finally:
        student.close()
    if name == "a_tensor":
        assert said[check].failure.off_limits == "softmax" and "torch" in said[check].message
