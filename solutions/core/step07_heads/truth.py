"""Step 7 held against `torch.chunk` and `torch.cat`."""

from __future__ import annotations

import torch

from solutions.core.step07_heads.reference import merge_heads, split_heads
from tests.truths import (
    Refused,
    agree,
    drawer,
    gradients,
    moves,
    normal,
    of,
    refusals,
)


def test_heads() -> None:
    """Heads are `torch.chunk`s of the columns, and merging concatenates them."""
    for num_heads in (1, 2, 6):
        agree(
            lambda x, h=num_heads: split_heads(x, h),
            lambda x, h=num_heads: torch.stack(x.chunk(h, dim=-1), dim=1),
            normal(2, 5, 6),
        )
    for heads in (normal(2, 3, 5, 4), normal(2, 5, 3, 4).transpose(1, 2), normal(4, 5, 3, 2).permute(3, 2, 1, 0)):
        agree(merge_heads, lambda x: torch.cat(list(x.unbind(dim=1)), dim=-1), heads)


REFUSED: dict[str, Refused] = {
    "split_heads": (lambda: split_heads(torch.zeros(1, 2, 7), 3), (7, 3)),
}

test_wrong_arguments = refusals(REFUSED)


x = drawer()
CASES = {
    "split_heads": of(split_heads, x(2, 3, 4), num_heads=2),
    "merge_heads": of(merge_heads, x(2, 2, 3, 2)),
}

test_gradients = gradients(CASES)
test_meta_device_and_bfloat16 = moves(CASES)
