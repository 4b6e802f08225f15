"""The size of the stream with the norm behind the sum and in front of the branch, and what padding does to a class that
does not know of it, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Bars, Curves, Picture, Slider, rounded

from ...core.step11_gpt_block import reference as gpt

WIDTH, HEADS, TOKENS, BLOCKS = 32, 4, 8, 12
CLASSES = [N_("negative"), N_("neutral"), N_("positive")]
MOST_PADDING = 8
SURER = 40  # than a fresh model: what training makes of it


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    return {"size": size(reference), "padding": padding(reference)}


def size(reference: ModuleType) -> Curves:
    """Mean length of the stream's vectors after each block."""
    x = torch.randn(1, TOKENS, WIDTH)
    post, pre = x, x
    lines: list[list[float]] = [[], []]
    for number in range(BLOCKS + 1):
        lines[0].append(float(post.norm(dim=-1).mean()))
        lines[1].append(float(pre.norm(dim=-1).mean()))
        if number < BLOCKS:
            post = reference.TransformerBlock(WIDTH, HEADS, 4 * WIDTH, 0.0).eval()(post)[0]
            pre = gpt.Block(WIDTH, HEADS, TOKENS).eval()(pre)
    names = [N_("norm behind the sum: this step"), N_("norm before the branch: step 11")]
    x_axis = [float(number) for number in range(BLOCKS + 1)]
    return Curves(x=x_axis, panels=[(N_("length of a vector of the stream"), rounded(lines))], names=names,
                  across=N_("blocks passed"))  # fmt: skip


def padding(reference: ModuleType) -> Slider:
    """The same sentence with more and more padding, with a mask and without one."""
    model = reference.SentimentAnalyzer(20, WIDTH, HEADS, 2, 3, 4 * WIDTH, 32, 0.0).eval()
    model.classifier[-1].weight.mul_(SURER)
    sentence = torch.randint(1, 20, (1, 5))
    frames = []
    for count in range(MOST_PADDING + 1):
        ids = torch.cat([sentence, torch.zeros(1, count, dtype=torch.long)], dim=1)
        both = [model(ids, ids != 0)[0].softmax(0), model(ids)[0].softmax(0)]
        names = [N_("padding hidden"), N_("padding counted as words")]
        panel = (N_("probability of a class"), [rounded(one, 3) for one in both])
        frames.append([Bars(panels=[panel], labels=CLASSES, names=names, most=1.0)])
    values = [f"{count}" for count in range(MOST_PADDING + 1)]
    return Slider(label=N_("padding"), values=values, frames=frames, at=4)
