"""Words of a caption over regions of an image, and three ways to take the mean of a loss, for the lesson's page."""

import math
from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Bars, Matrices, Picture, Slider, rounded

CAPTION = ["<bos>", "a", "red", "ball"]
REGIONS, FEATURES, WORDS, PAD = 4, 8, 6, 0
MOST_PADDING = 6


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    return {"regions": regions(reference), "loss": loss(reference)}


def regions(reference: ModuleType) -> Slider:
    """The weights of a fresh model, with the last regions not there."""
    model = reference.ImageCaptioning(WORDS, 16, 2, 1, 32, FEATURES, 8, 0.0).eval()
    image, text = torch.randn(1, REGIONS, FEATURES) * 3, torch.arange(len(CAPTION))[None]
    words, _weights = model.text_decoder(text, torch.ones(len(CAPTION), len(CAPTION), dtype=torch.bool).tril())
    asking, regions = model.cross_attention.W_q(words), model.cross_attention.W_k(model.image_encoder(image))
    query, key = (part.unflatten(-1, (2, -1))[0] for part in (asking, regions))
    scores = rounded(torch.einsum("qhd,khd->hqk", query, key) / 8**0.5)
    frames = []
    for count in range(REGIONS):
        there = (torch.arange(REGIONS) < REGIONS - count)[None]
        _logits, weights = model(image, text, there)
        panels = [(f"head {head}", rounded(weights[0, head], 2)) for head in range(2)]
        frames.append([Matrices(panels=panels, rows=CAPTION, row=N_("word"), column=N_("region"), behind=scores)])
    return Slider(
        label=N_("regions that are not there"), values=[f"{count}" for count in range(REGIONS)], frames=frames
    )


def loss(reference: ModuleType) -> Slider:
    """The captions that the lesson works out, with more and more padding behind the shorter one."""
    certain = [[math.log(p) for p in row] for row in ([0.25, 0.5, 0.25], [0.25, 0.375, 0.375], [0.5, 0.125, 0.375])]
    frames = []
    for count in range(1, MOST_PADDING + 1):
        long = 1 + count
        logits = torch.zeros(2, long, 3)
        logits[0, 0], logits[1, 0], logits[1, 1] = torch.tensor(certain)
        targets = torch.full((2, long), 2)
        targets[0, 0], targets[1, 0], targets[1, 1] = 1, 0, 1
        right = float(reference.caption_loss(logits, targets, 2))
        one, two = (float(reference.caption_loss(logits[[row]], targets[[row]], 2)) for row in range(2))
        means = [right, 3 * right / (2 * long), (one + two) / 2]
        labels = ["caption_loss", N_("over all places"), N_("mean of means")]
        frames.append([Bars(panels=[(N_("mean of the loss"), [rounded(means, 3)])], labels=labels, most=2.0)])
    values = [f"{count}" for count in range(1, MOST_PADDING + 1)]
    return Slider(label=N_("places of padding"), values=values, frames=frames)
