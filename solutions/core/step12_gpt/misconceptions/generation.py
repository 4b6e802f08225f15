"""`generate` cut into pieces, so that each misconception replaces one of them."""

from typing import Any

import torch
from torch import Tensor

from solutions.core.step12_gpt import reference
from solutions.core.step12_gpt.reference import GPT


def sample(logits: Tensor) -> Tensor:
    """A token of each row, drawn as the softmax of these logits (B, vocab_size) says."""
    return torch.multinomial(logits.float().softmax(dim=-1), num_samples=1)


class Generation:
    """One call of `generate`, cut into pieces, so that each misconception replaces one of them.

    `context` gives what the model sees of the text, `following` the logits of the next token, (B, vocab_size), `kept`
    hides those that top_k excludes, `choose` gives the next token of each row, (B, 1).
    """

    fill = float("-inf")

    def __init__(
        self, model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
    ) -> None:
        self.model, self.prompt, self.max_new_tokens = model, idx, max_new_tokens
        self.temperature, self.top_k = temperature, top_k

    def begin(self) -> None:
        self.model.eval()

    def context(self, text: Tensor) -> Tensor:
        return text[:, -self.model.block_size :]

    def following(self, logits: Tensor) -> Tensor:
        return logits[:, -1]

    def threshold(self, logits: Tensor, k: int) -> Tensor:
        return logits.topk(k).values[:, -1:]

    def kept(self, logits: Tensor) -> Tensor:
        if self.top_k is None:
            return logits
        threshold = self.threshold(logits, min(self.top_k, logits.shape[-1]))
        return logits.masked_fill(logits < threshold, self.fill)

    def draw(self, logits: Tensor) -> Tensor:
        return sample(logits / self.temperature)

    def choose(self, logits: Tensor) -> Tensor:
        return logits.argmax(dim=-1, keepdim=True) if self.temperature == 0 else self.draw(logits)

    def joined(self, text: Tensor, chosen: Tensor) -> Tensor:
        return torch.cat((text, chosen), dim=1)

    def end(self, was_training: bool) -> None:
        self.model.train(was_training)

    def given_back(self, text: Tensor) -> Tensor:
        return text

    def text(self) -> Tensor:
        was_training, text = self.model.training, self.prompt
        self.begin()
        for _ in range(self.max_new_tokens):
            logits = self.following(self.model(self.context(text))[0]).detach()
            text = self.joined(text, self.choose(self.kept(logits)))
        self.end(was_training)
        return self.given_back(text)

    def right_text(self) -> Tensor:
        return reference.generate(self.model, self.prompt, self.max_new_tokens, self.temperature, self.top_k)


def generation(*parts: type) -> dict[str, Any]:
    """`generate` with the pieces that are wrong in these."""
    made = type("Generation", parts, {})

    def generate(*given: Any, **named: Any) -> Tensor:
        return made(*given, **named).text()

    return {"generate": generate}
