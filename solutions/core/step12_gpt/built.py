"""What a finished step shows: the learner's GPT, with the kit's weights, guessing how a sentence goes on."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Bars, Picture, rounded

from ...capstone.lab_common import pieces, programs, training

SAYS = N_(
    "Your GPT, with the weights of the kit's small model, guesses what follows your sentence. In Explore you "
    "can look inside it."
)
SHOWN = 8


def built(own: ModuleType, words: list[str]) -> Picture:
    """The likeliest next tokens."""
    language = programs.language_of(" ".join(words), "en")
    tensors, kept = training.read(programs.shipped(language))
    cut = pieces.read(kept)
    model = own.GPT(*training.Shape(**kept["shape"]).sizes).eval()
    training.load_parameters(model, tensors)
    logits, _loss = model(torch.tensor([cut.encode(" ".join(words))[-model.block_size :]]))
    best = logits[0, -1].softmax(0).topk(SHOWN)
    labels = [cut.tokens[token].replace(" ", "␣") for token in best.indices.tolist()]
    panel = (N_("probability of the next token"), [rounded(best.values, 3)])
    return Bars(panels=[panel], labels=labels, most=1.0)
