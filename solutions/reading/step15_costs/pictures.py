"""Table 1 as curves, for the lesson's page."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Curves, Picture, Slider, Still

LAYERS = ["self-attention", "recurrent", "convolutional", "restricted"]
WIDTHS = (64, 512, 4096)
LENGTHS = [2**power for power in range(4, 15)]
TITLES = N_("operations"), N_("steps that wait for each other"), N_("path")


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    frames = [[_costs(reference, width)] for width in WIDTHS]
    return {"costs": Slider(label=N_("width d"), values=[f"{width}" for width in WIDTHS], frames=frames, at=1)}


def _costs(reference: ModuleType, width: int) -> Still:
    panels = [
        (title, [[float(reference.layer_costs(layer, n, width)[place]) for n in LENGTHS] for layer in LAYERS])
        for place, title in enumerate(TITLES)
    ]
    x = [float(n) for n in LENGTHS]
    return Curves(x=x, panels=panels, names=LAYERS, across=N_("tokens n"), logarithmic=True)
