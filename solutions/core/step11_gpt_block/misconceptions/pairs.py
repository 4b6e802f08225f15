"""Mistakes that learners make together in step 11."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from grader.checks.catalogue import together
from solutions.core.step11_gpt_block.misconceptions.block import (
    attention_not_added,
    attention_without_norm,
    mlp_not_added,
    one_norm_for_both,
    post_norm,
)
from solutions.core.step11_gpt_block.misconceptions.gelu import cube_forgotten_in_gelu, root_forgotten_in_gelu
from solutions.core.step11_gpt_block.misconceptions.layer_norm import (
    divided_by_variance,
    eps_argument_ignored,
    eps_outside_the_root,
    mean_not_subtracted,
    no_eps,
    unbiased_variance,
)
from solutions.core.step11_gpt_block.misconceptions.mlp import mlp_bias_always_there, mlp_never_drops


def _gelu(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda x: 0.5 * x * (1.0 + torch.tanh(factor * x))


PAIRS = [
    *together((attention_not_added, attention_without_norm), (mlp_not_added,)),
    *together((post_norm,), (attention_not_added, mlp_not_added)),
    *together((one_norm_for_both,), (attention_not_added, attention_without_norm, mlp_not_added)),
    *together((unbiased_variance,), (eps_outside_the_root, no_eps, divided_by_variance)),
    *together(
        (eps_argument_ignored,), (unbiased_variance, eps_outside_the_root, divided_by_variance, mean_not_subtracted)
    ),
    *together({root_forgotten_in_gelu: 2.0 / math.pi}, {cube_forgotten_in_gelu: None}, lambda factor, _: _gelu(factor)),
    *together((mlp_bias_always_there,), (mlp_never_drops,)),
]
