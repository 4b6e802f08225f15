"""What learners get wrong in `SimpleTransformer`: masks that nobody gave, padding, and dropout in further places."""

from typing import Any

import torch
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.encoder_decoder.step21_encoder.misconceptions.pieces import Classifier, Encoder, whole
from solutions.encoder_decoder.step21_encoder.misconceptions.transformer_block import four_times_the_width


def _before(num_tokens: int, ids: Tensor) -> Tensor:
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=ids.device).tril()


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class causal_without_being_asked(Encoder):
    """The later tokens were hidden, as in a GPT.

    An encoder reads the whole sentence at once: only what the mask says is hidden.

    Which mask do the blocks get when the caller gives none?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        return super().forward(x, _before(x.shape[1], x) if mask is None else mask)


@another_form(causal_without_being_asked)
class causal_beside_every_mask(causal_without_being_asked):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        causal = _before(x.shape[1], x)
        return super().forward(x, causal if mask is None else mask & causal)


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class id_zero_taken_for_padding(Encoder):
    """Where no mask was given, the tokens with the id 0 were hidden.

    Which id pads is for the caller to say, and the mask says it. Another vocabulary has a word at 0.

    What does None stand for in the docstring?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        return super().forward(x, (x != 0)[:, None, None, :] if mask is None else mask)


@another_form(id_zero_taken_for_padding, caught_by="test_classifier_agrees_with_fresh_draws")
class id_zero_taken_for_padding_in_the_classifier(Classifier):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x, x != 0 if mask is None else mask)


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class padding_idx_in_the_embedding(Encoder):
    """The token embedding was made with a `padding_idx`.

    The row of that id gets no gradient and is never learned. Another vocabulary has a word at 0.

    What does `padding_idx` do to the gradient of its row?
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.token_embedding.padding_idx = 0


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class encoder_weights_detached(Encoder):
    """The encoder detached the weights that it returns.

    They have no gradient then: a loss on the weights, which some models have, would train nothing.

    Which method takes a tensor out of the graph, and where do you call it?
    """

    def give(self, output: Tensor, weights: list[Tensor]) -> Any:
        return output, [of_block.detach() for of_block in weights]


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_in_further_places(Encoder):
    """The encoder's dropout acted also on what a block or the final norm gave.

    The contract has one dropout in the encoder itself, on the sum of the embeddings. The blocks have their own.

    How many times does your `forward` call the encoder's dropout?
    """

    def finish(self, stream: Tensor) -> Tensor:
        return self.dropout(super().finish(stream))


@another_form(dropout_in_further_places)
class dropout_behind_every_block(Encoder):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        if x.shape[1] > self.max_seq_len:
            raise ValueError(x.shape[1])
        stream, all_weights = self.embed(x), []
        for block in self.transformer_blocks:
            stream, weights = block(stream, mask)
            stream = self.dropout(stream)
            all_weights.append(weights)
        return self.finish(stream), all_weights


@another_form(dropout_in_further_places)
class dropout_before_the_final_norm(Encoder):
    def finish(self, stream: Tensor) -> Tensor:
        return super().finish(self.dropout(stream))


@another_form(four_times_the_width, caught_by="test_encoder_agrees_with_fresh_draws")
class four_times_the_width_in_the_encoder(Encoder):
    def blocks(self, n_layers: int, *given: Any) -> nn.ModuleList:
        d_model, n_heads, _d_ff, dropout = given
        return super().blocks(n_layers, d_model, n_heads, 4 * d_model, dropout)
