"""Step 6 held against printed numbers and torch's attention, with and without dropout."""

from __future__ import annotations

from functools import partial

import torch

from solutions.core.step06_causal_attention.reference import CausalAttention
from tests.truths import (
    CAUSAL,
    JOURNEY,
    NUM_DRAWS,
    Case,
    Refused,
    agree,
    by_projections,
    close,
    drawer,
    drawn,
    gradients,
    has_parameters,
    moves,
    normal,
    printed,
    projections,
    refusals,
    same_distribution,
    with_and_without_bias,
)


def test_book_causal_attention() -> None:
    """Section 3.5.3 of the book: a batch of twice the same sentence."""
    torch.manual_seed(123)
    module = CausalAttention(3, 2, context_length=6, dropout=0.0)
    printed(module(torch.stack((JOURNEY, JOURNEY))), [CAUSAL, CAUSAL])


@with_and_without_bias
def test_causal_attention(bias: bool) -> None:
    """Torch's causal attention behind three linear layers, with the parameters that the step names."""
    module = drawn(CausalAttention(4, 6, 5, 0.0, qkv_bias=bias))
    has_parameters(module, projections(4, 6, bias))
    for num_tokens in (1, 3, 5):
        x = normal(2, num_tokens, 4)
        close(module(100 * x), by_projections(module, 100 * x, is_causal=True))
        agree(module, partial(by_projections, module, is_causal=True), x, at=module.parameters())


def test_dropout_inside_attention() -> None:
    """In training the outputs scatter as those of torch's attention do with the same rate, and not at all in eval."""
    x = normal(1, 4, 4)
    draws = x.expand(NUM_DRAWS, -1, -1)
    single = drawn(CausalAttention(4, 4, 4, 0.3))
    assert not torch.equal(single(x), single(x))  # another mask in every call
    same_distribution(single(draws), by_projections(single, draws, is_causal=True, dropout_p=0.3))
    close(single.eval()(x), by_projections(single, x, is_causal=True))


REFUSED: dict[str, Refused] = {
    "CausalAttention": (lambda: CausalAttention(2, 2, 4, 0.0)(torch.zeros(1, 5, 2)), (5, 4)),
}

test_wrong_arguments = refusals(REFUSED)


x = drawer()
CASES = {
    "CausalAttention": Case(lambda: CausalAttention(3, 2, 5, 0.3), (x(2, 4, 3),)),
}

test_gradients = gradients(CASES)
test_meta_device_and_bfloat16 = moves(CASES)
