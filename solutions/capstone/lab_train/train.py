"""`make train`: the learner's own GPT on a text, with everything to see while it learns and everything kept."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.live import Live

from grader.base import language
from grader.base.language import gettext as _
from grader.labs import command as lab_command
from grader.labs import page as lab_page
from grader.labs import parts
from grader.labs import plot as lab_plot
from grader.labs.lab import Plot, Table, cut
from grader.report import console as screens
from grader.report.terminal import visible

from ..lab_common import pieces, programs, stories, training
from . import screen, source

SECONDS = 120.0
POINT, FIRST_POINTS = 25, 5  # steps between points of the curve, and at its beginning, where it falls fast
SAMPLE, SAVE = 15.0, 20.0  # seconds between samples, and between checkpoints
SAMPLE_SHARE = 12  # or, where a sample takes long, so many times as long as it took
SAMPLE_TOKENS, TEMPERATURE, TOP_K = 60, 0.8, 20
START = 12  # tokens of the text that `make generate` goes on from by default
LINE_SECONDS = 10.0
GENTLE = 1e-3  # the learning rate for weights that know something already
MOST_UNKNOWN = 20
REFRESH = 10  # seconds after which the page loads itself again while the run goes on
STEP_28 = "step28_training"
NEEDS = (*programs.GPT_NEEDS, parts.Need(STEP_28, ("make_optimizer", "train_step"), optional=True))


@dataclass
class Training:
    """A run and all that is shown and kept of it."""

    run: training.Run
    words: pieces.Pieces
    gpt: parts.StepCode
    whose: list[str]
    folder: Path
    seed: int
    bigram: float
    asked: str | None = None  # the text, as it was asked for: a file, `torch`, the words; None for the stories
    spoken: str = "en"  # the language of the stories
    loss: float = 0.0  # of the last step

    @property
    def is_code(self) -> bool:
        """Whether it learns from PyTorch's source."""
        return self.asked == source.TEXT

    @property
    def checkpoint(self) -> Path:
        return self.folder / programs.CHECKPOINT.name

    @property
    def blind(self) -> float:
        """The loss of guessing."""
        return training.blind_loss(self.run.shape.vocab_size)

    def save(self) -> None:
        """The checkpoint, with all that goes on from it needs to know."""
        start = source.PROMPT if self.is_code else self.words.decode(self.run.training[:START].tolist())
        about = {"pieces": self.words.tokens, "bigram": self.bigram, "seed": self.seed, "start": start}
        about |= {"text": self.asked, "language": self.spoken, "bytes": isinstance(self.words, pieces.BytePieces)}
        self.run.save(self.checkpoint, about)

    def sample(self) -> None:
        """What it writes now; the run's own random state stays as it is."""
        if self.is_code:
            start = self.words.encode(source.START)
            written = self._drawn(start, source.SAMPLES, source.SAMPLE_TOKENS, source.TEMPERATURE)
            share = sum(map(source.parses, written)) / len(written)
            self.run.progress.parsing.append((self.run.progress.step, share))
        else:
            written = self._drawn(self.run.training[:1].tolist(), 1, SAMPLE_TOKENS, TEMPERATURE)
        shown = re.sub(r"\n{3,}", "\n\n", written[0]).strip()
        self.run.progress.samples.append((self.run.progress.step, shown))

    def _drawn(self, start: list[int], count: int, tokens: int, temperature: float) -> list[str]:
        """So many texts that go on from these ids."""
        held = torch.tensor([start] * count, device=self.run.device)
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            ids = self.gpt.generate(self.run.model, held, tokens, temperature, TOP_K)
        return [self.words.decode(row) for row in ids.tolist()]

    def write_page(self, refresh: int | None = None) -> Path:
        """The page, as it stands."""
        page = self.folder / "train.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        lesson = cut(Path(__file__).with_name(f"lesson.{language.current()}.md").read_text(encoding="utf-8"))
        page.write_text(
            lab_page.filled(
                title=lesson.title, about=lesson.about, question="", answers=[], prediction="", stopped=False,
                whose=self.whose, findings=findings(self), pictures=lambda: pictures(self), tables=tables(self),
                to_see=lesson.to_see, refresh=refresh,
                facts=lab_page.facts(self.run.device, self.seed, self.run.progress.seconds),
            ),
            encoding="utf-8",
        )  # fmt: skip
        return page


# --- what is shown ---


def findings(trained: Training) -> list[str]:
    """Where it stands against the bigram model."""
    progress, said = trained.run.progress, []
    validation = [(step, loss) for step, _loss, loss in progress.curve if loss is not None]
    if not validation:
        return [_("No step was taken.")]
    last = validation[-1][1]
    said.append(
        _(
            "Validation loss {last:.2f} after {steps} steps and {seconds:.0f} s; a bigram model reaches {bigram:.2f}, "
            "guessing {blind:.2f}."
        ).format(last=last, steps=progress.step, seconds=progress.seconds, bigram=trained.bigram, blind=trained.blind)
    )
    below = next((step for step, loss in validation if loss < trained.bigram), None)
    if below is not None:
        said.append(_("It was below the bigram model from step {step}.").format(step=below))
    lowest = min(loss for _step, loss in validation)
    if last > lowest + 0.05:
        said.append(
            _("The validation loss was {lowest:.2f} and rises again: it learns the text by heart.").format(
                lowest=lowest
            )
        )
    if progress.seconds:
        said.append(_("{rate:,.0f} tokens a second.").format(rate=progress.tokens / progress.seconds))
    if progress.parsing:
        sentence = _("Of {count} samples at step {step}, {share:.0%} are Python up to their last finished line.")
        step, share = progress.parsing[-1]
        said.append(sentence.format(count=source.SAMPLES, step=step, share=share))
    return said


def pictures(trained: Training) -> list[Plot]:
    """The losses; and how much of what it writes parses, where it learns from source code."""
    return [picture(trained), *([parsing(trained)] if trained.run.progress.parsing else [])]


def parsing(trained: Training) -> Plot:
    """The share of samples that are Python, while it trains."""
    steps, shares = zip(*trained.run.progress.parsing)
    with lab_plot.drawing() as drawing:
        drawing.axes.plot(steps, [100 * share for share in shares], **lab_plot.style(0))
        drawing.axes.set_ylim(-3, 103)
        drawing.axes.set_xlabel(_("step"))
        drawing.axes.set_ylabel(_("samples that parse (%)"))
    title = _("How much of what it writes is Python")
    return Plot(title, drawing.svg, findings(trained)[-1])


def picture(trained: Training) -> Plot:
    """Both losses, the bigram model's and that of guessing."""
    points = trained.run.progress.curve
    with lab_plot.drawing() as drawing:
        axes = drawing.axes
        axes.plot([p[0] for p in points], [p[1] for p in points], label=_("training"), **lab_plot.line(0))
        seen = [(step, loss) for step, _loss, loss in points if loss is not None]
        axes.plot([p[0] for p in seen], [p[1] for p in seen], label=_("validation"), **lab_plot.line(1))
        axes.axhline(trained.bigram, label=_("bigram model"), **lab_plot.line(2))
        axes.axhline(trained.blind, label=_("guessing"), **lab_plot.line(3))
        axes.set_ylim(bottom=0)
        axes.set_xlabel(_("step"))
        axes.set_ylabel(_("loss (nats per token)"))
        drawing.legend()
    return Plot(_("Loss while it trains"), drawing.svg, " ".join(findings(trained)))


def tables(trained: Training) -> list[Table]:
    """What it wrote, and when."""
    samples = [(str(step), text) for step, text in trained.run.progress.samples]
    if len(samples) > 6:  # the first and the last, and some between
        samples = [samples[round(index * (len(samples) - 1) / 5)] for index in range(6)]
    return [Table(_("What it writes"), (_("step"), _("text")), samples)] if samples else []


# --- the run ---


def prepare(
    words: pieces.Pieces, text: str, gathered: dict[str, parts.StepCode], folder: Path, seed: int, device: str,
    shape: training.Shape | None = None, asked: str | None = None, spoken: str = "en",
) -> Training:  # fmt: skip
    """A run at its beginning. Raises Stop for a text that is too short."""
    ids = training.ids_of(words, text)
    gpt = gathered["step12_gpt"]
    step_28 = gathered.get(STEP_28)
    try:
        run = training.Run(
            shape or training.Shape(len(words.tokens)), ids, gpt.GPT, gpt.next_token_batches, seed, device, step_28
        )
    except training.Unfit:
        raise parts.Stop(_("The text is too short to learn from: {count} tokens. Type: TEXT=LONGER_FILE").format(
            count=len(ids)
        )) from None  # fmt: skip
    bigram = training.bigram_loss(run.training, run.validation, len(words.tokens))
    whose = [part.said for part in gathered.values()]
    return Training(run, words, gpt, whose, folder, seed, bigram, asked, spoken)


def go(trained: Training, seconds: float, steps: int | None, screen_of: Any) -> None:
    """Trains until the time is over, or so many steps are done, or Ctrl-C; `screen_of(done, left)` shows it."""
    run, progress = trained.run, trained.run.progress
    began, before = time.monotonic(), progress.seconds
    first_step, sampled, sampling, saved = progress.step, 0.0, 0.0, 0.0
    while True:
        now = time.monotonic() - began
        done = min(1.0, (progress.step - first_step) / steps if steps else now / seconds)
        if done >= 1.0:
            return
        if trained.is_code:
            run.decay = source.decay(done)
        trained.loss = run.advance()
        progress.seconds = before + time.monotonic() - began
        if progress.step % (POINT if progress.step > POINT else FIRST_POINTS) == 0:
            progress.curve.append((progress.step, trained.loss, run.validate()))
            screen_of(done, (seconds - now) if not steps else now * (1 - done) / max(done, 1e-3))
        if now - sampled > max(SAMPLE, SAMPLE_SHARE * sampling) or not progress.samples:
            sampled = now
            trained.sample()
            sampling = time.monotonic() - began - now
        if now - saved > SAVE:
            saved = now
            trained.save()
            trained.write_page(REFRESH)


def train(trained: Training, seconds: float, steps: int | None, console: Console) -> bool:
    """Trains and keeps everything; whether it ended by itself."""
    ended = True
    with _screen(trained, console) as show:
        try:
            go(trained, seconds, steps, show)
        except KeyboardInterrupt:
            ended = False
    progress = trained.run.progress
    if progress.step and (not progress.curve or progress.curve[-1][0] != progress.step):
        progress.curve.append((progress.step, trained.loss, trained.run.validate()))
        trained.sample()
    trained.save()
    return ended


@contextmanager
def _screen(trained: Training, console: Console) -> Iterator[Any]:
    """The live view in a terminal; a line now and then elsewhere."""
    said = time.monotonic()
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield lambda done, left: live.update(
                screen.view(trained.run.progress, done, left, trained.bigram, trained.blind)
            )
        return

    def line(done: float, left: float) -> None:
        nonlocal said
        if time.monotonic() - said > LINE_SECONDS:
            said = time.monotonic()
            step, loss, validation = trained.run.progress.curve[-1]
            print(_("step {step}: loss {loss:.2f}, validation {validation:.2f}, {seconds:.0f} s left").format(
                step=step, loss=loss, validation=validation, seconds=left
            ), file=sys.stderr, flush=True)  # fmt: skip

    yield line


# --- the command ---


def run(args: argparse.Namespace) -> int:
    """The command. Raises Stop."""
    say = screens.console()
    lab_command.require_matplotlib()
    gathered = lab_command.gathered(NEEDS, args)
    for part in gathered.values():
        say.print(visible(part.said))
    with parts.blamed_on(args.submission):
        trained = _begun(args, gathered)
        say.print(
            _(
                "{count:,} tokens of {kinds} kinds, {parameters:,} parameters. A bigram model reaches {bigram:.2f}."
            ).format(
                count=len(trained.run.training),
                kinds=len(trained.words.tokens),
                bigram=trained.bigram,
                parameters=sum(parameter.numel() for parameter in trained.run.model.parameters()),
            )  # fmt: skip
        )
        ended = train(trained, args.seconds or SECONDS, args.steps, Console())
    return _told(say, trained, ended)


def _begun(args: argparse.Namespace, gathered: dict[str, parts.StepCode]) -> Training:
    """A new run, or the one that the checkpoint holds."""
    checkpoint, spoken = args.out / programs.CHECKPOINT.name, language.current()
    asked = None if args.text is None else _whole(args.text)
    if not args.resume:
        trained = _new(args, gathered, asked, spoken)
        _keep(checkpoint)
        return trained
    if args.start or args.bytes:
        raise parts.Stop(_("The checkpoint has its own weights and tokens. Type: make train RESUME=1"))
    try:
        kept = training.read(checkpoint)[1]
        words = pieces.read(kept)
        shape = training.Shape(**kept["shape"])
        asked, spoken = asked or kept.get("text"), kept.get("language", spoken)
        text = _text(asked, spoken)
        trained = prepare(words, text, gathered, args.out, kept["seed"], args.device, shape, asked, spoken)
        trained.run.resume(checkpoint)
    except FileNotFoundError:
        raise parts.Stop(_("There is no checkpoint {file}. Type: make train").format(file=checkpoint)) from None
    except (training.Unfit, KeyError, TypeError) as error:
        sentence = _("{file} can't be gone on from ({reason}). Type: make train")
        raise parts.Stop(sentence.format(file=checkpoint, reason=error)) from None
    return trained


def _new(args: argparse.Namespace, gathered: dict[str, parts.StepCode], asked: str | None, spoken: str) -> Training:
    """A run at its first step: from drawn weights, or from those of the checkpoint that comes with the kit. Raises
    Stop."""
    text, is_code = _text(asked, spoken), asked == source.TEXT
    if args.start:
        return _from_kit(args, gathered, text, asked, spoken)
    learn = pieces.learn_bytes if args.bytes else pieces.learn
    words = learn(text, source.MERGES) if is_code else learn(text)
    shape = source.shape(len(words.tokens)) if is_code else None
    return prepare(words, text, gathered, args.out, args.seed, args.device, shape, asked, spoken)


def _from_kit(
    args: argparse.Namespace, gathered: dict[str, parts.StepCode], text: str, asked: str | None, spoken: str
) -> Training:
    """A run that starts from the kit's weights, with their tokens and sizes. Raises Stop."""
    if args.bytes or asked == source.TEXT:
        raise parts.Stop(_("The kit's weights have tokens of their own, of stories. Type: make train FROM=kit"))
    tensors, kept = training.read(programs.shipped(programs.language_of(text, spoken)))
    words = pieces.read(kept)
    if unknown := words.unknown(text):
        sentence = _("Left out, as the kit's model has no token for them: {characters}")
        screens.console().print(sentence.format(characters=visible(" ".join(unknown[:MOST_UNKNOWN]))))
    shape = training.Shape(**kept["shape"] | {"learning_rate": GENTLE})
    trained = prepare(words, text, gathered, args.out, args.seed, args.device, shape, asked, spoken)
    training.load_parameters(trained.run.model, tensors)
    return trained


def _whole(asked: str) -> str:
    """The text that was asked for, so that it is found again from another folder."""
    is_file = asked != source.TEXT and len(asked) < 512 and "\0" not in asked and Path(asked).is_file()
    return str(Path(asked).resolve()) if is_file else asked


def _keep(checkpoint: Path) -> None:
    """What was trained before stays beside what is trained now."""
    if checkpoint.is_file():
        before = checkpoint.with_name(f"before-{checkpoint.name}")
        checkpoint.replace(before)
        print(_("What was trained before is kept as {file}").format(file=before), file=sys.stderr)


def _text(asked: str | None, spoken: str) -> str:
    """PyTorch's source, the learner's own text, or the stories. Raises Stop."""
    if asked == source.TEXT:
        return source.text()
    text = lab_command.text_of(asked)
    return stories.text(spoken) if text is None else text


def _told(say: Console, trained: Training, ended: bool) -> int:
    say.print()
    if trained.run.progress.curve:
        say.print(screen.curve(trained.run.progress, trained.bigram, trained.blind))
    if trained.run.progress.samples:
        say.print(_("What it writes now:"), style="dim")
        say.print(visible(trained.run.progress.samples[-1][1]))
    say.print()
    for finding in findings(trained):
        say.print("·", finding)
    page = trained.write_page()
    say.print()
    say.print(_("The page is {file}").format(file=page.resolve()), soft_wrap=True)
    say.print(_('To go on training, type: make train RESUME=1. To have it write, type: make generate TEXT="…"'))
    checkpoint = trained.folder / programs.CHECKPOINT.name
    said = _("make generate and make lab NAME=maps use it from now on. To have the kit's own back, delete {file}")
    say.print(said.format(file=checkpoint), soft_wrap=True)
    return 0 if ended else 130
