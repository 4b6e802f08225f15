"""The learning rate with a shorter or a longer warm-up, for the lesson's page."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Curves, Picture, Slider, rounded

STEPS, SHOWN = 100, 110
WARMUPS = (0, 5, 10, 20, 50)


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    frames = []
    for warmup in WARMUPS:
        rates = [reference.learning_rate(step, 1.0, warmup, STEPS, 0.1) for step in range(SHOWN)]
        x = [float(step) for step in range(SHOWN)]
        panel = (N_("learning rate / max_lr"), [rounded(rates, 3)])
        frames.append([Curves(x=x, panels=[panel], names=["learning_rate"], across=N_("training step"))])
    return {"rate": Slider(label="warmup_steps", values=[f"{warmup}" for warmup in WARMUPS], frames=frames, at=2)}
