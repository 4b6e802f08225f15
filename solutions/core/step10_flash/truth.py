"""Step 10 held against `scaled_dot_product_attention`, and its memory against what every op returns."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from solutions.core.step10_flash.reference import attention_matrix_bytes, flash_attention, sdpa
from tests.truths import (
    WIDE,
    Refused,
    agree,
    drawer,
    every_dtype,
    gradients,
    moves,
    normal,
    of,
    refusals,
)


@every_dtype
def test_sdpa(dtype: torch.dtype) -> None:
    """Causal, and the built-in's own dropout in training only."""
    query, key, value = (normal(2, 3, 5, 4, dtype=dtype) for _ in range(3))
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    theirs = partial(F.scaled_dot_product_attention, attn_mask=mask)
    agree(sdpa, theirs, query, key, value)
    agree(partial(sdpa, dropout_p=0.5, training=False), theirs, query, key, value)
    torch.manual_seed(1)
    ours = sdpa(query, key, value, dropout_p=0.5)
    torch.manual_seed(1)
    assert torch.equal(ours, F.scaled_dot_product_attention(query, key, value, dropout_p=0.5, is_causal=True))
    assert not torch.equal(ours, sdpa(query, key, value))


@every_dtype
@pytest.mark.parametrize("is_causal", (False, True), ids=("full", "causal"))
@pytest.mark.parametrize("block_size", (1, 3, 4, 64))
def test_flash_attention(block_size: int, is_causal: bool, dtype: torch.dtype) -> None:
    """Torch's attention, at lengths around the block size and for values of another width."""
    for num_queries, num_keys in ((1, 1), (3, 3), (8, 8), (11, 11), *(() if is_causal else ((2, 9), (9, 2)))):
        agree(
            partial(flash_attention, is_causal=is_causal, block_size=block_size),
            partial(F.scaled_dot_product_attention, is_causal=is_causal),
            normal(2, 3, num_queries, 4, dtype=dtype),
            normal(2, 3, num_keys, 4, dtype=dtype),
            normal(2, 3, num_keys, 5, dtype=dtype),
        )


@pytest.mark.parametrize("is_causal", (False, True), ids=("full", "causal"))
@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_flash_attention_with_large_scores(is_causal: bool, dtype: torch.dtype) -> None:
    """Scores of around 1000 that grow or shrink from block to block."""
    growth = torch.linspace(-1000, 1000, 20, dtype=dtype).view(20, 1)
    for factor in (growth, -growth):
        query, key, value = torch.ones(1, 1, 20, 1, dtype=dtype), factor[None, None], normal(1, 1, 20, 3, dtype=dtype)
        flash = partial(flash_attention, is_causal=is_causal, block_size=4)
        agree(flash, partial(F.scaled_dot_product_attention, is_causal=is_causal), query, key, value)


class LargestStorage(TorchDispatchMode):
    """Elements of the largest storage that any operation returns."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // tensor.itemsize)
        return out


@pytest.mark.parametrize("is_causal", (False, True), ids=("full", "causal"))
@pytest.mark.parametrize(("block_size", "width"), [(16, 4), (16, 16), (8, 24)])
def test_flash_attention_memory(block_size: int, width: int, is_causal: bool) -> None:
    """No operation returns more than the bound of the step, which a T x T matrix would exceed many times."""
    num_tokens, values = 320, 12
    shapes = ((1, 1, num_tokens, d) for d in (width, width, values))
    with LargestStorage() as largest:
        flash_attention(*(torch.randn(shape) for shape in shapes), is_causal, block_size)
    bound = (num_tokens + block_size) * (max(block_size, width, values) + 1)
    assert 0 < largest.elements <= bound < num_tokens**2 / 10


def test_attention_matrix_bytes() -> None:
    """What torch itself counts for such a tensor."""
    assert attention_matrix_bytes(2, 3, 5) == torch.empty(2, 3, 5, 5).nbytes
    scores = torch.empty(8, 12, 4096, 4096, dtype=torch.bfloat16, device="meta")
    assert attention_matrix_bytes(8, 12, 4096, bytes_per_element=2) == scores.nbytes


REFUSED: dict[str, Refused] = {
    "flash_attention": (
        lambda: flash_attention(*(torch.zeros(1, 1, n, 2) for n in (5, 4, 4)), is_causal=True),
        (5, 4),
    ),
}

test_wrong_arguments = refusals(REFUSED)


x = drawer()
CASES = {
    "sdpa": of(sdpa, x(1, 2, 3, 2), x(1, 2, 3, 2), x(1, 2, 3, 2), differentiable=1),
    "flash_attention": of(flash_attention, x(1, 1, 3, 2), x(1, 1, 5, 2), x(1, 1, 5, 3), differentiable=1, block_size=2),
    "flash_attention/causal": of(
        flash_attention, x(1, 1, 5, 2), x(1, 1, 5, 2), x(1, 1, 5, 3), differentiable=1, block_size=2, is_causal=True
    ),
}

test_gradients = gradients(CASES)
test_meta_device_and_bfloat16 = moves(CASES)
