"""The parameters that a GPT can be looked into with: the kit's checkpoints, the one of `make train`, GPT-2's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import tiktoken
from torch import Tensor, nn

from grader.base.language import LANGUAGES
from grader.base.language import gettext as _
from grader.labs.parts import Stop

from ..lab_common import model as kits_own
from ..lab_common import pieces, programs, training
from ..lab_common.pieces import spelled
from ..lab_gpt2 import gpt2

# Texts to look at, by the name of a checkpoint. The first one of a language is shown at first: in it order decides, so
# that without positions the model no longer knows in which of two places the ball was last.
SAMPLES = {
    "kit-en": (
        "Mina had a red ball. Mina put the ball in the bag. Later Jun took the ball out of the bag and put it in the "
        "box. Jun asked Mina: where is the ball? Mina said: the ball is in the",
        "Theo had a golden key. Theo hid it in the cellar. Then the wind was strong. They looked in the",
        "One day Nora found a blue hat. Nora put the hat in the drawer. Otto asked Nora:",
    ),
    "kit-ko": (
        "민아는 빨간 공을 가지고 있었습니다. 민아는 공을 가방에 넣었습니다. 나중에 준서가 가방에서 공을 꺼내 상자에 "
        "넣었습니다. 준서는 민아에게 물었습니다. 공은 어디에 있어? 민아는 말했습니다. 공은",
        "유나는 파란 컵을 가지고 있었습니다. 유나는 컵을 바구니에 넣었습니다. 두 사람이 바구니를 보니",
        "어느 날 하늘은 커다란 열쇠를 찾았습니다. 하늘은 열쇠를 서랍에 숨겼습니다. 유나는 하늘에게",
    ),
    "gpt2": (
        "The keys to the old cabinet are on the table. Ada took the",
        "When Mary and John went to the store, John gave a drink to",
        "The Eiffel Tower is in the city of",
    ),
}
SEED = 1  # of the parameters before training, where the checkpoint doesn't say


class Vocabulary(Protocol):
    """From text to ids and back."""

    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: list[int]) -> str: ...
    def unknown(self, text: str) -> list[str]: ...
    def spelled(self, token: int) -> str: ...


class BytePairs:
    """GPT-2's tokens: every text has some."""

    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self.encoding = encoding

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return self.encoding.encode(text, disallowed_special=())

    def decode(self, ids: list[int]) -> str:
        """The text of ids; a part of a character as the replacement character."""
        return self.encoding.decode(ids, errors="replace")

    def unknown(self, text: str) -> list[str]:
        """An empty list: every character has its bytes."""
        return []

    def spelled(self, token: int) -> str:
        """The text of one token."""
        return spelled(self.encoding.decode_single_token_bytes(token))


@dataclass(frozen=True)
class Weights:
    """A checkpoint, read."""

    name: str
    sizes: tuple[int, int, int, int, int]  # vocabulary, block size, layers, heads, width
    words: Vocabulary
    tensors: dict[str, Tensor]
    about: dict[str, Any]
    samples: tuple[str, ...]

    def fill(self, model: nn.Module, trained: bool) -> None:
        """Copies the parameters in, or draws those before training. Raises Stop where they don't fit."""
        if not trained:
            kits_own.initialise(model, int(self.about.get("seed", SEED)))
        elif self.name == "gpt2":
            gpt2.load(model, self.tensors)
        else:
            try:
                training.load_parameters(model, self.tensors)
            except training.Unfit as unfit:
                raise Stop(_("The parameters do not fit the model: {names}").format(names=unfit)) from None


def file_of(name: str) -> Path | None:
    """The file of a checkpoint, or None where it is not on this machine."""
    if name == "gpt2":
        folder = gpt2.found(None)
        return folder / gpt2.WEIGHTS if folder else None
    file = programs.CHECKPOINT if name == "trained" else programs.shipped(name.removeprefix("kit-"))
    return file if file.is_file() else None


def available() -> list[str]:
    """What can be read here, the learner's own first."""
    return [name for name in ("trained", *(f"kit-{one}" for one in LANGUAGES), "gpt2") if file_of(name)]


def described(name: str) -> dict[str, Any]:
    """What a page is told of a checkpoint; GPT-2's parameters, some 500 MB, are not read for it. Raises Stop."""
    with _worded(name) as file:
        if name == "gpt2":
            sizes, steps, samples = gpt2.read_sizes(file.parent), 0, SAMPLES[name]
        else:
            found = read(name)
            steps = found.about.get("progress", {}).get("step", found.about.get("steps", 0))
            sizes, samples = found.sizes, found.samples
    return {
        "name": name, "steps": steps, "samples": samples, "block": sizes[1], "layers": sizes[2], "heads": sizes[3],
    }  # fmt: skip


def read(name: str) -> Weights:
    """A checkpoint by its name. Raises Stop."""
    with _worded(name) as file:
        if name == "gpt2":
            words = BytePairs(gpt2.read_tokens(file.parent))
            sizes, tensors = gpt2.read_sizes(file.parent), gpt2.read_weights(file.parent)
            return Weights(name, sizes, words, tensors, {}, SAMPLES[name])
        tensors, about = training.read(file)
        sizes, words = training.Shape(**about["shape"]).sizes, pieces.read(about)
        samples = SAMPLES.get(name) or tuple(filter(None, [str(about.get("start") or "")]))
        return Weights(name, sizes, words, tensors, about, samples)


@contextmanager
def _worded(name: str) -> Iterator[Path]:
    """The file of a checkpoint; what is wrong with it as a Stop."""
    file = file_of(name) if name in ("trained", "gpt2", *(f"kit-{one}" for one in LANGUAGES)) else None
    if file is None:
        raise Stop(_("These parameters are not on this machine: {name}").format(name=name))
    try:
        yield file
    except (OSError, ValueError, KeyError, TypeError) as error:  # Unfit is a ValueError
        raise Stop(
            _("{file} can't be used ({reason}). Type: make train").format(file=file.name, reason=error)
        ) from None
