"""What the labs of steps 19 to 24 share: a vocabulary, steps of training, and what an attention looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

PAD, BOS, EOS = 0, 1, 2
MARKS = ("", "", "")  # what the first three ids are written as
CLIPPED_TO = 1.0


class Words:
    """A vocabulary: words to ids and back, with padding, beginning and end in front."""

    def __init__(self, sentences: Sequence[Sequence[str]]) -> None:
        self.words = [*MARKS, *sorted({word for sentence in sentences for word in sentence})]
        self.ids = {word: number for number, word in enumerate(self.words) if word}

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, sentences: Sequence[Sequence[str]], framed: bool = False) -> Tensor:
        """(B, T) ids, padded at the end; `framed` between a beginning and an end."""
        rows = [[self.ids[word] for word in sentence] for sentence in sentences]
        if framed:
            rows = [[BOS, *row, EOS] for row in rows]
        longest = max(len(row) for row in rows)
        return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])

    def decode(self, row: Sequence[int]) -> list[str]:
        """The words of one row up to its end."""
        written = [int(each) for each in row if each not in (PAD, BOS)]
        return [self.words[each] for each in (written[: written.index(EOS)] if EOS in written else written)]


class Trainer:
    """A model in training: AdamW, a warm-up, and half a cosine over the share of the work that is done."""

    def __init__(self, model: nn.Module, rate: float, warm_up: int = 20) -> None:
        self.model, self.rate, self.warm_up, self.steps = model, rate, warm_up, 0
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.01)

    def step(self, loss: Tensor, done: float) -> float:
        """One step on this loss, and the loss as a number; `done` is the share of the work before it, from 0 to 1."""
        self.steps += 1
        curve = 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * min(1.0, self.steps / self.warm_up) * curve
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIPPED_TO)
        self.optimizer.step()
        return float(loss.detach())


def evened(model: nn.Module) -> None:
    """Smaller embeddings than torch's: post-norm blocks learn little under vectors of length √D for a word."""
    for part in model.modules():
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=0.1)


@contextmanager
def watching(attentions: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """Collects the weights, (B, H, T_q, T_k), that these attentions return while the block runs, in order of calls."""
    seen: list[Tensor] = []
    hooks = [part.register_forward_hook(lambda _m, _given, out: seen.append(out[1].detach())) for part in attentions]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()
