"""The reference of step 19 is right: held against the paper's equations in plain Python, and torch's own attention."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.testing import assert_close

from solutions.encoder_decoder.step19_additive.reference import AdditiveAttention, SingleHeadCrossAttention

DOUBLE = torch.float64


def _drawn(batch: int = 3, positions: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    # A state of width 4, keys of width 2 and a mask for each sequence.
    torch.manual_seed(0)
    mask = torch.rand(batch, positions) < 0.5
    mask[:, 0] = True
    return torch.randn(batch, 4, dtype=DOUBLE), torch.randn(batch, positions, 2, dtype=DOUBLE), mask


def _by_equations(state: list[float], keys: list[list[float]], module: AdditiveAttention) -> list[float]:
    # Weights as Bahdanau, Cho and Bengio (2015) write them, section 3.1 and appendix A.1.2, number by number.
    W, U, v = (layer.weight.tolist() for layer in (module.W_a, module.U_a, module.v_a))
    scores = []
    for key in keys:
        total = 0.0
        for unit in range(len(W)):
            inner = sum(w * s for w, s in zip(W[unit], state, strict=True))
            inner += sum(u * h for u, h in zip(U[unit], key, strict=True))
            total += v[0][unit] * math.tanh(inner)
        scores.append(total)
    powers = [math.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


def _by_torchs_attention(scores: Tensor, states: Tensor, mask: Tensor | None) -> Tensor:
    # The context that torch's attention makes of the scores, given to it as a bias on queries and keys of zeros.
    bias = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    zeros = torch.zeros_like(states)
    return F.scaled_dot_product_attention(zeros[:, :1], zeros, states, attn_mask=bias.unsqueeze(1)).squeeze(1)


def test_additive_weights_are_the_papers() -> None:
    """The equations, in plain Python."""
    query, keys, _mask = _drawn()
    module = AdditiveAttention(4, 2, 6).double()
    _context, weights = module(query, keys)
    expected = [_by_equations(*row, module) for row in zip(query.tolist(), keys.tolist(), strict=True)]
    assert_close(weights, torch.tensor(expected, dtype=DOUBLE))


@pytest.mark.parametrize("masked", (False, True))
def test_additive_context_is_torchs(masked: bool) -> None:
    """scaled_dot_product_attention with the scores as a bias, which a convolution over the positions makes."""
    query, keys, drawn = _drawn()
    mask = drawn if masked else None
    module = AdditiveAttention(4, 2, 6).double()
    projected = F.conv1d(keys.mT, module.U_a.weight.unsqueeze(-1)) + (query @ module.W_a.weight.T).unsqueeze(-1)
    scores = F.conv1d(projected.tanh(), module.v_a.weight.unsqueeze(-1)).squeeze(1)
    context, weights = module(query, keys, mask)
    assert_close(context, _by_torchs_attention(scores, keys, mask))
    if mask is not None:
        assert (weights[~mask] == 0).all()


@pytest.mark.parametrize("masked", (False, True))
def test_single_head_is_torchs(masked: bool) -> None:
    """A bilinear layer's bias and torch's attention, for weights, context and what they do not depend on."""
    state, outputs, drawn = _drawn()
    mask = drawn if masked else None
    module = SingleHeadCrossAttention(2, 4).double()
    context, weights = module(outputs, state, mask)
    joined = nn.functional.pad(outputs, (0, 4))
    joined[..., 2:] += state.unsqueeze(1)
    scores = F.conv1d(joined.mT, module.attention_layer.weight.unsqueeze(-1), module.attention_layer.bias).squeeze(1)
    assert_close(context, _by_torchs_attention(scores, outputs, mask))
    other_context, other_weights = module(outputs, 3 * state + 1, mask)
    assert_close(weights, other_weights)
    assert_close(context, other_context)


def test_gradients_are_difference_quotients() -> None:
    """torch's gradcheck."""
    query, keys, mask = _drawn(2, 3)
    query.requires_grad_(), keys.requires_grad_()
    assert gradcheck(AdditiveAttention(4, 2, 3).double(), (query, keys, mask))
    assert gradcheck(SingleHeadCrossAttention(2, 4).double(), (keys, query, mask))
