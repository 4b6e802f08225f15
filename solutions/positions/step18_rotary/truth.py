"""The references of step 18 are right: held against Llama, GPT-J, RoFormer and complex numbers.

All models are made from small random configurations: nothing is downloaded.
"""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from solutions.core.step09_fused_qkv.reference import CausalSelfAttention
from solutions.positions.step18_rotary.reference import (
    RotarySelfAttention,
    apply_rotary,
    rotary_frequencies,
    to_half_split,
    to_interleaved,
)

B, T, D, H = 2, 7, 24, 3
HEAD = D // H
POSITIONS = {"from 0": None, "gaps": torch.tensor([3, 1, 4, 1, 5, 9, 2])}

any_positions = pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)


def drawn(module: nn.Module) -> nn.Module:
    """The module in float64, with normal parameters."""
    module.double().eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4)
    return module


def ids_of(positions: Tensor | None) -> Tensor:
    """The positions as models take them: (1, T)."""
    return (torch.arange(T) if positions is None else positions)[None]


def causal(dtype: torch.dtype = torch.float64) -> Tensor:
    """What models add to their scores: (1, 1, T, T)."""
    return torch.full((T, T), -math.inf, dtype=dtype).triu(1)[None, None]


def of_halves(weight: Tensor) -> Tensor:
    """Rows of an interleaved query or key weight, in the half-split order of Llama's checkpoints, head by head."""
    rows = weight.unflatten(0, (H, HEAD)).transpose(1, -1) if weight.dim() > 1 else weight.view(H, HEAD)
    split = to_half_split(rows)
    return (split.transpose(1, -1) if weight.dim() > 1 else split).flatten(0, 1)


@any_positions
@pytest.mark.parametrize("base", (10000.0, 500.0))
def test_complex_numbers(positions: Tensor | None, base: float) -> None:
    """Each pair is a complex number, multiplied by exp(i p θ): Meta's own formulation."""
    x = torch.randn(B, H, T, 10, dtype=torch.float64)
    frequency = torch.tensor([base ** (-2 * i / 10) for i in range(5)], dtype=torch.float64)
    angle = ids_of(positions)[0][:, None] * frequency
    turned = torch.view_as_complex(x.view(B, H, T, 5, 2)) * torch.polar(torch.ones_like(angle), angle)
    assert_close(apply_rotary(x, positions, base), torch.view_as_real(turned).flatten(-2), atol=1e-5, rtol=0.0)


def test_far_positions_keep_their_digits() -> None:
    """Up to position 4096 the rotation is off by what the contract grants, in float32 and in halves by rounding."""
    x = torch.randn(4097, 64, dtype=torch.float64)
    angle = torch.arange(4097.0, dtype=torch.float64)[:, None] * torch.tensor(
        [10000.0 ** (-2 * i / 64) for i in range(32)], dtype=torch.float64
    )
    turned = torch.view_as_complex(x.view(-1, 32, 2)) * torch.polar(torch.ones_like(angle), angle)
    exact = torch.view_as_real(turned).flatten(-2)
    assert_close(apply_rotary(x), exact, atol=2e-3, rtol=0.0)
    assert_close(apply_rotary(x.float()).double(), exact, atol=2e-3, rtol=0.0)
    assert_close(apply_rotary(x.bfloat16()).double(), exact, atol=0.1, rtol=0.0)


@any_positions
def test_llama_rotation_in_its_layout(positions: Tensor | None) -> None:
    """Llama's function on half-split columns gives what ours gives on interleaved ones."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    config = LlamaConfig(hidden_size=D, num_attention_heads=H, max_position_embeddings=16)
    query, key = torch.randn(2, B, H, T, HEAD, dtype=torch.float64)
    cos, sin = LlamaRotaryEmbedding(config)(query, ids_of(positions))
    theirs = apply_rotary_pos_emb(to_half_split(query), to_half_split(key), cos, sin)
    for part, turned in zip((query, key), theirs, strict=True):
        assert_close(apply_rotary(part, positions), to_interleaved(turned), atol=1e-5, rtol=0.0)
    assert_close(rotary_frequencies(HEAD), LlamaRotaryEmbedding(config).inv_freq)


@any_positions
def test_llama_attention(positions: Tensor | None) -> None:
    """Llama's attention with our weights, query and key rows in its order."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=D, num_attention_heads=H, num_key_value_heads=H, max_position_embeddings=16, attention_bias=True,
        attn_implementation="sdpa",
    )  # fmt: skip
    ours = drawn(RotarySelfAttention(D, H))
    theirs = LlamaAttention(config, 0).double().eval()
    weights, biases = ours.c_attn.weight.chunk(3), ours.c_attn.bias.chunk(3)
    with torch.no_grad():
        for layer, weight, bias in zip((theirs.q_proj, theirs.k_proj), weights, biases, strict=False):
            layer.weight.copy_(of_halves(weight))
            layer.bias.copy_(of_halves(bias))
        theirs.v_proj.weight.copy_(weights[2])
        theirs.v_proj.bias.copy_(biases[2])
    theirs.o_proj.load_state_dict(ours.c_proj.state_dict())
    x = torch.randn(B, T, D, dtype=torch.float64)
    embeddings = LlamaRotaryEmbedding(config)(x, ids_of(positions))
    assert_close(ours(x, positions), theirs(x, embeddings, causal())[0], atol=1e-5, rtol=0.0)


@any_positions
def test_gptj_attention(positions: Tensor | None) -> None:
    """GPT-J's attention, interleaved as ours, with the same weights and without biases."""
    from transformers import GPTJConfig
    from transformers.models.gptj.modeling_gptj import GPTJAttention

    torch.manual_seed(1)
    config = GPTJConfig(n_embd=D, n_head=H, rotary_dim=HEAD, n_positions=16, attn_pdrop=0.0, resid_pdrop=0.0)
    ours = drawn(RotarySelfAttention(D, H, bias=False))
    theirs = GPTJAttention(config, 0).double().eval()
    layers = (theirs.q_proj, theirs.k_proj, theirs.v_proj)
    for layer, weight in zip(layers, ours.c_attn.weight.chunk(3), strict=True):
        layer.weight = nn.Parameter(weight.detach())
    theirs.out_proj.weight = ours.c_proj.weight
    x = torch.randn(B, T, D, dtype=torch.float64)
    expected = theirs(x, attention_mask=causal(torch.float32), position_ids=ids_of(positions).expand(B, -1))[0]
    assert_close(ours(x, positions), expected, atol=1e-5, rtol=0.0)  # their scores are float32


def test_roformer_rotation() -> None:
    """RoFormer, by the authors of the paper: interleaved columns, and a table of sines and cosines in halves."""
    from transformers.models.roformer.modeling_roformer import (
        RoFormerSelfAttention,
        RoFormerSinusoidalPositionalEmbedding,
    )

    table = RoFormerSinusoidalPositionalEmbedding(T, HEAD).create_weight().double()
    query, key = torch.randn(2, B, H, T, HEAD, dtype=torch.float64)
    theirs = RoFormerSelfAttention.apply_rotary_position_embeddings(table, query, key)
    for part, turned in zip((query, key), theirs, strict=True):
        assert_close(apply_rotary(part), turned, atol=1e-5, rtol=0.0)


def test_without_turning_it_is_step_9() -> None:
    """At one and the same position all tokens turn alike, so that the scores are those of plain causal attention."""
    torch.manual_seed(2)
    ours = drawn(RotarySelfAttention(D, H))
    plain = CausalSelfAttention(D, H, T).double()
    plain.load_state_dict(ours.state_dict())
    x = torch.randn(B, T, D, dtype=torch.float64)
    assert_close(ours(x, torch.full((T,), 9)), plain(x), atol=1e-6, rtol=0.0)
    assert_close(ours(x, torch.zeros(T, dtype=torch.int64)), plain(x), atol=1e-12, rtol=0.0)


def test_layouts_of_a_converted_checkpoint() -> None:
    """The permutation with which Llama's own checkpoints are converted for Hugging Face."""
    weight = torch.randn(D, D)
    permuted = weight.view(H, HEAD // 2, 2, D).transpose(1, 2).reshape(D, D)
    assert torch.equal(of_halves(weight), permuted)
    x = torch.randn(2, 3, 10)
    assert torch.equal(to_interleaved(to_half_split(x)), x)
    assert torch.equal(to_half_split(torch.arange(6)), torch.tensor([0, 2, 4, 1, 3, 5]))
