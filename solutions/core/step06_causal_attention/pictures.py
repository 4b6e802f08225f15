"""Causal weights with dropout in training and without it in use, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, Slider, rounded

WORDS = [N_("our"), N_("old"), N_("black"), N_("cat"), N_("slept"), "."]
RATES = (0.0, 0.1, 0.25, 0.5, 0.75)


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    return {"weights": Slider(label="p", values=[f"{rate:g}" for rate in RATES], at=2,
                              frames=[[weights(reference, rate)] for rate in RATES])}  # fmt: skip


def weights(reference: ModuleType, rate: float) -> Matrices:
    """One token each of its own, whose values are the rows of the identity: the context is then the weights."""
    torch.manual_seed(6)
    size = len(WORDS)
    module = reference.CausalAttention(size, size, size, rate)
    module.W_query.weight.normal_(std=1.5)
    module.W_key.weight.normal_(std=1.5)
    module.W_value.weight.copy_(torch.eye(size))
    tokens = torch.eye(size)[None]
    scores = module.W_query(tokens)[0] @ module.W_key(tokens)[0].T / size**0.5
    used = module.eval()(tokens)[0]
    trained = module.train()(tokens)[0]
    lost = [(row, column) for row in range(size) for column in range(row + 1) if trained[row, column] == 0]
    panels = [(N_("in use: eval()"), rounded(used)), (N_("in training: train()"), rounded(trained))]
    return Matrices(panels=panels, rows=WORDS, columns=WORDS, differs=[[], lost], behind=[rounded(scores)])
