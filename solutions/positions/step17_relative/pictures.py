"""Clipped distances and ALiBi's bias, for the lesson's page."""

from types import ModuleType

from grader.report.pictures import Matrices, Picture, Slider

HEADS, TOKENS = 4, 6
CLIPS = range(1, 6)


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    frames = [
        [
            Matrices(
                panels=[(f"relative_positions({TOKENS}, {clip})", reference.relative_positions(TOKENS, clip).tolist())]
            )
        ]
        for clip in CLIPS
    ]
    bias = reference.alibi_bias(HEADS, TOKENS).tolist()
    finite = [[[value + 0.0 if value > float("-inf") else None for value in row] for row in head] for head in bias]
    return {
        "distances": Slider(label="max_distance", values=[f"{clip}" for clip in CLIPS], frames=frames, at=2),
        "bias": Matrices(panels=[(f"alibi_bias({HEADS}, {TOKENS})[{head}]", finite[head]) for head in (0, 1, 3)]),
    }
