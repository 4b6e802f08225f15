"""`make generate`: the trained GPT goes on with a text, each token printed as it is drawn."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from grader.base import language
from grader.base.language import gettext as _
from grader.labs import command as lab_command
from grader.labs import parts
from grader.report import console as screens
from grader.report.terminal import visible

from ..lab_common import pieces, programs, training

PARTIAL = "\ufffd"  # what a part of a character is decoded as
KNOWN = 0.5  # the part of a text's letters that a checkpoint of one's own must know to be taken
PROMPTS = {
    "en": "Mina had a red ball. Mina put the ball in the",
    "ko": "민아는 빨간 공을 가지고 있었습니다. 민아는 공을",
}


def run(args: argparse.Namespace) -> int:
    """The command. Raises Stop."""
    say = screens.console()
    text = lab_command.text_of(args.text) or ""
    file, tensors, kept = _checkpoint(args.checkpoint, text)
    words, shape = pieces.read(kept), training.Shape(**kept["shape"])
    say.print(said_of(file, kept), soft_wrap=True)
    found = lab_command.gathered(programs.GPT_NEEDS, args)
    gpt = found["step12_gpt"]
    say.print(visible(gpt.said), style="dim")
    ids = prompt(text or kept.get("start") or PROMPTS[language.current()], words)
    if left_out := words.unknown(text):
        sentence = _("These characters were not in the text that it learned from, and are left out: {characters}")
        say.print(sentence.format(characters=visible(" ".join(left_out))))
    with parts.blamed_on(args.submission):
        model = gpt.GPT(*shape.sizes)
        try:
            training.load_parameters(model, tensors)
        except training.Unfit as unfit:
            raise parts.Stop(_("The parameters do not fit the model: {names}. Type: {command}").format(
                names=unfit, command=parts.grade_command("step12_gpt")
            )) from None  # fmt: skip
        say.print()
        say.print(visible(words.decode(ids)), style="bold", end="")
        for text in spelled(words.decode, ids, drawn(gpt, model.to(args.device), ids, args)):
            say.print(visible(text), end="", soft_wrap=True)
    say.print()
    return 0


def _checkpoint(given: Path | None, text: str) -> tuple[Path, dict[str, Tensor], dict[str, Any]]:
    """The one given, else the learner's own where it knows the text's letters, else the kit's. Raises Stop."""
    shipped = programs.shipped(programs.language_of(text, language.current()))
    candidates = [given] if given else [programs.CHECKPOINT, shipped]
    for file in candidates:
        if file == programs.CHECKPOINT and not given and not file.is_file():
            continue
        try:
            tensors, kept = training.read(file)
            training.Shape(**kept["shape"])
            known = 1 - len(pieces.read(kept).unknown(text)) / max(len(set(text)), 1)
        except (OSError, training.Unfit, KeyError, TypeError) as error:
            sentence = _("{file} is not a checkpoint of make train ({reason}). Type: make train")
            raise parts.Stop(sentence.format(file=file, reason=getattr(error, "strerror", None) or error)) from None
        if known > KNOWN or file == candidates[-1]:
            return file, tensors, kept
    raise AssertionError("the last candidate is taken")


def said_of(file: Path, kept: dict[str, object]) -> str:
    """Where the parameters are from."""
    if file == programs.CHECKPOINT:
        return _("Parameters: {file}, which you trained.").format(file=file)
    if file.parent == programs.shipped("en").parent:
        return _(
            "Parameters: the small checkpoint that comes with the kit, trained for {steps} steps on short stories. To "
            "train your own, type: make train"
        ).format(
            steps=kept.get("steps")
        )  # fmt: skip
    return _("Parameters: {file}").format(file=file)


def prompt(text: str, words: pieces.Pieces) -> list[int]:
    """The ids that it goes on from. Raises Stop where nothing of the text is known."""
    ids = words.encode(text)
    if not ids:
        raise parts.Stop(_("It knows no character of this text. Type: make generate"))
    return ids


def spelled(decode: Callable[[list[int]], str], ids: list[int], tokens: Iterable[int]) -> Iterator[str]:
    """The text that each token adds to that of `ids`; a part of a character waits until it is whole."""
    ids, told = list(ids), decode(ids).rstrip(PARTIAL)
    for token in tokens:
        ids.append(token)
        text = decode(ids).rstrip(PARTIAL)
        yield text[len(told) :]
        told = text


def drawn(gpt: parts.StepCode, model: nn.Module, ids: list[int], args: argparse.Namespace) -> Iterator[int]:
    """So many tokens, one at a time, by step 12's `generate`."""
    torch.manual_seed(args.seed)
    held = torch.tensor([ids], device=args.device)
    for _token in range(args.tokens):
        held = gpt.generate(model, held, 1, args.temperature, args.top_k or None)
        yield int(held[0, -1])
