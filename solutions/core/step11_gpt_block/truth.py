"""Step 11 held against `nn.LayerNorm`, `F.gelu` and `nn.TransformerEncoderLayer`; step 12 holds it against GPT-2."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from solutions.core.step11_gpt_block.reference import MLP, Block, LayerNorm, gelu
from tests.truths import (
    DOUBLE,
    HALVES,
    NUM_DRAWS,
    Case,
    agree,
    by_torch,
    close,
    drawer,
    drawn,
    every_dtype,
    gradients,
    has_parameters,
    linear,
    moves,
    normal,
    of,
    same_distribution,
    with_and_without_bias,
)


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


@with_and_without_bias
def test_parameter_names(bias: bool) -> None:
    """Every parameter of the MLP, with its shape, and no other; the others are compared with torch's above."""
    has_parameters(MLP(4, bias=bias), linear("c_fc", 4, 16, bias) | linear("c_proj", 16, 4, bias))


x = drawer()
CASES = {
    "LayerNorm": Case(lambda: LayerNorm(5), (x(2, 3, 5),)),
    "LayerNorm/no bias": Case(lambda: LayerNorm(5, bias=False), (x(3, 5),)),
    "gelu": of(gelu, x(3, 4)),
    "MLP": Case(lambda: MLP(3, 0.3), (x(2, 2, 3),)),
    "Block": Case(lambda: Block(4, 2, 4, 0.3), (x(1, 3, 4),)),
}

test_gradients = gradients(CASES)
test_meta_device_and_bfloat16 = moves(CASES)
