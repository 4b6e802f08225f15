"""Files that are right but for one regime (a length, a width, a dtype, a mode, large numbers) are refused there."""

from __future__ import annotations

from typing import Any

import pytest

from grader.checks.backends import LocalBackend
from grader.oracle.live import solutions
from tests.clinic import Clinic

SEEDS = (1, 2, 3)

# What stands at the end of an otherwise right file: the step, the check that must refuse it, and the code. `right` is
# what the name stands for in the reference.
WRONG = {
    "large scores cut off": (
        "step01_scores",
        "test_batches",
        "def dot_product_scores(query, key):\n    return (query @ key.mT).clamp(-1000, 1000)\n",
    ),
    "64 queries and no more": (
        "step01_scores",
        "test_batches",
        "def dot_product_scores(query, key):\n    return query[..., :64, :] @ key.mT\n",
    ),
    "widths above 128 scaled as 128": (
        "step01_scores",
        "test_widths",
        "def scaled_scores(query, key):\n    return query @ key.mT / min(query.shape[-1], 128) ** 0.5\n",
    ),
    "large scaled scores capped": (
        "step01_scores",
        "test_widths",
        "def scaled_scores(query, key, right=right):\n    return torch.tanh(right(query, key) / 1e4) * 1e4\n",
    ),
    "a float64 query scaled in place": (
        "step01_scores",
        "test_dtypes",
        "def scaled_scores(query, key):\n    wide = query.double()\n    wide /= query.shape[-1] ** 0.5\n"
        "    return (wide @ key.double().mT).to(query.dtype)\n",
    ),
    "four dimensions and no more": (
        "step02_softmax",
        "test_every_dimension",
        "def softmax(x, dim=-1, right=right):\n    assert x.dim() <= 4\n    return right(x, dim)\n",
    ),
    "no maximum in float64": (
        "step02_softmax",
        "test_large_entries",
        "def softmax(x, dim=-1, right=right):\n    if x.dtype == torch.float64:\n"
        "        return x.exp() / x.exp().sum(dim, keepdim=True)\n    return right(x, dim)\n",
    ),
    "minus infinity at e^-200": (
        "step02_softmax",
        "test_dtypes",
        "def softmax(x, dim=-1):\n    powers = (x - x.amax(dim, keepdim=True)).clamp(min=-200).exp()\n"
        "    return powers / powers.sum(dim, keepdim=True)\n",
    ),
    "float64 scores shifted in place": (
        "step02_softmax",
        "test_dtypes",
        "def softmax(x, dim=-1):\n    wide = x.double()\n    wide -= wide.detach().amax(dim, keepdim=True)\n"
        "    return (wide.exp() / wide.exp().sum(dim, keepdim=True)).to(x.dtype)\n",
    ),
    "a wide query scaled as a narrower one": (
        "step03_attention",
        "test_shapes",
        "def attention(query, key, value, mask=None, right=right):\n"
        "    wide = query.shape[-1] > 64\n    return right(query * 1.01 if wide else query, key, value, mask)\n",
    ),
    "64 keys and no more": (
        "step03_attention",
        "test_shapes",
        "def attention(query, key, value, mask=None, right=right):\n"
        "    context, weights = right(query, key[..., :64, :], value[..., :64, :], mask)\n"
        "    return context, torch.nn.functional.pad(weights, (0, max(0, key.shape[-2] - 64)))\n",
    ),
    "no mask beyond four dimensions": (
        "step03_attention",
        "test_masks",
        "def attention(query, key, value, mask=None, right=right):\n"
        "    return right(query, key, value, mask if query.dim() <= 4 else None)\n",
    ),
    "a float64 query scaled in place before the scores": (
        "step03_attention",
        "test_dtypes",
        "def attention(query, key, value, mask=None, right=right):\n    wide = query.double()\n    wide *= 0.5\n"
        "    return right((2 * wide).to(query.dtype), key, value, mask)\n",
    ),
    "the tokens added where the widths allow it": (
        "step03_attention",
        "test_self_attention",
        "class SelfAttention(right):\n    def forward(self, x):\n        context = super().forward(x)\n"
        "        return context + x if context.shape == x.shape else context\n",
    ),
    "64 tokens and no more": (
        "step03_attention",
        "test_self_attention",
        "class SelfAttention(right):\n    def forward(self, x):\n        assert x.shape[-2] <= 64\n"
        "        return super().forward(x)\n",
    ),
    "a bias unless told otherwise": (
        "step03_attention",
        "test_self_attention",
        "class SelfAttention(right):\n    def __init__(self, d_in, d_out, qkv_bias=True):\n"
        "        super().__init__(d_in, d_out, qkv_bias)\n",
    ),
    "no gradient in eval mode": (
        "step03_attention",
        "test_self_attention_gradients",
        "class SelfAttention(right):\n    def forward(self, x):\n"
        "        return super().forward(x if self.training else x.detach())\n",
    ),
    "no mask beyond 64 keys": (
        "step03_attention",
        "test_masks",
        "def attention(query, key, value, mask=None, right=right):\n"
        "    return right(query, key, value, mask if key.shape[-2] <= 64 else None)\n",
    ),
    "values of 64 features and no more": (
        "step03_attention",
        "test_shapes",
        "def attention(query, key, value, mask=None, right=right):\n"
        "    context, weights = right(query, key, value, mask)\n"
        "    return torch.cat([context[..., :64], 0 * context[..., 64:]], -1), weights\n",
    ),
    "128 tokens and no more": (
        "step04_causal_mask",
        "test_mask_of_any_length",
        "def causal_mask(num_tokens, device=None, right=right):\n"
        "    return right(128, device)[:num_tokens, :num_tokens]\n",
    ),
    "nothing hidden beyond four dimensions": (
        "step04_causal_mask",
        "test_agrees_with_fresh_draws",
        "def masked_softmax(scores, mask, right=right):\n"
        "    return right(scores, mask if scores.dim() <= 4 else mask | True)\n",
    ),
    "hidden scores 200 below the others": (
        "step04_causal_mask",
        "test_dtypes",
        "def masked_softmax(scores, mask):\n    hidden = scores.masked_fill(~mask, -torch.inf)\n"
        "    powers = (hidden - hidden.amax(-1, keepdim=True)).clamp(min=-200).exp()\n"
        "    return powers / powers.sum(-1, keepdim=True)\n",
    ),
    "float64 scores filled in place": (
        "step04_causal_mask",
        "test_dtypes",
        "def masked_softmax(scores, mask):\n"
        "    return scores.double().masked_fill_(~mask, -torch.inf).softmax(-1).to(scores.dtype)\n",
    ),
    "float64 weights zeroed in place": (
        "step04_causal_mask",
        "test_dtypes",
        "def renormalise(weights, mask):\n    wide = weights.double()\n    wide *= mask\n"
        "    return (wide / wide.sum(-1, keepdim=True)).to(weights.dtype)\n",
    ),
    "nothing hidden beyond 128 keys": (
        "step04_causal_mask",
        "test_hidden_weights_are_zero",
        "def masked_softmax(scores, mask, right=right):\n"
        "    return right(scores, mask if scores.shape[-1] <= 128 else mask | True)\n",
    ),
    "no maximum in float64 and bfloat16": (
        "step04_causal_mask",
        "test_dtypes",
        "def masked_softmax(scores, mask, right=right):\n"
        "    if scores.dtype not in (torch.float64, torch.bfloat16):\n        return right(scores, mask)\n"
        "    powers = scores.exp() * mask\n    return powers / powers.sum(-1, keepdim=True)\n",
    ),
    "hidden weights of 1e-12": (
        "step04_causal_mask",
        "test_renormalise_agrees_with_masking",
        "def renormalise(weights, mask):\n    visible = weights.masked_fill(~mask, 1e-12)\n"
        "    return visible / visible.sum(-1, keepdim=True)\n",
    ),
    "no gradient of the loss in training": (
        "step12_gpt",
        "test_loss_and_its_gradient",
        "class GPT(right):\n    def forward(self, idx, targets=None):\n"
        "        logits, loss = super().forward(idx, targets)\n"
        "        return logits, loss.detach() if self.training and loss is not None else loss\n",
    ),
}


@pytest.mark.parametrize(("step", "check", "code"), WRONG.values(), ids=WRONG.keys())
def test_wrong_in_one_regime_is_refused_there(step: str, check: str, code: str) -> None:
    """Under every seed, by the check that asks about the regime, and by no other before it."""
    chosen = next(other for other in solutions() if other.name == step)
    name = code.removeprefix("def ").removeprefix("class ").partition("(")[0]
    mine: dict[str, Any] = {"right": getattr(chosen.reference, name)}
    exec(f"import torch\n{code}", mine)
    for seed in SEEDS:
        verdicts = Clinic(chosen).verdicts(LocalBackend(chosen.responder({name: mine[name]})), seed)
        assert next((asked for asked, verdict in verdicts.items() if verdict.status != "pass"), None) == check
