"""The references are right: held against printed numbers, PyTorch's built-ins, GPT-2 itself and finite differences.

Nothing here asks our own checks. Each oracle was written by somebody else: the worked example of a book, torch's
softmax, attention, norm, loss and dropout, Hugging Face's GPT-2, and the difference quotients of `gradcheck`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import solutions
from solutions.step01_scores.reference import dot_product_scores, scaled_scores
from solutions.step02_softmax.reference import softmax
from solutions.step03_attention.reference import SelfAttention, attention
from solutions.step04_causal_mask.reference import causal_mask, masked_softmax, renormalise
from solutions.step05_dropout.reference import Dropout, dropout
from solutions.step06_causal_attention.reference import CausalAttention
from solutions.step07_heads.reference import merge_heads, split_heads
from solutions.step08_multi_head.reference import MultiHeadAttention, MultiHeadAttentionWrapper
from solutions.step09_fused_qkv.reference import CausalSelfAttention, fuse_qkv
from solutions.step10_flash.reference import attention_matrix_bytes, flash_attention, sdpa
from solutions.step11_gpt_block.reference import MLP, Block, LayerNorm, gelu
from solutions.step12_gpt.reference import GPT, generate, next_token_batches

AnyModule = TypeVar("AnyModule", bound=nn.Module)

DOUBLE = torch.float64
WIDE = (torch.float32, torch.float64)
HALVES = (torch.float16, torch.bfloat16)
# Two right ways round differently: by a few of the dtype's steps in halves, by more of them where steps are cheap.
ROOM = {torch.float64: 1e-11, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}

every_dtype = pytest.mark.parametrize("dtype", (*WIDE, *HALVES), ids=str)
with_and_without_bias = pytest.mark.parametrize("bias", (True, False), ids=("bias", "no bias"))


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are tiny: a second thread would mostly wait for the first
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield
    torch.set_num_threads(threads)


def normal(*shape: int, dtype: torch.dtype = DOUBLE) -> Tensor:
    return torch.randn(shape, dtype=DOUBLE).to(dtype)


def close(came: Tensor, expected: Tensor) -> None:
    """The same shape and dtype, and the same numbers within the dtype's room at the size of the largest of them."""
    room = ROOM[expected.dtype]
    assert_close(came, expected, rtol=room, atol=room * max(1.0, expected.abs().max().item()))


def agree(ours: Callable[..., Tensor], theirs: Callable[..., Tensor], *inputs: Tensor, at: Any = ()) -> None:
    """The same values, and the same gradients in all inputs and in the parameters `at` which both are taken."""
    leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    points = [x for x in leaves if x.requires_grad] + list(at)
    came, expected = ours(*leaves), theirs(*leaves)
    close(came, expected)
    direction = torch.randn_like(expected)
    gradients = zip(
        torch.autograd.grad(came, points, direction), torch.autograd.grad(expected, points, direction), strict=True
    )
    for ours_gradient, their_gradient in gradients:
        close(ours_gradient, their_gradient)


def drawn(module: AnyModule) -> AnyModule:
    """The module in float64, with every parameter random: none is left at 0 or 1, where a mistake would not show."""
    module.to(DOUBLE)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


# The worked example of Sebastian Raschka, "Build a Large Language Model (From Scratch)", chapter 3. The book prints
# four decimals. Its random layers also prove the order in which ours are made: W_query, W_key, W_value, out_proj.

JOURNEY = torch.tensor(
    [
        [0.43, 0.15, 0.89],  # Your
        [0.55, 0.87, 0.66],  # journey
        [0.57, 0.85, 0.64],  # starts
        [0.22, 0.58, 0.33],  # with
        [0.77, 0.25, 0.10],  # one
        [0.05, 0.80, 0.55],  # step
    ]
)


def printed(came: Tensor, expected: list[Any]) -> None:
    """What the book prints, to its last decimal."""
    assert_close(came, torch.tensor(expected), rtol=0.0, atol=5e-5)


def test_book_attention_without_weights() -> None:
    """Section 3.3: the second token's scores, weights and context, without scaling."""
    journey = JOURNEY[1:2]  # the second token as the one query
    scores = [[0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865]]
    weights = [[0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581]]
    printed(dot_product_scores(journey, JOURNEY), scores)
    printed(scaled_scores(journey * math.sqrt(3), JOURNEY), scores)  # the book does not scale yet
    printed(softmax(dot_product_scores(journey, JOURNEY)), weights)

    came_context, came_weights = attention(journey * math.sqrt(3), JOURNEY, JOURNEY)
    printed(came_weights, weights)
    printed(came_context, [[0.4419, 0.6515, 0.5683]])


def test_book_attention_with_drawn_weights() -> None:
    """Section 3.4.1: scaled attention with three random matrices."""
    torch.manual_seed(123)
    query, key, value = (JOURNEY @ torch.rand(3, 2) for _ in range(3))
    printed(dot_product_scores(query, key)[1], [1.2705, 1.8524, 1.8111, 1.0795, 0.5577, 1.5440])
    context, weights = attention(query, key, value)
    printed(weights[1], [0.1500, 0.2264, 0.2199, 0.1311, 0.0906, 0.1820])
    expected = [[0.2996, 0.8053], [0.3061, 0.8210], [0.3058, 0.8203], [0.2948, 0.7939], [0.2927, 0.7891]]
    printed(context, [*expected, [0.2990, 0.8040]])


def test_book_self_attention() -> None:
    """Section 3.4.2: the same as a module of linear layers."""
    torch.manual_seed(789)
    expected = [[-0.0739, 0.0713], [-0.0748, 0.0703], [-0.0749, 0.0702], [-0.0760, 0.0685], [-0.0763, 0.0679]]
    printed(SelfAttention(3, 2)(JOURNEY), [*expected, [-0.0754, 0.0693]])


def test_book_causal_mask() -> None:
    """Section 3.5.1: both ways to hide the future give the same printed weights."""
    torch.manual_seed(789)
    layer = SelfAttention(3, 2)
    query, key = layer.W_query(JOURNEY), layer.W_key(JOURNEY)
    expected = [
        [1.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.5517, 0.4483, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.3800, 0.3097, 0.3103, 0.0000, 0.0000, 0.0000],
        [0.2758, 0.2460, 0.2462, 0.2319, 0.0000, 0.0000],
        [0.2175, 0.1983, 0.1984, 0.1888, 0.1971, 0.0000],
        [0.1935, 0.1663, 0.1666, 0.1542, 0.1666, 0.1529],
    ]
    printed(masked_softmax(scaled_scores(query, key), causal_mask(6)), expected)
    printed(renormalise(softmax(scaled_scores(query, key)), causal_mask(6)), expected)


CAUSAL = [
    [-0.4519, 0.2216],
    [-0.5874, 0.0058],
    [-0.6300, -0.0632],
    [-0.5675, -0.0843],
    [-0.5526, -0.0981],
    [-0.5299, -0.1081],
]
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
        (partial(CausalAttention, 3, 2, context_length=6, dropout=0.0), CAUSAL),
        (
            partial(MultiHeadAttentionWrapper, 3, 2, context_length=6, dropout=0.0, num_heads=2),
            [first + second for first, second in zip(CAUSAL, SECOND_HEAD, strict=True)],
        ),
        (partial(MultiHeadAttention, 3, 2, context_length=6, dropout=0.0, num_heads=2), MULTI_HEAD),
    ],
    ids=("CausalAttention", "MultiHeadAttentionWrapper", "MultiHeadAttention"),
)
def test_book_causal_modules(make: Callable[..., nn.Module], expected: list[list[float]]) -> None:
    """Sections 3.5.3 and 3.6: a batch of twice the same sentence."""
    torch.manual_seed(123)
    printed(make()(torch.stack((JOURNEY, JOURNEY))), [expected, expected])


# PyTorch's built-ins.

SHAPES = (((5, 4), (3, 4)), ((2, 5, 4), (2, 3, 4)), ((2, 3, 1, 4), (2, 3, 6, 4)))  # of query and key


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_scores(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: torch.dtype) -> None:
    """Scores are what `torch.einsum` gives."""
    query, key = (normal(*shape, dtype=dtype) for shape in shapes)
    agree(dot_product_scores, lambda q, k: torch.einsum("...qd,...kd->...qk", q, k), query, key)
    agree(scaled_scores, lambda q, k: torch.einsum("...qd,...kd->...qk", q, k) / 2, query, key)  # sqrt(4) = 2


@every_dtype
@pytest.mark.parametrize(
    ("shape", "dim"), [((7,), 0), ((3, 5), 0), ((3, 5), -1), ((2, 3, 5), 1), ((2, 3, 4, 5), -3), ((2, 1), 1)], ids=str
)
def test_softmax(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    """Values and gradients of `torch.softmax`, along any dimension."""
    agree(lambda x: softmax(x, dim), lambda x: torch.softmax(x, dim), normal(*shape, dtype=dtype))


@every_dtype
def test_softmax_at_the_edges(dtype: torch.dtype) -> None:
    """Scores of 10000, entries of minus infinity, and a slice of 4096."""
    infinity = math.inf
    for row in (
        [0.0, 1.0, -1.0, 0.0],
        [1e4, 1e4, -1e4, 0.0],
        [-1e4, -1e4, -1e4, -1e4],
        [-infinity, 1.0, 2.0, -infinity],
        [-infinity, -infinity, -infinity, -1e4],
    ):
        agree(softmax, partial(torch.softmax, dim=-1), torch.tensor(row, dtype=dtype))
    long = 3 * normal(2, 4096, dtype=dtype)
    agree(softmax, partial(torch.softmax, dim=-1), long)
    exact = torch.softmax(long.to(DOUBLE), dim=-1)
    assert_close(softmax(long).to(DOUBLE), exact, rtol=0.0, atol=ROOM[dtype] * exact.max().item())


def weights_of(query: Tensor, key: Tensor, mask: Tensor | None = None, **options: Any) -> Tensor:
    """The weights inside torch's attention: with the identity matrix as values they are what comes out."""
    return F.scaled_dot_product_attention(
        query, key, torch.eye(key.shape[-2], dtype=key.dtype).expand(*key.shape[:-1], -1), attn_mask=mask, **options
    )


MASKS = {
    "no mask": None,
    "one row": torch.tensor([[True, False, True, True, False, True]]),
    "one column": torch.tensor([[True, False, True, True, False, True]] * 5).roll(1, dims=1),
    "a batch": torch.stack([torch.ones(1, 5, 6).tril(1), torch.ones(1, 5, 6).triu(-2)]).bool(),
    "every head": (torch.arange(180).view(2, 3, 5, 6) % 7 % 3) < 2,
}


@every_dtype
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_attention(mask: Tensor | None, dtype: torch.dtype) -> None:
    """Context, weights and gradients of `scaled_dot_product_attention`; 5 queries, 6 keys, width 4, values of 3."""
    query, key, value = (
        normal(2, 3, 5, 4, dtype=dtype),
        normal(2, 3, 6, 4, dtype=dtype),
        normal(2, 3, 6, 3, dtype=dtype),
    )
    agree(
        lambda q, k, v: attention(q, k, v, mask)[0],
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        query,
        key,
        value,
    )
    agree(lambda q, k: attention(q, k, value, mask)[1], lambda q, k: weights_of(q, k, mask), query, key)


def test_attention_without_batch() -> None:
    """Leading dimensions may be missing, and one more than usual is fine."""
    for leading in ((), (2,), (2, 1, 3)):
        query, key, value = normal(*leading, 5, 4), normal(*leading, 6, 4), normal(*leading, 6, 3)
        agree(lambda q, k, v: attention(q, k, v)[0], F.scaled_dot_product_attention, query, key, value)
        large = (100 * query, 100 * key, value)  # scores of about 10000; softmax gradients are noise there
        close(attention(*large)[0], F.scaled_dot_product_attention(*large))


def test_causal_mask() -> None:
    """Exactly the keys to which torch's `is_causal` gives weight."""
    for num_tokens in (1, 2, 33):
        zeros = torch.zeros(num_tokens, 1)
        mask = causal_mask(num_tokens)
        assert mask.dtype == torch.bool
        assert torch.equal(mask, weights_of(zeros, zeros, is_causal=True) > 0)


@every_dtype
@pytest.mark.parametrize("size", (1.0, 1e4))
def test_masked_softmax(size: float, dtype: torch.dtype) -> None:
    """Torch's masked attention, whose weights these are when every score is given as a query."""
    scores = size * normal(2, 5, 6).clamp(-1, 1).to(dtype)
    identity = torch.eye(6, dtype=dtype).expand(2, 6, 6)
    for mask in (causal_mask(6)[:5], causal_mask(6)[1:], MASKS["one row"], MASKS["every head"][:, 0]):
        agree(lambda s, m=mask: masked_softmax(s, m), lambda s, m=mask: weights_of(s, identity, m, scale=1.0), scores)
        assert (masked_softmax(scores, mask).masked_select(~mask) == 0).all()


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_renormalise(dtype: torch.dtype) -> None:
    """On softmax outputs it is the softmax over what the mask leaves."""
    mask = causal_mask(6)[1:]
    agree(
        lambda s: renormalise(torch.softmax(s, dim=-1), mask),
        lambda s: torch.softmax(s.masked_fill(~mask, -math.inf), dim=-1),
        3 * normal(2, 5, 6, dtype=dtype),
    )


@pytest.mark.parametrize("p", (0.07, 0.5, 0.9))
def test_dropout_statistics(p: float) -> None:
    """The scale and the gradient of `F.dropout`, its rate, and draws that know nothing of each other."""
    x = torch.ones(400, 500, requires_grad=True)
    ours = dropout(x, p)
    (gradient,) = torch.autograd.grad(ours.sum(), x)
    assert torch.equal(gradient, ours.detach())  # x is 1 everywhere, so the factor is the value
    for function in (dropout, F.dropout):  # the oracle itself must pass, else the bounds are wrong
        first, second = function(x.detach(), p), function(x.detach(), p)
        close(first.unique(), F.dropout(x, p).unique().detach())  # 0 and 1 / (1 - p)
        dropped, again = (first == 0).double(), (second == 0).double()
        assert abs(dropped.mean().item() - p) < 5 * math.sqrt(p * (1 - p) / x.numel())
        pairs = {"rows": (dropped[1:], dropped[:-1]), "columns": (dropped[:, 1:], dropped[:, :-1])}
        for left, right in (pairs | {"calls": (dropped, again)}).values():
            correlation = ((left - p) * (right - p)).mean().item() / (p * (1 - p))
            assert abs(correlation) < 5 / math.sqrt(left.numel())


@pytest.mark.parametrize(
    "layer", (partial(dropout, p=0.3), Dropout(0.3), nn.Dropout(0.3)), ids=("function", "module", "torch")
)
def test_dropout_count(layer: Callable[[Tensor], Tensor]) -> None:
    """How many of 20 elements are dropped is itself drawn in every call, with the variance 20 p (1 - p)."""
    x, calls = torch.ones(20), 2000
    counts = torch.tensor([(layer(x) == 0).sum() for _ in range(calls)]).double()
    assert abs(counts.mean().item() - 20 * 0.3) < 5 * math.sqrt(20 * 0.3 * 0.7 / calls)
    # n draws know a variance to within a factor of about 1 ± sqrt(2 / n).
    assert abs(counts.var().item() / (20 * 0.3 * 0.7) - 1) < 5 * math.sqrt(2 / calls)


def test_dropout_defaults() -> None:
    """Without p both drop half, and both are on."""
    x = torch.ones(100)
    for came in (dropout(x), Dropout()(x)):
        assert torch.equal(came.unique(), F.dropout(x).unique())


def test_dropout_edges() -> None:
    """What `F.dropout` does at 0, at 1, out of training and with a p that is no probability."""
    x = normal(3, 4)
    for p, training in ((0.0, True), (1.0, True), (0.3, False), (1.0, False)):
        agree(lambda x, p=p, t=training: dropout(x, p, t), lambda x, p=p, t=training: F.dropout(x, p, t), x)
        ours, theirs = Dropout(p).train(training), nn.Dropout(p).train(training)
        assert torch.equal(ours(x), theirs(x))
    for p in (-0.1, 1.1):
        for function in (dropout, F.dropout):
            with pytest.raises(ValueError):
                function(x, p)


def by_projections(module: nn.Module, x: Tensor, **options: Any) -> Tensor:
    """Torch's attention over the query, key and value layers of one of our modules."""
    return F.scaled_dot_product_attention(module.W_query(x), module.W_key(x), module.W_value(x), **options)


@with_and_without_bias
def test_single_head_modules(bias: bool) -> None:
    """Self-attention and causal attention are torch's attention behind three linear layers."""
    plain = drawn(SelfAttention(4, 6, qkv_bias=bias))
    causal = drawn(CausalAttention(4, 6, 5, 0.0, qkv_bias=bias))
    wrapper = drawn(MultiHeadAttentionWrapper(4, 3, 5, 0.0, 2, qkv_bias=bias))
    for num_tokens in (1, 3, 5):
        x = normal(2, num_tokens, 4)
        close(plain(100 * x), by_projections(plain, 100 * x))
        close(causal(100 * x), by_projections(causal, 100 * x, is_causal=True))
        agree(plain, partial(by_projections, plain), x, at=plain.parameters())
        agree(causal, partial(by_projections, causal, is_causal=True), x, at=causal.parameters())
        agree(
            wrapper,
            lambda x: torch.cat([by_projections(head, x, is_causal=True) for head in wrapper.heads], dim=-1),
            x,
            at=wrapper.parameters(),
        )


def test_heads() -> None:
    """Heads are `torch.chunk`s of the columns, and merging concatenates them."""
    for num_heads in (1, 2, 6):
        agree(
            lambda x, h=num_heads: split_heads(x, h),
            lambda x, h=num_heads: torch.stack(x.chunk(h, dim=-1), dim=1),
            normal(2, 5, 6),
        )
    for heads in (normal(2, 3, 5, 4), normal(2, 5, 3, 4).transpose(1, 2), normal(4, 5, 3, 2).permute(3, 2, 1, 0)):
        agree(merge_heads, lambda x: torch.cat(list(x.unbind(dim=1)), dim=-1), heads)


def by_torch(module: MultiHeadAttention | CausalSelfAttention, x: Tensor, num_heads: int, rate: float = 0.0) -> Tensor:
    """Torch's multi-head attention with the parameters of one of our modules. It wants the batch second."""
    if isinstance(module, CausalSelfAttention):
        weight, bias, out = module.c_attn.weight, module.c_attn.bias, module.c_proj
    else:
        layers = (module.W_query, module.W_key, module.W_value)
        weight, out = torch.cat([layer.weight for layer in layers]), module.out_proj
        bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
    x = x.transpose(0, 1)
    hidden = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)  # here True means "may NOT attend"
    context, _weights = F.multi_head_attention_forward(
        *(x, x, x, x.shape[-1], num_heads, weight, bias, None, None, False, rate, out.weight, out.bias),
        training=module.training,
        need_weights=False,
        attn_mask=hidden,
    )
    return context.transpose(0, 1)


@with_and_without_bias
@pytest.mark.parametrize("num_heads", (1, 2, 3))
def test_multi_head(num_heads: int, bias: bool) -> None:
    """Both multi-head modules are `F.multi_head_attention_forward`, in values and all gradients."""
    for module in (
        drawn(MultiHeadAttention(6, 6, 5, 0.0, num_heads, qkv_bias=bias)),
        drawn(CausalSelfAttention(6, num_heads, 5, bias=bias)),
    ):
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


def test_fuse_qkv() -> None:
    """One `F.linear` with the fused weight gives what three give."""
    x = normal(2, 5, 4)
    agree(
        lambda q, k, v: F.linear(x, fuse_qkv(q, k, v)),
        lambda q, k, v: torch.cat([F.linear(x, weight) for weight in (q, k, v)], dim=-1),
        *(normal(4, 4) for _ in range(3)),
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


@every_dtype
@with_and_without_bias
@pytest.mark.parametrize("eps", (1e-5, 0.3))
def test_layer_norm(eps: float, bias: bool, dtype: torch.dtype) -> None:
    """`nn.LayerNorm`, also where the inputs are hardly spread and eps decides."""
    ours = drawn(LayerNorm(6, bias=bias, eps=eps)).to(dtype)
    theirs = nn.LayerNorm(6, eps=eps, bias=bias)
    parameters = dict(ours.named_parameters())
    assert parameters.keys() == dict(theirs.named_parameters()).keys()
    for x in (normal(6), normal(2, 3, 6), 1e-2 * normal(4, 6), 10 + normal(4, 6)):
        x = x.to(dtype)
        if dtype in HALVES:  # values only: in halves torch's own gradients are further from the truth than ours
            close(ours(x), functional_call(theirs, parameters, x))
        else:
            agree(ours, lambda x: functional_call(theirs, parameters, x), x, at=ours.parameters())


@every_dtype
def test_gelu(dtype: torch.dtype) -> None:
    """`F.gelu` in its tanh form, far out too."""
    agree(gelu, partial(F.gelu, approximate="tanh"), torch.linspace(-12, 12, 97, dtype=DOUBLE).to(dtype))
    agree(gelu, partial(F.gelu, approximate="tanh"), normal(2, 3, 4, dtype=dtype))


@with_and_without_bias
def test_mlp(bias: bool) -> None:
    """Two linear layers around torch's tanh GELU, four times wider in between."""
    module = drawn(MLP(3, bias=bias))
    assert module.c_fc.weight.shape == (12, 3)
    for shape in ((3,), (2, 5, 3)):
        theirs = nn.Sequential(module.c_fc, nn.GELU(approximate="tanh"), module.c_proj)
        agree(module, theirs, normal(*shape), at=module.parameters())


@with_and_without_bias
def test_block(bias: bool) -> None:
    """A pre-norm `nn.TransformerEncoderLayer` that was given our parameters and a causal mask."""
    block = drawn(Block(6, 2, 5, bias=bias))
    theirs = nn.TransformerEncoderLayer(
        6, 2, 24, 0.0, partial(F.gelu, approximate="tanh"), batch_first=True, norm_first=True, bias=bias
    )
    names = {
        "self_attn.in_proj_": block.attn.c_attn,
        "self_attn.out_proj.": block.attn.c_proj,
        "linear1.": block.mlp.c_fc,
        "linear2.": block.mlp.c_proj,
        "norm1.": block.ln_1,
        "norm2.": block.ln_2,
    }
    parameters = {prefix + name: p for prefix, module in names.items() for name, p in module.named_parameters()}
    assert parameters.keys() == dict(theirs.named_parameters()).keys()
    for num_tokens in (1, 5):
        hidden = torch.ones(num_tokens, num_tokens, dtype=torch.bool).triu(1)
        agree(
            block,
            lambda x, hidden=hidden: functional_call(theirs, parameters, (x, hidden)),
            normal(2, num_tokens, 6),
            at=block.parameters(),
        )


def test_next_token_batches() -> None:
    """The windows that `Tensor.unfold` cuts, of the ids and of the ids shifted by one."""
    for num_ids in (5, 8, 9, 10, 30):
        token_ids = torch.randint(100, (num_ids,))
        inputs, targets = zip(*next_token_batches(token_ids, 4, 3), strict=True)
        assert torch.equal(torch.cat(inputs), token_ids[:-1].unfold(0, 4, 4))
        assert torch.equal(torch.cat(targets), token_ids[1:].unfold(0, 4, 4))
        assert all(len(batch) == 3 for batch in inputs[:-1])
    assert list(next_token_batches(torch.arange(4), 4, 3)) == []  # the fourth token has no successor


def same_distribution(ours: Tensor, theirs: Tensor) -> None:
    """Two sets of draws, one a row, with the same means and the same covariances between all their elements."""
    ours, theirs = ours.detach().flatten(1), theirs.detach().flatten(1)
    spread = torch.sqrt((ours.var(dim=0) + theirs.var(dim=0)) / len(ours))
    assert ((ours.mean(dim=0) - theirs.mean(dim=0)).abs() <= 5 * spread + 1e-9).all()
    difference = torch.linalg.norm(ours.T.cov() - theirs.T.cov()) / torch.linalg.norm(theirs.T.cov())
    assert difference < 0.1


NUM_DRAWS = 8_000


def test_dropout_inside_attention() -> None:
    """In training the outputs scatter as those of torch's attention do with the same rate, and not at all in eval."""
    x = normal(1, 4, 4)
    draws = x.expand(NUM_DRAWS, -1, -1)
    single = drawn(CausalAttention(4, 4, 4, 0.3))
    wrapper = drawn(MultiHeadAttentionWrapper(4, 2, 4, 0.3, 2))
    multi_head = drawn(MultiHeadAttention(4, 4, 4, 0.3, 2))
    fused = drawn(CausalSelfAttention(4, 2, 4, 0.3))
    options: dict[str, Any] = {"is_causal": True, "dropout_p": 0.3}
    assert not torch.equal(single(x), single(x))  # another mask in every call
    same_distribution(single(draws), by_projections(single, draws, **options))
    heads = [by_projections(head, draws, **options) for head in wrapper.heads]
    same_distribution(wrapper(draws), torch.cat(heads, dim=-1))
    same_distribution(multi_head(draws), by_torch(multi_head, draws, 2, rate=0.3))
    same_distribution(fused(draws), F.dropout(by_torch(fused, draws, 2, rate=0.3), 0.3))

    close(single.eval()(x), by_projections(single, x, is_causal=True))
    for module in (multi_head.eval(), fused.eval()):
        close(module(x), by_torch(module, x, 2))


def test_dropout_inside_the_block() -> None:
    """The MLP drops its output; the block hands its rate to the attention and to the MLP."""
    mlp, block, x = drawn(MLP(4, 0.3)), drawn(Block(4, 2, 3, 0.3)), normal(1, 3, 4)

    def their_mlp(mlp: MLP, x: Tensor, rate: float) -> Tensor:
        return F.dropout(mlp.c_proj(F.gelu(mlp.c_fc(x), approximate="tanh")), rate)

    def their_block(x: Tensor, rate: float) -> Tensor:
        x = x + F.dropout(by_torch(block.attn, block.ln_1(x), 2, rate), rate)
        return x + their_mlp(block.mlp, block.ln_2(x), rate)

    draws = x.expand(NUM_DRAWS, -1, -1)
    same_distribution(mlp(draws), their_mlp(mlp, draws, 0.3))
    same_distribution(block(draws), their_block(draws, 0.3))
    close(mlp.eval()(x), their_mlp(mlp, x, 0.0))
    close(block.eval()(x), their_block(x, 0.0))


# Hugging Face's GPT-2, which stands for steps 9, 11 and 12 together.

VOCABULARY, POSITIONS = 23, 8


def hugging_face(rate: float = 0.0, bias: bool = True) -> Any:
    """A small GPT-2 with random weights, built from a configuration: nothing is downloaded. bias=False: they are 0."""
    from transformers import GPT2Config, GPT2LMHeadModel  # here, as it takes seconds that most runs of one test save

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=POSITIONS,
        n_embd=12,
        n_layer=2,
        n_head=3,
        attn_pdrop=rate,
        embd_pdrop=rate,
        resid_pdrop=rate,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="eager",
    )
    model = drawn(GPT2LMHeadModel(config)).train(rate > 0)
    for name, parameter in model.named_parameters():
        if name.endswith(".bias") and not bias:
            nn.init.zeros_(parameter)
    return model


def by_our_names(theirs: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their tensors under our names. A Conv1D holds (in, out), where an nn.Linear holds (out, in)."""
    from transformers.pytorch_utils import Conv1D

    turned = {f"{name}.weight" for name, module in theirs.named_modules() if isinstance(module, Conv1D)}
    return {name.removeprefix("transformer."): t.T if name in turned else t for name, t in tensors.items()}


def loaded(theirs: Any, rate: float = 0.0, bias: bool = True) -> GPT:
    """Our GPT with all of their weights; strict, so that every name must be known to both."""
    ours = GPT(VOCABULARY, POSITIONS, 2, 3, 12, rate, bias).to(DOUBLE).train(rate > 0)
    state = by_our_names(theirs, theirs.state_dict())
    ours.load_state_dict({name: t for name, t in state.items() if bias or not name.endswith(".bias")})
    return ours


@with_and_without_bias
def test_gpt_logits_and_gradients(bias: bool) -> None:
    """GPT-2's logits, and its gradient in every parameter; both heads are tied. Without biases theirs are all 0."""
    theirs = hugging_face(bias=bias)
    ours = loaded(theirs, bias=bias)
    assert theirs.lm_head.weight is theirs.transformer.wte.weight
    assert ours.lm_head.weight is ours.wte.weight

    for num_tokens in (1, 5, POSITIONS):
        idx = torch.randint(VOCABULARY, (3, num_tokens))
        came, expected = ours(idx)[0], theirs(idx).logits
        close(came, expected)
        direction = torch.randn_like(expected)
        ours.zero_grad()
        theirs.zero_grad()
        came.backward(direction)
        expected.backward(direction)
        gradients = by_our_names(theirs, {name: p.grad for name, p in theirs.named_parameters()})
        for name, parameter in ours.named_parameters():
            close(parameter.grad, gradients[name])


def test_gpt_loss() -> None:
    """Their loss shifts the labels, ours takes shifted targets; theirs is counted in float32."""
    theirs = hugging_face()
    ours = loaded(theirs)
    idx = torch.randint(VOCABULARY, (3, POSITIONS))
    logits, loss = ours(idx[:, :-1], idx[:, 1:])
    assert_close(loss, theirs(idx, labels=idx).loss.double(), rtol=1e-6, atol=0.0)
    close(loss, F.cross_entropy(logits.transpose(1, 2), idx[:, 1:]))
    assert ours(idx)[1] is None


def test_gpt_dropout() -> None:
    """In training our logits scatter as theirs do: dropout sits in the same places. In eval there is none."""
    theirs = hugging_face(rate=0.1)
    ours = loaded(theirs, rate=0.1)
    idx = torch.randint(VOCABULARY, (1, 3))
    with torch.no_grad():
        draws = idx.expand(NUM_DRAWS, -1)
        same_distribution(ours(draws)[0], theirs(draws).logits)
        close(ours.eval()(idx)[0], theirs.eval()(idx).logits)


def test_greedy_generation() -> None:
    """The tokens that their own `generate` appends."""
    theirs = hugging_face(bias=False)  # biases would prefer some tokens after any text
    ours = loaded(theirs)
    for num_tokens in (1, 2, 5):
        idx = torch.randint(VOCABULARY, (32, num_tokens))
        new = POSITIONS - num_tokens
        options = {"attention_mask": torch.ones_like(idx), "pad_token_id": 0}
        expected = theirs.generate(idx, max_new_tokens=new, do_sample=False, **options)
        assert torch.equal(generate(ours, idx, new, temperature=0), expected)
        assert expected[:, num_tokens:].unique().numel() > 3  # a model that repeats one token would prove little


def test_greedy_generation_beyond_the_last_position() -> None:
    """The largest of their logits for the last tokens of a text that is too long. Dropout stays out of it."""
    theirs = hugging_face(bias=False)  # biases would prefer some tokens after any text
    ours = loaded(theirs, rate=0.5)
    for num_tokens in (POSITIONS - 1, POSITIONS, POSITIONS + 5):
        idx = torch.randint(VOCABULARY, (32, num_tokens))
        expected = idx
        for _ in range(3):
            logits = theirs(expected[:, -POSITIONS:]).logits[:, -1:]
            expected = torch.cat((expected, logits.argmax(dim=-1)), dim=1)
        for training in (True, False):
            assert torch.equal(generate(ours.train(training), idx, 3, temperature=0), expected)
            assert ours.training == training
        assert expected[:, num_tokens:].unique().numel() > 3


@pytest.mark.parametrize(
    ("temperature", "top_k"), [(1.0, None), (0.5, None), (0.5, 4), (2.0, 4), (1.0, 1), (2.0, 1000)]
)
def test_sampled_generation(temperature: float, top_k: int | None) -> None:
    """Tokens come as often as Hugging Face's own warpers of the logits say, and never where these say never."""
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper

    theirs = hugging_face(bias=False)  # biases would prefer some tokens after any text
    idx = torch.randint(VOCABULARY, (2, 4))
    logits = TemperatureLogitsWarper(temperature)(idx, theirs(idx).logits[:, -1].detach())
    if top_k is not None:
        logits = TopKLogitsWarper(min(top_k, VOCABULARY))(idx, logits)
    probabilities = torch.softmax(logits, dim=-1)

    ours, draws = loaded(theirs), idx.repeat(NUM_DRAWS, 1)  # the two texts take turns
    out = generate(ours, draws, 1, temperature=temperature, top_k=top_k)
    assert torch.equal(out[:, :-1], draws)
    for text in range(2):
        rates = torch.bincount(out[text::2, -1], minlength=VOCABULARY) / NUM_DRAWS
        spread = torch.sqrt(probabilities[text] * (1 - probabilities[text]) / NUM_DRAWS)
        assert ((rates - probabilities[text]).abs() <= 5 * spread + 1e-9).all()
    if top_k != 1:
        assert not torch.equal(out, generate(ours, draws, 1, temperature=temperature, top_k=top_k))


# What the contract names: parameters, and arguments that are errors.


def linear(name: str, width_in: int, width_out: int, bias: bool) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {f"{name}.weight": (width_out, width_in)}
    return shapes | ({f"{name}.bias": (width_out,)} if bias else {})


@with_and_without_bias
def test_parameter_names(bias: bool) -> None:
    """Every parameter that the steps name, with its shape, and no other."""
    projections = {}
    for name in ("W_query", "W_key", "W_value"):
        projections |= linear(name, 4, 6, bias)
    fused = linear("c_attn", 4, 12, bias) | linear("c_proj", 4, 4, bias)
    heads = {f"heads.{i}.{name}": shape for i in range(2) for name, shape in projections.items()}
    for module, expected in (
        (SelfAttention(4, 6, bias), projections),
        (CausalAttention(4, 6, 5, 0.0, bias), projections),
        (MultiHeadAttentionWrapper(4, 6, 5, 0.0, 2, bias), heads),
        (MultiHeadAttention(4, 6, 5, 0.0, 2, bias), projections | linear("out_proj", 6, 6, True)),
        (CausalSelfAttention(4, 2, 5, bias=bias), fused),
        (MLP(4, bias=bias), linear("c_fc", 4, 16, bias) | linear("c_proj", 16, 4, bias)),
    ):
        assert {name: tuple(p.shape) for name, p in module.named_parameters()} == expected


REFUSED: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "CausalAttention": (lambda: CausalAttention(2, 2, 4, 0.0)(torch.zeros(1, 5, 2)), (5, 4)),
    "MultiHeadAttentionWrapper": (lambda: MultiHeadAttentionWrapper(2, 2, 4, 0.0, 2)(torch.zeros(1, 5, 2)), (5, 4)),
    "MultiHeadAttention": (lambda: MultiHeadAttention(2, 2, 4, 0.0, 2)(torch.zeros(1, 5, 2)), (5, 4)),
    "MultiHeadAttention, width": (lambda: MultiHeadAttention(2, 7, 4, 0.0, 3), (7, 3)),
    "CausalSelfAttention": (lambda: CausalSelfAttention(2, 2, 4)(torch.zeros(1, 5, 2)), (5, 4)),
    "CausalSelfAttention, width": (lambda: CausalSelfAttention(7, 3, 4), (7, 3)),
    "GPT": (lambda: GPT(6, 4, 1, 1, 2)(torch.zeros(1, 5, dtype=torch.long)), (5, 4)),
    "split_heads": (lambda: split_heads(torch.zeros(1, 2, 7), 3), (7, 3)),
    "flash_attention": (
        lambda: flash_attention(*(torch.zeros(1, 1, n, 2) for n in (5, 4, 4)), is_causal=True),
        (5, 4),
    ),
}


@pytest.mark.parametrize(("call", "numbers"), REFUSED.values(), ids=REFUSED.keys())
def test_wrong_arguments(call: Callable[[], Any], numbers: tuple[int, ...]) -> None:
    """A `ValueError` that names the offending numbers."""
    with pytest.raises(ValueError) as refusal:
        call()
    assert set(numbers) <= {int(number) for number in re.findall(r"\d+", str(refusal.value))}


# Every public name: finite differences, the meta device, bfloat16.


class Generating(nn.Module):
    """`generate` as a module, so that it moves with its model."""

    def __init__(self) -> None:
        super().__init__()
        self.model = GPT(7, 3, 1, 2, 4)

    def forward(self, idx: Tensor) -> Tensor:
        return generate(self.model, idx, 3, top_k=4)


@dataclass(frozen=True)
class Case:
    """One way to call a public name: what makes the function or module, and what is passed."""

    make: Callable[[], Callable[..., Any]]
    inputs: tuple[Tensor, ...]
    differentiable: int = 2  # how often, as far as it is checked

    def built(self) -> Callable[..., Any]:
        torch.manual_seed(0)
        target = self.make()
        return drawn(target) if isinstance(target, nn.Module) else target

    def called(self, device: str, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """The tensors that come out in eval mode. It is called before it moves too, since a module must not mind."""
        target = self.built()
        if isinstance(target, nn.Module):
            target.eval()
            target(*self.inputs)
            target.to(device, dtype)
        torch.manual_seed(1)
        out = target(*(x.to(device, dtype) if x.is_floating_point() else x.to(device) for x in self.inputs))
        return out if isinstance(out, tuple) else (out,)


def of(function: Callable[..., Any], *inputs: Tensor, differentiable: int = 2, **options: Any) -> Case:
    return Case(lambda: partial(function, **options), inputs, differentiable)


def case_inputs() -> dict[str, Case]:
    """A case or more for every public name, as "step.name" or "step.name/what is special"."""
    generator = torch.Generator().manual_seed(5)

    def x(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=DOUBLE, generator=generator)

    mask, idx = torch.ones(3, 4, dtype=torch.bool).tril(1), torch.tensor([[1, 0, 6], [3, 3, 2]])
    return {
        "step01_scores.dot_product_scores": of(dot_product_scores, x(2, 2, 3), x(2, 4, 3)),
        "step01_scores.scaled_scores": of(scaled_scores, x(2, 2, 3), x(2, 4, 3)),
        "step02_softmax.softmax": of(softmax, x(2, 3, 4)),
        "step02_softmax.softmax/first dimension": of(softmax, x(3, 4), dim=0),
        "step03_attention.attention": of(attention, x(2, 3), x(4, 3), x(4, 2)),
        "step03_attention.attention/mask": of(attention, x(3, 2), x(4, 2), x(4, 3), mask),
        "step03_attention.SelfAttention": Case(lambda: SelfAttention(3, 2, qkv_bias=True), (x(2, 4, 3),)),
        "step04_causal_mask.causal_mask": Case(lambda: lambda like: causal_mask(4, like.device), (x(4),), 0),
        "step04_causal_mask.masked_softmax": of(masked_softmax, x(3, 4), mask),
        "step04_causal_mask.renormalise": of(renormalise, x(2, 3, 4).exp(), mask),
        "step05_dropout.dropout": of(dropout, x(5, 6), p=0.3),
        "step05_dropout.Dropout": Case(lambda: Dropout(0.3), (x(5, 6),)),
        "step06_causal_attention.CausalAttention": Case(lambda: CausalAttention(3, 2, 5, 0.3), (x(2, 4, 3),)),
        "step07_heads.split_heads": of(split_heads, x(2, 3, 4), num_heads=2),
        "step07_heads.merge_heads": of(merge_heads, x(2, 2, 3, 2)),
        "step08_multi_head.MultiHeadAttentionWrapper": Case(
            lambda: MultiHeadAttentionWrapper(3, 2, 5, 0.3, 2, qkv_bias=True), (x(2, 4, 3),)
        ),
        "step08_multi_head.MultiHeadAttention": Case(lambda: MultiHeadAttention(3, 4, 5, 0.3, 2), (x(2, 4, 3),)),
        "step09_fused_qkv.fuse_qkv": of(fuse_qkv, x(3, 3), x(3, 3), x(3, 3)),
        "step09_fused_qkv.CausalSelfAttention": Case(lambda: CausalSelfAttention(4, 2, 5, 0.3), (x(2, 3, 4),)),
        # Torch's own kernel and the flash attention of the course are differentiable once.
        "step10_flash.sdpa": of(sdpa, x(1, 2, 3, 2), x(1, 2, 3, 2), x(1, 2, 3, 2), differentiable=1),
        "step10_flash.flash_attention": of(
            flash_attention, x(1, 1, 3, 2), x(1, 1, 5, 2), x(1, 1, 5, 3), differentiable=1, block_size=2
        ),
        "step10_flash.flash_attention/causal": of(
            flash_attention, x(1, 1, 5, 2), x(1, 1, 5, 2), x(1, 1, 5, 3), differentiable=1, block_size=2, is_causal=True
        ),
        "step11_gpt_block.LayerNorm": Case(lambda: LayerNorm(5), (x(2, 3, 5),)),
        "step11_gpt_block.LayerNorm/no bias": Case(lambda: LayerNorm(5, bias=False), (x(3, 5),)),
        "step11_gpt_block.gelu": of(gelu, x(3, 4)),
        "step11_gpt_block.MLP": Case(lambda: MLP(3, 0.3), (x(2, 2, 3),)),
        "step11_gpt_block.Block": Case(lambda: Block(4, 2, 4, 0.3), (x(1, 3, 4),)),
        "step12_gpt.GPT": Case(lambda: GPT(7, 3, 1, 2, 4, 0.1), (idx[:, 1:], idx[:, :2])),
        "step12_gpt.generate": Case(Generating, (idx,), 0),
        "step12_gpt.next_token_batches": Case(
            lambda: lambda ids: tuple(chain.from_iterable(next_token_batches(ids, 3, 2))), (torch.arange(12),), 0
        ),
    }


CASES = case_inputs()
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def test_every_public_name_has_a_case() -> None:
    """What a student writes is what stands at the top level of a reference, outside of its solution regions.

    A step that has no case at all is one that an author has added: one folder is all that it needs.
    """
    names = {"step10_flash.attention_matrix_bytes"}  # gets and returns integers: there is no tensor to move
    names |= {name.split("/")[0] for name in CASES}
    steps, found = {name.partition(".")[0] for name in names}, set()
    assert len(steps) >= 12, "a step of the core track has lost all its cases"
    for path in Path(solutions.__path__[0]).glob("step*/reference.py"):
        if path.parent.name not in steps:
            continue
        taught = re.sub(r"### BEGIN SOLUTION.*?### END SOLUTION", "", path.read_text("utf-8"), flags=re.DOTALL)
        found |= {f"{path.parent.name}.{name}" for name in re.findall(r"^(?:def|class) (\w+)", taught, re.MULTILINE)}
    assert names == found


@pytest.mark.parametrize(
    "case", [c for c in CASES.values() if c.differentiable], ids=[n for n, c in CASES.items() if c.differentiable]
)
def test_gradients(case: Case) -> None:
    """Gradients in the inputs and in all parameters are what difference quotients say, with dropout switched on."""
    target = case.built()
    parameters = dict(target.named_parameters()) if isinstance(target, nn.Module) else {}

    def function(*tensors: Tensor) -> Any:
        torch.manual_seed(2)  # the same mask in every call
        inputs = tensors[: len(case.inputs)]
        if not isinstance(target, nn.Module):
            return target(*inputs)
        return functional_call(target, dict(zip(parameters, tensors[len(case.inputs) :], strict=True)), inputs)

    points = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in (*case.inputs, *parameters.values())]
    assert gradcheck(function, points)
    if case.differentiable == 2:
        assert gradgradcheck(function, points, fast_mode=True)


@every_case
def test_meta_device_and_bfloat16(case: Case) -> None:
    """Shapes come out on a device without numbers; halves come out as halves, near what float64 gives."""
    expected = case.called("cpu", DOUBLE)
    on_meta = case.called("meta", DOUBLE)
    in_halves = case.called("cpu", torch.bfloat16)
    for exact, shape, half in zip(expected, on_meta, in_halves, strict=True):
        assert shape.device.type == "meta"
        assert (shape.shape, shape.dtype) == (exact.shape, exact.dtype)
        assert half.shape == exact.shape
        if exact.is_floating_point():
            assert half.dtype == torch.bfloat16
            assert_close(half.to(DOUBLE), exact, rtol=0.05, atol=0.05)
