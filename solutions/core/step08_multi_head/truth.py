"""Step 8 held against printed numbers and `F.multi_head_attention_forward`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solutions.core.step08_multi_head.reference import MultiHeadAttention, MultiHeadAttentionWrapper
from tests.truths import (
    CAUSAL,
    JOURNEY,
    NUM_DRAWS,
    Case,
    Refused,
    agree,
    by_projections,
    by_torch,
    close,
    drawer,
    drawn,
    gradients,
    has_parameters,
    linear,
    moves,
    normal,
    printed,
    projections,
    refusals,
    same_distribution,
    with_and_without_bias,
)

SECOND_HEAD = [
    [0.4772, 0.1063],
    [0.5891, 0.3257],
    [0.6202, 0.3860],
    [0.5478, 0.3589],
    [0.5321, 0.3428],
    [0.5077, 0.3493],
]
MULTI_HEAD = [
    [0.3190, 0.4858],
    [0.2943, 0.3897],
    [0.2856, 0.3593],
    [0.2693, 0.3873],
    [0.2639, 0.3928],
    [0.2575, 0.4028],
]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (MultiHeadAttentionWrapper, [first + second for first, second in zip(CAUSAL, SECOND_HEAD, strict=True)]),
        (MultiHeadAttention, MULTI_HEAD),
    ],
    ids=("MultiHeadAttentionWrapper", "MultiHeadAttention"),
)
def test_book_multi_head(make: Callable[..., nn.Module], expected: list[list[float]]) -> None:
    """Section 3.6 of the book: a batch of twice the same sentence."""
    torch.manual_seed(123)
    module = make(3, 2, context_length=6, dropout=0.0, num_heads=2)
    printed(module(torch.stack((JOURNEY, JOURNEY))), [expected, expected])


@with_and_without_bias
def test_wrapper(bias: bool) -> None:
    """Each head is torch's causal attention behind three linear layers, and the heads stand side by side."""
    wrapper = drawn(MultiHeadAttentionWrapper(4, 3, 5, 0.0, 2, qkv_bias=bias))
    for num_tokens in (1, 3, 5):
        agree(
            wrapper,
            lambda x: torch.cat([by_projections(head, x, is_causal=True) for head in wrapper.heads], dim=-1),
            normal(2, num_tokens, 4),
            at=wrapper.parameters(),
        )


@with_and_without_bias
@pytest.mark.parametrize("num_heads", (1, 2, 3))
def test_multi_head(num_heads: int, bias: bool) -> None:
    """`F.multi_head_attention_forward`, in values and all gradients."""
    module = drawn(MultiHeadAttention(6, 6, 5, 0.0, num_heads, qkv_bias=bias))
    theirs = partial(by_torch, module, num_heads=num_heads)
    for num_tokens in (1, 4, 5):
        agree(module, theirs, normal(2, num_tokens, 6), at=module.parameters())
    large = 100 * normal(2, 5, 6)  # scores of about 10000; softmax gradients are noise there
    close(module(large), theirs(large))


def test_multi_head_that_changes_the_width() -> None:
    """`multi_head_attention_forward` keeps the width; torch's attention on chunks of columns does not have to."""
    module = drawn(MultiHeadAttention(4, 6, 5, 0.0, 3))

    def theirs(x: Tensor) -> Tensor:
        parts = (torch.stack(layer(x).chunk(3, dim=-1)) for layer in (module.W_query, module.W_key, module.W_value))
        return module.out_proj(torch.cat(list(F.scaled_dot_product_attention(*parts, is_causal=True)), dim=-1))

    agree(module, theirs, normal(2, 5, 4), at=module.parameters())


def test_dropout_inside_attention() -> None:
    """In training the outputs scatter as those of torch's attention do with the same rate, and not at all in eval."""
    x = normal(1, 4, 4)
    draws = x.expand(NUM_DRAWS, -1, -1)
    wrapper = drawn(MultiHeadAttentionWrapper(4, 2, 4, 0.3, 2))
    multi_head = drawn(MultiHeadAttention(4, 4, 4, 0.3, 2))
    heads = [by_projections(head, draws, is_causal=True, dropout_p=0.3) for head in wrapper.heads]
    same_distribution(wrapper(draws), torch.cat(heads, dim=-1))
    same_distribution(multi_head(draws), by_torch(multi_head, draws, 2, rate=0.3))
    close(multi_head.eval()(x), by_torch(multi_head, x, 2))


@with_and_without_bias
def test_parameter_names(bias: bool) -> None:
    """Every parameter that the step names, with its shape, and no other."""
    layers = projections(4, 6, bias)
    heads = {f"heads.{i}.{name}": shape for i in range(2) for name, shape in layers.items()}
    has_parameters(MultiHeadAttentionWrapper(4, 6, 5, 0.0, 2, bias), heads)
    has_parameters(MultiHeadAttention(4, 6, 5, 0.0, 2, bias), layers | linear("out_proj", 6, 6, True))


REFUSED: dict[str, Refused] = {
    "MultiHeadAttentionWrapper": (lambda: MultiHeadAttentionWrapper(2, 2, 4, 0.0, 2)(torch.zeros(1, 5, 2)), (5, 4)),
    "MultiHeadAttention": (lambda: MultiHeadAttention(2, 2, 4, 0.0, 2)(torch.zeros(1, 5, 2)), (5, 4)),
    "MultiHeadAttention, width": (lambda: MultiHeadAttention(2, 7, 4, 0.0, 3), (7, 3)),
}

test_wrong_arguments = refusals(REFUSED)


x = drawer()
CASES = {
    "MultiHeadAttentionWrapper": Case(lambda: MultiHeadAttentionWrapper(3, 2, 5, 0.3, 2, qkv_bias=True), (x(2, 4, 3),)),
    "MultiHeadAttention": Case(lambda: MultiHeadAttention(3, 4, 5, 0.3, 2), (x(2, 4, 3),)),
}

test_gradients = gradients(CASES)
test_meta_device_and_bfloat16 = moves(CASES)
