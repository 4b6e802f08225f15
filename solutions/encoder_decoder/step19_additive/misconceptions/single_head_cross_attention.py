"""What learners get wrong in `SingleHeadCrossAttention`, each with the check that catches it."""

import torch
from torch import Tensor, nn

from grader.checks.catalogue import misconception
from solutions.encoder_decoder.step19_additive.misconceptions.pieces import Single

# --- the joined score -------------------------------------------------------------------------------------------------


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_by_hand")
class state_joined_first(Single):
    """The decoder state was joined in front of the encoder output.

    The columns of `attention_layer` belong to the encoder output first and to the state behind it. Joined the other way
    round, each number meets another weight.

    In which order does the contract name the two that are joined?
    """

    def join(self, outputs: Tensor, state: Tensor) -> Tensor:
        return torch.cat([state.unsqueeze(1).expand(-1, outputs.shape[1], -1), outputs], dim=-1)


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_by_hand")
class tanh_of_the_joined_score(Single):
    """A tanh was taken of the joined score.

    The contract's score is `attention_layer` alone. With a tanh it is squeezed into the range from -1 to 1.

    What is done to the output of `attention_layer` before the softmax?
    """

    def score(self, outputs: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(super().score(outputs, state))


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_agrees_with_fresh_draws")
class relu_of_the_joined_score(Single):
    """A ReLU was taken of the joined score.

    The contract's score is `attention_layer` alone. With a ReLU all scores below 0 are alike.

    What is done to the output of `attention_layer` before the softmax?
    """

    def score(self, outputs: Tensor, state: Tensor) -> Tensor:
        return torch.relu(super().score(outputs, state))


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_by_hand")
class context_from_the_joined(Single):
    """The context is the weighted sum of outputs and state joined.

    It is then `encoder_dim + decoder_dim` wide. The context is made of the encoder's outputs alone.

    How wide is the context in the contract?
    """

    def forward(
        self, encoder_outputs: Tensor, decoder_hidden: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        weights = self.weigh(self.score(encoder_outputs, decoder_hidden), mask)
        return self.gather(weights, self.join(encoder_outputs, decoder_hidden)), weights


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_by_hand")
class attention_layer_without_bias(Single):
    """`attention_layer` was made without a bias.

    The softmax cancels it, but the contract's parameters have it: without it a state dict does not fit.

    Which parameters does the contract name for this class?
    """

    def __init__(self, encoder_dim: int, decoder_dim: int) -> None:
        super().__init__(encoder_dim, decoder_dim)
        self.attention_layer = nn.Linear(encoder_dim + decoder_dim, 1, bias=False)


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_by_hand")
class single_layers_made_in_forward(Single):
    """`attention_layer` was made in `forward`.

    Each call then has a new random layer: nothing can be learned or loaded, and no answer is given twice.

    Which method runs once for a module, and which at every call?
    """

    def __init__(self, encoder_dim: int, decoder_dim: int) -> None:
        nn.Module.__init__(self)

    def score(self, outputs: Tensor, state: Tensor) -> Tensor:
        joined = self.join(outputs, state)
        return nn.Linear(joined.shape[-1], 1)(joined).squeeze(-1)


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_by_hand")
class joined_along_the_positions(Single):
    """The decoder state was joined behind the last position, and not behind each of them.

    It is then one position more. The layer needs it beside every encoder output, as further columns.

    Which dimension grows when the two are joined?
    """

    def score(self, outputs: Tensor, state: Tensor) -> Tensor:
        return self.attention_layer(torch.cat([outputs, state.unsqueeze(1)], dim=1)).squeeze(-1)


# --- both forms: the joined one ---------------------------------------------------------------------------------------


@misconception(replaces="SingleHeadCrossAttention", caught_by="test_single_head_agrees_with_fresh_draws")
class joined_one_sequence_at_a_time(Single):
    """A loop ran over the batch, as many times as there are positions, where it should run over the positions.

    `states[j]` is sequence j; position j of every sequence is `states[:, j]`.

    What does the first index of `(B, S, width)` count?
    """

    def score(self, outputs: Tensor, state: Tensor) -> Tensor:
        joined = [torch.cat([outputs[j], state], dim=-1) for j in range(outputs.shape[1])]
        return torch.stack([self.attention_layer(both).squeeze(-1) for both in joined], dim=1)
