"""What learners get wrong in `MultiHeadAttention`: dropout."""

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.encoder_decoder.step20_cross_attention.misconceptions.pieces import Pieces


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class no_dropout(Pieces):
    """Nothing was dropped in training.

    The argument `dropout` is the probability with which a weight is dropped.

    Where does your `forward` use what the constructor was given as `dropout`?
    """

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_only_in_training")
class dropout_on_in_eval(Pieces):
    """Weights were dropped in eval mode too.

    `F.dropout` is a function: unless it is told the mode, it drops always.

    Which argument of `F.dropout` knows about training, or which module would take care of it by itself?
    """

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return F.dropout(weights, self.dropout.p) @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_only_in_training")
class weights_returned_dropped_in_eval(dropout_on_in_eval):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return F.dropout(super().weigh(scores, mask), self.dropout.p)

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_scores(Pieces):
    """The scores were dropped before the softmax.

    A score that becomes 0 still gets weight. It is the weights that are dropped, behind the softmax.

    Which tensor does your dropout act on, and what becomes of its zeros?
    """

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.hide(self.dropout(scores), mask).softmax(dim=-1)

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_masked_scores(dropout_on_scores):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.dropout(self.hide(scores, mask)).softmax(dim=-1)


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_context(Pieces):
    """The context was dropped in place of the weights.

    Dropping a weight hides one key from one query; dropping the context deletes single columns of what was gathered.

    Which tensor does your dropout act on?
    """

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return self.dropout(weights @ value)


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_output(Pieces):
    """The output was dropped in place of the weights.

    Dropout on the branch belongs to the blocks of the next steps. Here it acts on the weights.

    Which tensor does your dropout act on?
    """

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value

    def mix(self, merged: Tensor) -> Tensor:
        return self.dropout(self.W_o(merged))


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_output_too(Pieces):
    """The output was dropped as well as the weights.

    Dropout on the branch belongs to the blocks of the next steps. Here it acts on the weights only.

    At how many places does the contract of this class name dropout?
    """

    def mix(self, merged: Tensor) -> Tensor:
        return self.dropout(self.W_o(merged))


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_not_scaled_up(Pieces):
    """Weights were dropped, and the others not scaled up.

    In eval mode nothing is dropped and the sums are larger than what the model was trained on: that is what 1 / (1 - p)
    is for.

    What is the mean of a weight that is 0 with probability p and else unchanged?
    """

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        if self.training:
            weights = weights * (torch.rand_like(weights) >= self.dropout.p)
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class one_drop_for_all_heads(Pieces):
    """One set of weights was dropped for all heads alike.

    Each head draws by itself, as each sequence, query and key does.

    Which shape do your random numbers have?
    """

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights * self.dropout(torch.ones_like(weights[:, :1])) @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class one_drop_for_all_sequences(Pieces):
    """One set of weights was dropped for all sequences of the batch alike.

    Each sequence draws by itself, as each head, query and key does.

    Which shape do your random numbers have?
    """

    def gather(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights * self.dropout(torch.ones_like(weights[:1])) @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class rate_not_used(Pieces):
    """The rate that the constructor was given was not used: it stayed at 0.1.

    Whoever asks for another rate gets the default.

    Where does the argument `dropout` go in your constructor?
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads)


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class default_rate_is_zero(Pieces):
    """Without an argument nothing was dropped.

    The contract's default is `dropout=0.1`.

    What does your constructor do when it is not told a rate?
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0) -> None:
        super().__init__(d_model, n_heads, dropout)


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class default_rate_is_a_half(Pieces):
    """Without an argument half of the weights were dropped.

    0.5 is the default of `nn.Dropout`; the contract's is `dropout=0.1`.

    What does your constructor do when it is not told a rate?
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.5) -> None:
        super().__init__(d_model, n_heads, dropout)
