"""A translator of dates, English to Korean and back: what it gets right on days it never saw, and where it looks."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.base.language import gettext as _
from grader.labs import plot as lab_plot
from grader.labs.judged import LabVerdict
from grader.labs.lab import Bench, Plot, Results, Table
from grader.labs.parts import Need

from ..lab_common import own
from ..lab_common.training import BOS, EOS, PAD, Trainer, Words, evened, watching
from .dates import Date, Days, Sentence, everything

SECONDS = 60.0
WIDTH, HEADS, LAYERS, INNER, DROPOUT = 48, 4, 2, 96, 0.0
BATCH, RATE = 48, 4e-3
MOST_STEPS = 450  # on two cores some 30 s
LEAST = 60  # steps, however slow the machine
TRIED = 60  # dates per direction in a trial
TRIALS = 10
LESSON = 400  # dates that the baseline learns from
SHOWN = Date(1987, 10, 21)
TO_KOREAN, TO_ENGLISH = "to_korean", "to_english"
NEEDS = (
    Need("step22_decoder", ("EncoderDecoderTransformer", "greedy_translate"), own.Decoder),
    Need("step21_encoder", ("FeedForward", "SimpleTransformer"), graded_only=True),
    Need("step20_cross_attention", ("MultiHeadAttention", "padding_mask"), graded_only=True),
)

Pair = tuple[Sentence, Sentence]


def pairs(dates: list[Date], direction: str) -> list[Pair]:
    """Source and target."""
    sides = [(date.english, date.korean) for date in dates]
    return sides if direction == TO_KOREAN else [(korean, english) for english, korean in sides]


def measure(bench: Bench, most_steps: int = MOST_STEPS) -> None:
    """Trains one model on both directions; now and then a trial on days that it never saw."""
    torch.manual_seed(bench.seed)
    days, words, step22 = Days(bench.seed), Words(everything()), bench.part("step22_decoder")
    trial = {way: pairs(days.draw(TRIED, days.apart), way) for way in (TO_KOREAN, TO_ENGLISH)}
    in_place = {way: InPlace(pairs(days.draw(LESSON), way)) for way in trial}
    bench.results.extra["in_place"] = {way: share_right(in_place[way].translate, trial[way]) for way in trial}
    model = step22.EncoderDecoderTransformer(len(words), len(words), WIDTH, HEADS, LAYERS, INNER, 14, DROPOUT)
    evened(model)
    trainer = Trainer(model.to(bench.device), RATE)
    translate = Translate(model, step22.greedy_translate, words, bench.device)
    done, tried = 0.0, 0
    try:
        while done < 1:
            dates = days.draw(BATCH)
            batch = [*pairs(dates[::2], TO_KOREAN), *pairs(dates[1::2], TO_ENGLISH)]
            loss = trainer.step(_loss(translate, batch), done)
            done = bench.done(trainer.steps, most_steps, LEAST)
            bench.tell(_("step {step}, loss {loss:.2f}").format(step=trainer.steps, loss=loss), done)
            if done * TRIALS >= tried + 1 or done >= 1:
                tried = int(done * TRIALS)
                right = {way: share_right(translate, trial[way]) for way in trial}
                bench.results.add(step=trainer.steps, loss=loss, **right)
    finally:
        _keep(bench.results, translate, trial)


class Translate:
    """A model that is asked with words."""

    def __init__(self, model: torch.nn.Module, greedy: Any, words: Words, device: str) -> None:
        self.model, self.greedy, self.words, self.device = model, greedy, words, device

    def ids(self, sentences: list[Sentence], framed: bool = False) -> Tensor:
        """(B, T) ids on the model's device."""
        return self.words.encode(sentences, framed).to(self.device)

    def __call__(self, sources: list[Sentence]) -> list[Sentence]:
        """What it writes."""
        src = self.ids(sources)
        written = self.greedy(self.model, src, BOS, EOS, 13, src_mask=(src != PAD)[:, None, None])
        return [tuple(self.words.decode(row)) for row in written.tolist()]


def _loss(translate: Translate, batch: list[Pair]) -> Tensor:
    src = translate.ids([source for source, _target in batch])
    tgt = translate.ids([target for _source, target in batch], framed=True)
    logits = translate.model(src, tgt[:, :-1], (src != PAD)[:, None, None])
    return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD)


class InPlace:
    """The baseline: each word is replaced where it stands, by what most often stood there in the translations."""

    def __init__(self, lesson: list[Pair]) -> None:
        counts: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
        for source, target in lesson:
            for place, word in enumerate(source):
                counts[place, word][target[place] if place < len(target) else ""] += 1
        self._table = {known: count.most_common(1)[0][0] for known, count in counts.items()}

    def translate(self, sources: list[Sentence]) -> list[Sentence]:
        """Word by word."""
        rows = [[self._table.get((place, word), "") for place, word in enumerate(source)] for source in sources]
        return [tuple(word for word in row if word) for row in rows]


def share_right(translate: Any, trial: list[Pair]) -> float:
    """The share of sentences that are right to the last word."""
    written = translate([source for source, _target in trial])
    return sum(got == target for got, (_source, target) in zip(written, trial)) / len(trial)


@torch.no_grad()
def _keep(results: Results, translate: Translate, trial: dict[str, list[Pair]]) -> None:
    """Examples, and the alignment of one date in both directions."""
    translate.model.eval()
    for way, held_out in trial.items():
        sources = [source for source, _target in held_out[:3]]
        results.extra[f"examples {way}"] = list(zip(sources, translate(sources), (pair[1] for pair in held_out)))
        ((source, target),) = pairs([SHOWN], way)
        blocks = list(translate.model.get_submodule("decoder_blocks").children())
        with watching([block.get_submodule("cross_attention") for block in blocks]) as seen:
            translate.model(translate.ids([source]), translate.ids([target], framed=True)[:, :-1])
        # Row t writes target word t. Of all heads and layers the mean: an alignment may sit in any of them.
        if seen:
            weights = torch.cat(seen, dim=1)[0].mean(0)[: len(target)]
            results.extra[f"alignment {way}"] = (source, target, weights.cpu())


# --- what is shown ---


def named() -> dict[str, str]:
    """The two directions, as a reader calls them."""
    return {TO_KOREAN: _("English to Korean"), TO_ENGLISH: _("Korean to English")}


def tables(results: Results) -> list[Table]:
    """What is right at the end beside the baseline, and examples."""
    made = []
    if results.rows:
        last, baseline = results.rows[-1], results.extra["in_place"]
        rows = [(name, f"{last[way]:.0%}", f"{baseline[way]:.0%}") for way, name in named().items()]
        title = _("Dates on days of the year that were never trained on, right to the last word")
        made.append(Table(title, ("", _("your model"), _("word by word, in place")), rows))
    examples = [
        (" ".join(source), " ".join(got), "✓" if got == target else "✗")
        for way in named()
        for source, got, target in results.extra.get(f"examples {way}", [])
    ]
    if examples:
        made.append(Table(_("What it writes"), (_("source"), _("translation"), ""), examples))
    return made


def pictures(results: Results) -> list[Plot]:
    """The maps of both directions, and how it learned."""
    made = []
    for way, name in named().items():
        if f"alignment {way}" in results.extra:
            made.append(_map(name, *results.extra[f"alignment {way}"]))
    if len(results.rows) > 1:
        with lab_plot.drawing() as drawing:
            for number, (way, name) in enumerate(named().items()):
                points = [(row["step"], row[way]) for row in results.rows]
                drawing.axes.plot(*zip(*points), label=name, **lab_plot.style(number))
            drawing.axes.set_ylim(-0.02, 1.02)
            drawing.axes.set_xlabel(_("step"))
            drawing.axes.set_ylabel(_("right to the last word"))
            drawing.legend()
        made.append(Plot(_("How it learned"), drawing.svg, " ".join(findings(results))))
    return made


def _map(name: str, source: Sentence, target: Sentence, weights: Tensor) -> Plot:
    with lab_plot.drawing(lab_plot.NARROW) as drawing:
        lab_plot.shade(drawing.axes, weights.tolist(), largest=float(weights.max()))
        drawing.colour_bar(drawing.axes, _("weight"), float(weights.max()))
        drawing.axes.set_xticks(range(len(source)), source, rotation=60, ha="right")
        drawing.axes.set_yticks(range(len(target)), target)
        drawing.axes.set_xlabel(_("source"))
        drawing.axes.set_ylabel(_("written"))
    alt = _("A row for each word that is written, a column for each word of the source; blue where it looked.")
    return Plot(_("{direction}: where each written word looks").format(direction=name), drawing.svg, alt)


def findings(results: Results) -> list[str]:
    """Both directions beside the baseline."""
    if not results.rows:
        return []
    last, baseline = results.rows[-1], results.extra["in_place"]
    said = _("{direction}: {model:.0%} of unseen dates are right to the last word; replaced in place, {baseline:.0%}.")
    return [said.format(direction=name, model=last[way], baseline=baseline[way]) for way, name in named().items()]


def judged(results: Results) -> LabVerdict:
    """Whether the rows of the year's digits look at the same digits of the source, where they stand and in order."""
    if not results.rows or f"alignment {TO_KOREAN}" not in results.extra:
        return LabVerdict()
    last, found = results.rows[-1], []
    for way in named():
        source, target, weights = results.extra[f"alignment {way}"]
        first, there = (_year(sentence) for sentence in (target, source))
        found += [int(weights[first + place].argmax()) == there + place for place in range(4)]
    read, right = sum(found), min(last[way] for way in named())
    learned = right > 0.8
    shows = {"aligned": read >= 6, "unseen": learned, "baseline": max(results.extra["in_place"].values()) == 0.0}
    because = _("{count} of the year's 8 digits look most at that digit of the source; {right:.0%} of dates are right.")
    return LabVerdict(2 if learned and read >= 6 else 0, because.format(count=read, right=right), shows)


def _year(sentence: Sentence) -> int:
    """Where the digits of the year begin."""
    return 0 if sentence[0].isdigit() else len(sentence) - 4
