"""The same GPT with and without its causal mask: what it scores in training, and what it can write."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from grader.base import language
from grader.base.language import gettext as _
from grader.labs import plot as lab_plot
from grader.labs.judged import LabVerdict
from grader.labs.lab import Bench, Plot, Results, Table

from ...capstone.lab_common import model, pieces, programs, stories, training

SECONDS = 60.0
LAYERS, BLOCK, BATCH = 2, 48, 12
POINT = 10  # steps between two points of the curve
KNOWN = 32  # tokens that are given when the next one is asked for
SAMPLE_TOKENS = 50
LEAST = 60  # steps, however slow the machine
NEEDS = programs.GPT_NEEDS


@dataclass
class Contestant:
    """One of the two: it is trained by the same windows, from the same initial weights."""

    name: str
    run: training.Run


def measure(bench: Bench, most_steps: int | None = None) -> None:
    """A step of the one, a step of the other, until the time is over."""
    text = bench.text or stories.text(language.current(), stories.FEW)
    words = pieces.learn(text)
    ids = training.ids_of(words, text)
    shape = training.Shape(len(words.tokens), n_layer=LAYERS, block_size=BLOCK, batch_size=BATCH, learning_rate=4e-3)
    gpt = bench.part("step12_gpt")
    no_mask = partial(model.GPT, causal=False)
    contestants = [
        Contestant(
            _("with the mask"), training.Run(shape, ids, gpt.GPT, gpt.next_token_batches, bench.seed, bench.device)
        ),
        Contestant(
            _("without the mask"), training.Run(shape, ids, no_mask, gpt.next_token_batches, bench.seed, bench.device)
        ),
    ]
    bench.results.extra["words"] = words
    try:
        step = 0
        while not bench.is_over(step, LEAST) and (most_steps is None or step < most_steps):
            losses = [one.run.advance() for one in contestants]
            step += 1
            bench.tell(_("step {step}").format(step=step))
            if step % POINT == 0:
                for one, loss in zip(contestants, losses):
                    bench.results.add(name=one.name, step=step, loss=loss, writing=writing_loss(one.run))
    finally:
        bench.results.extra["samples"] = {
            one.name: _sample(bench, one.run.model, words, ids.tolist()) for one in contestants
        }


@torch.no_grad()
def writing_loss(run: training.Run) -> float:
    """The loss on the next token of texts whose later tokens are not there, as when a model writes."""
    run.model.eval()
    windows = run.validation.unfold(0, KNOWN + 1, KNOWN + 1)[:128].to(run.device)
    return float(F.cross_entropy(run.model(windows[:, :KNOWN])[0][:, -1], windows[:, KNOWN]))


def _sample(bench: Bench, gpt: nn.Module, words: pieces.Pieces, ids: list[int]) -> str:
    """The kit's own `generate` for both, so that the two differ by the mask alone."""
    with torch.random.fork_rng():
        torch.manual_seed(bench.seed)
        start = torch.tensor([ids[:12]], device=bench.device)
        return words.decode(model.generate(gpt, start, SAMPLE_TOKENS, 0.8, 20)[0].tolist())


# --- what is shown ---


def tables(results: Results) -> list[Table]:
    """The last figures, and what both write."""
    rows = []
    for name in results.distinct("name"):
        last = results.where(name=name)[-1]
        rows.append((name, str(last["step"]), f"{last['loss']:.2f}", f"{last['writing']:.2f}"))
    made = [Table(_("At the end"), ("", _("step"), _("loss in training"), _("loss when it writes")), rows)]
    samples = results.extra.get("samples", {})
    return [*made, Table(_("What they write"), ("", _("text")), list(samples.items()))] if samples else made


def pictures(results: Results) -> list[Plot]:
    """Both losses of both."""
    with lab_plot.drawing() as drawing:
        for number, name in enumerate(results.distinct("name")):
            rows = results.where(name=name)
            steps = [row["step"] for row in rows]
            drawing.axes.plot(
                steps, [row["loss"] for row in rows], color=lab_plot.SERIES[number],
                label=_("{name}: in training").format(name=name),
            )  # fmt: skip
            drawing.axes.plot(
                steps, [row["writing"] for row in rows], color=lab_plot.SERIES[number], linestyle="--",
                label=_("{name}: when it writes").format(name=name),
            )  # fmt: skip
        drawing.axes.set_ylim(bottom=0)
        drawing.axes.set_xlabel(_("step"))
        drawing.axes.set_ylabel(_("loss (nats per token)"))
        drawing.legend()
    return [
        Plot(_("Loss in training, and when the later tokens are not there"), drawing.svg, " ".join(findings(results)))
    ]


def findings(results: Results) -> list[str]:
    """How far apart the two losses of each are."""
    said = []
    for name in results.distinct("name"):
        last = results.where(name=name)[-1]
        said.append(
            _("{name}: {loss:.2f} in training, {writing:.2f} when it writes.").format(
                name=name, loss=last["loss"], writing=last["writing"]
            )
        )
    return said


def judged(results: Results) -> LabVerdict:
    """By how much the training losses differ, and what becomes of the loss when it writes."""
    names = results.distinct("name")
    if len(names) < 2:
        return LabVerdict()
    masked, bare = (results.where(name=name)[-1] for name in names)
    rates = bare["loss"] / masked["loss"]
    shows = {
        "copies": rates < 0.5, "fails": bare["writing"] > max(masked["writing"], bare["loss"]) + 0.5,
        "alike": abs(masked["writing"] - masked["loss"]) < 0.6,
    }  # fmt: skip
    because = _("In training, at step {step}: {masked:.2f} with the mask, {bare:.2f} without.").format(
        step=masked["step"], masked=masked["loss"], bare=bare["loss"]
    )
    return LabVerdict(1 if rates > 1.25 else 2 if rates < 0.8 else 0, because, shows)
