"""Right code that people write, and faults that cost no more than their own checks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from grader.calls.responder import Responder
from grader.checks.backends import LocalBackend
from grader.checks.implementation import Implementation
from grader.checks.trial import Verdict, run_check
from grader.oracle.cache import CachedOracle
from grader.oracle.live import Solution, solutions


def step_named(number: int) -> Solution:
    return next(step for step in solutions() if step.name.startswith(f"step{number:02}_"))


def verdicts(step: Solution, replaced: dict[str, Any], seed: int = 1) -> dict[str, Verdict]:
    oracle = CachedOracle(step.oracle())
    return {
        check.name: run_check(check.function, LocalBackend(step.responder(replaced)), oracle, seed=seed)
        for check in step.checks
    }


def test_what_is_made_of_a_tensor_stays_where_that_is() -> None:
    """As in every process whose default device is the CPU; what is made of numbers lands on the default device."""

    def places(x: Tensor) -> tuple[Tensor, ...]:
        return torch.as_tensor(x), torch.as_tensor(data=x), torch.asarray(x), torch.tensor([1.0]), torch.as_tensor([2])

    student = Implementation(LocalBackend(Responder({"places": places})))
    got = student.using(made_on_meta=True).places(torch.ones(2)).outcome.value
    assert [one.device for one in got] == ["cpu", "cpu", "cpu", "meta", "meta"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("number", "name", "size"), [(22, "greedy_translate", "TARGETS"), (24, "greedy_caption", "WORDS")]
)
def test_ids_are_ids_of_the_vocabulary(number: int, name: str, size: str) -> None:
    """Whoever pads with eos_id may read it back."""
    step = step_named(number)
    vocabulary: int = getattr(step.checks_module, size)
    asked: set[int] = set()

    def noting(model: Any, source: Tensor, bos_id: int, eos_id: int, *rest: Any, **named: Any) -> Tensor:
        asked.update((bos_id, eos_id))
        written: Tensor = getattr(step.reference, name)(model, source, bos_id, eos_id, *rest, **named)
        return written

    for seed in (1, 2, 3):
        assert {verdict.status for verdict in verdicts(step, {name: noting}, seed).values()} == {"pass"}
    assert asked <= set(range(vocabulary))
    assert len(asked) > 2


def test_a_fault_of_the_optimizer_costs_its_own_check() -> None:
    """minGPT's rule, which spares the embeddings: the other checks of step 28 take an optimizer that is right."""

    def as_in_mingpt(model: Any, weight_decay: float = 0.1) -> torch.optim.AdamW:
        decay = {name for name, _one in model.named_parameters() if name.endswith("weight") and "w" != name[0] != "l"}
        decay = {name for name in decay if "ln_" not in name}
        named = dict(model.named_parameters())
        groups = [
            {"params": [named[name] for name in sorted(decay)], "weight_decay": weight_decay},
            {"params": [one for name, one in named.items() if name not in decay], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95))

    found = verdicts(step_named(28), {"make_optimizer": as_in_mingpt})
    refused = {name: verdict for name, verdict in found.items() if verdict.status != "pass"}
    assert list(refused) == ["test_optimizer"]
    assert refused["test_optimizer"].failure.blames == "make_optimizer"


def test_a_fault_of_a_training_step_spares_the_optimizer() -> None:
    """And what its model shows is put down to the step, not to the model."""
    step = step_named(28)

    def too_fast(model: Any, optimizer: Any, batches: Any, lr: float, *rest: Any) -> Any:
        return step.reference.train_step(model, optimizer, batches, 2 * lr, *rest)

    found = verdicts(step, {"train_step": too_fast})
    refused = {name: verdict for name, verdict in found.items() if verdict.status != "pass"}
    assert refused and refused.keys().isdisjoint({"test_optimizer", "test_evaluate"})
    blamed = {verdict.blamed for verdict in refused.values()}
    assert blamed == {"train_step"}
