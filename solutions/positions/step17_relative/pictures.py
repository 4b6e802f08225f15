"""Clipped distances and ALiBi's bias, for the lesson's page."""

from types import ModuleType

from grader.report.pictures import Matrices, Picture

HEADS, TOKENS = 4, 6


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    distances = reference.relative_positions(TOKENS, 3).tolist()
    bias = reference.alibi_bias(HEADS, TOKENS).tolist()
    finite = [[[value + 0.0 if value > float("-inf") else None for value in row] for row in head] for head in bias]
    return {
        "distances": Matrices(panels=[(f"relative_positions({TOKENS}, 3)", distances)]),
        "bias": Matrices(panels=[(f"alibi_bias({HEADS}, {TOKENS})[{head}]", finite[head]) for head in (0, 1, 3)]),
    }
