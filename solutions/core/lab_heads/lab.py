"""1, 2, 4 and 8 heads at one width: on a task made for two of them, and on text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.base import language
from grader.base.language import gettext as _
from grader.labs import plot as lab_plot
from grader.labs.judged import LabVerdict, first_that
from grader.labs.lab import Bench, Plot, Results, Table
from grader.labs.parts import Need

from ...capstone.lab_common import pieces, programs, stories, training

SECONDS = 90.0
HEADS = (1, 2, 4, 8)
WIDTH, KINDS, LENGTH, BATCH = 32, 8, 16, 32
OFFSETS = (1, 3)  # which earlier tokens are to be named
LEARNING_RATE = 1e-2
STEPS, TEXT_STEPS = 300, 250
POINT = 10
LEAST = 60  # steps, however slow the machine
ALIKE = 0.2  # between losses, in nats: less than a run differs from another
MADE, TEXT = "made", "text"


class Simple(nn.Module):
    """In place of step 8, from built-ins."""

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int) -> None:
        super().__init__()
        self.heads = num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=False) for _layer in range(3))
        self.out_proj = nn.Linear(d_out, d_out, True)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, T, d_in) -> (B, T, d_out)."""
        parts = [layer(x).unflatten(2, (self.heads, -1)) for layer in (self.W_query, self.W_key, self.W_value)]
        context = F.scaled_dot_product_attention(*(part.movedim(2, 1) for part in parts), is_causal=True)
        mixed: Tensor = self.out_proj(context.movedim(1, 2).flatten(2))
        return mixed


class Own:
    """The name that step 8 has."""

    MultiHeadAttention = Simple


NEEDS = (Need("step08_multi_head", ("MultiHeadAttention",), Own), *programs.GPT_NEEDS)


class Namer(nn.Module):
    """One layer of attention that names two earlier tokens of each token: no other part of it sees more than one."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(KINDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.attention = attention
        self.names = nn.Linear(WIDTH, len(OFFSETS) * KINDS)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (B, T) -> logits (B, T, two, KINDS)."""
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        return self.names(self.attention(x)).unflatten(-1, (len(OFFSETS), KINDS))


def measure(bench: Bench, steps: int = STEPS, text_steps: int = TEXT_STEPS) -> None:
    """Half of the time for the made task, half for the text; a step of each number of heads in turn."""
    _made_task(bench, steps)
    _text(bench, text_steps)


def _is_over(bench: Bench, step: int, part: float) -> bool:
    """Whether a task has had its part of the time; a few steps it has however slow the machine."""
    return step > LEAST and bench.elapsed > part * bench.seconds


@dataclass
class Contestant:
    """A layer with so many heads, in training."""

    heads: int
    namer: Namer
    optimizer: torch.optim.Optimizer


def _made_task(bench: Bench, steps: int) -> None:
    draws = torch.Generator().manual_seed(bench.seed)
    contestants = []
    for heads in HEADS:
        torch.manual_seed(bench.seed)
        attention = bench.part("step08_multi_head").MultiHeadAttention(WIDTH, WIDTH, LENGTH, 0.0, heads)
        namer = Namer(attention).to(bench.device)
        contestants.append(Contestant(heads, namer, torch.optim.Adam(namer.parameters(), lr=LEARNING_RATE)))
    try:
        for step in range(1, steps + 1):
            ids = torch.randint(KINDS, (BATCH, LENGTH), generator=draws).to(bench.device)
            figures = [_step(one, ids) for one in contestants]
            if step % POINT == 0 or step == steps:
                for one, (loss, right) in zip(contestants, figures):
                    bench.results.add(task=MADE, heads=one.heads, step=step, loss=loss, right=right)
                bench.tell(_("two tokens to name, step {step}").format(step=step))
            if _is_over(bench, step, 0.5):
                break
    finally:
        for one in contestants:
            x = one.namer.tokens(ids[:1]) + one.namer.places.weight
            bench.results.extra[one.heads] = _weights(one.namer.attention, x, one.heads)


def _step(one: Contestant, ids: Tensor) -> tuple[float, float]:
    """One step of training; the loss, and the share of places where both tokens are named right."""
    first = max(OFFSETS)  # before it there is no token to be named
    logits = one.namer(ids)[:, first:]
    wanted = torch.stack([ids[:, first - offset : LENGTH - offset] for offset in OFFSETS], -1)
    loss = F.cross_entropy(logits.flatten(0, 2), wanted.flatten())
    one.optimizer.zero_grad()
    loss.backward()
    one.optimizer.step()
    return float(loss.detach()), float((logits.argmax(-1) == wanted).all(-1).float().mean())


@torch.no_grad()
def _weights(attention: nn.Module, x: Tensor, heads: int) -> Tensor:
    """What each head attends to, from its query and key layers: (H, T, T)."""
    project: Callable[[str], Tensor] = lambda name: (  # noqa: E731
        attention.get_submodule(name)(x)[0].unflatten(-1, (heads, -1)).transpose(0, 1)
    )
    query, key = project("W_query"), project("W_key")
    table = query.matmul(key.mT) * query.shape[-1] ** -0.5
    return (table + torch.full_like(table, -torch.inf).triu(1)).softmax(2).cpu()


def _text(bench: Bench, steps: int) -> None:
    text = bench.text or stories.text(language.current(), stories.FEW)
    words = pieces.learn(text)
    ids, gpt = training.ids_of(words, text), bench.part("step12_gpt")
    runs = {}
    for heads in HEADS:
        sizes = {"n_layer": 2, "n_head": heads, "block_size": 48, "batch_size": 12, "learning_rate": 4e-3}
        shape = training.Shape(len(words.tokens), **sizes)
        runs[heads] = training.Run(shape, ids, gpt.GPT, gpt.next_token_batches, bench.seed, bench.device)
    for step in range(1, steps + 1):
        for run in runs.values():
            run.advance()
        if step % POINT == 0 or step == steps:
            for heads, run in runs.items():
                bench.results.add(task=TEXT, heads=heads, step=step, loss=run.validate())
            bench.tell(_("text, step {step}").format(step=step))
        if _is_over(bench, step, 1.0):
            return


# --- what is shown ---


def last(results: Results, task: str) -> dict[int, dict[str, float]]:
    """The last figures of each number of heads, at the last step that all of them have reached."""
    rows = results.where(task=task)
    heads = dict.fromkeys(row["heads"] for row in rows)
    common = min((max(row["step"] for row in rows if row["heads"] == one) for one in heads), default=0)
    return {row["heads"]: row for row in rows if row["step"] == common}


def tables(results: Results) -> list[Table]:
    """Both tasks, one row per number of heads."""
    made, text = last(results, MADE), last(results, TEXT)
    rows = [
        (str(heads), f"{row['right']:.0%}", f"{text[heads]['loss']:.3f}" if heads in text else "")
        for heads, row in made.items()
    ]
    title = _("After the same number of steps")
    return [Table(title, (_("heads"), _("both tokens named right"), _("validation loss on text")), rows)]


def pictures(results: Results) -> list[Plot]:
    """The curve of each on both tasks, and what the heads look at."""
    made = []
    for task, figure, title in (
        (MADE, "right", _("Two tokens to name: the part of positions where both are right")),
        (TEXT, "loss", _("Text: validation loss")),
    ):
        if not results.where(task=task):
            continue
        with lab_plot.drawing() as drawing:
            for number, heads in enumerate(dict.fromkeys(row["heads"] for row in results.where(task=task))):
                rows = results.where(task=task, heads=heads)
                label = _("heads: {heads}").format(heads=heads)
                drawing.axes.plot(
                    [r["step"] for r in rows], [r[figure] for r in rows], label=label, **lab_plot.style(number)
                )
            drawing.axes.set_ylim(bottom=0)
            drawing.axes.set_xlabel(_("step"))
            drawing.axes.set_ylabel(_("share of positions") if task == MADE else _("loss (nats per token)"))
            drawing.legend()
        made.append(Plot(title, drawing.svg, " ".join(findings(results))))
    if 1 in results.extra and 2 in results.extra:
        made.append(_looks(results))
    return made


def _looks(results: Results) -> Plot:
    maps = [(_("one head"), results.extra[1][0])]
    maps += [(_("two heads, number {number}").format(number=number), results.extra[2][number]) for number in (0, 1)]
    with lab_plot.drawing((7.2, 2.6), columns=3, sharey=True) as drawing:
        for axes, (name, weights) in zip(drawing.axes, maps):
            lab_plot.shade(axes, weights.tolist(), largest=1.0)
            axes.set_title(name.replace(", ", ",\n"), fontsize=10)
            axes.set_xlabel(_("key"))
        drawing.axes[0].set_ylabel(_("query"))
        drawing.colour_bar(drawing.axes, _("weight"))
    alt = _("A map for one head, and one for each of two heads: a row for each query, a column for each key.")
    return Plot(_("What the heads look at when two tokens are to be named"), drawing.svg, alt)


def findings(results: Results) -> list[str]:
    """One head against two, and how little it matters on text."""
    made, text = last(results, MADE), last(results, TEXT)
    said = []
    if 1 in made and 2 in made:
        said.append(
            _(
                "Two tokens to name: one head has both right at {one:.0%} of the positions, two heads at {two:.0%}."
            ).format(one=made[1]["right"], two=made[2]["right"])
        )
    if len(text) > 1:
        losses = [row["loss"] for row in text.values()]
        said.append(
            _("Text: the validation losses lie between {low:.2f} and {high:.2f}.").format(
                low=min(losses), high=max(losses)
            )
        )
    return said


def judged(results: Results) -> LabVerdict:
    """One head against two on the made task, and how far the losses on text are apart."""
    made, text = last(results, MADE), last(results, TEXT)
    if not ({1, 2} <= made.keys() and {1, 2} <= text.keys()):
        return LabVerdict()
    one, two = made[1]["right"], made[2]["right"]
    losses = [row["loss"] for row in text.values()]
    apart = max(losses) - min(losses)
    two_do, alike = two > 0.9 and two > one + 0.3, apart < ALIKE
    shows = {
        "two": two_do, "splits": two_do and 0.05 < one < 0.5, "alike": alike,
        "many": made.get(8, {"right": 0.0})["right"] > 0.9,
    }  # fmt: skip
    because = _(
        "Both tokens right: {one:.0%} with one head, {two:.0%} with two. The losses on text are {apart:.2f} apart."
    ).format(one=one, two=two, apart=apart)
    falls = losses == sorted(losses, reverse=True) and min(row["step"] for row in text.values()) >= TEXT_STEPS
    return LabVerdict(first_that({1: two_do and not alike and falls, 3: two_do and alike}), because, shows)
