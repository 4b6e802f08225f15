"""What learners get wrong in `DecoderBlock`: dropout."""

import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.encoder_decoder.step20_cross_attention.reference import MultiHeadAttention
from solutions.encoder_decoder.step21_encoder.reference import FeedForward
from solutions.encoder_decoder.step22_decoder.misconceptions.pieces import Block, whole


@misconception(replaces=whole, caught_by="test_dropout")
class no_dropout_behind_self_attention(Block):
    """Nothing was dropped of what self-attention adds.

    Each of the three branches is dropped before it is added, whatever is dropped inside of it.

    In the contract's line with `ln1`, where is the dropout?
    """

    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + attended)


@misconception(replaces=whole, caught_by="test_dropout")
class no_dropout_behind_cross_attention(Block):
    """Nothing was dropped of what cross attention adds.

    Each of the three branches is dropped before it is added, whatever is dropped inside of it.

    In the contract's line with `ln2`, where is the dropout?
    """

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln2(x + attended)


@misconception(replaces=whole, caught_by="test_dropout")
class no_dropout_behind_feed_forward(Block):
    """Nothing was dropped of what the feed-forward adds.

    Each of the three branches is dropped before it is added, whatever is dropped inside of it.

    In the contract's line with `ln3`, where is the dropout?
    """

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln3(x + self.feed_forward(x))


@misconception(replaces=whole, caught_by="test_dropout")
class no_dropout_on_the_branches(Block):
    """Nothing was dropped of what the three branches add.

    Each of them is dropped before it is added, whatever is dropped inside of it.

    Where does your `forward` use the block's own dropout?
    """

    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + attended)

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln2(x + attended)

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln3(x + self.feed_forward(x))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class block_drops_in_eval(Block):
    """The branches were dropped in eval mode too.

    `F.dropout` is a function: unless it is told the mode, it drops always.

    Which argument of `F.dropout` knows about training, or which module would take care of it by itself?
    """

    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + F.dropout(attended, self.dropout.p))


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_on_the_sums(Block):
    """The dropout acts on the sums of stream and branch.

    Only what a branch adds is dropped. The stream itself has to get through whole.

    In `ln1(x + dropout(self-attention))`, where does the bracket of `dropout` end?
    """

    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(self.dropout(x + attended))

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln2(self.dropout(x + attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln3(self.dropout(x + self.feed_forward(x)))


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_not_given_to_the_attentions(Block):
    """The rate of dropout was not handed to the two attentions.

    They then keep their default of 0.1, whatever was asked for.

    Which arguments does the constructor of step 20's class take?
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_not_given_to_feed_forward(Block):
    """The rate of dropout was not handed to the feed-forward.

    It then keeps its default of 0.1, whatever was asked for.

    Which arguments does the constructor of `FeedForward` take?
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.feed_forward = FeedForward(d_model, d_ff)
