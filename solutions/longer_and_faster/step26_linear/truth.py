"""What proves the reference of step 26: a worked example, the paper's formula, and other orders of the same sums."""

import math

import pytest
import torch

from solutions.longer_and_faster.step26_linear.reference import feature_map, linear_attention, linear_attention_step


def test_feature_map_is_that_of_the_paper() -> None:
    """elu(x) + 1 of Katharopoulos et al., equation 7, at points worked out by hand, and as torch's own celu has it."""
    x = torch.tensor([-math.log(4.0), -math.log(2.0), 0.0, 1.5], dtype=torch.float64)
    torch.testing.assert_close(feature_map(x), torch.tensor([0.25, 0.5, 1.0, 2.5], dtype=torch.float64))
    many = torch.randn(100, dtype=torch.float64)
    torch.testing.assert_close(feature_map(many), torch.nn.CELU(alpha=1.0)(many) + 1)


@pytest.mark.thorough
@pytest.mark.parametrize(("tokens", "is_causal"), [(5, False), (5, True), (33, True), (100, True)])
def test_context_is_that_of_the_formula(tokens: int, is_causal: bool) -> None:
    """Equation 4 of the paper, written out pair by pair, gives the same context and gradients."""
    torch.manual_seed(1)
    query, key, value = (torch.randn(2, 2, tokens, 3, dtype=torch.float64, requires_grad=True) for _input in range(3))
    rows = []
    for i in range(tokens):
        seen = range(i + 1 if is_causal else tokens)
        similar = [(feature_map(query[:, :, i]) * feature_map(key[:, :, j])).sum(-1, keepdim=True) for j in seen]
        rows.append(sum(w * value[:, :, j] for w, j in zip(similar, seen, strict=True)) / sum(similar))
    theirs = torch.stack(rows, dim=2)
    ours = linear_attention(query, key, value, is_causal)
    torch.testing.assert_close(ours, theirs)
    pattern = torch.randn_like(ours)
    given = torch.autograd.grad((theirs * pattern).sum(), (query, key, value))
    torch.testing.assert_close(torch.autograd.grad((ours * pattern).sum(), (query, key, value)), given)


def test_a_recurrent_network_gives_the_same() -> None:
    """Section 3.4 of the paper: causal linear attention is a recurrent network, one token after the other."""
    torch.manual_seed(2)
    query, key, value = (torch.randn(2, 2, 40, 4, dtype=torch.float64) for _input in range(3))
    state, outputs = None, []
    for token in range(40):
        output, state = linear_attention_step(query[:, :, token], key[:, :, token], value[:, :, token], state)
        outputs.append(output)
    torch.testing.assert_close(torch.stack(outputs, dim=2), linear_attention(query, key, value, is_causal=True))
    products = torch.einsum("bhtd,bhtv->bhdv", feature_map(key), value)
    torch.testing.assert_close(state, (products, feature_map(key).sum(dim=2)))


def test_equal_features_average() -> None:
    """Where all keys are alike every context is the mean of the values, as with any attention."""
    value = torch.randn(1, 1, 6, 2, dtype=torch.float64)
    query, key = torch.randn(1, 1, 6, 3, dtype=torch.float64), torch.full((1, 1, 6, 3), 0.3, dtype=torch.float64)
    torch.testing.assert_close(linear_attention(query, key, value), value.mean(dim=2, keepdim=True).expand_as(value))
    counts = torch.arange(1, 7, dtype=torch.float64)[:, None]
    torch.testing.assert_close(linear_attention(query, key, value, True), value.cumsum(dim=2) / counts)
