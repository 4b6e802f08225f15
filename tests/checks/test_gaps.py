"""Wrong code that passed once: a regime was not asked, or not in the way that shows it. What `view` can't do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from grader.author import regime_table
from grader.calls import transfer
from grader.calls.responder import Responder
from grader.checks.backends import LocalBackend
from grader.checks.implementation import Implementation
from grader.checks.regimes import REGIMES
from grader.checks.trial import run_check
from grader.oracle.cache import CachedOracle
from grader.oracle.live import Solution, solutions

STEPS = {int(step.name[4:6]): step for step in solutions() if not step.lacking}
causal = STEPS[6].reference.CausalAttention
rotary = STEPS[18].reference
window = STEPS[25].reference


def refused(step: Solution, replaced: dict[str, Any], seed: int = 1) -> dict[str, str]:
    """What each check says that refuses this code."""
    oracle = CachedOracle(step.oracle())
    found = {
        check.name: run_check(check.function, LocalBackend(step.responder(replaced, watched=True)), oracle, seed=seed)
        for check in step.checks
    }
    return {name: verdict.message for name, verdict in found.items() if verdict.status != "pass"}


# --- step 1, step 2, step 4, step 10 ---


def scores_of_one_batch(query: Tensor, key: Tensor) -> Tensor:
    flat = query.view(-1, *query.shape[-2:]), key.view(-1, *key.shape[-2:])
    return torch.bmm(flat[0], flat[1].mT).view(*query.shape[:-1], key.shape[-2])


def remembering() -> Any:
    known: dict[Any, tuple[Tensor, Tensor]] = {}

    def softmax(x: Tensor, dim: int = -1) -> Tensor:
        place = x.data_ptr(), tuple(x.shape), x.dtype, dim
        if not x.requires_grad and not x.is_meta and place in known:
            return known[place][1].clone()
        result: Tensor = STEPS[2].reference.softmax(x, dim)
        known[place] = x, result  # while it is held, no other tensor can lie at its address
        return result.clone() if not x.requires_grad else result

    return softmax


def through_logarithms(weights: Tensor, mask: Tensor) -> Tensor:
    return weights.log().masked_fill(~mask, -torch.inf).softmax(dim=-1)


def heads_folded(query: Tensor, key: Tensor, value: Tensor, *rest: Any, **named: Any) -> Tensor:
    B, H = query.shape[:2]
    one = [x.view(B * H, 1, *x.shape[2:]) for x in (query, key, value)]
    return STEPS[10].reference.flash_attention(*one, *rest, **named).view(B, H, query.shape[2], value.shape[3])


# --- step 5 ---


def drawn_in_a_fork(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        return STEPS[5].reference.dropout(x, p, training)


def one_mask_for_all_heads(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    if not training or x.dim() != 4:
        return STEPS[5].reference.dropout(x, p, training)
    return x * STEPS[5].reference.dropout(torch.ones_like(x[:, :1]), p, True)


class SwitchOfItsOwn(nn.Module):
    """Only its own eval() turns it off; a parent's calls train(False), which turns it on or leaves it."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p, self.on = p, True

    def train(self, mode: bool = True) -> SwitchOfItsOwn:
        self.on = self.on or mode
        return super().train(mode)

    def eval(self) -> SwitchOfItsOwn:
        super().eval()
        self.on = False
        return self

    def forward(self, x: Tensor) -> Tensor:
        return STEPS[5].reference.dropout(x, self.p, self.on)


class DrawnInAFork(STEPS[6].reference.CausalAttention):  # type: ignore[misc, name-defined]
    def forward(self, x: Tensor) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            return super().forward(x)


# --- tables, masks, memory ---


def rotary_with_tables() -> Any:
    tables: dict[Any, Tensor] = {}

    def apply_rotary(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
        T, d = x.shape[-2:]
        if positions is not None:
            return rotary.apply_rotary(x, positions, base)
        if (T, d, base) not in tables:
            frequencies = rotary.rotary_frequencies(d, base, device=x.device)
            tables[T, d, base] = torch.arange(T, device=x.device)[:, None] * frequencies
        angles = tables[T, d, base]
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        one, other = wide[..., 0::2], wide[..., 1::2]
        turned = [one * angles.cos() - other * angles.sin(), one * angles.sin() + other * angles.cos()]
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)

    return apply_rotary


class NothingHiddenByANumber(STEPS[20].reference.MultiHeadAttention):  # type: ignore[misc, name-defined]
    """Where no mask is given it makes one, of a single number, on the default device: on CUDA masked_fill refuses."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        return super().forward(query, key, value, torch.tensor(True) if mask is None else mask)


def hidden_by_lower_products(
    query: Tensor, key: Tensor, value: Tensor, size: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    T = query.shape[-2]
    if key.shape[-2] != T or size < 1:
        raise ValueError("unfit")
    hidden = ~window.window_mask(T, size, is_causal, num_global, query.device)
    products = query @ key.mT - 10_000.0 * hidden
    return torch.softmax(products / math.sqrt(query.shape[-1]), dim=-1) @ value


@pytest.mark.parametrize(
    ("number", "replaced", "check", "said"),
    [
        (1, {"dot_product_scores": scores_of_one_batch}, "test_any_regime", "views"),
        (2, {"softmax": remembering()}, "test_any_regime", "The same tensors were given before"),
        (4, {"renormalise": through_logarithms}, "test_gradients", "gradient is nan"),
        (5, {"dropout": drawn_in_a_fork}, "test_seed_repeats", "no seed between them"),
        (5, {"dropout": one_mask_for_all_heads}, "test_elements_are_independent", "dimension 1"),
        (5, {"Dropout": SwitchOfItsOwn}, "test_any_regime", "part of another one"),
        (6, {"CausalAttention": DrawnInAFork}, "test_any_regime", "no seed between them"),
        (10, {"flash_attention": heads_folded}, "test_any_regime", "views"),
        (18, {"apply_rotary": rotary_with_tables()}, "test_rotation_dtypes_and_device", "same device"),
        (20, {"MultiHeadAttention": NothingHiddenByANumber}, "test_follows_device", "masked_fill got one on meta"),
        (25, {"window_attention": hidden_by_lower_products}, "test_large_scores_and_gradients", "values differ"),
    ],
)
def test_it_is_refused(number: int, replaced: dict[str, Any], check: str, said: str) -> None:
    found = refused(STEPS[number], replaced)
    assert check in found, found.keys()
    assert said in found[check], found[check]


@pytest.mark.skipif(29 not in STEPS, reason="Triton is not installed")
def test_queries_scaled_in_memory_of_the_caller() -> None:
    step = STEPS[29]

    def scaled_in_place(query: Tensor, key: Tensor, value: Tensor, *rest: Any, **named: Any) -> Any:
        result = step.reference.flash_forward(query, key, value, *rest, **named)
        if query.is_contiguous():
            query.mul_(query.shape[-1] ** -0.5)
        return result

    found = refused(step, {"flash_forward": scaled_in_place})
    assert "modified its own input" in found["test_any_regime"]


# --- views ---


def mergeable(given: Tensor | np.ndarray[Any, Any]) -> bool:
    """Whether `view` could make one of two neighbouring dimensions, those of size 1 left out."""
    tensor = torch.empty_strided(given.shape, [abs(s) // given.itemsize for s in given.strides]) if isinstance(
        given, np.ndarray) else given  # fmt: skip
    tensor = tensor.detach().squeeze()
    for dim in range(tensor.dim() - 1):
        try:
            tensor.view(*tensor.shape[:dim], -1, *tensor.shape[dim + 2 :])
        except RuntimeError:
            continue
        return True
    return False


@pytest.mark.parametrize("step", STEPS.values(), ids=lambda step: step.name)
def test_view_fails_on_each_strided_input(step: Solution, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two dimensions and more, each of more than 1 where the step takes such."""
    seen: list[Tensor | np.ndarray[Any, Any]] = []

    def noting(apart: Any) -> Any:
        def made(value: Any) -> Any:
            seen.append(apart(value))
            return seen[-1]

        return made

    for name in ("_apart", "_reversed"):
        monkeypatch.setattr(transfer, name, noting(getattr(transfer, name)))
    assert not refused(step, {})
    calls = getattr(step.checks_module, "CALLS", {})
    assert seen or all("views" in how.gaps for how in calls.values())
    for given in seen:
        assert not mergeable(given), tuple(given.shape)
        many = [size for size in given.shape if size > 1]
        if given.ndim > 1:
            assert len(many) > 1, tuple(given.shape)
        assert given.dtype in (torch.bool, np.dtype(bool)) or len(many) == given.ndim, tuple(given.shape)


def test_a_view_of_a_strided_input_is_mergeable_only_if_it_lies_so() -> None:
    assert mergeable(torch.ones(2, 3, 4))
    assert mergeable(torch.ones(3, 2, 4).transpose(0, 1)[:, :1])
    assert not mergeable(torch.ones(4, 3, 2).permute(2, 1, 0))


# --- calls one after the other, tables of regimes ---


def test_calls_in_one_stream() -> None:
    """Each call has random numbers of its own, or goes on in those of the one before."""
    student = Implementation(LocalBackend(Responder({"drawn": lambda: torch.rand(3)})))
    student._backend.begin_check(5)
    first, second = student.drawn().value, student.using(going_on=True).drawn().value
    torch.manual_seed(5)
    assert torch.equal(torch.cat([first, second]), torch.rand(6))


@pytest.mark.parametrize("step", STEPS.values(), ids=lambda step: step.name)
def test_every_gap_has_a_reason(step: Solution) -> None:
    for name, how in getattr(step.checks_module, "CALLS", {}).items():
        assert set(how.regimes).isdisjoint(how.gaps)
        assert REGIMES.keys() == {*how.regimes, *how.gaps}, name
        assert all(len(reason.split()) > 1 for reason in how.gaps.values()), name
    shown = regime_table.lines(step)
    assert shown[1].split() == list(REGIMES)


def test_the_table_names_reasons_once() -> None:
    shown = regime_table.lines(STEPS[4])
    assert [line.split()[0] for line in shown[2:5]] == ["causal_mask", "masked_softmax", "renormalise"]
    assert shown[2].split()[1:4] == ["1", "✓", "1"]
    assert shown[5].strip() == "1 it takes no tensor"
