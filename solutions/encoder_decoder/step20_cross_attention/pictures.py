"""Cross attention of two heads, with more and more padding, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, Slider, rounded

SOURCE = ["the", "black", "cat", "sleeps", "."]
TARGET = ["le", "chat", "noir"]
WIDTH, HEADS, PAD = 8, 2, 0


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    module = reference.MultiHeadAttention(WIDTH, HEADS, dropout=0.0).eval()
    target, source = torch.randn(1, len(TARGET), WIDTH) * 2, torch.randn(1, len(SOURCE), WIDTH) * 2
    counts = range(len(SOURCE) - 1)
    frames = []
    for count in counts:
        ids = torch.arange(1, len(SOURCE) + 1)[None]
        if count:
            ids[0, -count:] = PAD
        words = [word if token else "<pad>" for word, token in zip(SOURCE, ids[0].tolist(), strict=True)]
        _output, weights = module(target, source, source, reference.padding_mask(ids, PAD))
        panels = [(f"head {head}", rounded(weights[0, head], 2)) for head in range(HEADS)]
        frames.append([Matrices(panels=panels, rows=TARGET, columns=words)])
    return {"cross": Slider(label=N_("padding"), values=[f"{count}" for count in counts], frames=frames, at=1)}
