"""A causal mask

A model that writes the next token must not look at it. A causal mask lets each token attend to itself and to the tokens
before it, and hides everything later. Hidden positions get weight 0, and the weights that remain sum to 1.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right.

Off limits: `scaled_dot_product_attention`, in every form.
"""

import torch
from torch import Tensor


def causal_mask(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """Which key (column) each query (row) may attend to: itself and every earlier one.

    Shapes: T is `num_tokens`; the result is boolean, `(T, T)`, True on and below the diagonal. True means "may attend".

    Args:
        num_tokens: how many tokens the sequence has.
        device: where the mask is made; None is torch's default device.
    """
    ### BEGIN SOLUTION
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device).tril()  # (T, T)
    ### END SOLUTION


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Turn each row of scores into weights that sum to 1, with weight exactly 0 where the mask is False.

    Shapes: T_q queries and T_k keys; `...` is any number of leading batch dimensions, none included. `scores` is
    `(..., T_q, T_k)`, `mask` is boolean and broadcasts to `(..., T_q, T_k)`, the result is `(..., T_q, T_k)`. Every row
    of the mask has at least one True. Scores of 10000 and -10000 work, and so does float16.
    """
    ### BEGIN SOLUTION
    # exp(-inf) is exactly 0, and -inf exists in every float dtype. A number such as -1e9 does not exist in float16.
    hidden = scores.masked_fill(~mask, -torch.inf)  # (..., T_q, T_k)
    return hidden.softmax(dim=-1)  # (..., T_q, T_k)
    ### END SOLUTION


def renormalise(weights: Tensor, mask: Tensor) -> Tensor:
    """Set the hidden weights to 0, then divide each row by the sum of what is left.

    Shapes: `weights` is `(..., T_q, T_k)`, `mask` is boolean and broadcasts to it, the result is `(..., T_q, T_k)`.
    When the weights come out of a softmax, this gives what `masked_softmax` gives on the scores (of ordinary size). A
    weight may be exactly 0, and its gradient is a number all the same; each row keeps more than 0.
    """
    ### BEGIN SOLUTION
    visible = weights.masked_fill(~mask, 0.0)  # (..., T_q, T_k)
    return visible / visible.sum(dim=-1, keepdim=True)  # (..., T_q, T_k)
    ### END SOLUTION
