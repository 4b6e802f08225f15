"""Right ways to write step 28 that are not the reference's."""

import contextlib
import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from grader.checks.catalogue import variant
from solutions.core.step12_gpt.reference import GPT

Batches = Sequence[tuple[Tensor, Tensor]]


@variant(replaces="CheckpointedGPT")
class Reentrant(GPT):
    """The older kind of checkpoint, in eval mode too."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        B, T = idx.shape
        assert self.wpe.num_embeddings >= T
        x = self.drop(self.wte(idx) + self.wpe.weight[:T])
        for block in self.h:
            # Without gradients it would warn of their absence.
            x = checkpoint(block, x, use_reentrant=True) if torch.is_grad_enabled() else block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, None if targets is None else F.cross_entropy(logits.view(B * T, -1), targets.reshape(-1))


@variant(
    replaces="CheckpointedGPT",
    trades="A segment may hold several blocks, which trades memory for time; the last one keeps all of its numbers.",
)
class InSegments(GPT):
    """checkpoint_sequential, which leaves the last block as it is."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        if idx.size(1) > self.block_size:
            raise ValueError("too long")
        x = self.drop(self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device)))
        if self.training and torch.is_grad_enabled():
            x = checkpoint_sequential(nn.Sequential(*self.h), len(self.h), x, use_reentrant=False)
        else:
            for block in self.h:
                x = block(x)
        logits = self.lm_head(self.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.transpose(1, 2), targets)
        return logits, loss


@variant(
    replaces="CheckpointedGPT",
    trades="Nothing of GPT's forward pass is written twice; for the time of a call the blocks have another forward.",
)
class BlocksWrapped(GPT):
    """Each block's own forward is wrapped for the time of the call; GPT's forward does the rest."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        if not (self.training and torch.is_grad_enabled()):
            return super().forward(idx, targets)
        for block in self.h:
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
        try:
            return super().forward(idx, targets)
        finally:
            for block in self.h:
                del block.forward


@variant(replaces="learning_rate")
def by_clamping(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The progress is kept between 0 and 1."""
    if warmup_steps and step < warmup_steps:
        return (step + 1) / warmup_steps * max_lr
    progress = min((step - warmup_steps) / max(total_steps - warmup_steps, 1), 1.0)
    share = 0.5 * (1.0 + math.cos(progress * math.pi))
    return share * max_lr + (1 - share) * min_lr


@variant(replaces="make_optimizer")
def one_group_each(model: Any, weight_decay: float = 0.1) -> torch.optim.AdamW:
    """A group for each parameter, and a learning rate that is never used."""
    groups = [{"params": [p], "weight_decay": weight_decay if p.ndim > 1 else 0.0} for p in model.parameters()]
    return torch.optim.AdamW(groups, lr=123.0, betas=(0.9, 0.95), foreach=False)


@variant(replaces="train_step")
def clipped_by_hand(
    model: Any,
    optimizer: Any,
    batches: Batches,
    lr: float,
    max_norm: float = 1.0,
    precision: str = "float32",
    scaler: Any = None,
) -> tuple[float, float]:
    """autocast switched by `enabled`, gradients divided at the end, and clipping by hand."""
    model.zero_grad()
    kind = {"float32": torch.bfloat16, "bfloat16": torch.bfloat16, "float16": torch.float16}[precision]
    device = next(model.parameters()).device.type
    losses = []
    for x, y in batches:
        with torch.amp.autocast(device_type=device, dtype=kind, enabled=precision != "float32"):
            _logits, loss = model(x, y)
        losses.append(loss.item())
        (scaler.scale(loss) if scaler else loss).backward()
    if scaler:
        scaler.unscale_(optimizer)
    gradients = {id(p): p.grad for p in model.parameters() if p.grad is not None}.values()
    for gradient in gradients:
        gradient.div_(len(losses))
    norm = math.sqrt(sum(float(gradient.double().pow(2).sum()) for gradient in gradients))
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    for group in optimizer.param_groups:
        group.update(lr=lr)
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    return sum(losses) / len(losses), norm


@variant(
    replaces="train_step",
    trades="One backward pass in place of many; the graphs of all micro-batches are in memory at once.",
)
def backward_of_the_mean(
    model: Any,
    optimizer: Any,
    batches: Batches,
    lr: float,
    max_norm: float = 1.0,
    precision: str = "float32",
    scaler: Any = None,
) -> tuple[float, float]:
    """A scaler that is switched off where there is none, and gradients emptied by hand."""
    scaler = scaler or torch.amp.GradScaler("cpu", enabled=False)
    for group in optimizer.param_groups:
        group["lr"] = lr
        for parameter in group["params"]:
            parameter.grad = None
    total = torch.zeros((), dtype=torch.float64)
    with contextlib.ExitStack() as stack:
        if precision != "float32":
            stack.enter_context(torch.autocast(next(model.parameters()).device.type, getattr(torch, precision)))
        for inputs, targets in batches:
            loss = model(inputs, targets)[1]
            total += loss.detach().double() / len(batches)
            scaler.scale(loss / len(batches)).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=max_norm, foreach=False)
    scaler.step(optimizer)
    scaler.update()
    return float(total), float(norm)


@variant(replaces="evaluate")
@torch.inference_mode()
def token_by_token(model: Any, batches: Batches) -> float:
    """The cross-entropy of every token, from the logits."""
    training = model.training
    model.eval()
    losses = [F.cross_entropy(model(x)[0].flatten(0, 1), y.flatten(), reduction="none") for x, y in batches]
    if training:
        model.train()
    return torch.cat(losses).mean().item()


@variant(replaces="evaluate")
@torch.no_grad()
def losses_in_a_tensor(model: Any, batches: Batches) -> float:
    """As nanoGPT estimates a loss: in a float32 tensor that is made first, with the tokens of each batch beside it."""
    training = model.training
    model.eval()
    losses, tokens = torch.zeros(len(batches)), torch.zeros(len(batches))
    for k, (X, Y) in enumerate(batches):
        _logits, loss = model(X, Y)
        losses[k], tokens[k] = loss.item() * Y.numel(), Y.numel()
    model.train(training)
    return (losses.sum() / tokens.sum()).item()
