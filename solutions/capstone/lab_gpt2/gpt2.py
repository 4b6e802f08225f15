"""`make gpt2`: GPT-2's published weights in the learner's steps 9, 11 and 12.

Nothing is downloaded. The weights are looked for where Hugging Face's library keeps them, or in a folder that is given.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path
from typing import Any

import tiktoken
import torch
from safetensors import safe_open
from tiktoken_ext.openai_public import ENDOFTEXT, r50k_pat_str
from torch import Tensor, nn

from grader.base.language import gettext as _
from grader.labs import command as lab_command
from grader.labs import parts
from grader.report import console as screens
from grader.report.terminal import visible

from ..lab_common import programs
from ..lab_writing import generate

NAMES = ("models--openai-community--gpt2", "models--gpt2")
ACTIVATION = "gelu_new"  # the tanh form
WEIGHTS, SIZES, TOKENS = "model.safetensors", "config.json", "vocab.json"
FILES = f"{WEIGHTS} {SIZES} {TOKENS}"
# Hugging Face keeps these four as (in, out), GPT-2's own layout; nn.Linear wants (out, in).
TURNED = re.compile(r"(attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight$")
NOT_PARAMETERS = re.compile(r"\battn\.(bias|masked_bias)$|^lm_head\.weight$")  # masks; and wte's weight once more
PROMPT = "Attention is"


def run(args: argparse.Namespace) -> int:
    """The command. Raises Stop."""
    say = screens.console()
    folder = found(args.folder)
    if folder is None:
        say.print(how_to_get(), soft_wrap=True)
        return 2
    try:
        sizes, tensors, encoding = read_sizes(folder), read_weights(folder), read_tokens(folder)
    except (OSError, KeyError, ValueError, TypeError) as error:
        sentence = _("{folder} does not hold GPT-2 ({reason}). Type: make gpt2 FOLDER=OTHER")
        raise parts.Stop(sentence.format(folder=folder, reason=f"{type(error).__name__}: {error}")) from None
    gpt = lab_command.gathered(programs.GPT_NEEDS, args)["step12_gpt"]
    say.print(visible(gpt.said), style="dim")
    with parts.blamed_on(args.submission):
        model = gpt.GPT(*sizes)
        load(model, tensors)
        say.print(_("{count:,} parameters from {folder}").format(
            count=sum(parameter.numel() for parameter in model.parameters()), folder=folder
        ), soft_wrap=True)  # fmt: skip
        text = lab_command.text_of(args.text) or PROMPT
        ids = encoding.encode(text, disallowed_special=())
        if not ids:
            raise parts.Stop(_("The text is empty. Type: make gpt2 TEXT='{words}'").format(words=PROMPT))
        say.print()
        say.print(visible(text), style="bold", end="")
        tokens = generate.drawn(gpt, model.to(args.device), ids, args)
        for added in generate.spelled(encoding.decode, ids, tokens):
            say.print(visible(added), end="", soft_wrap=True)
    say.print()
    return 0


# --- the files ---


def found(given: Path | None) -> Path | None:
    """The folder with GPT-2's files: the one given, else one in Hugging Face's cache. Raises Stop."""
    if given is not None:
        missing = [name for name in FILES.split() if not (given / name).is_file()]
        if missing:
            raise parts.Stop(_("There is no {file} in {folder}. Type: make gpt2 FOLDER=OTHER").format(
                file=missing[0], folder=given
            ))  # fmt: skip
        return given
    for name in NAMES:
        for snapshot in sorted((cache() / name / "snapshots").glob("*")):
            if all((snapshot / file).is_file() for file in FILES.split()):
                return snapshot
    return None


def cache() -> Path:
    """Where Hugging Face's library keeps what was downloaded (huggingface_hub/constants.py)."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or Path(home, "hub"))


def how_to_get() -> str:
    """What to type to have the weights."""
    return _(
        "GPT-2's weights are not on this machine, and nothing is downloaded for you (some 550 MB). To get them, type:\n"
        "  pip install huggingface_hub && hf download openai-community/gpt2 {files}\n"
        "and then again: make gpt2. Or put the files into a folder and type: make gpt2 FOLDER=that/folder"
    ).format(files=FILES)


def read_sizes(folder: Path) -> tuple[int, int, int, int, int]:
    """Vocabulary, block size, layers, heads, width. Raises OSError, KeyError, ValueError."""
    sizes: dict[str, Any] = json.loads((folder / SIZES).read_text(encoding="utf-8"))
    if (activation := sizes.get("activation_function", ACTIVATION)) != ACTIVATION:
        raise ValueError(_("its activation is {activation}, and GPT-2's is {own}").format(
            activation=activation, own=ACTIVATION
        ))  # fmt: skip
    vocab_size, block_size = int(sizes["vocab_size"]), int(sizes["n_positions"])
    return vocab_size, block_size, int(sizes["n_layer"]), int(sizes["n_head"]), int(sizes["n_embd"])


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The parameters by the names of step 12's GPT. Raises OSError, ValueError."""
    tensors: dict[str, Tensor] = {}
    head: Tensor | None = None
    try:
        with safe_open(folder / WEIGHTS, "pt") as file:
            for name in file.keys():  # noqa: SIM118  # it is no dictionary
                own = name.removeprefix("transformer.")
                head = file.get_tensor(name) if own == "lm_head.weight" else head
                if not NOT_PARAMETERS.search(own):
                    tensor = file.get_tensor(name)
                    tensors[own] = tensor.T if TURNED.search(own) else tensor
    except Exception as error:  # safetensors' own error, which derives from Exception alone
        raise ValueError(_not_weights(folder / WEIGHTS) or str(error)) from None
    if head is not None and "wte.weight" in tensors and not torch.equal(head, tensors["wte.weight"]):
        raise ValueError(_("its output layer, lm_head, has weights of its own, and GPT-2's are those of wte"))
    return tensors


def _not_weights(file: Path) -> str:
    """What a file holds that is no file of weights; empty if it can't be told. Raises OSError."""
    with file.open("rb") as opened:
        start = opened.read(200)
    if start.startswith(b"version https://git-lfs"):
        return _("{file} is only a pointer of Git LFS: type git lfs pull where it is from", file=file.name)
    if start.lstrip()[:15].lower().startswith((b"<!doctype", b"<html")):
        return _("{file} is a web page, and not the file itself: download it again", file=file.name)
    if start[8:9] == b"{":  # the header, behind its length
        return _("{file} is cut off: download it again", file=file.name)
    return ""


def load(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copies the parameters in. Raises Stop where names or shapes differ."""
    wanted = dict(model.named_parameters())
    differing = sorted(wanted.keys() ^ tensors.keys()) or [
        name for name, parameter in wanted.items() if parameter.shape != tensors[name].shape
    ]
    if differing:
        raise parts.Stop(_("The parameters do not fit the model: {names}. Type: {command}").format(
            names=", ".join(differing[:3]), command=parts.grade_command("step12_gpt")
        ))  # fmt: skip
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(tensors[name])


def read_tokens(folder: Path) -> tiktoken.Encoding:
    """GPT-2's tokens; each byte is written as a printable character in the file. Raises OSError, ValueError."""
    table: dict[str, int] = json.loads((folder / TOKENS).read_text(encoding="utf-8"))
    byte_of = {character: byte for byte, character in enumerate(_printable())}
    special = {ENDOFTEXT: table[ENDOFTEXT]} if ENDOFTEXT in table else {}
    ranks = {bytes(byte_of[one] for one in token): rank for token, rank in table.items() if token not in special}
    return tiktoken.Encoding(name="gpt2", pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens=special)


def _printable() -> list[str]:
    """The character that stands for each byte: itself where it is visible, else the next one from U+0100 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in visible else chr(next(others)) for byte in range(256)]
