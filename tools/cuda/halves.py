"""Step 28's training step in float16 with a scaler, against float32, and through an overflow."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from solutions.core.step12_gpt.reference import GPT
from solutions.longer_and_faster.step28_training.reference import evaluate, make_optimizer, train_step

VOCABULARY, LENGTH, BATCH, RATE = 64, 32, 16, 3e-3
LARGE = 2.0**40  # a scale at which gradients overflow: float16 ends at 65504


def run(device: str, steps: int) -> dict[str, Any]:
    """The losses of both trainings, and what an overflow did."""
    curves = {precision: _losses(device, precision, steps) for precision in ("float32", "float16")}
    return {"steps": steps, **curves, "overflow": _overflow(device)}


def _losses(device: str, precision: str, steps: int) -> dict[str, Any]:
    model, batches = _model(device), _batches(device)
    optimizer = make_optimizer(model)
    scaler = torch.amp.GradScaler(device) if precision == "float16" else None
    before = evaluate(model, batches)
    losses = [train_step(model, optimizer, batches, RATE, 1.0, precision, scaler)[0] for _step in range(steps)]
    return {
        "before": before,
        "losses": losses,
        "after": evaluate(model, batches),
        "scale": scaler.get_scale() if scaler else None,
    }


def _overflow(device: str) -> dict[str, Any]:
    """One step whose gradients overflow, and one after it at a scale that fits."""
    model, batches = _model(device), _batches(device)
    optimizer = make_optimizer(model)
    scaler = torch.amp.GradScaler(device, init_scale=LARGE)
    held = {name: value.clone() for name, value in model.named_parameters()}
    _loss, norm = train_step(model, optimizer, batches, RATE, 1.0, "float16", scaler)
    kept = all(torch.equal(value, held[name]) for name, value in model.named_parameters())
    lowered = scaler.get_scale()
    small = torch.amp.GradScaler(device, init_scale=2.0**10)
    train_step(model, optimizer, batches, RATE, 1.0, "float16", small)
    moved = any(not torch.equal(value, held[name]) for name, value in model.named_parameters())
    return {"norm": str(norm), "parameters_kept": kept, "scale_before": LARGE, "scale_after": lowered, "goes_on": moved}


def _model(device: str) -> GPT:
    torch.manual_seed(3)
    return GPT(VOCABULARY, LENGTH, 2, 2, 32).to(device).train()


def _batches(device: str) -> list[tuple[Tensor, Tensor]]:
    """A text that counts, each row from a number of its own: quickly learned."""
    text = (torch.arange(BATCH)[:, None] * 5 + torch.arange(LENGTH + 1)) % VOCABULARY
    text = text.to(device)
    return [(half[:, :-1], half[:, 1:]) for half in text.split(BATCH // 2)]
