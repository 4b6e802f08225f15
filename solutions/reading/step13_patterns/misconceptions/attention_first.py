"""What learners get wrong in `attention_first`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.reading.step13_patterns.misconceptions.distances import Device


@misconception(replaces="attention_first", caught_by="test_fixed_patterns_by_hand")
def first_row(num_tokens: int, device: Device = None) -> Tensor:
    """The first row is filled with ones, not the first column.

    Rows are queries. The first row full of ones says that the first token attends to every token, with a total of T.

    Every query attends to the first key: which index stays the same all the way down?
    """
    weights = torch.zeros(num_tokens, num_tokens, device=device)
    weights[0] = 1.0
    return weights


@misconception(replaces="attention_first", caught_by="test_fixed_patterns_by_hand")
def only_the_first_query(num_tokens: int, device: Device = None) -> Tensor:
    """Only the first query attends to the first token; the other rows are empty.

    Every query gives away a weight of 1, and here every one of them gives it to the first key.

    What do rows 1 and 2 sum to?
    """
    weights = torch.zeros(num_tokens, num_tokens, device=device)
    weights[0, 0] = 1.0
    return weights


@misconception(replaces="attention_first", caught_by="test_fixed_patterns_by_hand")
def last_token_attended(num_tokens: int, device: Device = None) -> Tensor:
    """Each token attends to the last token, or the columns are counted from 1.

    Index 0 is the first key.

    Which column holds the ones when you print the matrix for three tokens?
    """
    weights = torch.zeros(num_tokens, num_tokens, device=device)
    weights[:, -1] = 1.0
    return weights
