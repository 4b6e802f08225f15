"""Mistakes that learners make together in step 11."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from grader.checks.catalogue import together
from solutions.core.step11_gpt_block import reference
from solutions.core.step11_gpt_block.misconceptions.block import (
    attention_not_added,
    attention_without_norm,
    mlp_not_added,
    one_norm_for_both,
    post_norm,
)
from solutions.core.step11_gpt_block.misconceptions.gelu import cube_forgotten_in_gelu, root_forgotten_in_gelu
from solutions.core.step11_gpt_block.misconceptions.layer_norm import (
    Normalising,
    divided_by_variance,
    eps_argument_ignored,
    eps_outside_the_root,
    mean_not_subtracted,
    no_eps,
    unbiased_variance,
)
from solutions.core.step11_gpt_block.misconceptions.mlp import mlp_bias_always_there, mlp_never_drops

Branch = Callable[[nn.Module, nn.Module, Tensor], Tensor]  # from its norm, its part and the stream to the stream


def _added(norm: nn.Module, part: nn.Module, x: Tensor) -> Tensor:
    return x + part(norm(x))


def _block(first: Branch, second: Branch, *, one_norm: bool = False) -> type:
    class Block(reference.Block):
        def forward(self, x: Tensor) -> Tensor:
            x = first(self.ln_1, self.attn, x)
            return second(self.ln_1 if one_norm else self.ln_2, self.mlp, x)

    return Block


def _norm(
    centre: Callable[[Tensor], Tensor],
    variance: Callable[[Tensor, Tensor], Tensor],
    spread: Callable[[Tensor, float], Tensor],
) -> type:
    class LayerNorm(Normalising):
        def normed(self, x: Tensor) -> Tensor:
            return centre(x) / spread(variance(x, centre(x)), self.eps)

    return LayerNorm


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(dim=-1, keepdim=True)


def _unbiased(x: Tensor, centred: Tensor) -> Tensor:
    return x.var(dim=-1, keepdim=True)


ATTENTIONS: dict[type, Branch] = {
    attention_not_added: lambda norm, part, x: part(norm(x)),
    attention_without_norm: lambda norm, part, x: x + part(x),
}
MLPS: dict[type, Branch] = {
    mlp_not_added: lambda norm, part, x: part(norm(x)),
}
POST_NORMS: dict[type, tuple[Branch, Branch]] = {
    attention_not_added: (lambda norm, part, x: norm(part(x)), lambda norm, part, x: norm(x + part(x))),
    mlp_not_added: (lambda norm, part, x: norm(x + part(x)), lambda norm, part, x: norm(part(x))),
}
SPREADS = {
    eps_outside_the_root: lambda variance, eps: variance.sqrt() + eps,
    no_eps: lambda variance, eps: variance.sqrt(),
    divided_by_variance: lambda variance, eps: variance + eps,
}
GELUS = {
    root_forgotten_in_gelu: 2.0 / math.pi,
}


def _gelu(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda x: 0.5 * x * (1.0 + torch.tanh(factor * x))


PAIRS = [
    *together(ATTENTIONS, MLPS, _block),
    *together({post_norm: None}, POST_NORMS, lambda _, branches: _block(*branches)),
    *together({one_norm_for_both: None}, ATTENTIONS, lambda _, attention: _block(attention, _added, one_norm=True)),
    *together({one_norm_for_both: None}, MLPS, lambda _, mlp: _block(_added, mlp, one_norm=True)),
    *together({unbiased_variance: _unbiased}, SPREADS, lambda variance, spread: _norm(_centred, variance, spread)),
    *together(
        (eps_argument_ignored,), (unbiased_variance, eps_outside_the_root, divided_by_variance, mean_not_subtracted)
    ),
    *together(GELUS, {cube_forgotten_in_gelu: None}, lambda factor, _: _gelu(factor)),
    *together((mlp_bias_always_there,), (mlp_never_drops,)),
]
