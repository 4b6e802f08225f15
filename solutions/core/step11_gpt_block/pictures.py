"""The residual stream through a stack of blocks, and GELU beside ReLU, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Curves, Picture, Slider, Still, Stream, rounded

WIDTH, HEADS, TOKENS, BLOCKS = 64, 4, 12, 6
LARGER = 1.8  # than a fresh layer's weights: what training makes of them


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    places = torch.linspace(-4, 4, 65)
    curves = [rounded(reference.gelu(places)), rounded(places.relu())]
    return {
        "stream": stream(reference),
        "gelu": Curves(x=rounded(places), panels=[(N_("activation"), curves)], names=["gelu", "relu"], across="x"),
    }


def stream(reference: ModuleType) -> Slider:
    """How long the vectors of the stream are, and what each branch adds, block by block."""
    x = torch.randn(1, TOKENS, WIDTH)
    passed = []
    for number in range(BLOCKS):
        block = reference.Block(WIDTH, HEADS, TOKENS).eval()
        for layer in (block.attn.c_attn, block.attn.c_proj, block.mlp.c_fc, block.mlp.c_proj):
            layer.weight.mul_(LARGER)
        first, gathered = _length(x), block.attn(block.ln_1(x))
        x = x + gathered
        between, thought = _length(x), block.mlp(block.ln_2(x))
        x = x + thought
        branches = [("ln_1 → attn", _length(gathered), between), ("ln_2 → mlp", _length(thought), _length(x))]
        passed.append((f"block {number}", first, branches))
    frames: list[list[Still]] = [[Stream(panels=[block], most=_length(x))] for block in passed]
    return Slider(label=N_("block"), values=[f"{number}" for number in range(BLOCKS)], frames=frames)


def _length(x: torch.Tensor) -> float:
    """The mean length of its vectors."""
    return float(rounded(float(x.norm(dim=-1).mean()), 3))
