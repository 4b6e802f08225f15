"""A classifier of made reviews that hears "not good", beside one that only counts words."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.base import language
from grader.base.language import gettext as _
from grader.labs import plot as lab_plot
from grader.labs.judged import LabVerdict, first_that
from grader.labs.lab import Bench, Plot, Results, Table
from grader.labs.parts import Need

from ..lab_common import own
from ..lab_common.training import PAD, Trainer, Words, evened, watching
from .reviews import LANGUAGES, Review, Reviews, Sentence

SECONDS = 45.0
WIDTH, HEADS, LAYERS, INNER, CLASSES, LONGEST = 32, 4, 2, 64, 3, 16
DROPOUT = 0.1
BATCH, RATE, COUNTING_RATE = 64, 3e-3, 5e-2
MOST_STEPS = 400
LEAST = 60  # steps, however slow the machine
TRIED = 200  # reviews per row of the table
TRIALS = 10
NEEDS = (
    Need("step21_encoder", ("SentimentAnalyzer",), own.Encoder),
    Need("step20_cross_attention", ("MultiHeadAttention", "padding_mask"), graded_only=True),
)
NONE, ONE, TWO, APART = "none", "one", "two", "apart"  # the rows of the table: how much a review negates


class CountsWords(nn.Module):
    """The baseline, a bag of words: a weight per word and class, summed over the words, whatever their order."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.weights = nn.EmbeddingBag(words, CLASSES, mode="sum", padding_idx=PAD)
        self.bias = nn.Parameter(torch.zeros(CLASSES))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(B, T) ids -> logits (B, CLASSES)."""
        scores: Tensor = self.weights(ids)
        return scores + self.bias


class Reader:
    """A model that is asked with reviews."""

    def __init__(self, model: nn.Module, words: Words, device: str) -> None:
        self.model, self.words, self.device = model.to(device), words, device

    def logits(self, reviews: list[Review]) -> Tensor:
        """(B, CLASSES)."""
        ids = self.words.encode([review.words for review in reviews]).to(self.device)
        logits: Tensor = self.model(ids, ids != PAD)
        return logits

    def loss(self, reviews: list[Review]) -> Tensor:
        """The mean cross-entropy."""
        labels = torch.tensor([review.label for review in reviews], device=self.device)
        return F.cross_entropy(self.logits(reviews), labels)

    @torch.no_grad()
    def guesses(self, reviews: list[Review]) -> list[int]:
        """A class for each review."""
        was_training = self.model.training
        self.model.eval()
        classes: list[int] = self.logits(reviews).argmax(-1).tolist()
        self.model.train(was_training)
        return classes

    def share_right(self, reviews: list[Review]) -> float:
        """The share whose class is right."""
        return sum(got == review.label for got, review in zip(self.guesses(reviews), reviews)) / len(reviews)


def measure(bench: Bench, most_steps: int = MOST_STEPS) -> None:
    """Both learn from the same reviews; now and then a trial on ones that were not among them."""
    torch.manual_seed(bench.seed)
    spoken = language.current()
    reviews = Reviews(spoken, bench.seed)
    trials = {NONE: reviews.draw(TRIED, negations=0), ONE: reviews.draw(TRIED, negations=1)}
    trials |= {TWO: reviews.draw(TRIED, negations=2), APART: reviews.draw(TRIED, apart=True)}
    tried = {review.words for each in trials.values() for review in each}
    words = Words([review.words for review in [*reviews.draw(2000), *reviews.draw(200, apart=True)]])
    analyzer = bench.part("step21_encoder").SentimentAnalyzer
    model = analyzer(len(words), WIDTH, HEADS, LAYERS, CLASSES, INNER, LONGEST, DROPOUT)
    evened(model)
    reader, counter = Reader(model, words, bench.device), Reader(CountsWords(len(words)), words, bench.device)
    trainers = (Trainer(reader.model, RATE), Trainer(counter.model, COUNTING_RATE))
    done, taken = 0.0, 0
    try:
        while done < 1:
            batch = [review for review in reviews.draw(BATCH) if review.words not in tried]
            loss, _counting = (one.step(each.loss(batch), done) for one, each in zip(trainers, (reader, counter)))
            done = bench.done(trainers[0].steps, most_steps, LEAST)
            bench.tell(_("step {step}, loss {loss:.2f}").format(step=trainers[0].steps, loss=loss), done)
            if done * TRIALS >= taken + 1 or done >= 1:
                taken = int(done * TRIALS)
                for kind, each in trials.items():
                    right = {"model": reader.share_right(each), "counting": counter.share_right(each)}
                    bench.results.add(kind=kind, step=trainers[0].steps, **right)
    finally:
        _keep(bench.results, reader, counter, reviews)


@torch.no_grad()
def _keep(results: Results, reader: Reader, counter: Reader, reviews: Reviews) -> None:
    """The two reviews of the same words, and what the words of one look at."""
    twins = list(reviews.twins())
    guesses = zip(reader.guesses(twins), counter.guesses(twins))
    results.extra["twins"] = [(twin.words, twin.label, *guess) for twin, guess in zip(twins, guesses)]
    reader.model.eval()
    blocks = list(reader.model.get_submodule("transformer.transformer_blocks").children())
    attentions = [part for block in blocks for part in block.children() if _is_attention(part)]
    with watching(attentions) as seen:
        reader.logits(twins[:1])
    if seen:
        every = torch.cat(seen, dim=1)[0].cpu()  # (layers and heads, T, T)
        results.extra["map"] = (twins[0].words, *_hears(every, twins[0].words, reviews.language.negation))


def _is_attention(part: nn.Module) -> bool:
    return not isinstance(part, nn.LayerNorm | nn.Dropout) and any("attention" in n.lower() for n in _names(part))


def _names(part: nn.Module) -> tuple[str, ...]:
    return tuple(kind.__name__ for kind in type(part).__mro__)


def _hears(every: Tensor, words: Sentence, negation: str) -> tuple[Tensor, str, float]:
    """Of all layers and heads the one in which another word looks most at the negation: its weights, the word, and how
    much it looks."""
    place = words.index(negation)
    looks = every[:, :, place].clone()
    looks[:, place] = 0.0
    head, row = divmod(int(looks.argmax()), len(words))
    return every[head], words[row], float(looks[head, row])


# --- what is shown ---


def named() -> dict[str, str]:
    """The rows of the table."""
    negation = LANGUAGES[language.current()].negation
    first, second = LANGUAGES[language.current()].apart
    return {
        NONE: _("no clause negated"),
        ONE: _("one clause negated"),
        TWO: _("two clauses negated"),
        APART: _("negated as never in training: {negation} {first}, {negation} {second}").format(
            negation=negation, first=first, second=second
        ),
    }


def last(results: Results) -> dict[str, dict[str, float]]:
    """The last figures of each row."""
    return {row["kind"]: row for row in results.rows}


def classes() -> tuple[str, str, str]:
    """What the three classes are called."""
    return _("bad"), _("mixed"), _("good")


def written(words: Sentence) -> str:
    """A review as it is written."""
    return " ".join(words).replace(" ,", ",").replace(" .", ".").replace(" 고,", "고,").replace(" 습니다.", "습니다.")


def tables(results: Results) -> list[Table]:
    """What is right on reviews that were not trained on, and the two of the same words."""
    rows = [(named()[kind], f"{row['model']:.0%}", f"{row['counting']:.0%}") for kind, row in last(results).items()]
    made = [Table(_("Held-out reviews"), ("", _("your model"), _("bag of words")), rows)]
    names = classes()
    twins = [
        (written(words), names[label], names[model], names[counting])
        for words, label, model, counting in results.extra.get("twins", [])
    ]
    if twins:
        heads = (_("review"), _("it is"), _("your model"), _("bag of words"))
        made.append(Table(_("The same words, in another order"), heads, twins))
    return made


def pictures(results: Results) -> list[Plot]:
    """Both beside each other, and the map."""
    made = []
    rows = last(results)
    if rows:
        with lab_plot.drawing() as drawing:
            names = named()
            for number, (figure, name) in enumerate((("model", _("your model")), ("counting", _("bag of words")))):
                places = [place + 0.4 * number - 0.2 for place in range(len(rows))]
                drawing.axes.barh(
                    places, [row[figure] for row in rows.values()], 0.36, label=name, color=lab_plot.SERIES[number],
                    hatch="//" if number else None, edgecolor=lab_plot.INK,
                )  # fmt: skip
            drawing.axes.set_yticks(range(len(rows)), [names[kind].replace(": ", ":\n") for kind in rows])
            drawing.axes.invert_yaxis()
            drawing.axes.set_xlim(0, 1)
            drawing.axes.set_xlabel(_("reviews whose class is right"))
            drawing.figure.legend(loc="outside upper right", ncols=2)
        made.append(Plot(_("Held-out reviews"), drawing.svg, " ".join(findings(results))))
    if "map" in results.extra:
        words, weights, _word, _share = results.extra["map"]
        with lab_plot.drawing(lab_plot.NARROW) as drawing:
            lab_plot.shade(drawing.axes, weights.tolist(), largest=1.0)
            drawing.axes.set_xticks(range(len(words)), words, rotation=60, ha="right")
            drawing.axes.set_yticks(range(len(words)), words)
            drawing.axes.set_xlabel(_("key"))
            drawing.axes.set_ylabel(_("query"))
            drawing.colour_bar(drawing.axes, _("weight"))
        alt = _("A row for each word, a column for each word that it looks at; blue where it looks.")
        title = _("The head that hears the negation: “{review}”").format(review=written(words))
        made.append(Plot(title, drawing.svg, alt))
    return made


def findings(results: Results) -> list[str]:
    """Negated reviews, those never negated so, and the word behind the negation."""
    rows, said = last(results), []
    sentence = _("{kind}: your model is right on {model:.0%}, the bag of words on {counting:.0%}.")
    for kind in (ONE, APART):
        if kind in rows:
            figures = {name: rows[kind][name] for name in ("model", "counting")}
            said.append(sentence.format(kind=named()[kind], **figures))
    if "map" in results.extra:
        words, _weights, word, share = results.extra["map"]
        sentence = _("In “{review}” the word “{word}” looks at “{negation}” with weight {share:.2f} in one head.")
        negation = LANGUAGES[language.current()].negation
        said.append(sentence.format(review=written(words), word=word, negation=negation, share=share))
    return said


def judged(results: Results) -> LabVerdict:
    """The bag of words on reviews with one negation, beside the model."""
    rows = last(results)
    if not {ONE, APART} <= rows.keys():
        return LabVerdict()
    model, counting = rows[ONE]["model"], rows[ONE]["counting"]
    learned = model > 0.85
    twins = results.extra.get("twins", [])
    shows = {
        "twins": len({got for *_twin, got in twins}) == 1, "looks": learned and "map" in results.extra,
        "apart": learned and rows[APART]["model"] < model - 0.1,
    }  # fmt: skip
    because = _("One clause negated: the model is right on {model:.0%}, the bag of words on {counting:.0%}.").format(
        model=model, counting=counting
    )
    answers = {1: counting > model - 0.1, 2: 0.3 < counting < 0.7, 3: counting < 0.1}
    return LabVerdict(first_that(answers) if learned else 0, because, shows)
