"""What learners get wrong in `attention_uniform`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.reading.step13_patterns.misconceptions.distances import Device


@misconception(replaces="attention_uniform", caught_by="test_fixed_patterns_by_hand")
def ones_not_divided(num_tokens: int, device: Device = None) -> Tensor:
    """Every weight is 1.

    The weights of a query are shares: those of a row sum to 1, not to the number of tokens.

    How large is each share when T keys get the same?
    """
    return torch.ones(num_tokens, num_tokens, device=device)


@misconception(replaces="attention_uniform", caught_by="test_fixed_patterns_by_hand")
def divided_by_all_pairs(num_tokens: int, device: Device = None) -> Tensor:
    """Every weight is 1 / T², so that the whole matrix sums to 1.

    Each query has a weight of 1 to give away for itself: it is each row that sums to 1.

    How many keys share the weight of one query?
    """
    return torch.full((num_tokens, num_tokens), 1 / num_tokens**2, device=device)


@misconception(replaces="attention_uniform", caught_by="test_fixed_patterns_by_hand")
def uniform_over_the_others(num_tokens: int, device: Device = None) -> Tensor:
    """Each token attends to all others alike, and not to itself.

    All tokens are meant, the own one too: each weight is 1 / T, on the diagonal as well.

    How many keys does each query see?
    """
    others = 1 - torch.eye(num_tokens, device=device)
    return others / max(num_tokens - 1, 1)
