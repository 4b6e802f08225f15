"""The floor of grading: the learner's functions, modules and backward passes alone, on the inputs of one grade.

They run in one warm process, with nothing around them: no sandbox, no messages, no watchers, no reference.
`python -m tools.floor` prints it for each step, in milliseconds of a processor.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import _engine_run_backward

from grader.calls import modules
from grader.calls.call import Call, Outcome
from grader.calls.responder import cotangents
from grader.calls.transfer import Inputs
from grader.calls.values import leaves
from grader.checks.backends import LocalBackend
from grader.checks.trial import run_check
from grader.oracle.live import Solution, solutions
from grader.sandbox import preload

ROUNDS = 3
SEED = 12345


class NotingBackend:
    """A student's backend that keeps its calls."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend
        self.calls: list[Call | int] = []  # or the seed of a check

    def begin_check(self, seed: int) -> None:
        """Starts a check."""
        self.calls.append(seed)
        self._backend.begin_check(seed)

    def ask(self, call: Call) -> Outcome:
        """The outcome."""
        self.calls += [*call.first, call]
        return self._backend.ask(call)


def floor(step: Solution) -> float:
    """Milliseconds of a processor that the reference itself takes in the place of the learner's code."""
    noted = NotingBackend(LocalBackend(step.responder()))
    for check in step.checks:
        verdict = run_check(check.function, noted, LocalBackend(step.responder()), seed=SEED)
        assert verdict.status == "pass", (check.name, verdict.message)
    names = vars(step.reference)
    return statistics.median([sum(_times(names, noted.calls)) for _round in range(ROUNDS + 1)][1:]) * 1000


def _times(names: dict[str, Any], calls: list[Call | int]) -> Iterator[float]:
    """The processor seconds of each call, and of its backward pass."""
    handles: dict[int, Any] = {}
    for call in calls:
        if isinstance(call, int):
            handles.clear()
            torch.default_generator.manual_seed(call)
            continue
        inputs, target = Inputs(call, handles), _target(call, names, handles)
        if call.options.seed is not None:
            torch.default_generator.manual_seed(call.options.seed)
        result: Any = None
        with ExitStack() as around, suppress(Exception):  # an error may be due
            if call.options.no_grad:
                around.enter_context(torch.no_grad())
            if call.options.made_on_meta:
                around.enter_context(torch.device("meta"))
            start = time.process_time()
            try:
                result = target(*inputs.args, **inputs.kwargs)
            finally:
                yield time.process_time() - start
        if isinstance(result, nn.Module) and call.options.device != "cpu":
            result.to(call.options.device)
        handles[call.new_handle] = result
        if call.options.gradients:
            start = time.process_time()
            with suppress(RuntimeError):
                _backward(result)
            yield time.process_time() - start


def _target(call: Call, names: dict[str, Any], handles: dict[int, Any]) -> Any:
    if call.handle is None:
        return names.get(call.name)
    module = handles.get(call.handle)
    if call.own:
        return getattr(module, call.name) if call.own == "method" else lambda: getattr(module, call.name)
    if call.name == "__call__":
        return module
    if call.name == "step_by":
        return lambda rate: modules.step_by(module, rate)
    return modules.method(module, call.name)


def _backward(result: Any) -> None:
    outputs = [leaf for leaf in leaves(result) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    pairs = [(one, other) for one, other in zip(outputs, cotangents(outputs), strict=True) if one.requires_grad]
    if pairs:
        _engine_run_backward(
            tuple(one for one, _ in pairs), tuple(other for _, other in pairs), False, False, (),
            allow_unreachable=True, accumulate_grad=True,
        )  # fmt: skip


def floors() -> dict[str, float]:
    """Milliseconds of each step that this machine has all packages for."""
    preload.load_torch()
    preload.warm_up()
    return {step.name: floor(step) for step in solutions() if not step.lacking}


def main() -> int:
    """Prints the floor of each step, and of all up to some."""
    found = floors()
    for name, milliseconds in found.items():
        print(f"{name:33} {milliseconds:7.1f}")
    for last in (12, 18, 24, 28):
        print(f"{f'steps 1 to {last}':33} {sum(list(found.values())[:last]):7.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
