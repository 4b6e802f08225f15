"""Step 5 held against `F.dropout` and the statistics that independent draws have."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solutions.core.step05_dropout.reference import Dropout, dropout
from tests.truths import (
    Case,
    agree,
    close,
    drawer,
    gradients,
    moves,
    normal,
    of,
)


@pytest.mark.parametrize("p", (0.07, 0.5, 0.9))
def test_dropout_statistics(p: float) -> None:
    """The scale and the gradient of `F.dropout`, its rate, and draws that know nothing of each other."""
    x = torch.ones(400, 500, requires_grad=True)
    ours = dropout(x, p)
    (gradient,) = torch.autograd.grad(ours.sum(), x)
    assert torch.equal(gradient, ours.detach())  # x is 1 everywhere, so the factor is the value
    for function in (dropout, F.dropout):  # the oracle itself must pass, else the bounds are wrong
        first, second = function(x.detach(), p), function(x.detach(), p)
        close(first.unique(), F.dropout(x, p).unique().detach())  # 0 and 1 / (1 - p)
        dropped, again = (first == 0).double(), (second == 0).double()
        assert abs(dropped.mean().item() - p) < 5 * math.sqrt(p * (1 - p) / x.numel())
        pairs = {"rows": (dropped[1:], dropped[:-1]), "columns": (dropped[:, 1:], dropped[:, :-1])}
        for left, right in (pairs | {"calls": (dropped, again)}).values():
            correlation = ((left - p) * (right - p)).mean().item() / (p * (1 - p))
            assert abs(correlation) < 5 / math.sqrt(left.numel())


@pytest.mark.parametrize(
    "layer", (partial(dropout, p=0.3), Dropout(0.3), nn.Dropout(0.3)), ids=("function", "module", "torch")
)
def test_dropout_count(layer: Callable[[Tensor], Tensor]) -> None:
    """How many of 20 elements are dropped is itself drawn in every call, with the variance 20 p (1 - p)."""
    x, calls = torch.ones(20), 2000
    counts = torch.tensor([(layer(x) == 0).sum() for _ in range(calls)]).double()
    assert abs(counts.mean().item() - 20 * 0.3) < 5 * math.sqrt(20 * 0.3 * 0.7 / calls)
    # n draws know a variance to within a factor of about 1 ± sqrt(2 / n).
    assert abs(counts.var().item() / (20 * 0.3 * 0.7) - 1) < 5 * math.sqrt(2 / calls)


def test_dropout_defaults() -> None:
    """Without p both drop half, and both are on."""
    x = torch.ones(100)
    for got in (dropout(x), Dropout()(x)):
        assert torch.equal(got.unique(), F.dropout(x).unique())


def test_dropout_edges() -> None:
    """What `F.dropout` does at 0, at 1, out of training and with a p that is no probability."""
    x = normal(3, 4)
    for p, training in ((0.0, True), (1.0, True), (0.3, False), (1.0, False)):
        agree(lambda x, p=p, t=training: dropout(x, p, t), lambda x, p=p, t=training: F.dropout(x, p, t), x)
        ours, theirs = Dropout(p).train(training), nn.Dropout(p).train(training)
        assert torch.equal(ours(x), theirs(x))
    for p in (-0.1, 1.1):
        for function in (dropout, F.dropout):
            with pytest.raises(ValueError):
                function(x, p)


x = drawer()
CASES = {
    "dropout": of(dropout, x(5, 6), p=0.3),
    "Dropout": Case(lambda: Dropout(0.3), (x(5, 6),)),
}

test_gradients = gradients(CASES)
test_meta_device_and_bfloat16 = moves(CASES)
