"""The probabilities of the next token, by the small model that comes with the kit, for the lesson's page."""

from types import ModuleType

import torch

from grader.base import language
from grader.base.language import N_
from grader.report.pictures import Bars, Picture, Slider, rounded

from ...capstone.lab_common import pieces, programs, training

TEXTS = {"en": "Jun was", "ko": "준서는"}
TEMPERATURES = (0.25, 0.5, 0.8, 1.0, 1.5, 2.0, 4.0)
SHOWN, TOP_K = 8, 3


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    spoken = language.current()
    tensors, kept = training.read(programs.shipped(spoken))
    words = pieces.read(kept)
    model = reference.GPT(*training.Shape(**kept["shape"]).sizes).eval()
    training.load_parameters(model, tensors)
    logits, _loss = model(torch.tensor([words.encode(TEXTS[spoken])[-model.block_size :]]))
    best = logits[0, -1].topk(SHOWN)
    labels = [words.tokens[token].replace(" ", "␣") for token in best.indices.tolist()]
    frames = []
    for temperature in TEMPERATURES:
        all_of_them = (logits[0, -1] / temperature).softmax(0)[best.indices]
        few = (best.values[:TOP_K] / temperature).softmax(0).tolist() + [0.0] * (SHOWN - TOP_K)
        names = [N_("every token"), "top_k = 3"]
        panel = (N_("probability of the next token"), [rounded(all_of_them, 3), rounded(few, 3)])
        frames.append([Bars(panels=[panel], labels=labels, names=names, most=1.0)])
    values = [f"{temperature:g}" for temperature in TEMPERATURES]
    return {"next": Slider(label="temperature", values=values, frames=frames, at=3)}
