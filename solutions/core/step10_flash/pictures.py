"""Blocks of flash attention with their running sums, and what their size costs, for the lesson's page."""

import math
from types import ModuleType

import torch
from torch import Tensor

from grader.base.language import N_
from grader.report.pictures import Bars, Grid, Matrices, Picture, Slider, rounded

TOKENS, BLOCK = 6, 2
LONG, SIZES = 24, (1, 2, 4, 8, 24)


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    return {"running": running(reference), "sizes": sizes(reference)}


def running(reference: ModuleType) -> Slider:
    """Block after block: the scores that exist by then, and each query's maximum, denominator and context."""
    query, key, value = torch.randn(3, TOKENS, 2) * 1.5
    visible = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    scores = (query @ key.T / math.sqrt(2)).masked_fill(~visible, -math.inf)
    starts = range(0, TOKENS, BLOCK)
    order = [(row, column) for row in starts for column in starts if column <= row]
    frames = []
    for step, (row, column) in enumerate(order):
        done = torch.zeros(TOKENS, TOKENS, dtype=torch.bool)
        for r, c in order[: step + 1]:
            done[r : r + BLOCK, c : c + BLOCK] = True
        now = [(r, c) for r in range(row, row + BLOCK) for c in range(column, column + BLOCK)]
        seen = scores.masked_fill(~done, -math.inf)
        sums = [_sums(reference, query[[place]], key, value, seen[place]) for place in range(TOKENS)]
        frames.append(
            [Matrices(panels=[(N_("scores made so far"), rounded(seen))], cut=(BLOCK, BLOCK), blank=True,
                      differs=[now], behind=[rounded(part) for part in (query, key, value)]),
             Matrices(panels=[(N_("running sums"), sums)], row="query", column="",
                      columns=["m", "l", "c₀", "c₁"], cut=(BLOCK, 0), blank=True)]
        )  # fmt: skip
    values = [f"{step + 1}" for step in range(len(order))]
    return Slider(label=N_("blocks done"), values=values, frames=frames)


def _sums(reference: ModuleType, query: Tensor, key: Tensor, value: Tensor, scores: Tensor) -> list[float | None]:
    """Of one query over the keys that it has seen."""
    seen = scores > -math.inf
    if not seen.any():
        return [None] * 4
    context = reference.flash_attention(query[None, None], key[seen][None, None], value[seen][None, None])[0, 0, 0]
    largest = scores[seen].max()
    return rounded([float(largest), float((scores[seen] - largest).exp().sum()), *context.tolist()])


def sizes(reference: ModuleType) -> Slider:
    """Which scores are ever made, and how many at once."""
    whole = reference.attention_matrix_bytes(1, 1, LONG)
    frames = []
    for size in SIZES:
        made: Grid = [[column // size <= row // size for column in range(LONG)] for row in range(LONG)]
        held = [whole, reference.attention_matrix_bytes(1, 1, size)]
        labels = [N_("all at once"), N_("block by block")]
        frames.append(
            [Matrices(panels=[(N_("scores ever made"), made)], cut=(size, size)),
             Bars(panels=[(N_("bytes of scores at a time"), [rounded(held)])], labels=labels, most=float(whole))]
        )  # fmt: skip
    return Slider(label="block_size", values=[f"{size}" for size in SIZES], frames=frames, at=2)
