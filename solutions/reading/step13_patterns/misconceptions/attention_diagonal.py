"""What learners get wrong in `attention_diagonal`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.reading.step13_patterns import reference
from solutions.reading.step13_patterns.misconceptions.distances import Device


@misconception(replaces="attention_diagonal", caught_by="test_fixed_patterns_by_hand")
def diagonal_from_the_other_corner(num_tokens: int, device: Device = None) -> Tensor:
    """The diagonal runs from the upper right corner to the lower left one.

    Then the first token attends to the last. Row i is query i and column j is key j, both counted from 0.

    At which columns of row 0 and row 1 does a token find itself?
    """
    return torch.eye(num_tokens, device=device).flip(1)


@misconception(replaces="attention_diagonal", caught_by="test_fixed_patterns_by_hand")
def previous_token(num_tokens: int, device: Device = None) -> Tensor:
    """Each token attends to the one before it, and the first token to itself.

    That is a pattern of real heads too, but the diagonal is the own token.

    Which column of row 2 should hold the 1?
    """
    keys = (torch.arange(num_tokens, device=device) - 1).clamp(min=0)
    return torch.eye(num_tokens, device=device)[keys]


def _on_the_cpu(name: str):
    return lambda num_tokens, *radius, device=None, **named: getattr(reference, name)(num_tokens, *radius, **named)


@misconception(
    replaces=(
        "attention_diagonal", "attention_uniform", "attention_first", "attention_causal", "attention_local",
    ),
    caught_by="test_patterns_on_their_device",
)  # fmt: skip
def patterns_stay_on_the_cpu() -> dict[str, object]:
    """The pattern was made on the CPU, whatever device was asked for.

    It can then not be combined with weights that lie on a GPU.

    What do `torch.eye`, `torch.zeros` and `torch.arange` do with an argument `device`?
    """
    names = ("diagonal", "uniform", "first", "causal", "local")
    return {f"attention_{name}": _on_the_cpu(f"attention_{name}") for name in names}
