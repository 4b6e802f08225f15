"""Training: what makes a model learn, and makes it fit

One step of training as it is done with large models: the learning rate warms up and falls along a cosine, AdamW shrinks
the matrices only, small batches add up to a large one, a step is never too long, and half precision does most of the
work. And where memory runs out, blocks forget what they computed and compute it again.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A module has no other parameters than those named.
Switched back and forth by `train()` and `eval()`, its own or those of a parent module, it drops in training mode only,
and the same `torch.manual_seed` repeats what is dropped. Where a ValueError is named, any error will do.

Off limits: nothing.
"""

import contextlib
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.amp import GradScaler
from torch.utils.checkpoint import checkpoint

from solutions.core.step12_gpt.reference import GPT


class CheckpointedGPT(GPT):
    """Step 12's GPT, with the same arguments, parameters and errors, that keeps less for its backward pass.

    In training with gradients, what the forward pass saves grows with each further block by at most one tensor of the
    size of the block's input: the rest is computed again for the backward pass. With dropout the second run draws the
    masks of the first. Logits, loss and gradients are those of GPT.
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return (logits, loss) as GPT does: (B, T, vocab_size), and the mean cross-entropy or None."""
        ### BEGIN SOLUTION
        num_tokens = idx.shape[1]
        if num_tokens > self.block_size:
            raise ValueError(f"{num_tokens} tokens were given, but block_size is {self.block_size}")
        x = self.drop(self.wte(idx) + self.wpe(torch.arange(num_tokens, device=idx.device)))  # (B, T, D)
        forgets = self.training and torch.is_grad_enabled()
        for block in self.h:
            x = checkpoint(block, x, use_reentrant=False) if forgets else block(x)  # (B, T, D)
        logits = self.lm_head(self.ln_f(x))  # (B, T, vocab_size)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        ### END SOLUTION


def learning_rate(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The learning rate of a step, counted from 0: linear warm-up, then half a cosine.

    max_lr * (step + 1) / warmup_steps below warmup_steps, which may be 0. Then, with
    p = (step - warmup_steps) / (total_steps - warmup_steps): min_lr + (max_lr - min_lr) * (1 + cos(pi * p)) / 2; from
    total_steps on min_lr.
    """
    ### BEGIN SOLUTION
    if step < warmup_steps:
        return max_lr * (step + 1) / warmup_steps
    if step >= total_steps:
        return min_lr
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return min_lr + (max_lr - min_lr) * (1 + math.cos(math.pi * progress)) / 2
    ### END SOLUTION


def make_optimizer(model: GPT, weight_decay: float = 0.1) -> torch.optim.AdamW:
    """AdamW over all parameters, with betas (0.9, 0.95) and eps 1e-8.

    Parameters of two or more dimensions, embeddings too, decay by weight_decay; all others do not decay.
    """
    ### BEGIN SOLUTION
    matrices = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)
    ### END SOLUTION


def train_step(
    model: GPT,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[tuple[Tensor, Tensor]],
    lr: float,
    max_norm: float = 1.0,
    precision: str = "float32",
    scaler: GradScaler | None = None,
) -> tuple[float, float]:
    """One step of the optimizer on the mean loss over the micro-batches: return (loss, norm), two Python floats.

    batches: a sequence of (inputs, targets) of equal size: n of them give the step of the one large batch. lr: the
    learning rate of every group. Gradients from before do not count. When the norm of all gradients together is above
    max_norm they are scaled down to it, as clip_grad_norm_ does. loss: the mean before the step; norm: the one before
    clipping. The model, of step 12's form, is in training mode and stays in it.
    precision: "float32", "bfloat16" or "float16". Other than in float32 the forward pass and the loss run under
    autocast of the parameters' device type; parameters and their gradients keep their dtype.
    scaler: scales the loss; gradients are unscaled before they are clipped, and a step whose gradients overflow leaves
    the parameters as they were and lowers the scale.
    """
    ### BEGIN SOLUTION
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.zero_grad()
    device = next(model.parameters()).device.type
    total = 0.0
    for inputs, targets in batches:
        with lower_precision(device, precision):
            loss = model(inputs, targets)[1] / len(batches)
        (loss if scaler is None else scaler.scale(loss)).backward()
        total += loss.item()
    if scaler is not None:
        scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)  # not where a gradient is infinite
        scaler.update()
    return total, norm.item()
    ### END SOLUTION


def evaluate(model: GPT, batches: Sequence[tuple[Tensor, Tensor]]) -> float:
    """The mean loss over all tokens of all batches, which may differ in size.

    It is asked for within 1e-6 of its size: a mean that is kept in float32 is right, as is train_step's loss. The model
    is evaluated in eval mode and gets back the mode it had. No graph is built and nothing changes.
    """
    ### BEGIN SOLUTION
    was_training = model.training
    model.eval()
    with torch.no_grad():
        losses = [(model(inputs, targets)[1].item(), targets.numel()) for inputs, targets in batches]
    model.train(was_training)
    return sum(loss * tokens for loss, tokens in losses) / sum(tokens for _loss, tokens in losses)
    ### END SOLUTION


### BEGIN SOLUTION
def lower_precision(device: str, precision: str) -> contextlib.AbstractContextManager[object]:
    """Autocast to this dtype; in float32 nothing changes."""
    return contextlib.nullcontext() if precision == "float32" else torch.autocast(device, getattr(torch, precision))


### END SOLUTION
