"""A captioner of drawn shapes: what it says of images it never saw, and which patches each word looks at."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from grader.base import language
from grader.base.language import gettext as _
from grader.labs import plot as lab_plot
from grader.labs.judged import LabVerdict, first_that
from grader.labs.lab import Bench, Plot, Results, Table
from grader.labs.parts import Need

from ...encoder_decoder.lab_common import own
from ...encoder_decoder.lab_common.training import BOS, EOS, PAD, Trainer, Words, evened
from .shapes import CIRCLE, COLOURS, PATCH, RADIUS, SIDE, SQUARE, Drawing, Drawings, Sentence, Shape, example, sentences

SECONDS = 75.0
WIDTH, HEADS, LAYERS, INNER, DROPOUT = 48, 4, 1, 96, 0.0
PATCHES = (SIDE // PATCH) ** 2
LENGTH = 9  # words of a caption
BATCH, RATE = 48, 4e-3
MOST_STEPS = 700
LEAST = 60  # steps, however slow the machine
TRIED = 80  # images per row of the table
TRIALS = 10
REMEMBERED = 120  # images that the baseline has seen
NEW, APART = "new", "apart"
NEEDS = (
    Need("step23_patches", ("PatchEmbedding",), own.Patches),
    Need("step24_captions", ("ImageCaptioning", "caption_loss", "greedy_caption"), own.Captions),
    Need("step21_encoder", ("SimpleTransformer",), graded_only=True),
    Need("step20_cross_attention", ("MultiHeadAttention",), graded_only=True),
)


class Regions(nn.Module):
    """The features of an image's patches, each by itself: what it shows, and where it is."""

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding
        self.places = nn.Parameter(0.1 * torch.randn(PATCHES, WIDTH))

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, SIDE, SIDE) -> (B, PATCHES, WIDTH)."""
        regions: Tensor = torch.relu(self.embedding(images) + self.places)
        return regions


class Captioner(nn.Module):
    """Patches and captions, trained together."""

    def __init__(self, step23: Any, step24: Any, words: Words, device: str) -> None:
        super().__init__()
        self.regions = Regions(step23.PatchEmbedding(PATCH, 3, WIDTH))
        self.writer = step24.ImageCaptioning(len(words), WIDTH, HEADS, LAYERS, INNER, WIDTH, LENGTH + 2, DROPOUT)
        self.step24, self.words, self.device = step24, words, device
        self.spoken = language.current()

    def loss(self, drawings: list[Drawing]) -> Tensor:
        """The mean cross-entropy of their captions' words."""
        ids = self.words.encode([one.caption(self.spoken) for one in drawings], framed=True).to(self.device)
        logits, _weights = self.writer(self.regions(self._images(drawings)), ids[:, :-1])
        loss: Tensor = self.step24.caption_loss(logits, ids[:, 1:], PAD)
        return loss

    @torch.no_grad()
    def captions(self, drawings: list[Drawing]) -> list[Sentence]:
        """What it writes."""
        regions = self.regions(self._images(drawings))
        written = self.step24.greedy_caption(self.writer, regions, BOS, EOS, LENGTH + 1)
        return [tuple(self.words.decode(row)) for row in written.tolist()]

    @torch.no_grad()
    def looks(self, drawing: Drawing) -> tuple[Sentence, Tensor]:
        """The caption that it writes, and for each word the mean of the heads' weights, over the patches."""
        self.eval()
        (caption,) = self.captions([drawing])
        ids = self.words.encode([caption], framed=True)[:, :-1].to(self.device)
        _logits, weights = self.writer(self.regions(self._images([drawing])), ids)
        return caption, weights[0].mean(0)[: len(caption)].unflatten(-1, (SIDE // PATCH, -1)).cpu()

    def _images(self, drawings: list[Drawing]) -> Tensor:
        return torch.stack([one.pixels for one in drawings]).to(self.device)


class Nearest:
    """The baseline: copies the caption of the most similar image that it has seen, pixel by pixel."""

    def __init__(self, drawings: list[Drawing], spoken: str) -> None:
        self._seen = torch.stack([one.pixels.flatten() for one in drawings])
        self._captions = [one.caption(spoken) for one in drawings]

    def captions(self, drawings: list[Drawing]) -> list[Sentence]:
        """A caption for each."""
        images = torch.stack([one.pixels.flatten() for one in drawings])
        return [self._captions[place] for place in torch.cdist(images, self._seen).argmin(1).tolist()]


def measure(bench: Bench, most_steps: int = MOST_STEPS) -> None:
    """Trains on fresh drawings; now and then a trial on others, and on kinds that were never drawn."""
    torch.manual_seed(bench.seed)
    spoken, drawings = language.current(), Drawings(bench.seed)
    trials = {NEW: drawings.draw(TRIED), APART: drawings.draw(TRIED, apart=True)}
    tried = {one for each in trials.values() for one in each}
    nearest = Nearest([one for one in drawings.draw(REMEMBERED) if one not in tried], spoken)
    bench.results.extra["nearest"] = {kind: share_right(nearest, each, spoken) for kind, each in trials.items()}
    captioner = Captioner(
        bench.part("step23_patches"), bench.part("step24_captions"), Words(sentences(spoken)), bench.device
    )
    evened(captioner)
    trainer = Trainer(captioner.to(bench.device), RATE)
    done, taken = 0.0, 0
    try:
        while done < 1:
            batch = [one for one in drawings.draw(BATCH) if one not in tried]
            loss = trainer.step(captioner.loss(batch), done)
            done = bench.done(trainer.steps, most_steps, LEAST)
            bench.tell(_("step {step}, loss {loss:.2f}").format(step=trainer.steps, loss=loss), done)
            if done * TRIALS >= taken + 1 or done >= 1:
                taken = int(done * TRIALS)
                right = {kind: share_right(captioner, each, spoken) for kind, each in trials.items()}
                bench.results.add(step=trainer.steps, loss=loss, **right)
    finally:
        bench.results.extra["examples"] = [
            (one.caption(spoken), got) for one, got in zip(trials[APART][:4], captioner.captions(trials[APART][:4]))
        ]
        bench.results.extra["looks"] = (example(), *captioner.looks(example()))


def share_right(writer: Captioner | Nearest, drawings: list[Drawing], spoken: str) -> float:
    """The share of captions that are right to the last word."""
    written = writer.captions(drawings)
    return sum(got == one.caption(spoken) for got, one in zip(written, drawings)) / len(drawings)


def share_on(weights: Tensor, shape: Shape) -> float:
    """How much of a word's weights, (rows, columns) of patches, lies on the patches that a shape touches."""
    covered = shape.covers().unflatten(0, (-1, PATCH)).unflatten(2, (-1, PATCH)).any(3).any(1)
    return float(weights[covered].sum())


# --- what is shown ---


def named() -> dict[str, str]:
    """The rows of the table."""
    return {NEW: _("new images"), APART: _("a green circle or a red triangle, never in training")}


def tables(results: Results) -> list[Table]:
    """What is right beside the baseline, and what it says of kinds that it never saw."""
    made = []
    if results.rows:
        last, nearest = results.rows[-1], results.extra["nearest"]
        rows = [(name, f"{last[kind]:.0%}", f"{nearest[kind]:.0%}") for kind, name in named().items()]
        heads = ("", _("your model"), _("caption of the most similar image"))
        made.append(Table(_("Held-out images: captions that are right to the last word"), heads, rows))
    rows = [
        (" ".join(due), " ".join(got), "✓" if got == due else "✗") for due, got in results.extra.get("examples", [])
    ]
    if rows:
        title = _("Kinds of shapes that were never in training")
        made.append(Table(title, (_("the image shows"), _("your model writes"), ""), rows))
    return made


def pictures(results: Results) -> list[Plot]:
    """What each word looks at, and how it learned."""
    made = []
    if results.extra.get("looks", ("", ()))[1]:
        made.append(_looks(*results.extra["looks"]))
    if len(results.rows) > 1:
        with lab_plot.drawing() as drawing:
            for number, (kind, name) in enumerate(named().items()):
                points = [(row["step"], row[kind]) for row in results.rows]
                drawing.axes.plot(*zip(*points), label=name, **lab_plot.style(number))
            drawing.axes.set_ylim(-0.02, 1.02)
            drawing.axes.set_xlabel(_("step"))
            drawing.axes.set_ylabel(_("right to the last word"))
            drawing.legend()
        made.append(Plot(_("How it learned"), drawing.svg, " ".join(findings(results))))
    return made


def _looks(shown: Drawing, caption: Sentence, weights: Tensor) -> Plot:
    columns = 3
    rows = -(-len(caption) // columns)
    with lab_plot.drawing((4.4, 1.6 * rows), rows, columns, squeeze=False) as drawing:
        for place, axes in enumerate(drawing.axes.flat):
            if place >= len(caption):
                axes.set_axis_off()
                continue
            lab_plot.shade(axes, weights[place].tolist(), largest=float(weights.max()))
            for shape in shown.shapes:
                axes.add_patch(_outline(shape))
            axes.set_title(caption[place], fontsize=11)
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set_visible(True)
        drawing.colour_bar(drawing.axes, _("weight"), float(weights.max()))
    alt = _("The image once for each word, its patches blue where the word looks.")
    return Plot(_("Which patches each word looks at when it is written"), drawing.svg, alt)


def _outline(shape: Shape) -> Any:
    """A shape's edge in its own colour, in units of patches."""
    from matplotlib import patches

    row, column = (each / PATCH - 0.5 for each in shape.centre)
    radius = RADIUS / PATCH
    drawn = {"fill": False, "edgecolor": COLOURS[shape.colour], "linewidth": 2.5}
    if shape.form == CIRCLE:
        return patches.Circle((column, row), radius, **drawn)
    if shape.form == SQUARE:
        return patches.Rectangle((column - radius, row - radius), 2 * radius, 2 * radius, **drawn)
    corners = [(column, row - radius), (column - radius, row + radius), (column + radius, row + radius)]
    return patches.Polygon(corners, **drawn)


def findings(results: Results) -> list[str]:
    """Both rows beside the baseline, and how much of a word's weight is on what it names."""
    said = []
    if results.rows:
        last, nearest = results.rows[-1], results.extra["nearest"]
        sentence = _(
            "{kind}: {model:.0%} of the captions are right, {nearest:.0%} of those copied from a similar image."
        )
        said += [sentence.format(kind=name, model=last[kind], nearest=nearest[kind]) for kind, name in named().items()]
    sentence = _("“{word}” puts {share:.0%} of its weight on the patches of the shape that it describes.")
    return said + [sentence.format(word=word, share=share) for word, share in _shares(results)]


def _shares(results: Results) -> list[tuple[str, float]]:
    """For each word of colour or shape, how much it looks at its own shape; none while the caption is wrong."""
    shown, caption, weights = results.extra.get("looks", (None, (), None))
    if caption != (shown.caption(language.current()) if shown else None):
        return []
    words = [
        (caption.index(shape.said(language.current())[word]), shape)
        for shape in shown.shapes
        for word in ((0, 1) if language.current() == "en" else (2, 3))
    ]
    return [(caption[place], share_on(weights[place], shape)) for place, shape in words]


def judged(results: Results) -> LabVerdict:
    """How much of the weight of words of colour and shape is on what they describe."""
    shares = _shares(results)
    if not results.rows or not shares:
        return LabVerdict(0, "", {"faint": bool(results.rows) and results.rows[-1]["step"] < 200})
    last, nearest = results.rows[-1], results.extra["nearest"]
    mean = sum(share for _word, share in shares) / len(shares)
    learned = last[NEW] > 0.8
    shows = {
        "look": learned and mean > 0.35,
        "copies": nearest[NEW] < last[NEW] - 0.1,
        "apart": learned and last[APART] < 0.7,
    }
    because = _(
        "The words of colour and shape have {share:.0%} of their weight on their own shape; alike would be 25%."
    )
    return LabVerdict(first_that({1: mean < 0.3, 2: mean > 0.35}) if learned else 0, because.format(share=mean), shows)
