"""What is said of parameters whose names do not fit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from grader.failure import CheckFailed
from grader.implementation import Implementation, LocalBackend
from grader.responder import Responder


class Projection(nn.Module):
    """One parameter misspelt, one too many, one of another shape."""

    def __init__(self) -> None:
        super().__init__()
        self.W_qeury = nn.Linear(2, 2, bias=False)
        self.W_key = nn.Linear(3, 2, bias=False)
        self.spare = nn.Linear(1, 1, bias=False)


def test_missing_extra_misspelt_and_misshapen_are_named() -> None:
    """Each in a line of its own, and what a misspelt name was meant to be."""
    implementation = Implementation(LocalBackend(Responder({"Projection": Projection})))
    module = implementation.Projection()
    with pytest.raises(CheckFailed) as caught:
        module.load_parameters({"W_query.weight": torch.ones(2, 2), "W_key.weight": torch.ones(2, 2)})
        module.is_training()
    said = caught.value.message
    assert "missing: W_query.weight" in said
    assert "not asked for: W_qeury.weight, spare.weight" in said
    assert "Is W_qeury.weight meant to be W_query.weight?" in said
    assert "W_key.weight has shape (2, 3), expected (2, 2)" in said
