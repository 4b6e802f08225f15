"""How sharp the weights of both kinds of attention get, and what each has to keep, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Curves, Matrices, Picture, Slider, rounded

from ...core.step03_attention import reference as softmax

TOKENS, WIDTH = 6, 4
SCALES = (0.5, 1.0, 2.0, 4.0, 8.0)
LENGTHS = [2**power for power in range(4, 15)]
HEAD = 64


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    return {"sharpness": sharpness(reference), "memory": memory(reference)}


def sharpness(reference: ModuleType) -> Slider:
    """The same queries, made larger, and keys: with the rows of the identity as values the context is the weights."""
    query, key, value = torch.randn(TOKENS, WIDTH), torch.randn(TOKENS, WIDTH), torch.eye(TOKENS)
    frames = []
    for scale in SCALES:
        sharp = softmax.attention(query * scale, key, value)[0]
        flat = reference.linear_attention((query * scale)[None, None], key[None, None], value[None, None])[0, 0]
        panels = [("softmax", rounded(sharp, 2)), ("linear_attention", rounded(flat, 2))]
        like = reference.feature_map(query * scale) @ reference.feature_map(key).T
        frames.append([Matrices(panels=panels, behind=[rounded(query * scale @ key.T / 2), rounded(like)])])
    return Slider(label=N_("queries times"), values=[f"{scale:g}" for scale in SCALES], frames=frames, at=1)


def memory(reference: ModuleType) -> Curves:
    """Numbers that are kept to write the next token: every key and value, or the state of `linear_attention_step`."""
    one = torch.zeros(1, 1, HEAD)
    _output, state = reference.linear_attention_step(one, one, one)
    kept = float(sum(part.numel() for part in state))
    lines = [[2.0 * HEAD * n for n in LENGTHS], [kept] * len(LENGTHS)]
    return Curves(x=[float(n) for n in LENGTHS], panels=[(N_("numbers kept for a head"), lines)],
                  names=[N_("keys and values"), N_("state")], across=N_("tokens n"), logarithmic=True)  # fmt: skip
