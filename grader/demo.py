"""The demo: a text is cut into tokens, a small GPT is trained, and the next tokens that it finds likely are shown.

`python -m grader.demo "The model looks at" --model mine`. The learner's code runs in this process: no mark is given.
"""

from __future__ import annotations

import importlib
import sys
import time
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text
from torch import Tensor, nn

from grader import arguments, course, language, vocabulary
from grader.language import gettext as _
from grader.vocabulary import Vocabulary

STEP = "step12_gpt"
SEED = 1
BLOCK_SIZE, N_LAYER, N_HEAD, N_EMBD = 64, 2, 4, 64
# Tried out so that a few seconds on one core are enough to pick up the text's phrases. The initial weights are larger
# than GPT-2's (standard deviation 0.02), which starts slowly. With GPT-2's vocabulary a step takes 15 times longer.
BATCH_SIZE, LEARNING_RATE, INITIAL_DEVIATION = 4, 4e-3, 0.1
STEPS, STEPS_WITH_GPT2S_VOCABULARY = 400, 30
NEW_TOKENS, TEMPERATURE, TOP_K = 24, 0.5, 20
BAR_WIDTH = 30
TOKEN_WIDTH = 14
TABLE_GROUPS = 3  # tokens side by side in the table: three fit 80 columns

Batch = tuple[Tensor, Tensor]


class Stop(Exception):
    """The demo cannot go on. The message is for the reader and ends with the command to type."""


@dataclass(frozen=True)
class Parts:
    """The three names of the step, and where they are from."""

    GPT: Any
    generate: Any
    next_token_batches: Any
    folder: Path | None  # the learner's, None for the reference


# --- where the model comes from ---


def reference_parts() -> Parts:
    """The reference's. Raises Stop where the solutions are not there."""
    if not (course.SOLUTIONS / STEP / "reference.py").is_file():
        raise Stop(_("This copy of the kit has no reference. Type: {command}").format(command=command("--model mine")))
    module = importlib.import_module(f"solutions.{STEP}.reference")
    return Parts(module.GPT, module.generate, module.next_token_batches, None)


def learners_parts(folder: Path) -> Parts:
    """The learner's, from a folder of step files. Raises Stop when they are not there or not written."""
    file = folder / f"{STEP}.py"
    if not file.is_file():
        raise Stop(_("There is no file {file}. Type: {command}").format(file=file, command="make exercises"))
    if course.is_untouched(file.read_text(encoding="utf-8", errors="replace")):
        raise Stop(_not_written(str(file)))
    package = types.ModuleType("exercises")
    package.__path__ = [str(folder)]
    for name in [name for name in sys.modules if name.partition(".")[0] == "exercises"]:
        del sys.modules[name]
    sys.modules["exercises"] = package
    with blamed_on(folder):
        module = importlib.import_module(f"exercises.{STEP}")
    missing = [name for name in ("GPT", "generate", "next_token_batches") if not hasattr(module, name)]
    if missing:
        sentence = _("{file} must define `{name}`, and it does not. Type: {command}")
        raise Stop(sentence.format(file=file, name=missing[0], command=_grade_command(STEP)))
    return Parts(module.GPT, module.generate, module.next_token_batches, folder)


@contextmanager
def blamed_on(folder: Path | None) -> Iterator[None]:
    """Turns an error of the learner's code into one line: their file, line and error. Ours stay what they are."""
    try:
        yield
    except Exception as error:
        sentence = None if folder is None else _worded(error, folder.resolve())
        if sentence is None:
            raise
        raise Stop(sentence) from None


def _worded(error: Exception, folder: Path) -> str | None:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_inside(frame.filename, folder)]
    if isinstance(error, SyntaxError) and error.filename and _is_inside(error.filename, folder):
        file, line, function = error.filename, error.lineno or 0, "<module>"
    elif frames:
        file, line, function = frames[-1].filename, frames[-1].lineno or 0, frames[-1].name
    else:
        return None
    step = Path(file).stem
    if isinstance(error, NotImplementedError) and not str(error):
        return _not_written(str(Path(folder.name, step + ".py")), step)
    message = str(error).partition("\n")[0]
    return _("{file}, line {line}, in {function}: {error}. To see what is wrong, type: {command}").format(
        file=Path(folder.name, Path(file).name),
        line=line,
        function=function,
        error=f"{type(error).__name__}: {message}" if message else type(error).__name__,
        command=_grade_command(step),
    )


def _is_inside(filename: str, folder: Path) -> bool:
    return Path(filename).resolve().is_relative_to(folder)


def _not_written(file: str, step: str = STEP) -> str:
    return _("{file} is not written yet. When it is, check it with: {command}").format(
        file=file, command=_grade_command(step)
    )


def _grade_command(step: str) -> str:
    return f"python -m grader grade --step {step}"


def command(options: str) -> str:
    """How this demo is called."""
    return f"python -m grader.demo {options}"


def require(condition: bool, parts: Parts, sentence: str) -> None:
    """Raises Stop when what the learner's code returned cannot be used. The reference's can."""
    if not condition:
        assert parts.folder is not None, sentence
        raise Stop(sentence + " " + _("To see what is wrong, type: {command}").format(command=_grade_command(STEP)))


# --- the model at work ---


def new_model(parts: Parts, vocab_size: int) -> nn.Module:
    """A GPT with the same initial weights whoever wrote it: they depend on the seed and the parameters' names."""
    model: nn.Module
    with blamed_on(parts.folder):
        model = parts.GPT(vocab_size, BLOCK_SIZE, N_LAYER, N_HEAD, N_EMBD)
    require(isinstance(model, nn.Module), parts, _("GPT(...) is not an nn.Module."))
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters(remove_duplicate=False)):
            if parameter.dim() > 1:
                parameter.normal_(std=INITIAL_DEVIATION, generator=generator)
            else:
                parameter.fill_(1.0 if name.endswith("weight") else 0.0)
    return model


def forward(parts: Parts, model: nn.Module, inputs: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Any]:
    """The model's logits and loss, once they are known to be what the step asks for."""
    with blamed_on(parts.folder):
        returned = model(inputs, targets)
    require(isinstance(returned, tuple | list) and len(returned) == 2, parts, _("forward must return (logits, loss)."))
    logits, loss = returned
    found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    require(
        isinstance(logits, Tensor) and logits.shape[:-1] == inputs.shape,
        parts,
        _("The logits must have shape {expected}, and they have {found}.").format(
            expected=(*inputs.shape, "vocab_size"), found=found
        ),
    )
    require(
        targets is None or (isinstance(loss, Tensor) and loss.shape == () and loss.requires_grad),
        parts,
        _("The loss must be a tensor with one value that can be differentiated."),
    )
    return logits, loss


def batches_of(parts: Parts, token_ids: Tensor) -> list[Batch]:
    """The batches that the step's own function makes of the ids."""
    with blamed_on(parts.folder):
        batches = list(parts.next_token_batches(token_ids, BLOCK_SIZE, BATCH_SIZE))
    usable = bool(batches) and all(
        len(batch) == 2 and all(isinstance(ids, Tensor) and ids.dim() == 2 for ids in batch) for batch in batches
    )
    require(usable, parts, _("next_token_batches must yield pairs of tensors of shape (B, T)."))
    return batches


def train(parts: Parts, model: nn.Module, token_ids: Tensor, steps: int, console: Console) -> list[float]:
    """Trains the model on windows of the ids that start anew at every pass; returns the loss of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    generator = torch.Generator().manual_seed(SEED)
    losses: list[float] = []
    batches: list[Batch] = []
    bar = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[loss]}"))
    model.train()
    with Progress(*bar, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(_("training"), total=steps, loss="")
        for _step in range(steps):
            if not batches:
                offset = int(torch.randint(BLOCK_SIZE, (), generator=generator))
                batches = batches_of(parts, token_ids[offset:])
            _logits, loss = forward(parts, model, *batches.pop())
            optimizer.zero_grad()
            with blamed_on(parts.folder):
                loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
            require(
                losses[-1] < float("inf"),
                parts,
                _("The loss is {loss} at step {count} of training.").format(loss=losses[-1], count=len(losses)),
            )
            progress.update(task, advance=1, loss=_("loss {loss:.2f}").format(loss=losses[-1]))
    return losses


def next_tokens(parts: Parts, model: nn.Module, ids: list[int], top: int) -> list[tuple[int, float]]:
    """The `top` likeliest next tokens and their probabilities."""
    model.eval()
    with torch.no_grad():
        logits, _loss = forward(parts, model, torch.tensor([ids[-BLOCK_SIZE:]]))
    probabilities, tokens = logits[0, -1].float().softmax(-1).topk(min(top, logits.shape[-1]))
    return list(zip(tokens.tolist(), probabilities.tolist(), strict=True))


def continuation(parts: Parts, model: nn.Module, ids: list[int], vocab_size: int) -> list[int]:
    """The ids that the step's own `generate` appends."""
    torch.manual_seed(SEED)
    with blamed_on(parts.folder):
        text = parts.generate(model, torch.tensor([ids]), NEW_TOKENS, TEMPERATURE, TOP_K)
    expected = (1, len(ids) + NEW_TOKENS)
    found = tuple(text.shape) if isinstance(text, Tensor) else type(text).__name__
    sentence = _("generate must return shape {expected}, and it returned {found}.")
    require(found == expected, parts, sentence.format(expected=expected, found=found))
    added = [int(token) for token in text[0, len(ids) :]]
    require(all(0 <= token < vocab_size for token in added), parts, _("generate returned ids outside the vocabulary."))
    return added


# --- what is shown ---


def shown(vocabulary: Vocabulary, token: int) -> Text:
    """A token in quotes, with what is invisible written out; bytes that are only part of a character as numbers."""
    raw = vocabulary.encoding.decode_single_token_bytes(token)
    try:
        characters = raw.decode()
    except UnicodeDecodeError:
        return Text(_("bytes {numbers}").format(numbers=raw.hex(" ")))
    visible = "".join(one if one.isprintable() else repr(one)[1:-1] for one in characters)
    return Text(f'"{visible}"')


def token_table(vocabulary: Vocabulary, ids: list[int]) -> Table:
    """The tokens and their ids, read down the columns."""
    table = Table(title=_("The text as tokens"), title_justify="left", show_edge=False)
    rows = -(-len(ids) // TABLE_GROUPS)
    for _group in range(-(-len(ids) // rows)):
        table.add_column("#", justify="right", style="dim")
        table.add_column(_("token"), max_width=TOKEN_WIDTH, overflow="fold")
        table.add_column(_("id"), justify="right")
    for row in range(rows):
        cells: list[str | Text] = []
        for place in range(row, len(ids), rows):
            cells += [str(place), shown(vocabulary, ids[place]), str(ids[place])]
        table.add_row(*cells)
    return table


def next_token_table(vocabulary: Vocabulary, likely: list[tuple[int, float]], bar: str) -> Table:
    """The likeliest next tokens with a bar for each probability."""
    table = Table(title=_("What comes next"), title_justify="left", show_edge=False)
    table.add_column(_("token"), max_width=24, overflow="fold")
    table.add_column(_("id"), justify="right")
    table.add_column(_("probability"), justify="right")
    table.add_column("", style="cyan", no_wrap=True)
    for token, probability in likely:
        table.add_row(shown(vocabulary, token), str(token), f"{probability:.1%}", bar * round(BAR_WIDTH * probability))
    return table


def said_of_vocabulary(vocabulary: Vocabulary) -> str:
    """Which vocabulary is in use, and how to get the other one."""
    if vocabulary.is_gpt2:
        return _("Vocabulary: GPT-2's own, {size} tokens.").format(size=f"{vocabulary.size:,}")
    return _(
        "Vocabulary: the small one that comes with the kit, {size} tokens. GPT-2's own is not on this machine; to "
        "download it, type: {command}"
    ).format(size=f"{vocabulary.size:,}", command=command("--download"))


def said_of_model(parts: Parts) -> str:
    """Whose model it is."""
    if parts.folder is None:
        return _("Model: the reference.")
    return _("Model: yours, from {file}.").format(file=Path(parts.folder.name, f"{STEP}.py"))


def said_of_training(losses: list[float], vocab_size: int, text_size: int, seconds: float) -> str:
    """What the model has been through."""
    if not losses:
        return _("Its weights are random (seed {seed}), so its guesses mean nothing.").format(seed=SEED)
    return _(
        "Its weights were random (seed {seed}). It was trained just now on {kilobytes} KB of the kit's own text, "
        "{steps} steps in {seconds:.1f} s, and knows nothing else. Loss: {first:.2f} at first, {last:.2f} now "
        "(guessing among {size} tokens: {blind:.2f})."
    ).format(
        seed=SEED,
        kilobytes=round(text_size / 1000),
        steps=len(losses),
        seconds=seconds,
        first=losses[0],
        last=losses[-1],
        size=f"{vocab_size:,}",
        blind=float(torch.tensor(float(vocab_size)).log()),
    )


def run(text: str, parts: Parts, words: Vocabulary, top: int, steps: int | None, console: Console) -> None:
    """The whole demo, shown on the console. Raises Stop when the learner's code does not get to the end."""
    ids = words.encoding.encode(text, disallowed_special=())
    if not ids:
        raise Stop(_("The text is empty. Type: {command}").format(command=command('"' + default_text() + '"')))
    console.print(said_of_vocabulary(words))
    console.print(said_of_model(parts))
    console.print()
    console.print(token_table(words, ids[-BLOCK_SIZE:]))
    if len(ids) > BLOCK_SIZE:
        sentence = _("The text has {count} tokens; the model sees the last {seen} of them, and so does this table.")
        console.print(sentence.format(count=len(ids), seen=BLOCK_SIZE))
    console.print()

    sample = vocabulary.sample_text("ko" if any("가" <= character <= "힣" for character in text) else "en")
    if steps is None:
        steps = STEPS_WITH_GPT2S_VOCABULARY if words.is_gpt2 else STEPS
    model = new_model(parts, words.size)
    start = time.monotonic()
    losses = train(parts, model, torch.tensor(words.encoding.encode(sample)), steps, console)
    seconds = time.monotonic() - start
    console.print(said_of_training(losses, words.size, len(sample.encode()), seconds))
    console.print()
    bar = "█" if console.encoding.startswith("utf") else "#"
    console.print(next_token_table(words, next_tokens(parts, model, ids, top), bar))
    console.print()
    added = continuation(parts, model, ids, words.size)
    console.print(_("And so on, drawn at temperature {temperature}:").format(temperature=TEMPERATURE))
    console.print(Text(text, style="bold") + Text(words.encoding.decode(added)))


def default_text() -> str:
    """What is read when no text is given."""
    return _("The model looks at")


app = typer.Typer(add_completion=False)


@app.command()
def main(
    text: Annotated[str | None, typer.Argument(help="The text to go on from.", show_default=False)] = None,
    model: Annotated[
        Literal["reference", "mine"] | None,
        typer.Option(help="Whose GPT. The reference where there is one, else yours.", show_default=False),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many next tokens to show.")] = 5,
    train_steps: Annotated[
        int | None, typer.Option(min=0, help="Steps of training; a few seconds' worth by default.", show_default=False)
    ] = None,
    download: Annotated[bool, typer.Option("--download", help="Download GPT-2's vocabulary (1.5 MB).")] = False,
    lang: Annotated[
        Literal["en", "ko"] | None, typer.Option(help="The language of what is said.", show_default=False)
    ] = None,
    submission: Annotated[Path, typer.Option(help="The folder of your step files.")] = course.EXERCISES,
) -> None:
    """Cuts a text into tokens, trains a tiny GPT for a few seconds and shows what it thinks comes next."""
    console = Console(highlight=False)
    torch.set_num_threads(1)  # the model is so small that a second thread costs more than it brings
    try:
        spoken = language.choose(lang)
    except language.UnknownLanguage as unknown:
        console.print(
            f"There is no language {unknown} here. Type: {command('--lang en')}", markup=False, soft_wrap=True
        )
        raise typer.Exit(2) from None
    with language.use(spoken):
        try:
            has_reference = (course.SOLUTIONS / STEP / "reference.py").is_file()
            mine = model == "mine" or (model is None and not has_reference)
            parts = learners_parts(submission) if mine else reference_parts()
            words = vocabulary.load(download)
            run(default_text() if text is None else text, parts, words, top, train_steps, console)
        except vocabulary.DownloadFailed as failure:
            sentence = _("GPT-2's vocabulary could not be downloaded ({reason}). To use the small one, type: {command}")
            console.print(sentence.format(reason=failure, command=command("")), markup=False, soft_wrap=True)
            raise typer.Exit(2) from None
        except Stop as stop:
            console.print(str(stop), markup=False, soft_wrap=True)
            raise typer.Exit(2) from None


def run_demo() -> int:
    """Runs the command line: 0 when it has shown what comes next, 2 when it was refused."""
    arguments.speak(sys.stdout)
    arguments.speak(sys.stderr)
    with language.use(arguments.spoken(sys.argv[1:])):
        try:
            code = arguments.run(app, "python -m grader.demo", sys.argv[1:])
        except (KeyboardInterrupt, typer.Abort):
            return 130
        except typer.TyperException as error:
            print(arguments.misunderstood(error, command("--help")), file=sys.stderr)
            return 2
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(run_demo())
