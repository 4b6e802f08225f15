"""The five patterns, for the lesson's page."""

from types import ModuleType

from grader.report.pictures import Matrices, Picture

TOKENS = 10


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    made = [(f"{name}({TOKENS})", getattr(reference, name)(TOKENS).tolist())
            for name in ("attention_diagonal", "attention_uniform", "attention_first", "attention_causal")]  # fmt: skip
    local = (f"attention_local({TOKENS}, radius=2)", reference.attention_local(TOKENS, 2).tolist())
    return {"patterns": Matrices(panels=[*made, local])}
