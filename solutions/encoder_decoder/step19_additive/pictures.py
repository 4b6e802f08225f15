"""Weights for several decoder states, with the tanh around the sum and without it, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.base.language import gettext as _
from grader.report.pictures import Bars, Picture, Slider, WeightedSum, rounded

WORDS = N_("le chat noir dort")
STATES = (-3.0, -1.5, 0.0, 1.5, 3.0)


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    long, short = reference.AdditiveAttention(1, 2, 2), reference.SingleHeadCrossAttention(2, 1)
    long.W_a.weight.copy_(torch.tensor([[1.0], [-1.0]]))
    long.U_a.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    long.v_a.weight.copy_(torch.tensor([[2.0, 2.0]]))
    short.attention_layer.weight.copy_(torch.tensor([[0.5, 0.3, 1.0]]))
    outputs = torch.tensor([[2.0, -1.0], [0.0, 1.0], [-2.0, 2.0], [1.0, 3.0]])
    words, frames = _(WORDS).split(), []
    for state in STATES:
        context, weights = long(torch.tensor([[state]]), outputs[None])
        flat = short(outputs[None], torch.tensor([[state]]))[1]
        mixed = WeightedSum(
            panels=[("AdditiveAttention", rounded(weights[0], 2))], labels=words, values=rounded(outputs),
            results=[rounded(context[0], 3)],
        )  # fmt: skip
        both = [rounded(weights[0], 2), rounded(flat[0], 2)]
        names = ["AdditiveAttention", "SingleHeadCrossAttention"]
        frames.append([mixed, Bars(panels=[("weights", both)], labels=words, names=names, most=1.0)])
    values = [f"{state:g}" for state in STATES]
    return {"states": Slider(label=N_("state of the decoder"), values=values, frames=frames, at=3)}
