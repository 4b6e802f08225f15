"""What a finished step shows: the memory that attention in blocks does not take."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Curves, Picture

SAYS = N_(
    "By your own formula: what the weights of 12 heads take, in MiB. Your flash attention never holds them; it "
    "keeps one block at a time."
)
TOKENS = (256, 512, 1024, 2048, 4096, 8192)
BLOCK = 64


def built(own: ModuleType) -> Picture:
    """All weights at once, and one block of them."""
    whole = [own.attention_matrix_bytes(1, 12, tokens) / 2**20 for tokens in TOKENS]
    block = [own.attention_matrix_bytes(1, 12, BLOCK) / 2**20] * len(TOKENS)
    panel = ("MiB", [whole, block])
    names = [N_("all weights"), N_("one block of 64")]
    return Curves(x=[float(one) for one in TOKENS], panels=[panel], names=names, across="tokens", logarithmic=True)
