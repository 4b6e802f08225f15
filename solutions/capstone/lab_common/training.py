"""Training a small GPT on a text, one step at a time, so that it can be stopped, saved and resumed anywhere.

Everything that the next step depends on is in a `Run` and in its checkpoint: parameters, AdamW's moments, the random
state of the windows and of dropout, and the place in the pass. On one thread a resumed run goes on bit for bit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from . import model as kits_own
from .pieces import Pieces

HELD_OUT = 0.1  # the end of the text, which is never trained on
BETAS, WEIGHT_DECAY, CLIPPED_TO = (0.9, 0.95), 0.1, 1.0
VALIDATION_WINDOWS = 64


class Unfit(ValueError):
    """A checkpoint can't be used: it is damaged, or made for another model."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a model and of what it trains on."""

    vocab_size: int
    block_size: int = 96
    n_layer: int = 4
    n_head: int = 4
    n_embd: int = 64
    batch_size: int = 16
    learning_rate: float = 2e-3
    warm_up: int = 40

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """What a GPT is made with."""
        return self.vocab_size, self.block_size, self.n_layer, self.n_head, self.n_embd


@dataclass
class Progress:
    """How far a run has got; `curve` has (step, training loss, validation loss or None) for each point drawn, `parsing`
    (step, the share of samples that are Python) where the text is source code."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    in_pass: int = 0
    curve: list[tuple[int, float, float | None]] = field(default_factory=list)
    samples: list[tuple[int, str]] = field(default_factory=list)
    parsing: list[tuple[int, float]] = field(default_factory=list)


Batches = Callable[[Tensor, int, int], Iterable[tuple[Tensor, Tensor]]]


class Run:
    """A model in training. `new_model` makes it from `Shape.sizes`, `batches` cuts ids into windows as step 12 does."""

    def __init__(
        self, shape: Shape, ids: Tensor, new_model: Callable[..., nn.Module] = kits_own.GPT,
        batches: Batches = kits_own.next_token_batches, seed: int = 1, device: str = "cpu", step_28: Any = None,
    ) -> None:  # fmt: skip
        """`step_28` has step 28's `make_optimizer` and `train_step`, where they are to be used."""
        self.shape, self.device, self.progress, self._batches = shape, device, Progress(), batches
        held_out = max(int(len(ids) * HELD_OUT), shape.block_size + 1)
        self.training, self.validation = ids[:-held_out], ids[-held_out:]
        if len(self.training) < 2 * shape.block_size:
            raise Unfit(f"{len(ids)} tokens")
        torch.manual_seed(seed)
        model = new_model(*shape.sizes)
        kits_own.initialise(model, seed)
        self.model = model.to(device)
        self._step_28 = step_28
        self.optimizer = step_28.make_optimizer(self.model, WEIGHT_DECAY) if step_28 else torch.optim.AdamW(
            self.model.parameters(), lr=shape.learning_rate, betas=BETAS, weight_decay=WEIGHT_DECAY
        )  # fmt: skip
        self.decay = 1.0  # of the learning rate
        self._draws = torch.Generator().manual_seed(seed)
        self._at_start_of_pass = self._draws.get_state()
        self._pass: list[tuple[Tensor, Tensor]] = []

    def advance(self) -> float:
        """One step; the loss before it."""
        if not self._pass:
            self._begin_pass()
        inputs, targets = (part.to(self.device) for part in self._pass.pop())
        self.progress.in_pass += 1
        rate = self.shape.learning_rate * min(1.0, (self.progress.step + 1) / self.shape.warm_up) * self.decay
        self.model.train()
        if self._step_28:
            loss = float(self._step_28.train_step(self.model, self.optimizer, [(inputs, targets)], rate)[0])
        else:
            loss = self._own_step(inputs, targets, rate)
        self.progress.step += 1
        self.progress.tokens += inputs.numel()
        return loss

    def _own_step(self, inputs: Tensor, targets: Tensor, rate: float) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss = self.model(inputs, targets)[1]
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIPPED_TO)
        self.optimizer.step()
        return float(loss.detach())

    def _begin_pass(self) -> None:
        """Windows that begin somewhere else in every pass, in another order."""
        self._at_start_of_pass = self._draws.get_state()
        offset = int(torch.randint(self.shape.block_size, (), generator=self._draws))
        found = list(self._batches(self.training[offset:], self.shape.block_size, self.shape.batch_size))
        order = torch.randperm(len(found), generator=self._draws).tolist()
        self._pass = [found[place] for place in order]
        self.progress.in_pass = 0

    @torch.no_grad()
    def validate(self) -> float:
        """The mean loss on text that it has not seen, always the same windows."""
        was_training = self.model.training
        self.model.eval()
        found = self._batches(self.validation, self.shape.block_size, VALIDATION_WINDOWS)
        inputs, targets = (part.to(self.device) for part in next(iter(found)))
        loss = float(self.model(inputs, targets)[1])
        self.model.train(was_training)
        return loss

    # --- checkpoints ---

    def save(self, path: Path, about: dict[str, Any]) -> None:
        """Writes everything that the next step depends on, whole or not at all."""
        tensors = {f"model.{name}": value.detach().cpu() for name, value in self.model.named_parameters()}
        for index, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value.cpu() for name, value in state.items()}
        tensors |= {"random.pass": self._at_start_of_pass, "random.torch": torch.get_rng_state()}
        if self.device != "cpu":
            tensors[f"random.{self.device}"] = torch.get_device_module(self.device).get_rng_state()
        kept = {"shape": asdict(self.shape), "progress": asdict(self.progress), **about}
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.part")
        save_file({name: value.contiguous() for name, value in tensors.items()}, unfinished, {"run": json.dumps(kept)})
        unfinished.replace(path)

    def resume(self, path: Path) -> None:
        """Goes on from a checkpoint of a run on the same text. Raises Unfit."""
        tensors, kept = read(path)
        load_parameters(self.model, tensors)
        try:
            state = self.optimizer.state_dict()
            state["state"] = {
                index: {name: tensors[f"optimizer.{index}.{name}"] for name in ("step", "exp_avg", "exp_avg_sq")}
                for index in range(len(list(self.model.parameters())))
            }
            self.optimizer.load_state_dict(state)
            self.progress = Progress(**kept["progress"])
            self._draws.set_state(tensors["random.pass"])
            done = self.progress.in_pass
            self._begin_pass()
            del self._pass[len(self._pass) - done :]
            self.progress.in_pass = done
            torch.set_rng_state(tensors["random.torch"])
            if f"random.{self.device}" in tensors:
                torch.get_device_module(self.device).set_rng_state(tensors[f"random.{self.device}"])
        except (KeyError, TypeError, RuntimeError) as error:
            raise Unfit(str(error)) from None


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a checkpoint and what it says of itself. Raises Unfit, OSError."""
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dictionary
            kept = json.loads((file.metadata() or {})["run"])
    except FileNotFoundError:
        raise
    except Exception as error:  # safetensors' own error, a KeyError, a damaged JSON: the file is not ours
        raise Unfit(f"{type(error).__name__}: {error}") from None
    return tensors, kept


def load_parameters(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copies `model.*` into a model's parameters. Raises Unfit where names or shapes differ."""
    wanted = dict(model.named_parameters())
    given = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    if wanted.keys() != given.keys():
        raise Unfit(", ".join(sorted(wanted.keys() ^ given.keys())[:3]))
    with torch.no_grad():
        for name, parameter in wanted.items():
            if parameter.shape != given[name].shape:
                raise Unfit(f"{name}: {tuple(given[name].shape)}, {tuple(parameter.shape)}")
            parameter.copy_(given[name])


def bigram_loss(training: Tensor, validation: Tensor, vocab_size: int) -> float:
    """What a table of pairs reaches on the validation text: counts of the training text.

    A row is smoothed by the tokens' own frequencies (one imagined pair a row), so that an unseen pair has some chance.
    """
    pairs = torch.zeros(vocab_size, vocab_size, dtype=torch.double)
    ones = torch.ones(len(training) - 1, dtype=torch.double)
    pairs.index_put_((training[:-1], training[1:]), ones, accumulate=True)
    alone = torch.bincount(training, minlength=vocab_size).double() + 1.0
    smoothed = pairs + alone / alone.sum()
    chances = smoothed / smoothed.sum(-1, keepdim=True)
    return -float(chances[validation[:-1], validation[1:]].log().mean())


def blind_loss(vocab_size: int) -> float:
    """The loss of guessing among all tokens alike."""
    return math.log(vocab_size)


def ids_of(pieces: Pieces, text: str) -> Tensor:
    """The ids of a text as a tensor."""
    return torch.tensor(pieces.encode(text))
