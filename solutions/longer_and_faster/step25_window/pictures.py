"""Windows of several widths, and how far layers of them reach, for the lesson's page."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, Slider

TOKENS = 12
WINDOWS, LAYERS = range(1, 7), range(1, 7)
WINDOW = 3


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    return {"window": window(reference), "reach": reach(reference)}


def window(reference: ModuleType) -> Slider:
    """Causal, to both sides, and with a global token."""
    frames = []
    for width in WINDOWS:
        panels = [
            (N_("causal"), reference.window_mask(TOKENS, width).tolist()),
            (N_("both sides"), reference.window_mask(TOKENS, width, is_causal=False).tolist()),
            (N_("one global token"), reference.window_mask(TOKENS, width, is_causal=False, num_global=1).tolist()),
        ]
        frames.append([Matrices(panels=panels)])
    return Slider(label="window", values=[f"{width}" for width in WINDOWS], frames=frames, at=2)


def reach(reference: ModuleType) -> Slider:
    """Which token's vector knows of which after some layers: a path of allowed looks."""
    mask = reference.window_mask(TOKENS, WINDOW).long()
    known, frames = mask, []
    for _layer in LAYERS:
        frames.append([Matrices(panels=[(N_("knows of"), (known > 0).tolist())])])
        known = (known @ mask).clamp(max=1)
    return Slider(label=N_("layers"), values=[f"{layer}" for layer in LAYERS], frames=frames)
