"""The five patterns, for the lesson's page."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, Slider, rounded

TOKENS = 10


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    made = [(f"{name}({TOKENS})", rounded(getattr(reference, name)(TOKENS), 2))
            for name in ("attention_diagonal", "attention_uniform", "attention_first", "attention_causal")]  # fmt: skip
    radii = range(5)
    local = [
        [
            Matrices(
                panels=[
                    (
                        f"attention_local({TOKENS}, radius={radius})",
                        rounded(reference.attention_local(TOKENS, radius), 2),
                    )
                ]
            )
        ]
        for radius in radii
    ]
    return {
        "patterns": Matrices(panels=made),
        "local": Slider(label=N_("radius"), values=[f"{radius}" for radius in radii], frames=local, at=2),
    }
