"""Points follow a step's point where it is missed in several functions at once; `misses_the_point` marks one alone.

And one fault in a part leaves the points of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from grader.checks.backends import LocalBackend
from grader.checks.trial import run_check
from grader.oracle.cache import CachedOracle
from grader.oracle.live import Solution, solutions


def together(step: Solution, *names: str) -> dict[str, Any]:
    """The names that these misconceptions replace."""
    return {
        public: thing
        for wrong in step.misconceptions
        if wrong.name in names
        for public, thing in wrong.replaced.items()
    }


def patterns_that_are_no_weights(step: Solution) -> dict[str, Any]:
    """No row sums to 1."""
    return together(step, "ones_not_divided", "causal_not_divided", "local_not_divided")


def rows_and_columns_exchanged(step: Solution) -> dict[str, Any]:
    return together(step, "first_row", "later_tokens", "local_divided_by_columns")


def torch_in_every_function(step: Solution) -> dict[str, Any]:
    """The reference's answers, by way of torch."""

    def by_torch(function: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*arrays: Any, **options: Any) -> Any:
            results = function(*arrays, **options)
            if isinstance(results, tuple):
                return tuple(torch.from_numpy(np.array(result)).clone().numpy() for result in results)
            return torch.from_numpy(np.array(results)).clone().numpy()

        return answer

    return {name: by_torch(getattr(step.reference, name)) for name in step.checks_module.FUNCTIONS}


def floats_in_every_function(step: Solution) -> dict[str, Any]:
    """Costs, but no whole numbers."""

    def as_floats(function: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*arguments: Any, **options: Any) -> Any:
            count = function(*arguments, **options)
            return tuple(map(float, count)) if isinstance(count, tuple) else float(count)

        return answer

    own = step.reference.__name__
    functions = {name: value for name, value in vars(step.reference).items() if getattr(value, "__module__", "") == own}
    return {name: as_floats(function) for name, function in functions.items()}


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("step13_patterns", patterns_that_are_no_weights),
        ("step13_patterns", rows_and_columns_exchanged),
        ("step14_numpy", torch_in_every_function),
        ("step15_costs", floats_in_every_function),
    ],
)
def test_at_most_half(name: str, missing: Callable[[Solution], dict[str, Any]]) -> None:
    step = next(step for step in solutions() if step.name == name)
    student, reference = LocalBackend(step.responder(missing(step), watched=True)), CachedOracle(step.oracle())
    verdicts = {check: run_check(check.function, student, reference, seed=1) for check in step.checks}
    assert sum(check.points for check, verdict in verdicts.items() if verdict.status == "pass") <= step.points / 2


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("step21_encoder", "gelu_instead_of_relu"),
        ("step21_encoder", "no_final_norm"),
        ("step21_encoder", "mean_over_padding_too"),
        ("step22_decoder", "pre_norm"),
        ("step22_decoder", "no_final_norm"),
    ],
)
def test_one_fault_leaves_points(name: str, wrong: str) -> None:
    """What is made of a wrong part is asked so that the part does not matter, but for one check of the whole."""
    step = next(step for step in solutions() if step.name == name)
    student, reference = LocalBackend(step.responder(together(step, wrong), watched=True)), CachedOracle(step.oracle())
    passed = [check for check in step.checks if run_check(check.function, student, reference, seed=1).status == "pass"]
    assert sum(check.points for check in passed) >= 0.4 * step.points
