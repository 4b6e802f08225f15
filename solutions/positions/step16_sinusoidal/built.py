"""What a finished step shows: the waves that tell positions apart."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Curves, Picture, rounded

SAYS = N_("Your waves: at each position their heights are different, and that tells a model where a word stands.")
POSITIONS, WIDTH = 60, 16


def built(own: ModuleType) -> Picture:
    """Four columns of the encoding."""
    waves = own.sinusoidal_encoding(POSITIONS, WIDTH)
    columns = (0, 2, 4, 6)
    names = [f"[:, {column}]" for column in columns]
    x = [float(place) for place in range(POSITIONS)]
    panel = ("sinusoidal_encoding", [rounded(waves[:, column]) for column in columns])
    return Curves(x=x, panels=[panel], names=names, across="position")
