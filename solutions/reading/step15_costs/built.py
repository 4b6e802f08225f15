"""What a finished step shows: from which length on comparing tokens costs more than anything else."""

from types import ModuleType

from grader.base.language import N_
from grader.report.pictures import Curves, Picture

SAYS = N_(
    "By your own formula, in billions of operations of one layer as wide as GPT-2's. The projections grow with the "
    "length, the comparison of all pairs with its square: where the curves cross, long texts become expensive."
)
TOKENS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
HEADS, WIDTH = 12, 768


def built(own: ModuleType) -> Picture:
    """What the projections take, and what all pairs take."""
    costs = [own.attention_flops(1, HEADS, tokens, WIDTH) for tokens in TOKENS]
    lines = [[cost[0] / 1e9 for cost in costs], [(cost[1] + cost[2]) / 1e9 for cost in costs]]
    names = [N_("projections"), N_("all pairs")]
    panel = (N_("billions of operations"), lines)
    return Curves(x=[float(one) for one in TOKENS], panels=[panel], names=names, across="tokens", logarithmic=True)
