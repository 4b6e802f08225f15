"""Scores and their weights at several temperatures, and what happens without the maximum, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Bars, Picture, Slider, rounded

WORDS = [N_("cat"), N_("street"), N_("tired"), N_("it")]
SCORES = [3.0, 1.0, 2.0, -1.0]
TEMPERATURES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)
SHIFTS = (0, 20, 60, 80, 85, 90, 1000)


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    return {"temperature": temperature(reference), "overflow": overflow(reference)}


def temperature(reference: ModuleType) -> Slider:
    """The same scores, divided by a temperature."""
    frames = []
    for value in TEMPERATURES:
        scores = torch.tensor(SCORES) / value
        weights = rounded(reference.softmax(scores))
        frames.append(
            [Bars(panels=[(N_("scores / temperature"), [rounded(scores)])], labels=WORDS),
             Bars(panels=[("weights", [weights])], labels=WORDS, most=1.0)]
        )  # fmt: skip
    return Slider(label="temperature", values=[f"{value:g}" for value in TEMPERATURES], frames=frames, at=3)


def overflow(reference: ModuleType) -> Slider:
    """A number added to every score: the formula as it is written, and with the largest score moved to 0."""
    names = [N_("formula as it stands"), N_("largest moved to 0")]
    frames = []
    for shift in SHIFTS:
        scores = torch.tensor(SCORES) + shift
        naive = scores.exp() / scores.exp().sum()
        both = [rounded(naive), rounded(reference.softmax(scores))]
        title = "weights"
        frames.append([Bars(panels=[(title, both)], labels=WORDS, names=names, most=1.0, missing="NaN")])
    return Slider(label=N_("added to every score"), values=[f"{shift}" for shift in SHIFTS], frames=frames)
