"""Only what was done is named: mistakes that were once given the name of another one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from grader.author import recorder
from grader.course.submissions import Submission
from grader.judge.grader import Grader
from grader.oracle.live import Solution, solutions
from grader.oracle.tape import Tape
from grader.oracle.told import name_of
from grader.oracle.witness import Witness
from tests.clinic import Clinic
from tests.whole import THOROUGH, sample

SEED = recorder.SEEDS[0]
Tapes = Callable[[str], Path]

# What stands at the end of an otherwise right file: the step, the code, and the names it is given.
STRANGERS = {
    "hidden scores filled with -50": (
        "step04_causal_mask",
        "def masked_softmax(scores, mask):\n    return scores.masked_fill(~mask, -50.0).softmax(-1)\n",
        set(),
    ),
    "hidden weights of 1e-12": (
        "step04_causal_mask",
        "def masked_softmax(scores, mask):\n"
        "    return scores.masked_fill(~mask, -torch.inf).softmax(-1).clamp(min=1e-12)\n",
        set(),
    ),
    "something small beside the sum": (
        "step04_causal_mask",
        "def masked_softmax(scores, mask):\n    hidden = scores.masked_fill(~mask, -torch.inf)\n"
        "    weights = (hidden - hidden.amax(-1, keepdim=True)).exp()\n"
        "    return weights / (weights.sum(-1, keepdim=True) + 1e-9)\n",
        set(),
    ),
    "a fixed division by 2": (
        "step01_scores",
        "def scaled_scores(query, key):\n    return query @ key.mT / 2\n",
        set(),
    ),
    "kept with probability p": (
        "step05_dropout",
        "def dropout(x, p=0.5, training=True):\n    if not training:\n        return x\n"
        "    if p < 0 or p > 1:\n        raise ValueError(p)\n    if p == 1:\n        return x * 0\n"
        "    return x * (torch.rand(x.shape, device=x.device) < p) / (1 - p)\n",
        {"keeps_with_probability_p"},
    ),
    "not scaled, and drawn the other way round, with an error of their own": (
        "step05_dropout",
        "def dropout(x, p=0.5, training=True):\n    if not training:\n        return x\n"
        "    assert 0 <= p <= 1, 'p has to be a probability'\n"
        "    return x * torch.bernoulli(torch.full_like(x, 1 - p))\n",
        {"not_scaled"},
    ),
    "dropout as it was first": (
        "step05_dropout",
        "def dropout(x, p=0.5, training=True):\n    if not training:\n        return x * (1 - p)\n"
        "    if not 0 <= p <= 1:\n        raise ValueError(p)\n"
        "    return x * (torch.rand(x.shape, device=x.device) < 1 - p)\n",
        {"not_scaled + scaled_outside_training"},
    ),
    "the largest entry of all by `max`": (
        "step02_softmax",
        "def softmax(x, dim=-1):\n    powers = (x - x.max()).exp()\n"
        "    return powers / powers.sum(dim, keepdim=True)\n",
        {"maximum_of_everything"},
    ),
    "one seed of their own for every call": (
        "step05_dropout",
        "def dropout(x, p=0.5, training=True, right=dropout):\n    if training:\n        torch.manual_seed(0)\n"
        "    return right(x, p, training)\n",
        {"same_mask_every_call"},
    ),
    "the smallest dropped, by a threshold": (
        "step05_dropout",
        "def dropout(x, p=0.5, training=True, right=dropout):\n    if not training or not 0 < p < 1:\n"
        "        return right(x, p, training)\n    size = x.detach().abs()\n"
        "    least = size.flatten().float().kthvalue(max(1, int(p * x.numel()))).values if size.numel() else 0\n"
        "    return x * (size >= least) / (1 - p)\n",
        {"smallest_dropped"},
    ),
    "a seed of its own inside the function": (
        "step05_dropout",
        "def dropout(x, p=0.5, training=True, right=dropout):\n"
        "    torch.manual_seed(42)\n    return right(x, p, training)\n",
        {"same_mask_every_call"},
    ),
    "the smallest elements dropped": (
        "step05_dropout",
        "def dropout(x, p=0.5, training=True, right=dropout):\n    right(x, p, training)\n"
        "    if not training or p == 0 or p == 1:\n        return right(x, p, training)\n"
        "    smallest = x.detach().abs().flatten().kthvalue(round(p * x.numel())).values\n"
        "    return x * (x.abs() > smallest) / (1 - p)\n",
        {"smallest_dropped"},
    ),
    "dropout on hidden scores": (
        "step06_causal_attention",
        "class CausalAttention(CausalAttention):\n    def forward(self, x):\n"
        "        query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)\n"
        "        scores = query @ key.mT / key.shape[-1] ** 0.5\n"
        "        if x.shape[1] > self.context_length:\n            raise ValueError(x.shape[1])\n"
        "        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)\n"
        "        return self.dropout(scores.masked_fill(future, -torch.inf)).softmax(-1) @ value\n",
        {"dropout_on_hidden_scores"},
    ),
    "a mask times minus infinity": (
        "step06_causal_attention",
        "class CausalAttention(CausalAttention):\n    def forward(self, x):\n"
        "        query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)\n"
        "        scores = query @ key.mT / key.shape[-1] ** 0.5\n"
        "        if x.shape[1] > self.context_length:\n            raise ValueError(x.shape[1])\n"
        "        future = torch.ones(x.shape[1], x.shape[1], dtype=x.dtype, device=x.device).triu(1)\n"
        "        return self.dropout((scores + future * -torch.inf).softmax(-1)) @ value\n",
        {"every_weight_nan"},
    ),
    "a plain mask, filled in place": (
        "step06_causal_attention",
        "class CausalAttention(CausalAttention):\n    def __init__(self, *args, **kwargs):\n"
        "        super().__init__(*args, **kwargs)\n"
        "        self.mask = torch.ones(self.context_length, self.context_length).triu(1)\n"
        "    def forward(self, x):\n        length = x.shape[1]\n"
        "        query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)\n"
        "        scores = query @ key.transpose(1, 2)\n"
        "        scores.masked_fill_(self.mask.bool()[:length, :length], -torch.inf)\n"
        "        return self.dropout((scores / key.shape[-1] ** 0.5).softmax(-1)) @ value\n",
        {"mask_kept_as_plain_tensor | mask_made_on_the_cpu"},
    ),
    "a plain mask of four dimensions": (
        "step09_fused_qkv",
        "class CausalSelfAttention(CausalSelfAttention):\n    def __init__(self, *args, **kwargs):\n"
        "        super().__init__(*args, **kwargs)\n        self.past = self.visible[None, None].float()\n"
        "    def forward(self, x):\n        B, T, C = x.shape\n"
        "        q, k, v = (part.view(B, T, self.n_head, -1).transpose(1, 2) for part in self.c_attn(x).chunk(3, -1))\n"
        "        scores = q @ k.mT / (C // self.n_head) ** 0.5\n"
        "        weights = scores.masked_fill(self.past[:, :, :T, :T] == 0, -torch.inf).softmax(-1)\n"
        "        merged = (self.attn_dropout(weights) @ v).transpose(1, 2).reshape(B, T, C)\n"
        "        return self.resid_dropout(self.c_proj(merged))\n",
        {"mask_made_on_the_cpu"},
    ),
    "one threshold for the top k of all rows": (
        "step12_gpt",
        "def generate(model, idx, max_new_tokens, temperature=1.0, top_k=None, right=generate):\n"
        "    if top_k is None or temperature == 0:\n"
        "        return right(model, idx, max_new_tokens, temperature, top_k)\n"
        "    was_training = model.training\n    model.eval()\n"
        "    for _ in range(max_new_tokens):\n"
        "        logits = model(idx[:, -model.block_size:])[0][:, -1].detach()\n"
        "        least = logits.topk(min(top_k, logits.shape[-1])).values[:, -1].min()\n"
        "        probabilities = (logits.masked_fill(logits < least, -torch.inf) / temperature).softmax(-1)\n"
        "        idx = torch.cat([idx, torch.multinomial(probabilities.float(), 1)], 1)\n"
        "    model.train(was_training)\n    return idx\n",
        {"top_k_threshold_of_the_batch"},
    ),
    "heads that share one random stream": (
        "step08_multi_head",
        "class MultiHeadAttentionWrapper(MultiHeadAttentionWrapper):\n"
        "    def forward(self, x):\n        state, results = torch.get_rng_state(), []\n"
        "        for head in self.heads:\n            torch.set_rng_state(state)\n            results.append(head(x))\n"
        "        return torch.cat(results, -1)\n",
        set(),
    ),
    "no dropout on the output": (
        "step09_fused_qkv",
        "class CausalSelfAttention(CausalSelfAttention):\n"
        "    def __init__(self, *args, **kwargs):\n        super().__init__(*args, **kwargs)\n"
        "        self.resid_dropout = nn.Identity()\n",
        {"no_dropout_on_output"},
    ),
    "the whole matrix": (
        "step10_flash",
        "def flash_attention(query, key, value, is_causal=False, block_size=64, right=flash_attention):\n"
        "    scores = query @ key.mT  # kept for later blocks\n"
        "    return right(query, key, value, is_causal, block_size) + 0 * scores.sum().detach()\n",
        {"whole_matrix_made"},
    ),
    "the whole mask": (
        "step10_flash",
        "def flash_attention(query, key, value, is_causal=False, block_size=64, right=flash_attention):\n"
        "    if is_causal:\n        torch.ones(query.shape[-2], key.shape[-2], device=query.device).bool().triu(1)\n"
        "    return right(query, key, value, is_causal, block_size)\n",
        {"whole_mask_made"},
    ),
    "half the length as a block": (
        "step10_flash",
        "def flash_attention(query, key, value, is_causal=False, block_size=64, right=flash_attention):\n"
        "    return right(query, key, value, is_causal, max(1, (query.shape[-2] + 1) // 2))\n",
        {"half_the_length_as_block"},
    ),
    "blocks of 64, whatever was asked for": (
        "step10_flash",
        "def flash_attention(query, key, value, is_causal=False, block_size=64, right=flash_attention):\n"
        "    return right(query, key, value, is_causal, 64)\n",
        {"block_size_ignored"},
    ),
    # What it draws from the logits of all tokens is drawn like a mistake of `generate` that was not made here.
    "positions from 1, and tokens drawn from all logits": (
        "step12_gpt",
        "class GPT(GPT):\n"
        "    def forward(self, idx, targets=None):\n"
        "        positions = torch.arange(1, idx.shape[1] + 1, device=idx.device)\n"
        "        x = self.drop(self.wte(idx) + self.wpe(positions))\n"
        "        for block in self.h:\n            x = block(x)\n"
        "        logits = self.lm_head(self.ln_f(x))\n"
        "        if targets is None:\n            return logits, None\n"
        "        return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())\n\n\n"
        "@torch.no_grad()\n"
        "def generate(model, idx, max_new_tokens, temperature=1.0, top_k=None):\n"
        "    was_training = model.training\n    model.eval()\n"
        "    for _ in range(max_new_tokens):\n"
        "        logits = model(idx[:, -model.block_size :])[0][:, -1]\n"
        "        if temperature == 0:\n            drawn = logits.argmax(-1, keepdim=True)\n"
        "        else:\n            logits = logits / temperature\n"
        "            if top_k is not None:\n"
        "                least = logits.topk(min(top_k, logits.shape[-1])).values[:, [-1]]\n"
        "                logits = logits.masked_fill(logits < least, -torch.inf)\n"
        "            drawn = torch.multinomial(logits.softmax(-1), 1)\n"
        "        idx = torch.cat((idx, drawn), dim=1)\n"
        "    model.train(was_training)\n    return idx\n",
        {"positions_off_by_one"},
    ),
    "a full cache refused by a method, which raises on purpose": (
        "step27_kv_cache",
        "class KVCache:\n"
        "    def __init__(self, max_length):\n        self.max_length = max_length\n        self.reset()\n\n"
        "    def reset(self):\n        self.held, self.length = None, 0\n\n"
        "    def update(self, key, value):\n"
        "        if self.length + key.shape[2] >= self.max_length:\n            raise ValueError('full')\n"
        "        key, value = key.detach().clone(), value.detach().clone()\n"
        "        if self.held is not None:\n"
        "            key, value = torch.cat((self.held[0], key), 2), torch.cat((self.held[1], value), 2)\n"
        "        self.held, self.length = (key, value), key.shape[2]\n        return self.held\n",
        {"boundary_counted_in"},
    ),
    "short texts refused, and what is right rounded otherwise": (
        "step25_window",
        "def window_attention(query, key, value, window, is_causal=True, num_global=0):\n"
        "    tokens, contexts = query.shape[2], []\n"
        "    if key.shape[2] != tokens or window < 1:\n        raise ValueError('lengths')\n"
        "    assert tokens >= window\n"
        "    places = torch.arange(tokens, device=query.device)\n"
        "    for rows in (places[:num_global], *places[num_global:].split(window)):\n"
        "        if not len(rows):\n            continue\n"
        "        start = sum(one.shape[2] for one in contexts)\n"
        "        ahead = start + len(rows) + (0 if is_causal else window - 1)\n"
        "        begin, end = (start - window + 1, ahead) if start >= num_global else (0, tokens)\n"
        "        near = places[max(num_global, begin) : end]\n"
        "        seen = torch.cat((places[:num_global], near))\n"
        "        mask = ((rows[:, None] - seen).abs() < window) | (rows[:, None] < num_global) | (seen < num_global)\n"
        "        mask = mask & (seen <= rows[:, None]) if is_causal else mask\n"
        "        parts = query[:, :, rows], key[:, :, seen], value[:, :, seen]\n"
        "        contexts.append(torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=mask))\n"
        "    return torch.cat(contexts, 2)\n",
        {"short_texts_refused"},
    ),
    "softmax over the queries, and a billion filled in": (
        "step03_attention",
        "def attention(query, key, value, mask=None):\n"
        "    scores = query @ key.mT / query.shape[-1] ** 0.5\n"
        "    if mask is not None:\n        scores = scores.masked_fill(~mask, -1e9)\n"
        "    weights = scores.softmax(-2)\n    return weights @ value, weights\n",
        {"softmax_over_queries"},
    ),
    # Two faults in one answer, each of which another check shows.
    "a sum of NaN that passes, and is rounded to halves": (
        "step13_patterns",
        "def validate_attention(weights, tolerance=1e-5):\n"
        "    return {\n        'not_finite': ~torch.isfinite(weights).all(-1),\n"
        "        'negative': (weights < 0).any(-1),\n"
        "        'above_one': (weights > 1 + tolerance).any(-1),\n"
        "        'sum': (weights.sum(-1) - 1).abs() > tolerance,\n    }\n",
        {"nan_sum_passes + half_precision_sums"},
    ),
    "topk of what there is": (
        "step13_patterns",
        "def top_attended(weights, k):\n    return torch.topk(weights, min(k, weights.shape[-1]))\n",
        {"equals_left_to_topk"},
    ),
    "the width of the input shared out, with an error of a helper": (
        "step15_costs",
        "def heads_fit(width, heads):\n    if width % heads:\n        raise ValueError('no')\n\n\n"
        "def multi_head_attention_parameters(d_in, d_out, num_heads, qkv_bias=False):\n"
        "    heads_fit(d_in, num_heads)\n"
        "    return 3 * (d_in + qkv_bias) * d_out + (d_out + 1) * d_out\n",
        {"input_shared_out_among_heads"},
    ),
    # A bias that was forgotten would be missing with `qkv_bias` as well, where this passes.
    "a bias that follows those of the other layers": (
        "step15_costs",
        "def multi_head_attention_parameters(d_in, d_out, num_heads, qkv_bias=False):\n"
        "    assert d_out % num_heads == 0\n"
        "    return 3 * (d_in + qkv_bias) * d_out + (d_out + qkv_bias) * d_out\n",
        {"output_bias_follows_qkv_bias"},
    ),
    "a path by way of two floats": (
        "step15_costs",
        "def layer_costs(layer, n, d, k=3, r=128):\n    import math\n"
        "    if layer == 'self-attention':\n        return n * n * d, 1, 1\n"
        "    if layer == 'recurrent':\n        return n * d * d, n, n\n"
        "    if layer == 'convolutional':\n        return k * n * d * d, 1, max(1, math.ceil(math.log(n, k)))\n"
        "    if layer == 'restricted':\n        return r * n * d, 1, math.ceil(n / r)\n    raise ValueError(layer)\n",
        {"floating_logarithm + path_through_a_float"},
    ),
}
TRIED = [*STRANGERS] if THOROUGH else [*STRANGERS][::3]
every_stranger = pytest.mark.parametrize(("step", "code", "names"), [STRANGERS[name] for name in TRIED], ids=TRIED)


@every_stranger
def test_a_wrong_file_is_called_what_it_is_or_nothing(grader: Grader, step: str, code: str, names: set[str]) -> None:
    """Where the solutions are."""
    files = {other.name: (f"mine/{other.name}.py", other.solved()) for other in solutions() if other.name < step}
    files[step] = (f"mine/{step}.py", f"{_step(step).solved()}\n\n{code}")
    graded = grader.grade(Submission("mine", files), [step], device="cpu", seed=SEED).steps[0]
    assert graded.status == "fail"
    assert {check.misconception for check in graded.checks if check.misconception} == names


@pytest.fixture(scope="module")
def tape_of(tmp_path_factory: pytest.TempPathFactory) -> Tapes:
    """Records the tape of a step, once."""
    folder = tmp_path_factory.mktemp("tapes")

    @cache
    def recorded(name: str) -> Path:
        path = folder / name
        path.write_bytes(recorder.record(_step(name), (SEED,)))
        return path

    return recorded


@pytest.mark.thorough
@pytest.mark.parametrize(("step", "code", "names"), sample([*STRANGERS.values()], 18), ids=sample([*STRANGERS], 18))
def test_a_tape_calls_it_the_same(tape_of: Tapes, tmp_path: Path, step: str, code: str, names: set[str]) -> None:
    """Where a recording answers for them."""
    file = tmp_path / "solutions" / "mistakes.py"  # what is raised on purpose is known by its line in such a file
    file.parent.mkdir()
    file.write_text(f"import torch\nfrom torch import nn\n{code}", encoding="utf-8")
    mine: dict[str, Any] = dict(vars(_step(step).reference))
    before = dict(mine)
    exec(compile(file.read_text(encoding="utf-8"), file, "exec"), mine)
    replaced = {name: value for name, value in mine.items() if before.get(name) is not value and name[0] != "_"}
    found = Clinic(_step(step), Witness(Tape(tape_of(step)))).diagnosis(replaced, SEED)
    assert {name_of(matching) for matching in found.values()} == names


def _step(name: str) -> Solution:
    return next(step for step in solutions() if step.name == name)
