"""What learners get wrong in `MultiHeadAttention`: the dropout."""

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step08_multi_head.misconceptions.pieces import Pieces


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class one_dropout_mask_for_all_heads(Pieces):
    """One dropout mask was drawn for each sequence and used by all of its heads.

    Dropout decides about each weight by itself; here the heads always lose the same ones.

    What is the shape of the tensor that your random numbers are drawn in?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights * self.dropout(torch.ones_like(weights[:, :1])) @ value


@another_form(one_dropout_mask_for_all_heads)
class one_dropout_mask_for_all_heads_and_sequences(Pieces):
    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights * self.dropout(torch.ones_like(weights[:1, :1])) @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class one_dropout_mask_for_the_batch(Pieces):
    """One dropout mask was drawn and used for every sequence of the batch.

    Dropout decides about each weight by itself; here the sequences always lose the same ones.

    What is the shape of the tensor that your random numbers are drawn in?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights * self.dropout(torch.ones_like(weights[:1])) @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class whole_heads_dropped(Pieces):
    """Whole heads were dropped: all weights of a head together.

    Dropout decides about each weight of each head by itself.

    What is the shape of the tensor that your random numbers are drawn in?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights * self.dropout(torch.ones_like(weights[..., :1, :1])) @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_scores(Pieces):
    """Dropout acted before the softmax, on the scores or on the queries and keys that they are made of.

    A dropped score is 0, and a score of 0 still gets weight; the softmax then shares out all the weight again.

    Which tensor must have zeros in it, so that a token is really left out of the average?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return self.dropout(super().scores(query, key))

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_output(Pieces):
    """Dropout acted on the result, before or after `out_proj`, and not on the weights.

    That drops single numbers of the result. Dropout on the weights leaves whole tokens out of an average.

    Between which two lines of your `forward` do the weights exist, but the context does not yet?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value

    def project(self, merged: Tensor) -> Tensor:
        return self.dropout(super().project(merged))


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_values(Pieces):
    """Dropout acted on the values and not on the weights.

    That drops single numbers of a token, for every query at once. Dropout on the weights leaves whole tokens out, for
    each query others.

    Which of the two tensors of the last product says who is attended to?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ self.dropout(value)


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_weights_and_output(Pieces):
    """Dropout acted twice: on the weights, and once more on the result, before or after `out_proj`.

    In this step only the attention weights are dropped. The second dropout comes with the next step's layout.

    How many times does your `forward` call the dropout?
    """

    def project(self, merged: Tensor) -> Tensor:
        return self.dropout(super().project(merged))


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class dropout_at_its_own_rate(Pieces):
    """The weights were dropped at a rate of the module's own, whatever the argument `dropout` says.

    A number written into the module, or the default of a dropout layer, stays the same for everyone who uses it.

    What is the default of the class that you made the dropout layer of, and where does the argument go?
    """

    rate = 0.5

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return F.dropout(weights, self.rate, self.training) @ value


@another_form(dropout_at_its_own_rate)
class dropout_of_one_tenth(dropout_at_its_own_rate):
    rate = 0.1


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class no_dropout(Pieces):
    """Nothing was dropped, not even in training.

    The argument `dropout` is the probability with which an attention weight is set to 0 in training mode.

    Is the dropout layer called in `forward`, or only made in the constructor?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_follows_device")
class dropout_mask_made_on_the_cpu(Pieces):
    """The random numbers of the dropout were drawn on the CPU, wherever the weights were.

    In training on a GPU the weights and what they are multiplied by then lie on two devices.

    How does `torch.rand` learn on which device to draw?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        if self.training:
            weights = weights * (torch.rand(weights.shape) >= self.dropout.p) / (1 - self.dropout.p)
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_other_dtypes")
class dropout_mask_in_float32(Pieces):
    """In training the weights were multiplied by a dropout mask of float32 numbers.

    Of two dtypes torch keeps the wider one, so the weights of a bfloat16 module become float32 and no longer fit the
    values.

    Which dtype should the mask have when it is multiplied with the weights?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        if self.training:
            kept = torch.rand(weights.shape, device=weights.device) >= self.dropout.p
            weights = weights * kept.float() / (1 - self.dropout.p)
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_only_in_training")
class dropout_mask_not_cut(Pieces):
    """The dropout mask was as large as the longest sequence, whatever the length of `x`.

    In training the weights of a shorter sequence are then multiplied by a mask that has more rows and columns.

    Which tensor has the shape that the random numbers need?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        if self.training and self.dropout.p > 0:
            longest = self.visible.expand(*weights.shape[:2], -1, -1)
            weights = weights * self.dropout(torch.ones_like(longest, dtype=weights.dtype))
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_large_scores")
class maximum_of_all_rows(Pieces):
    """One maximum was subtracted from the scores of many rows.

    A row whose scores all lie far below that maximum has exponentials that round to 0, and 0 / 0 is NaN.

    Which numbers belong together in one softmax, and whose maximum should they lose?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        exponentials = (scores - scores.amax((-2, -1), keepdim=True)).exp() * visible
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_only_in_training")
class dropout_in_place(Pieces):
    """The dropout wrote its zeros into the attention weights themselves, in place.

    The softmax needs the weights that it gave to compute its gradient. They are written over, so in training every
    backward pass ends in an error.

    Which argument of the dropout, or which operation on the weights, makes no new tensor?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return F.dropout(weights, self.dropout.p, self.training, inplace=True) @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_only_in_training")
class dropout_on_in_eval(Pieces):
    """Dropout was still on in eval mode.

    After `module.eval()` a call must give the full average, the same one every time.

    How does a module know which mode it is in, and does your dropout ask for it?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return F.dropout(weights, self.dropout.p) @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class masked_scores_dropped(Pieces):
    """Dropout acted on the scores, after the hidden ones had been set to -inf.

    Dropout multiplies by 0, and 0 times -inf is NaN, which spoils the whole row.

    Which tensor must have zeros in it, so that a token is really left out of the average?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return self.dropout(scores.masked_fill(~visible, -torch.inf)).softmax(dim=-1)

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="MultiHeadAttention", caught_by="test_dropout_acts_on_weights")
class as_many_dropped_as_should_be_kept(Pieces):
    """The dropout layer was made with 1 - dropout.

    The argument is the probability that a weight is dropped, and `nn.Dropout` takes just that. With dropout 0 every
    weight was dropped.

    What does the `p` of `nn.Dropout` stand for: what is dropped, or what is kept?
    """

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__(d_in, d_out, context_length, 1 - dropout, num_heads, qkv_bias)
