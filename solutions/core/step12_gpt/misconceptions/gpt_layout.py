"""What learners get wrong in `GPT`: which position stands where, what the head holds, what the loss looks at."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.core.step11_gpt_block.reference import LayerNorm
from solutions.core.step12_gpt.misconceptions.gpt import Pieces, bias_not_passed_on


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class positions_multiplied(Pieces):
    """The two embeddings were multiplied.

    What wpe has learned is to be added: a sum keeps what both say, and a product makes nothing of what one has near 0.

    Which operation joins wte(idx) and wpe(positions) in the contract?
    """

    def embed(self, idx: Tensor) -> Tensor:
        return self.drop(self.wte(idx) * self.wpe(self.positions(idx)))


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class positions_counted_from_the_end(Pieces):
    """The positions were counted from the end: the last token got position 0.

    A token's position then changes with every token that is appended.

    Which row of wpe belongs to the first token?
    """

    def positions(self, idx: Tensor) -> Tensor:
        return super().positions(idx).flip(0)


@misconception(replaces="GPT", caught_by="test_loss_and_its_gradient")
class logits_viewed_by_class(Pieces):
    """The logits (B, T, vocab_size) were brought to (B, vocab_size, T) by `view` or `reshape`.

    That keeps the order of the numbers, so that the logits of one position were spread over several. cross_entropy
    wants the classes in the second dimension, and for that two dimensions have to change places.

    Which method lets two dimensions change places, with the numbers going along?
    """

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.reshape(len(logits), logits.shape[2], logits.shape[1]), targets)


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class head_with_a_bias(Pieces):
    """lm_head had a bias.

    GPT-2's head has the weight of wte and nothing else, also when the blocks have biases.

    What is the default of `bias` in `nn.Linear`?
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.lm_head = nn.Linear(self.wte.embedding_dim, self.wte.num_embeddings)
        self.lm_head.weight = self.wte.weight


@another_form(bias_not_passed_on)
class bias_passed_on_to_the_last_norm_only(Pieces):
    def __init__(
        self,
        vocab_size: int,
        block_size: int,
        n_layer: int,
        n_head: int,
        n_embd: int,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(vocab_size, block_size, n_layer, n_head, n_embd, dropout)
        self.ln_f = LayerNorm(n_embd, bias)


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class loss_with_the_wrong_sign(Pieces):
    """The loss was negative: the mean log-probability without its minus.

    Training makes the loss smaller, and here that makes the right tokens less likely.

    Can a cross-entropy be below 0?
    """

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return -super().loss(logits, targets)


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class last_position_left_out_of_the_loss(Pieces):
    """The last position of each sequence took no part in the loss.

    The targets are already shifted by one, so there is a next token for every position.

    How many targets does a sequence of T tokens have here?
    """

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return super().loss(logits[:, :-1], targets[:, :-1])


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class log_probabilities_instead_of_logits(Pieces):
    """A log_softmax was applied to the logits before they were returned.

    The loss stays the same, since cross-entropy does it once more; what comes back are log-probabilities.

    What does lm_head give, and what is returned?
    """

    def finish(self, x: Tensor) -> Tensor:
        return super().finish(x).log_softmax(dim=-1)


@misconception(replaces="GPT", caught_by="test_logits_at_every_position", misses_the_point=True)
class blocks_left_out(Pieces):
    """The blocks were made and not called: the embeddings went straight to the last norm.

    No token then learns anything of those before it.

    Where does your forward go through h?
    """

    def through(self, x: Tensor) -> Tensor:
        return x
