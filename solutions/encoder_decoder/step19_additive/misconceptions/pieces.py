"""Both forms of attention cut into pieces, so that each misconception replaces one of them."""

import torch
from torch import Tensor, nn

from solutions.encoder_decoder.step19_additive import reference


class Attending(nn.Module):
    """What both forms do, cut into pieces, so that each misconception replaces one of them."""

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores.masked_fill(~mask, -torch.inf)

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.hide(scores, mask).softmax(dim=-1)

    def gather(self, weights: Tensor, states: Tensor) -> Tensor:
        return (weights.unsqueeze(-1) * states).sum(dim=1)

    def give(self, context: Tensor, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return context, weights

    def attend(self, states: Tensor, state: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = self.score(states, state)
        weights = self.weigh(scores, mask)
        return self.give(self.gather(weights, states), weights, scores)


class Additive(Attending, reference.AdditiveAttention):
    """The reference of `AdditiveAttention` in pieces."""

    def project(self, state: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        return self.W_a(state), self.U_a(keys)

    def hidden(self, state: Tensor, keys: Tensor) -> Tensor:
        return torch.tanh(state.unsqueeze(1) + keys)

    def score(self, keys: Tensor, state: Tensor) -> Tensor:
        return self.v_a(self.hidden(*self.project(state, keys))).squeeze(-1)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.attend(keys, query, mask)


class Single(Attending, reference.SingleHeadCrossAttention):
    """The reference of `SingleHeadCrossAttention` in pieces."""

    def join(self, outputs: Tensor, state: Tensor) -> Tensor:
        return torch.cat([outputs, state.unsqueeze(1).expand(-1, outputs.shape[1], -1)], dim=-1)

    def score(self, outputs: Tensor, state: Tensor) -> Tensor:
        return self.attention_layer(self.join(outputs, state)).squeeze(-1)

    def forward(
        self, encoder_outputs: Tensor, decoder_hidden: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        return self.attend(encoder_outputs, decoder_hidden, mask)
