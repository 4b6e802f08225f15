"""Cross attention of two heads, with more and more padding, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.base.language import gettext as _
from grader.report.pictures import Matrices, Picture, Slider, rounded

SOURCE, TARGET = N_("the black cat sleeps ."), N_("le chat noir")
WIDTH, HEADS, PAD = 8, 2, 0


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    from_words, to_words = _(SOURCE).split(), _(TARGET).split()
    module = reference.MultiHeadAttention(WIDTH, HEADS, dropout=0.0).eval()
    target, source = torch.randn(1, len(to_words), WIDTH) * 2, torch.randn(1, len(from_words), WIDTH) * 2
    query, key = (part.unflatten(-1, (HEADS, -1))[0] for part in (module.W_q(target), module.W_k(source)))
    scores = rounded(torch.einsum("qhd,khd->hqk", query, key) / (WIDTH // HEADS) ** 0.5)
    counts = range(len(from_words) - 1)
    frames = []
    for count in counts:
        ids = torch.arange(1, len(from_words) + 1)[None]
        if count:
            ids[0, -count:] = PAD
        words = [word if token else "<pad>" for word, token in zip(from_words, ids[0].tolist(), strict=True)]
        _output, weights = module(target, source, source, reference.padding_mask(ids, PAD))
        panels = [(f"head {head}", rounded(weights[0, head], 2)) for head in range(HEADS)]
        frames.append([Matrices(panels=panels, rows=to_words, columns=words, behind=scores)])
    return {"cross": Slider(label=N_("padding"), values=[f"{count}" for count in counts], frames=frames, at=1)}
