"""The regimes of `grader/checks/regimes.py`: each is asked, is told in the stub, and catches what nothing else does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from grader.calls.responder import Responder
from grader.checks.assertions import agree
from grader.checks.backends import LocalBackend
from grader.checks.implementation import Implementation
from grader.checks.regimes import REGIMES, AskedFunction, AskedModule
from grader.checks.trial import run_check
from grader.oracle.cache import CachedOracle
from grader.oracle.live import Solution, solutions

ASKING = [step for step in solutions() if not step.lacking and hasattr(step.checks_module, "CALLS")]
CHECK = "test_any_regime"
# A wrong way that only this regime catches, and words of its message. `bias` has none of its own in the core: the
# checks of each step ask for it already, and whether the last norm of a GPT keeps its bias is left open. For `device`
# see `test_gaps.py`.
ONLY_IN = {
    "views": ("step12_gpt", "targets_viewed_flat", "The inputs are views here"),
    "length": ("step06_causal_attention", "mask_of_a_fixed_length", "1030 tokens were given"),
    "axes": ("step11_gpt_block", "three_axes_at_most", "3 leading batch dimensions"),
    "no_grad": ("step09_fused_qkv", "dropout_only_with_gradients", "Under `torch.no_grad()` nothing is dropped"),
    "modes": ("step08_multi_head", "dropout_gone_after_eval", "nothing is dropped any more"),
    "parent": ("step05_dropout", "own_train_without_a_mode", "part of another one"),
    "seed": ("step08_multi_head", "dropout_of_another_generator", "with the same seed"),
    "names": ("step05_dropout", "probability_as_a_parameter", "unexpected: rate"),
    "unmodified": ("step12_gpt", "window_slid_in_place", "modified its own input"),
    "memory": ("step11_gpt_block", "result_in_kept_memory", "changed the result of an earlier one"),
}


def test_every_regime_has_a_wrong_way() -> None:
    assert ONLY_IN.keys() == REGIMES.keys() - {"bias", "device"}


@pytest.mark.parametrize(("name", "wrong", "said"), ONLY_IN.values(), ids=ONLY_IN.keys())
def test_only_its_regime_catches_it(name: str, wrong: str, said: str) -> None:
    """No other check of the step refuses it, and the message says which regime it was."""
    step = next(step for step in solutions() if step.name == name)
    assert step.wrong_ways is not None
    of_many_steps = chain.from_iterable(map(step.generated, step.wrong_ways.definitions))
    replaced = next(
        each.replaced for each in chain(step.misconceptions, of_many_steps) if wrong in (each.name, each.called)
    )
    oracle = CachedOracle(step.oracle())
    verdicts = {
        check.name: run_check(check.function, LocalBackend(step.responder(replaced)), oracle, seed=1)
        for check in step.checks
    }
    refused = {check for check, verdict in verdicts.items() if verdict.status != "pass"}
    assert refused - {"test_follows_device"} == {CHECK}  # one of them has a branch for the CPU, which costs it more
    assert said in verdicts[CHECK].message


def test_arrays_that_lie_backwards() -> None:
    """Code that reads an array's memory and not its entries is told that it is a view."""
    step = next(step for step in solutions() if step.name == "step14_numpy")

    def as_it_lies(x: np.ndarray[Any, Any], axis: int = -1) -> np.ndarray[Any, Any]:
        given = x if min(x.strides, default=0) >= 0 else x[(slice(None, None, -1),) * x.ndim]
        return step.reference.softmax(given, axis)

    student = LocalBackend(step.responder({"softmax": as_it_lies}))
    check = next(check for check in step.checks if check.name == CHECK)
    assert "negative strides" in run_check(check.function, student, CachedOracle(step.oracle()), seed=1).message


def test_every_step_asks() -> None:
    """Of every function and class that its reference defines, or says why not."""
    for step in (step for step in solutions() if not step.lacking):
        own = {
            name
            for name, value in vars(step.reference).items()
            if getattr(value, "__module__", "") == step.reference.__name__
            and f"def {name}(" in step.stub()
            or f"class {name}" in step.stub()
        }
        assert own == getattr(step.checks_module, "CALLS", {}).keys(), step.name


@pytest.mark.parametrize(
    ("step", "name", "regime"),
    [
        pytest.param(step, name, regime, id=f"{step.name}-{name}-{regime}")
        for step in ASKING
        for name, how in step.checks_module.CALLS.items()
        for regime in how.regimes
    ],
)
def test_the_stub_tells_each_regime(step: Solution, name: str, regime: str) -> None:
    """In the docstring of the file, of the name, or of one of its methods."""
    told = " ".join(_docstrings(step.stub(), name))
    assert re.search(REGIMES[regime], " ".join(told.split()), re.IGNORECASE), f"{name} is asked for {regime}: say so"


def _docstrings(stub: str, name: str) -> Iterator[str]:
    file = ast.parse(stub)
    yield ast.get_docstring(file) or ""
    for node in file.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            for part in (node, *(inner for inner in ast.walk(node) if isinstance(inner, ast.FunctionDef))):
                yield ast.get_docstring(part) or ""


def test_regimes_that_do_not_apply_are_known() -> None:
    for step in ASKING:
        for how in step.checks_module.CALLS.values():
            assert isinstance(how, AskedFunction | AskedModule)
            assert set(how.without) <= REGIMES.keys()


# --- a guard of 1e-10 -------------------------------------------------------------------------------------------------

GUARD = 1e-10


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    powers = (x - x.detach().amax(dim, keepdim=True)).exp()
    return powers / (powers.sum(dim, keepdim=True) + GUARD)


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    scores = query @ key.mT / (query.shape[-1] ** 0.5 + GUARD)
    weights = softmax(scores if mask is None else scores.masked_fill(~mask, -torch.inf))
    return weights @ value, weights


def renormalise(weights: Tensor, mask: Tensor) -> Tensor:
    return weights * mask / ((weights * mask).sum(-1, keepdim=True) + GUARD)


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    if not training or not 0 <= p < 1:
        return guarded("step05_dropout").reference.dropout(x, p, training)
    return x * (torch.rand(x.shape, device=x.device) >= p) / (1 - p + GUARD)


class LayerNorm(nn.Module):
    def __init__(self, n_embd: int, bias: bool = True, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(n_embd))
        self.bias = nn.Parameter(torch.zeros(n_embd)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scaled = self.weight * centred / (torch.sqrt(centred.square().mean(-1, keepdim=True) + self.eps) + GUARD)
        return scaled if self.bias is None else scaled + self.bias


def guarded(name: str) -> Solution:
    return next(step for step in solutions() if step.name == name)


@pytest.mark.parametrize(
    ("name", "replaced"),
    [
        ("step01_scores", {"scaled_scores": lambda query, key: query @ key.mT / (query.shape[-1] ** 0.5 + GUARD)}),
        ("step02_softmax", {"softmax": softmax}),
        ("step03_attention", {"attention": attention}),
        ("step04_causal_mask", {"renormalise": renormalise}),
        ("step05_dropout", {"dropout": dropout}),
        ("step11_gpt_block", {"LayerNorm": LayerNorm}),
    ],
)
def test_a_guard_is_right(name: str, replaced: dict[str, object]) -> None:
    """Beside any denominator, in every dtype."""
    step, oracle = guarded(name), CachedOracle(guarded(name).oracle())
    for seed in (1, 2):
        for check in step.checks:
            verdict = run_check(check.function, LocalBackend(step.responder(replaced)), oracle, seed=seed)
            assert verdict.status == "pass", f"{check.name}: {verdict.message}"


# --- numbers that were float32 ----------------------------------------------------------------------------------------


def test_float32_is_said_only_where_it_was() -> None:
    """A constant of seven digits is as far off as a float32, and was none."""
    x = torch.linspace(-2, 2, 9, dtype=torch.float64)

    def refusal(function: object) -> str:
        got = Implementation(LocalBackend(Responder({"scaled": function}, {}))).scaled(x)
        with pytest.raises(Exception) as caught:  # CheckFailed, whose words follow
            agree(got, torch.sin(x) + x)
        return str(caught.value.message)  # type: ignore[attr-defined]

    said = "float32 somewhere on the way"
    assert said in refusal(lambda x: torch.sin(x.float()).double() + x)
    assert said not in refusal(lambda x: torch.sin(x) + x + 1e-8 * torch.cos(3 * x))
