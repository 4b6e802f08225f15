"""Table 1 as curves, for the lesson's page."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Curves, Picture

LAYERS = ["self-attention", "recurrent", "convolutional", "restricted"]
WIDTH = 512
LENGTHS = [2**power for power in range(4, 15)]


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    titles = N_("operations"), N_("steps that wait for each other"), N_("path")
    panels = [
        (title, [[float(reference.layer_costs(layer, n, WIDTH)[place]) for n in LENGTHS] for layer in LAYERS])
        for place, title in enumerate(titles)
    ]
    x = [float(n) for n in LENGTHS]
    return {"costs": Curves(x=x, panels=panels, names=LAYERS, across=N_("tokens n"), logarithmic=True)}
