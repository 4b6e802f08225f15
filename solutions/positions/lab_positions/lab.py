"""Who can count: no positions, sinusoidal, rotary and ALiBi, beyond the length that was trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.base import language
from grader.base.language import gettext as _
from grader.labs import plot as lab_plot
from grader.labs.judged import LabVerdict, first_that
from grader.labs.lab import Bench, Plot, Results, Table
from grader.labs.parts import Need

from ...capstone.lab_common import stories

SECONDS = 60.0
NONE, SINUSOIDAL, ROTARY, ALIBI = KINDS = ("none", "sinusoidal", "rotary", "alibi")
WIDTH, HEADS, LAYERS, BATCH = 48, 4, 2, 24
TRAINED, FAR = 24, 192  # tokens
LEARNING_RATE, STEPS, LEAST, POINT = 4e-3, 400, 150, 10
TEXTS = 40  # that are looked at beyond the trained length
VALIDATION = 0.1  # part of the text
RANGES = ((8, TRAINED), (TRAINED, 2 * TRAINED), (2 * TRAINED, 4 * TRAINED), (4 * TRAINED, FAR))


class Simple:
    """In place of steps 16 to 18."""

    @staticmethod
    def sinusoidal_encoding(num_positions: int, d_model: int, base: float = 10000.0) -> Tensor:
        """(T, d_model), d_model even."""
        turns = torch.exp(torch.arange(d_model // 2) * (-2 * math.log(base) / d_model))
        angles = torch.outer(torch.arange(num_positions).float(), turns)
        points = torch.view_as_real(torch.polar(torch.ones_like(angles), angles))  # (T, d / 2, cosine and sine)
        return points.flip(2).flatten(1)

    @staticmethod
    def alibi_bias(num_heads: int, num_tokens: int) -> Tensor:
        """(H, T, T), H a power of two."""
        steepness = torch.pow(2.0, -8.0 * torch.arange(1, num_heads + 1) / num_heads)
        back = torch.ones(num_tokens, num_tokens).tril(-1).cumsum(0)  # how far each key lies behind the query
        later = torch.full((num_tokens, num_tokens), -math.inf).triu(1)
        return later - steepness.view(num_heads, 1, 1) * back

    @staticmethod
    def apply_rotary(x: Tensor) -> Tensor:
        """(..., T, d): pairs of columns as complex numbers."""
        tokens, width = x.shape[-2:]
        turns = torch.exp(torch.arange(width // 2, device=x.device) * (-2 * math.log(10000.0) / width))
        angles = torch.outer(torch.arange(tokens, device=x.device).float(), turns)
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).to(x.dtype)


NEEDS = (
    Need("step16_sinusoidal", ("sinusoidal_encoding",), Simple),
    Need("step17_relative", ("alibi_bias",), Simple),
    Need("step18_rotary", ("apply_rotary",), Simple),
)

Turn = Callable[[Tensor], Tensor]
ByLength = Callable[[int], Tensor]


class Reader(nn.Module):
    """A small causal model of letters; how it knows their places is handed to it."""

    def __init__(self, kinds: int, added: ByLength | None, turned: Turn | None, bias: ByLength) -> None:
        super().__init__()
        self.added, self.turned, self.bias = added, turned, bias
        self.letters, self.names = nn.Embedding(kinds, WIDTH), nn.Linear(WIDTH, kinds)
        self.layers = nn.ModuleList(_layer() for _number in range(LAYERS))

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (B, T) -> logits (B, T, kinds)."""
        x, tokens = self.letters(ids), ids.shape[1]
        if self.added is not None:
            x = x + self.added(tokens).to(x.device)
        bias = self.bias(tokens).to(x.device)
        for layer in self.layers:
            parts = layer["project"](layer["norm"](x)).unflatten(-1, (3, HEADS, -1))
            query, key, value = parts.permute(2, 0, 3, 1, 4)  # (B, H, T, d) each
            if self.turned is not None:
                query, key = self.turned(query), self.turned(key)
            context = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
            x = x + layer["mix"](context.transpose(1, 2).flatten(2))
            x = x + layer["think"](x)
        return self.names(x)


def _layer() -> nn.ModuleDict:
    think = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
    return nn.ModuleDict(
        {"norm": nn.LayerNorm(WIDTH), "project": nn.Linear(WIDTH, 3 * WIDTH), "mix": nn.Linear(WIDTH, WIDTH),
         "think": think}
    )  # fmt: skip


def _causal(tokens: int) -> Tensor:
    return torch.full((tokens, tokens), -math.inf).triu(1)


@dataclass
class Contestant:
    """A model in training."""

    kind: str
    model: Reader
    optimizer: torch.optim.Optimizer


def _contestants(bench: Bench, kinds: int) -> list[Contestant]:
    sinusoidal = bench.part("step16_sinusoidal").sinusoidal_encoding
    alibi, turn = bench.part("step17_relative").alibi_bias, bench.part("step18_rotary").apply_rotary
    ways: dict[str, tuple[Any, Any, Any]] = {
        NONE: (None, None, _causal),
        SINUSOIDAL: (lambda tokens: sinusoidal(tokens, WIDTH), None, _causal),
        ROTARY: (None, turn, _causal),
        ALIBI: (None, None, lambda tokens: alibi(HEADS, tokens)),
    }
    made = []
    for kind, way in ways.items():
        torch.manual_seed(bench.seed)
        model = Reader(kinds, *way).to(bench.device)
        made.append(Contestant(kind, model, torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)))
    return made


def measure(bench: Bench, steps: int = STEPS) -> None:
    """A step of each in turn; then each reads on beyond the length that it was trained with."""
    text = bench.text or stories.text(language.current(), stories.FEW)
    text = text if len(text) > 20 * FAR else text * (20 * FAR // max(1, len(text)) + 1)
    kinds = sorted(set(text))
    ids = torch.tensor([kinds.index(letter) for letter in text])
    kept_apart = ids[-max(FAR + 1, int(VALIDATION * len(ids))) :]
    trained = ids[: -len(kept_apart)]
    draws = torch.Generator().manual_seed(bench.seed)
    contestants = _contestants(bench, len(kinds))
    windows = trained.unfold(0, TRAINED + 1, 1)
    try:
        for step in range(1, steps + 1):
            chosen = torch.randint(len(windows), (BATCH,), generator=draws)
            batch = windows[chosen].to(bench.device)
            for one in contestants:
                loss = F.cross_entropy(one.model(batch[:, :-1]).transpose(1, 2), batch[:, 1:])
                one.optimizer.zero_grad()
                loss.backward()
                one.optimizer.step()
            if step % POINT == 0:
                part = max(step / steps, bench.elapsed / bench.seconds)
                bench.tell(
                    _("learning from texts of {count} letters, step {step}").format(count=TRAINED, step=step), part
                )
            if step > LEAST and bench.elapsed > 0.9 * bench.seconds:
                break
    finally:
        _read_on(bench, contestants, kept_apart)


@torch.no_grad()
def _read_on(bench: Bench, contestants: list[Contestant], ids: Tensor) -> None:
    windows = ids.unfold(0, FAR + 1, max(1, (len(ids) - FAR - 1) // TEXTS)).to(bench.device)
    for one in contestants:
        logits = one.model(windows[:, :-1])
        losses = F.cross_entropy(logits.transpose(1, 2), windows[:, 1:], reduction="none").mean(0).cpu()
        bench.results.extra[one.kind] = losses.tolist()
        for first, last in RANGES:
            bench.results.add(kind=one.kind, first=first, last=last, loss=float(losses[first:last].mean()))


# --- what is shown ---


def _names() -> dict[str, str]:
    return {NONE: _("no positions"), SINUSOIDAL: _("sinusoidal"), ROTARY: _("rotary"), ALIBI: _("ALiBi")}


def loss(results: Results, kind: str, place: int) -> float:
    """The loss in one of the ranges of positions, from 0: within the trained length."""
    return float(results.where(kind=kind)[place]["loss"])


def tables(results: Results) -> list[Table]:
    """One row per way, one column per range of positions."""
    columns = tuple(_("positions {first} to {last}").format(first=first, last=last - 1) for first, last in RANGES)
    rows = [
        (_names()[kind], *(f"{row['loss']:.2f}" for row in results.where(kind=kind)))
        for kind in results.distinct("kind")
    ]
    return [Table(_("Loss by position, trained with {count} letters").format(count=TRAINED), ("", *columns), rows)]


def pictures(results: Results) -> list[Plot]:
    """The loss at each position."""
    with lab_plot.drawing() as drawing:
        for number, kind in enumerate(results.distinct("kind")):
            losses = torch.tensor(results.extra[kind])
            smooth = losses.unfold(0, 5, 1).mean(-1)
            places = [place + 2 for place in range(len(smooth))]
            drawing.axes.plot(places, smooth.tolist(), label=_names()[kind], **lab_plot.line(number))
        drawing.axes.axvline(TRAINED, color=lab_plot.INK, linewidth=1, linestyle="-")
        drawing.axes.set_ylim(bottom=0)
        drawing.axes.set_xlabel(_("position; the upright line ends what was trained"))
        drawing.axes.set_ylabel(_("nats per letter"))
        drawing.legend()
    return [Plot(_("Loss at each position, the mean of five"), drawing.svg, " ".join(findings(results)))]


def findings(results: Results) -> list[str]:
    """Within the trained length, and far beyond it."""
    said = _("{name}: the loss is {near:.2f} within the trained length and {far:.2f} far beyond it.")
    last = len(RANGES) - 1
    return [
        said.format(name=_names()[kind], near=loss(results, kind, 0), far=loss(results, kind, last))
        for kind in results.distinct("kind")
    ]


def judged(results: Results) -> LabVerdict:
    """Whose loss stays where it was far beyond the trained length."""
    far, kinds = len(RANGES) - 1, results.distinct("kind")
    if set(kinds) != set(KINDS):
        return LabVerdict()
    near = {kind: loss(results, kind, 0) for kind in KINDS}
    more = {kind: loss(results, kind, far) - near[kind] for kind in KINDS}
    placed = [near[kind] for kind in (SINUSOIDAL, ROTARY, ALIBI)]
    learned = near[NONE] > max(placed) + 0.1  # else no positions were used yet
    holds = {kind: more[kind] < 0.6 for kind in KINDS}
    shows = {
        "near": learned and max(placed) - min(placed) < 0.3,
        "jumps": loss(results, SINUSOIDAL, 1) > near[SINUSOIDAL] + 0.5,
        "climbs": more[ROTARY] > 0.7 and more[ROTARY] > loss(results, ROTARY, 1) - near[ROTARY],
        "flat": learned and holds[ALIBI],
    }  # fmt: skip
    because = _("What the loss is higher by, far beyond the trained length: {figures}.").format(
        figures=", ".join(f"{_names()[kind]} {more[kind]:.2f}" for kind in KINDS)
    )
    sinusoidal, rotary, alibi = holds[SINUSOIDAL], holds[ROTARY], holds[ALIBI]
    answers = {1: sinusoidal and rotary and alibi, 2: not (sinusoidal or rotary or alibi),
               3: alibi and not (sinusoidal or rotary), 4: sinusoidal and not (rotary or alibi)}  # fmt: skip
    return LabVerdict(first_that(answers) if learned else 0, because, shows)
