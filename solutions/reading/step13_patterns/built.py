"""What a finished step shows: its patterns over a sentence."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded

SAYS = N_("Your patterns over a sentence. When you read the maps of a trained model, these are what to look for.")


def built(own: ModuleType, words: list[str]) -> Picture:
    """Four of them."""
    count = len(words)
    made = [
        own.attention_first(count),
        own.attention_causal(count),
        own.attention_local(count),
        own.attention_diagonal(count),
    ]
    names = ("attention_first", "attention_causal", "attention_local", "attention_diagonal")
    panels = [(name, rounded(one, 2)) for name, one in zip(names, made, strict=True)]
    return Matrices(panels=panels, rows=words, columns=words)
