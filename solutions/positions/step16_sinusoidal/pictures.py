"""The encoding as a matrix and as curves, for several bases, for the lesson's page."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Curves, Matrices, Picture, Slider, rounded

COLUMNS = (0, 1, 4, 8)
SIDE, LONG = 24, 48
BASES = (10.0, 100.0, 10_000.0)


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    titles = [f"sinusoidal_encoding({SIDE}, {SIDE})" for _base in BASES]
    frames = [
        [Matrices(panels=[(title, rounded(reference.sinusoidal_encoding(SIDE, SIDE, base), 2))],
                  row="position", column="column")]
        for title, base in zip(titles, BASES, strict=True)
    ]  # fmt: skip
    long = reference.sinusoidal_encoding(LONG, SIDE)
    columns = [rounded(long[:, column]) for column in COLUMNS]
    return {
        "encoding": Slider(label=N_("base"), values=[f"{base:g}" for base in BASES], frames=frames, at=2),
        "waves": Curves(
            x=[float(place) for place in range(LONG)], panels=[(N_("four columns"), columns)],
            names=[f"[:, {column}]" for column in COLUMNS], across="position",
        ),
    }  # fmt: skip
