"""What proves the reference of step 28: torch's own schedulers, the formula of AdamW, and plain training."""

import math

import pytest
import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from transformers import get_cosine_schedule_with_warmup

from solutions.core.step12_gpt.reference import GPT
from solutions.longer_and_faster.step28_training.reference import (
    CheckpointedGPT,
    evaluate,
    learning_rate,
    make_optimizer,
    train_step,
)

SIZES = (11, 8, 3, 2, 16)


def batch(rows: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Random inputs and targets."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 11, (rows, 8), generator=generator), torch.randint(0, 11, (rows, 8), generator=generator)


def test_schedule_is_torchs() -> None:
    """torch's linear warm-up and cosine, one after the other, give the same learning rates."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    warm_up = LinearLR(optimizer, start_factor=1 / 5, total_iters=4)
    cosine = CosineAnnealingLR(optimizer, T_max=20, eta_min=0.02)
    scheduler = SequentialLR(optimizer, [warm_up, cosine], milestones=[5])
    for step in range(26):
        assert math.isclose(learning_rate(step, 0.3, 5, 25, 0.02), optimizer.param_groups[0]["lr"], rel_tol=1e-9)
        optimizer.step()
        scheduler.step()


def test_cosine_is_hugging_faces() -> None:
    """After the warm-up it is Hugging Face's cosine schedule."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 5, 25)
    for step in range(25):
        if step >= 5:
            assert math.isclose(learning_rate(step, 0.3, 5, 25), optimizer.param_groups[0]["lr"], abs_tol=1e-12)
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_checkpoints_change_nothing(dropout: float) -> None:
    """Under one seed loss and gradients are those of the plain model, dropout included."""
    torch.manual_seed(2)
    plain = GPT(*SIZES, dropout=dropout).double()
    saving = CheckpointedGPT(*SIZES, dropout=dropout).double()
    saving.load_state_dict(plain.state_dict())
    results = []
    for model in (plain, saving):
        torch.manual_seed(7)
        _logits, loss = model(*batch(3))
        results.append((loss, *torch.autograd.grad(loss, list(model.parameters()))))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_a_step_is_that_of_the_paper() -> None:
    """Two steps of AdamW, written out as Algorithm 2 of Loshchilov and Hutter has them, after clipping."""
    torch.manual_seed(3)
    model = GPT(*SIZES).double()
    expected = {name: value.detach().clone() for name, value in model.named_parameters()}
    moments = {name: (torch.zeros_like(value), torch.zeros_like(value)) for name, value in expected.items()}
    optimizer, rate, decay = make_optimizer(model, 0.5), 0.02, 0.5
    for step in (1, 2):
        inputs, targets = batch(4, step)
        loss = model(inputs, targets)[1]
        gradients = dict(zip(expected, torch.autograd.grad(loss, list(model.parameters())), strict=True))
        norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients.values()))
        for name, value in expected.items():
            gradient = gradients[name] * min(1.0, 0.25 / (norm + 1e-6))
            first, second = moments[name]
            first.mul_(0.9).add_(gradient, alpha=0.1)
            second.mul_(0.95).add_(gradient.square(), alpha=0.05)
            value.mul_(1 - rate * (decay if value.dim() > 1 else 0.0))
            value -= rate * first / (1 - 0.9**step) / ((second / (1 - 0.95**step)).sqrt() + 1e-8)
        halves = [(inputs[:2], targets[:2]), (inputs[2:], targets[2:])]
        got = train_step(model, optimizer, halves, rate, max_norm=0.25)
        assert got == pytest.approx((loss.item(), norm))
    for name, value in model.named_parameters():
        torch.testing.assert_close(value, expected[name])


@pytest.mark.thorough
def test_training_learns() -> None:
    """A small model learns one batch by heart, in float32, in bfloat16 and with a scaler."""
    for precision, scaler in (("float32", None), ("bfloat16", None), ("float32", GradScaler("cpu"))):
        torch.manual_seed(4)
        model = CheckpointedGPT(*SIZES, dropout=0.1)
        optimizer, texts = make_optimizer(model), [batch(4)]
        before = evaluate(model, texts)
        for step in range(60):
            rate = learning_rate(step, 0.02, 5, 60)
            train_step(model, optimizer, texts, rate, precision=precision, scaler=scaler)
        assert evaluate(model, texts) < 0.3 * before


def test_evaluation_is_one_large_batch() -> None:
    """Over batches of different sizes the loss is that of all tokens at once."""
    torch.manual_seed(5)
    model = GPT(*SIZES, dropout=0.5).double()
    inputs, targets = batch(7)
    parts = [(inputs[:1], targets[:1]), (inputs[1:3], targets[1:3]), (inputs[3:], targets[3:])]
    with torch.no_grad():
        expected = model.eval()(inputs, targets)[1].item()
    assert math.isclose(evaluate(model.train(), parts), expected)
    assert model.training
