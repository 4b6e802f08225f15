"""What a finished step shows: a sentence split into heads."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, rounded
from grader.web.words import vectors

SAYS = N_(
    "A sentence of width 8, split by your code into two heads of width 4: each head sees every word, "
    "and half of its numbers."
)


def built(own: ModuleType, words: list[str]) -> Picture:
    """What was whole, and each head."""
    x = vectors(words, 8)
    heads = own.split_heads(x[None], 2)[0]
    panels = [
        (N_("whole"), rounded(x, 2)),
        *((f"head {number}", rounded(head, 2)) for number, head in enumerate(heads)),
    ]
    return Matrices(panels=panels, row="token", column="width", rows=words)
