"""A step of training, and other forms of a misconception."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch import Tensor

Batches = Sequence[tuple[Tensor, Tensor]]
Result = tuple[Any, Any]


def _step(
    model: Any,
    optimizer: Any,
    batches: Batches,
    lr: float,
    max_norm: float,
    precision: str,
    scaler: Any,
    *,
    set_rate: Callable[[Any, float], None] | None = None,
    zero: str = "first",
    shares: float | None = None,
    autocast: str = "forward",
    clip: Callable[[Any, float], Any] | None = None,
    unscale: str = "before",
    update: bool = True,
    guarded: bool = True,
) -> tuple[float, float]:
    """A step of training; every misconception takes one decision in its own way."""
    for group in optimizer.param_groups[: None if set_rate is None else 0]:
        group["lr"] = lr
    if set_rate is not None:
        set_rate(optimizer, lr)
    if zero == "first":
        optimizer.zero_grad()
    device = next(model.parameters()).device.type
    total, share = 0.0, 1 / len(batches) if shares is None else shares
    for inputs, targets in batches:
        if zero == "each":
            optimizer.zero_grad()
        lower = nullcontext() if precision == "float32" else torch.autocast(device, dtype=getattr(torch, precision))
        with lower if autocast == "forward" else nullcontext():
            loss = model(inputs, targets)[1] * share
        with lower if autocast == "backward" else nullcontext():
            (loss if scaler is None else scaler.scale(loss)).backward()
        total += loss.item()
    if scaler is not None and unscale == "before":
        scaler.unscale_(optimizer)
    norm = (clip or torch.nn.utils.clip_grad_norm_)(list(model.parameters()), max_norm)
    if scaler is not None and unscale == "after":
        scaler.unscale_(optimizer)
    if zero == "before the step":
        optimizer.zero_grad()
    if scaler is None or not guarded:
        optimizer.step()
    else:
        scaler.step(optimizer)
    if scaler is not None and update:
        scaler.update()
    return total, float(norm)


@dataclass(frozen=True)
class Asked:
    """What train_step was called with."""

    model: Any
    optimizer: Any
    batches: Batches
    lr: float
    max_norm: float
    precision: str
    scaler: Any

    def step(
        self, *, optimizer: Any = None, batches: Batches | None = None, max_norm: float | None = None,
        precision: str | None = None, **decisions: Any,
    ) -> tuple[float, float]:  # fmt: skip
        """A step with these in place of what was asked, and the decisions of `_step`."""
        return _step(
            self.model, optimizer or self.optimizer, batches or self.batches, self.lr,
            self.max_norm if max_norm is None else max_norm, precision or self.precision,
            decisions.pop("scaler", self.scaler), **decisions,
        )  # fmt: skip


def step_by(wrong: Callable[[Asked], Result]) -> Callable[..., Result]:
    """train_step, made of what takes all of its arguments in one."""

    @wraps(wrong)
    def train_step(
        model: Any, optimizer: Any, batches: Batches, lr: float, max_norm: float = 1.0, precision: str = "float32",
        scaler: Any = None,
    ) -> Result:  # fmt: skip
        return wrong(Asked(model, optimizer, batches, lr, max_norm, precision, scaler))

    return train_step


def norm_of(parameters: list[Tensor]) -> Tensor:
    return torch.stack([parameter.grad.norm() for parameter in parameters if parameter.grad is not None]).norm()
