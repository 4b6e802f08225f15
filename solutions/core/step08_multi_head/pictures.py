"""A map for each head, each looking for another place, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Matrices, Picture, Slider, rounded

TOKENS, MOST = 6, 4


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    frames = [[maps(reference, heads)] for heads in range(1, MOST + 1)]
    values = [f"{heads}" for heads in range(1, MOST + 1)]
    return {"maps": Slider(label=N_("number of heads"), values=values, frames=frames, at=1)}


def maps(reference: ModuleType, heads: int) -> Matrices:
    """Head h asks for the token h places back. A token is a row of the identity and so is its value: what a head gives
    is then its weights."""
    module = reference.MultiHeadAttentionWrapper(TOKENS, TOKENS, TOKENS, 0.0, heads).eval()
    for back, head in enumerate(module.heads):
        head.W_query.weight.copy_(torch.eye(TOKENS).roll(-back, 0).triu(-TOKENS) * 8)
        head.W_key.weight.copy_(torch.eye(TOKENS))
        head.W_value.weight.copy_(torch.eye(TOKENS))
    tokens = torch.eye(TOKENS)
    weights = module(tokens[None])[0].unflatten(-1, (heads, TOKENS))
    scores = [rounded(head.W_query(tokens) @ head.W_key(tokens).T / TOKENS**0.5) for head in module.heads]
    return Matrices(panels=[(f"head {head}", rounded(weights[:, head], 2)) for head in range(heads)], behind=scores)
