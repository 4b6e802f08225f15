"""Splitting into heads and merging them

Several heads look at the same tokens, each with its own part of the columns. Splitting makes the head a dimension of
its own, in front of the tokens, so that one matrix product works on all heads at once. Merging puts the columns back.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. Where a ValueError is named, any error will do.

Off limits: nothing.
"""

from torch import Tensor


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Give each head its own columns of every token.

    Shapes: B sequences of T tokens of width D; H is `num_heads`, d = D / H the width of one head. `x` is `(B, T, D)`,
    the result `(B, H, T, d)`: head h holds the columns h * d to (h + 1) * d - 1.

    Raises:
        ValueError: when D is not divisible by `num_heads`.
    """
    ### BEGIN SOLUTION
    batch, num_tokens, width = x.shape
    if width % num_heads:
        raise ValueError(f"the width {width} is not divisible by {num_heads} heads")
    # A view may only cut the last dimension in two: the columns of one head lie next to each other. Then H moves.
    columns = x.reshape(batch, num_tokens, num_heads, width // num_heads)  # (B, T, H, d)
    return columns.transpose(1, 2)  # (B, H, T, d)
    ### END SOLUTION


def merge_heads(x: Tensor) -> Tensor:
    """Put the columns of all heads next to each other again: the inverse of `split_heads`.

    Shapes: `x` is `(B, H, T, d)`, contiguous or not, the result `(B, T, H * d)`.
    """
    ### BEGIN SOLUTION
    columns = x.transpose(1, 2)  # (B, T, H, d)
    # After a transpose the numbers may lie in memory in an order that no view can flatten: reshape copies if it must.
    return columns.reshape(*columns.shape[:2], -1)  # (B, T, H * d)
    ### END SOLUTION
