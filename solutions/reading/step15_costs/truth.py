"""The reference of step 15 held against modules that count their own parameters, torch's FLOP counter and published
numbers."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.cache_utils import DynamicCache

from solutions.core.step08_multi_head.reference import MultiHeadAttention
from solutions.core.step10_flash import reference as step10
from solutions.core.step12_gpt.reference import GPT
from solutions.reading.step15_costs.reference import (
    attention_flops,
    attention_matrix_bytes,
    gpt_parameters,
    kv_cache_bytes,
    layer_costs,
    multi_head_attention_parameters,
)


def parameters(module: nn.Module) -> int:
    """How many numbers a module learns, shared ones once."""
    return sum(parameter.numel() for parameter in module.parameters())


def test_gpt2_has_its_published_size() -> None:
    """Hugging Face's GPT-2, small and medium, made without memory on meta."""
    assert gpt_parameters(50257, 1024, 12, 12, 768) == 124_439_808
    for sizes in ((50257, 1024, 12, 12, 768), (50257, 1024, 24, 16, 1024), (11, 5, 3, 2, 6)):
        vocabulary, block, layers, heads, width = sizes
        with torch.device("meta"):
            model = GPT2LMHeadModel(
                GPT2Config(vocab_size=vocabulary, n_positions=block, n_layer=layers, n_head=heads, n_embd=width)
            )
            model.tie_weights()
        assert gpt_parameters(*sizes) == parameters(model)


@pytest.mark.parametrize("bias", (True, False))
def test_parameters_are_those_of_the_modules(bias: bool) -> None:
    """What steps 8 and 12 really make."""
    with torch.device("meta"):
        assert parameters(GPT(11, 5, 3, 2, 6, bias=bias)) == gpt_parameters(11, 5, 3, 2, 6, bias)
        attention = MultiHeadAttention(7, 6, 5, 0.0, 3, qkv_bias=bias)
        assert parameters(attention) == multi_head_attention_parameters(7, 6, 3, bias)
        torchs = nn.MultiheadAttention(6, 3, bias=True)
        assert parameters(torchs) == multi_head_attention_parameters(6, 6, 3, True)


def test_flops_are_what_torch_counts() -> None:
    """torch's counter, on products that it knows: the math kernel of attention."""
    batch, heads, tokens, width = 2, 3, 7, 12
    x = torch.randn(batch, tokens, width)
    matrices = [torch.randn(width, width) for _matrix in range(4)]
    counter = FlopCounterMode(display=False)
    with counter:
        query, key, value = ((x @ matrix).unflatten(-1, (heads, -1)).transpose(1, 2) for matrix in matrices[:3])
    projections = counter.get_total_flops()
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        F.scaled_dot_product_attention(query, key, value)
    both = counter.get_total_flops()
    asked = attention_flops(batch, heads, tokens, width)
    assert asked[0] == projections // 3 * 4
    assert asked[1] + asked[2] == both and asked[1] == asked[2]


def test_matrix_and_cache_take_what_tensors_take() -> None:
    """The bytes of real tensors, of step 10's formula and of transformers' cache."""
    scores = torch.empty(2, 3, 5, 5, dtype=torch.float16)
    assert attention_matrix_bytes(2, 3, 5, 2) == scores.untyped_storage().nbytes()
    assert attention_matrix_bytes(2, 3, 5, 2, 7) == 7 * step10.attention_matrix_bytes(2, 3, 5, 2)
    cache, taken = DynamicCache(), 0
    for layer in range(4):
        pair = cache.update(torch.zeros(2, 3, 5, 6), torch.zeros(2, 3, 5, 6), layer)
        taken += sum(tensor.untyped_storage().nbytes() for tensor in pair)
    assert kv_cache_bytes(2, 5, 4, 3, 6, 4) == taken


def test_table_by_the_reach_of_real_layers() -> None:
    """The first token that a signal reaches, followed through dilated kernels and through windows of r tokens."""
    for k in (2, 3, 5):
        for n in (1, 2, 3, 8, 9, 10, 25, 26, 64, 65):
            reached, layers = 1, 0
            while reached < n or layers == 0:  # a kernel of width k, dilated by what the layers before it reach
                reached, layers = reached + (k - 1) * reached, layers + 1
            assert layer_costs("convolutional", n, 4, k)[2] == layers
    for n, r in ((5, 2), (6, 2), (1, 128), (1000, 128)):
        assert layer_costs("restricted", n, 4, r=r) == (r * n * 4, 1, len(range(0, n, r)))
    assert layer_costs("self-attention", 50, 512) == (50 * 50 * 512, 1, 1)
    assert layer_costs("recurrent", 50, 512) == (50 * 512 * 512, 50, 50)
    assert math.ceil(math.log(125, 5)) == 4 != layer_costs("convolutional", 125, 1, 5)[2]  # why no logarithm
