"""Dropout

Dropout sets a random part of the numbers to 0 while a model is trained, so that it cannot lean on any single one. What
is kept is made larger, so that the sum stays the same on average. When the model is used, dropout does nothing.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right. A module has no other parameters than those named. Switched back and forth by `train()` and `eval()`, its own or
those of a parent module, it drops in training mode only, and the same `torch.manual_seed` repeats what is dropped.
Where a ValueError is named, any error will do.

Off limits: `F.dropout`, `nn.Dropout` and `torch.dropout`, in every form (alpha, feature, 1d, 2d, 3d, native).
"""

import torch
from torch import Tensor, nn


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Set each element to 0 with probability p, each by itself, and multiply the others by 1 / (1 - p).

    Outside training x comes back unchanged. With p = 0 it does too; with p = 1 every element is 0. The random numbers
    are torch's, so that `torch.manual_seed` repeats them.

    Shapes: `x` has any shape `(...)`, the result has the same.

    Raises:
        ValueError: in training, when p is less than 0 or more than 1.
    """
    ### BEGIN SOLUTION
    if not training:
        return x
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p is a probability between 0 and 1, but it is {p}")

    # The draw is made in float32 for every dtype: bfloat16 has only 256 steps between 0 and 1, too few for a rate.
    kept = torch.rand(x.shape, device=x.device) >= p  # (...)
    scale = 1.0 / (1.0 - p) if p < 1.0 else 0.0  # with p = 1 nothing is kept, and there is nothing to scale
    return (x * scale).masked_fill(~kept, 0.0)  # (...)
    ### END SOLUTION


class Dropout(nn.Module):
    """Dropout as a module: it acts after `train()` and does nothing after `eval()`.

    Args:
        p: the probability that an element is set to 0.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.p = p
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements of x in training mode; return x unchanged in eval mode.

        Shapes: `x` has any shape `(...)`, the result has the same.
        """
        ### BEGIN SOLUTION
        return dropout(x, self.p, self.training)  # (...)
        ### END SOLUTION
