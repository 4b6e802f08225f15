"""What a finished step shows: two forms of 2015 over a sentence, one of which takes no notice of who asks."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import WIDTH, vectors

SAYS = N_(
    "Both of your layers, with random parameters: each row is a decoder state that asks. In Bahdanau's form each state "
    "looks elsewhere; in the short form all rows are the same, whoever asks."
)
LOUDER = 4.0  # random parameters are small, and all weights would be near each other


def built(own: ModuleType, words: list[str]) -> Picture:
    """The weights of every state over every word."""
    states = vectors([f"{word}?" for word in words])
    keys = vectors(words).expand(len(words), -1, -1)
    additive = own.AdditiveAttention(WIDTH, WIDTH, WIDTH).eval()
    for projection in (additive.W_a, additive.v_a):
        projection.weight.mul_(LOUDER)
    joined = own.SingleHeadCrossAttention(WIDTH, WIDTH).eval()
    panels = [
        ("AdditiveAttention", rounded(additive(states, keys)[1], 2)),
        ("SingleHeadCrossAttention", rounded(joined(keys, states)[1], 2)),
    ]
    return Matrices(panels=panels, rows=words, columns=words)
