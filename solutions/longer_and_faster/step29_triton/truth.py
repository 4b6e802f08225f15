"""What proves the reference of step 29: torch's own attention and softmax give the same numbers.

It needs Triton; on a CPU the kernel runs in its interpreter (`TRITON_INTERPRET=1` before it is imported).
"""

import os

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton", reason="Triton is not installed")

from solutions.core.step10_flash.reference import flash_attention
from solutions.longer_and_faster.step29_triton.reference import flash_forward

DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"


@pytest.mark.parametrize(
    ("queries", "keys", "width", "value_width", "is_causal", "block_q", "block_k"),
    [
        (1, 1, 16, 16, False, 16, 16),
        (50, 70, 24, 40, False, 32, 16),
        (33, 33, 64, 64, True, 16, 32),
        (70, 70, 80, 5, True, 64, 16),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_output_and_logsumexp(
    queries: int, keys: int, width: int, value_width: int, is_causal: bool, block_q: int, block_k: int,
    dtype: torch.dtype,
) -> None:  # fmt: skip
    """The built-in gives the same output, in float64; torch.logsumexp of its scores the other result."""
    torch.manual_seed(1)
    sizes = ((queries, width), (keys, width), (keys, value_width))
    query, key, value = (torch.randn(2, 2, *size, device=DEVICE).to(dtype) for size in sizes)
    output, logsumexp = flash_forward(query, key, value, is_causal, block_q, block_k)
    theirs = F.scaled_dot_product_attention(query.double(), key.double(), value.double(), is_causal=is_causal)
    room = 2e-6 if dtype == torch.float32 else 2e-3
    torch.testing.assert_close(output.double(), theirs, rtol=room, atol=room)
    assert output.dtype == dtype
    scores = query.double() @ key.double().mT / width**0.5
    if is_causal:
        scores = scores.masked_fill(torch.ones(queries, keys, device=DEVICE).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(logsumexp, scores.logsumexp(-1).float(), rtol=2e-6, atol=2e-6)


def test_scores_of_a_thousand() -> None:
    """Large scores of either sign are those of the built-in in float64, as far as float32 can hold them."""
    torch.manual_seed(2)
    query, key = (torch.randn(1, 2, 40, 8, device=DEVICE) * 30 for _input in range(2))
    value = torch.randn(1, 2, 40, 8, device=DEVICE)
    output, logsumexp = flash_forward(query, key, value, False, 16, 16)
    scores = query.double() @ key.double().mT / 8**0.5
    assert scores.abs().max() > 1000
    torch.testing.assert_close(output.double(), scores.softmax(-1) @ value.double(), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(logsumexp.double(), scores.logsumexp(-1), rtol=1e-6, atol=1e-3)


def test_it_is_step_tens() -> None:
    """Step 10's blocks in Python and this kernel are the same function."""
    torch.manual_seed(3)
    query, key, value = (torch.randn(1, 3, 50, 12, device=DEVICE) for _input in range(3))
    output, _logsumexp = flash_forward(query, key, value, True, 32, 32)
    torch.testing.assert_close(output, flash_attention(query, key, value, True, 32), rtol=2e-6, atol=2e-6)
