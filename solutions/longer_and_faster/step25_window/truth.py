"""What proves the reference of step 25: other people's code gives the same numbers."""

import pytest
import torch
import torch.nn.functional as F
from transformers import LongformerConfig, MistralConfig
from transformers.masking_utils import sliding_window_causal_mask_function
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

from solutions.longer_and_faster.step25_window.reference import window_attention, window_mask


@pytest.mark.parametrize(("tokens", "window"), [(7, 1), (9, 3), (16, 4), (5, 8)])
def test_mask_is_mistrals(tokens: int, window: int) -> None:
    """Mistral's sliding window hides the same keys, bit for bit."""
    sees = sliding_window_causal_mask_function(MistralConfig(sliding_window=window).sliding_window)
    theirs = [[bool(sees(0, 0, i, j)) for j in range(tokens)] for i in torch.arange(tokens)]
    assert torch.equal(window_mask(tokens, window), torch.tensor(theirs))


@pytest.mark.parametrize(
    ("window", "is_causal", "num_global"), [(3, True, 0), (4, False, 0), (2, True, 2), (3, False, 3)]
)
def test_context_is_the_built_ins(window: int, is_causal: bool, num_global: int) -> None:
    """scaled_dot_product_attention under the whole mask gives the same context and gradients."""
    torch.manual_seed(1)
    query, key, value = (torch.randn(2, 3, 17, 8, dtype=torch.float64, requires_grad=True) for _input in range(3))
    mask = window_mask(17, window, is_causal, num_global)
    theirs = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    ours = window_attention(query, key, value, window, is_causal, num_global)
    torch.testing.assert_close(ours, theirs)
    pattern = torch.randn_like(ours)
    given = torch.autograd.grad((theirs * pattern).sum(), (query, key, value))
    torch.testing.assert_close(torch.autograd.grad((ours * pattern).sum(), (query, key, value)), given)


@pytest.mark.parametrize("num_global", [0, 1, 3])
def test_context_is_longformers(num_global: int) -> None:
    """Longformer's own attention, its attention_window 2 * (window - 1), gives the same context."""
    torch.manual_seed(2)
    tokens, window, heads, width = 16, 3, 2, 4
    config = LongformerConfig(
        hidden_size=heads * width,
        num_attention_heads=heads,
        attention_window=[2 * (window - 1)],
        num_hidden_layers=1,
        attention_probs_dropout_prob=0.0,
    )
    layer = LongformerSelfAttention(config, 0).eval()
    for name in ("query", "key", "value"):  # global tokens have matrices of their own there
        getattr(layer, f"{name}_global").load_state_dict(getattr(layer, name).state_dict())
    x = torch.randn(2, tokens, heads * width)
    is_global = (torch.arange(tokens) < num_global).expand(2, -1)
    kind = torch.where(is_global, 10000.0, 0.0)  # - hidden, 0 local, + global
    theirs = layer(
        x,
        attention_mask=kind,
        is_index_masked=torch.zeros_like(is_global),
        is_index_global_attn=is_global,
        is_global_attn=bool(num_global),
    )[0]
    query, key, value = (
        getattr(layer, name)(x).unflatten(-1, (heads, width)).transpose(1, 2) for name in ("query", "key", "value")
    )
    ours = window_attention(query, key, value, window, False, num_global).transpose(1, 2).flatten(2)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-6)
