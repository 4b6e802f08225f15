"""The encoding as a matrix and as curves, for the lesson's page."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Curves, Matrices, Picture

COLUMNS = (0, 1, 4, 8)
SIDE, LONG = 24, 48


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    square = reference.sinusoidal_encoding(SIDE, SIDE).tolist()
    long = reference.sinusoidal_encoding(LONG, SIDE)
    columns = [long[:, column].tolist() for column in COLUMNS]
    return {
        "encoding": Matrices(
            panels=[(f"sinusoidal_encoding({SIDE}, {SIDE})", square)], row="position", column="column"
        ),
        "waves": Curves(
            x=[float(place) for place in range(LONG)], panels=[(N_("four columns"), columns)],
            names=[f"[:, {column}]" for column in COLUMNS], across="position",
        ),
    }  # fmt: skip
