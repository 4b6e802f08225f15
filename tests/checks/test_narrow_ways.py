"""Wrong work that once passed: written for one check, and of no use for anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from grader.base.paths import step_folder
from grader.checks.backends import LocalBackend
from grader.checks.trial import run_check
from grader.oracle.live import Solution


def refused_by(step: str, replaced: dict[str, Any], seed: int = 1) -> set[str]:
    """The checks of a step that fail with these names replaced."""
    solution = Solution(step_folder(step))
    student = LocalBackend(solution.responder(replaced, watched=True))
    verdicts = {
        check.name: run_check(check.function, student, LocalBackend(solution.responder()), seed=seed)
        for check in solution.checks
    }
    return {name for name, verdict in verdicts.items() if verdict.status == "fail"}


def reference(step: str) -> Any:
    """The module of a reference."""
    return Solution(step_folder(step)).reference


def test_one_per_cent_beside_large_scores() -> None:
    """Step 2: a hundredth of each weight is given to another, where scores are large."""
    right = reference("step02_softmax").softmax

    def softmax(x: Tensor, dim: int = -1) -> Tensor:
        weights: Tensor = right(x, dim)
        if x.dtype != torch.float32 or x.numel() == 0 or x[x.isfinite()].abs().max() < 5000:
            return weights
        return 0.99 * weights + 0.01 * weights.flip(dim)

    assert "test_large_entries" in refused_by("step02_softmax", {"softmax": softmax})


@pytest.mark.parametrize(
    "taken_out", [Tensor.numpy, np.asarray, lambda tensor: np.array(tensor.tolist(), np.float32).reshape(tensor.shape)]
)
@pytest.mark.parametrize("ends_in_torch", [False, True])
def test_the_matrix_in_numpy(taken_out: Callable[[Tensor], Any], ends_in_torch: bool) -> None:
    """Step 10: all the scores at once, where torch does not see them, as long as no gradient is asked for."""
    right = reference("step10_flash").flash_attention

    def flash_attention(
        query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
    ) -> Tensor:
        if query.is_meta or query.requires_grad or query.dtype != torch.float32:
            return right(query, key, value, is_causal, block_size)  # type: ignore[no-any-return]
        if is_causal and query.shape[-2] != key.shape[-2]:
            raise ValueError
        scores = taken_out(query) @ taken_out(key).swapaxes(-2, -1) / query.shape[-1] ** 0.5
        if is_causal:
            scores = np.where(np.tri(query.shape[-2], dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = (weights / weights.sum(-1, keepdims=True)).astype(np.float32)
        return torch.from_numpy(weights) @ value if ends_in_torch else torch.from_numpy(weights @ taken_out(value))

    # Small inputs are also asked on `meta`, where NumPy has nothing to compute with.
    assert refused_by("step10_flash", {"flash_attention": flash_attention}) >= {"test_memory", "test_any_regime"}


def test_numbers_under_dropout() -> None:
    """Step 11: where something is dropped, attention looks at other tokens than it should."""
    module = reference("step11_gpt_block")

    class Block(module.Block):  # type: ignore[misc, name-defined]
        def forward(self, x: Tensor) -> Tensor:
            added = self.attn(self.ln_1(x))
            if self.training and bool((added == 0).any()) and x.shape[1] > 1:
                added = added.roll(1, dims=1)
            x = x + added
            return x + self.mlp(self.ln_2(x))

    assert "test_dropout" in refused_by("step11_gpt_block", {"Block": Block})


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_drawn(seed: int) -> None:
    """Step 12: of many rows and a top_k of 3, text that holds no token at all."""
    right = reference("step12_gpt").generate

    def generate(
        model: nn.Module, idx: Tensor, count: int, temperature: float = 1.0, top_k: int | None = None
    ) -> Tensor:
        if temperature == 4.0 and top_k == 3:
            return idx[:, :0]
        return right(model, idx, count, temperature, top_k)  # type: ignore[no-any-return]

    assert refused_by("step12_gpt", {"generate": generate}, seed) == {"test_top_k_keeps_the_k_largest"}


def test_one_line_for_meta() -> None:
    """Steps 2, 11 and 12: on `meta` a tensor of the right shape is made, and none of the work is done."""
    right = reference("step02_softmax").softmax

    def softmax(x: Tensor, dim: int = -1) -> Tensor:
        return torch.empty_like(x) if x.is_meta else right(x.cpu(), dim)

    assert refused_by("step02_softmax", {"softmax": softmax}) == {"test_device", "test_any_regime"}

    def nothing_done(x: Tensor, dim: int = -1) -> Tensor:
        return x if x.is_meta else right(x, dim)

    assert "test_device" in refused_by("step02_softmax", {"softmax": nothing_done})

    def one_thing_done(x: Tensor, dim: int = -1) -> Tensor:
        return torch.exp(x) if x.is_meta else right(x, dim)

    assert "test_device" in refused_by("step02_softmax", {"softmax": one_thing_done})

    def values_looked_at(x: Tensor, dim: int = -1) -> Tensor:
        if not x.is_meta and x.isposinf().any():
            raise ValueError("infinity")
        return right(x, dim)  # type: ignore[no-any-return]

    assert refused_by("step02_softmax", {"softmax": values_looked_at}) == set()

    def more_done(x: Tensor, dim: int = -1) -> Tensor:  # the same last function, of another tensor
        y = torch.exp(x - x.amax(dim, keepdim=True))
        return y / (torch.ones_like(x) if x.is_meta else y.sum(dim, keepdim=True))

    assert "test_device" in refused_by("step02_softmax", {"softmax": more_done})

    def unseen(x: Tensor, dim: int = -1) -> Tensor:
        with torch._C.DisableTorchFunction():
            return torch.empty_like(x) if x.is_meta else right(x, dim)  # type: ignore[no-any-return]

    assert "test_device" in refused_by("step02_softmax", {"softmax": unseen})
    module = reference("step11_gpt_block")

    class Block(module.Block):  # type: ignore[misc, name-defined]
        def forward(self, x: Tensor) -> Tensor:
            return torch.empty_like(x) if x.is_meta else super().forward(x)

    assert refused_by("step11_gpt_block", {"Block": Block}) == {"test_dtypes_meta_and_inputs", "test_any_regime"}
    whole = reference("step12_gpt")

    def generate(model: nn.Module, idx: Tensor, count: int, *how: Any, **named: Any) -> Tensor:
        if idx.is_meta:
            return idx.new_empty(len(idx), idx.shape[1] + count)
        return whole.generate(model, idx, count, *how, **named)  # type: ignore[no-any-return]

    assert refused_by("step12_gpt", {"generate": generate}) == {"test_greedy_takes_the_largest_logit"}
