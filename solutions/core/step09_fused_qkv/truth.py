"""Step 9 held against `F.multi_head_attention_forward`; step 12 holds it against GPT-2."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from solutions.core.step09_fused_qkv.reference import CausalSelfAttention, fuse_qkv
from tests.truths import (
    NUM_DRAWS,
    Case,
    Refused,
    agree,
    by_torch,
    close,
    drawer,
    drawn,
    gradients,
    has_parameters,
    linear,
    moves,
    normal,
    of,
    refusals,
    same_distribution,
    with_and_without_bias,
)


def test_fuse_qkv() -> None:
    """One `F.linear` with the fused weight gives what three give."""
    x = normal(2, 5, 4)
    agree(
        lambda q, k, v: F.linear(x, fuse_qkv(q, k, v)),
        lambda q, k, v: torch.cat([F.linear(x, weight) for weight in (q, k, v)], dim=-1),
        *(normal(4, 4) for _ in range(3)),
    )


@with_and_without_bias
@pytest.mark.parametrize("num_heads", (1, 2, 3))
def test_causal_self_attention(num_heads: int, bias: bool) -> None:
    """`F.multi_head_attention_forward`, in values and all gradients."""
    module = drawn(CausalSelfAttention(6, num_heads, 5, bias=bias))
    theirs = partial(by_torch, module, num_heads=num_heads)
    for num_tokens in (1, 4, 5):
        agree(module, theirs, normal(2, num_tokens, 6), at=module.parameters())
    large = 100 * normal(2, 5, 6)  # scores of about 10000; softmax gradients are noise there
    close(module(large), theirs(large))


def test_dropout_inside_attention() -> None:
    """In training the outputs scatter as torch's do that drop weights and outputs alike, and not at all in eval."""
    x = normal(1, 4, 4)
    draws = x.expand(NUM_DRAWS, -1, -1)
    module = drawn(CausalSelfAttention(4, 2, 4, 0.3))
    same_distribution(module(draws), F.dropout(by_torch(module, draws, 2, rate=0.3), 0.3))
    close(module.eval()(x), by_torch(module, x, 2))


@with_and_without_bias
def test_parameter_names(bias: bool) -> None:
    """Every parameter that the step names, with its shape, and no other."""
    has_parameters(
        CausalSelfAttention(4, 2, 5, bias=bias), linear("c_attn", 4, 12, bias) | linear("c_proj", 4, 4, bias)
    )


REFUSED: dict[str, Refused] = {
    "CausalSelfAttention": (lambda: CausalSelfAttention(2, 2, 4)(torch.zeros(1, 5, 2)), (5, 4)),
    "CausalSelfAttention, width": (lambda: CausalSelfAttention(7, 3, 4), (7, 3)),
}

test_wrong_arguments = refusals(REFUSED)


x = drawer()
CASES = {
    "fuse_qkv": of(fuse_qkv, x(3, 3), x(3, 3), x(3, 3)),
    "CausalSelfAttention": Case(lambda: CausalSelfAttention(4, 2, 5, 0.3), (x(2, 3, 4),)),
}

test_gradients = gradients(CASES)
test_meta_device_and_bfloat16 = moves(CASES)
