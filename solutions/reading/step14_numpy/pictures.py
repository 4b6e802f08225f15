"""Attention weights in NumPy, for the lesson's page."""

from types import ModuleType

import numpy as np

from grader.report.pictures import Matrices, Picture, rounded


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    draws = np.random.default_rng(14)
    X, *matrices = (draws.normal(size=shape) for shape in ((8, 6), (6, 4), (6, 4), (6, 4)))
    scores = rounded(X @ matrices[0] @ (X @ matrices[1]).T / 2)
    names = ("self_attention", "causal_self_attention")
    panels = [(name, rounded(getattr(reference, name)(X, *matrices)[1], 2)) for name in names]
    return {"weights": Matrices(panels=panels, behind=[scores])}
