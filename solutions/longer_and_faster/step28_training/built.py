"""What a finished step shows: a tiny GPT that learns a sentence by heart, trained by the learner's own loop."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Curves, Picture, rounded

SAYS = N_(
    "Your loop teaches a tiny GPT your sentence by heart, letter by letter: the loss falls while the learning rate "
    "warms up and goes out along its cosine."
)
STEPS, WARMUP, HIGHEST = 60, 6, 0.01


def built(own: ModuleType, words: list[str]) -> Picture:
    """The loss of each step, and its learning rate."""
    text = "".join(f"{word} " for word in words)
    letters = sorted(set(text))
    ids = torch.tensor([[letters.index(letter) for letter in text]])
    model = own.CheckpointedGPT(len(letters), ids.shape[1], 2, 2, 32).train()
    optimizer = own.make_optimizer(model)
    rates = [own.learning_rate(step, HIGHEST, WARMUP, STEPS) for step in range(STEPS)]
    with torch.enable_grad():
        losses = [own.train_step(model, optimizer, [(ids[:, :-1], ids[:, 1:])], rate)[0] for rate in rates]
    x = [float(step) for step in range(STEPS)]
    panels = [(N_("loss"), [rounded(losses, 3)]), (N_("learning rate"), [rounded(rates, 3)])]
    return Curves(x=x, panels=panels, names=["train_step"], across=N_("training step"))
