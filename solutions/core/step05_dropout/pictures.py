"""What dropout leaves of a matrix, and its mean, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Bars, Matrices, Picture, Slider, rounded

RATES = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
REPEATS = 4000


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    x = torch.arange(4.0, 68, 4).view(4, 4)
    labels = [N_("x"), N_("this draw"), N_("mean of many draws")]
    frames = []
    for rate in RATES:
        torch.manual_seed(5)
        dropped = reference.dropout(x, rate)
        many = reference.dropout(x.expand(REPEATS, 4, 4), rate)
        lost = [(row, column) for row in range(4) for column in range(4) if dropped[row, column] == 0]
        means = rounded([float(x.mean()), float(dropped.mean()), float(many.mean())], 3)
        frames.append(
            [Matrices(panels=[("x", rounded(x)), ("dropout(x, p)", rounded(dropped, 3))], row="row", column="column",
                      differs=[[], lost]),
             Bars(panels=[(N_("mean"), [means])], labels=labels, most=70.0)]
        )  # fmt: skip
    return {"dropped": Slider(label="p", values=[f"{rate:g}" for rate in RATES], frames=frames, at=2)}
