"""`attention` cut into pieces, so that each misconception replaces one of them."""

import math
from typing import Any

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]


def scaled(query: Tensor, key: Tensor) -> Tensor:
    """The scaled scores."""
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


def hidden(scores: Tensor, mask: Tensor | None, fill: float = -torch.inf) -> Tensor:
    """Scores with `fill` where the mask is False."""
    return scores if mask is None else scores.masked_fill(~mask, fill)


class Attention:
    """One call of `attention`; `answer` gives what it returns."""

    fill = -torch.inf  # what hidden scores become
    dim = -1  # over which a softmax sums to 1

    def __init__(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> None:
        self.query, self.key, self.value, self.mask = query, key, value, mask

    def product(self) -> Tensor:
        return self.query @ self.key.transpose(-2, -1)

    def divisor(self) -> float:
        return math.sqrt(self.query.shape[-1])

    def scores(self) -> Tensor:
        return self.product() / self.divisor()

    def hidden(self, scores: Tensor) -> Tensor:
        return scores if self.mask is None else scores.masked_fill(~self.mask, self.fill)

    def shared(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=self.dim)

    def weights(self) -> Tensor:
        return self.shared(self.hidden(self.scores()))

    def context(self, weights: Tensor) -> Tensor:
        return weights @ self.value

    def given(self, context: Tensor, weights: Tensor) -> Any:
        return context, weights

    def answer(self) -> Any:
        weights = self.weights()
        return self.given(self.context(weights), weights)


def attending(*parts: type) -> dict[str, Any]:
    """`attention` with the pieces that are wrong in these."""
    made = type("Attention", parts, {})

    def attention(*given: Any, **named: Any) -> Any:
        return made(*given, **named).answer()

    return {"attention": attention}
