"""What learners get wrong in `CausalAttention`: the dropout."""

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step06_causal_attention.misconceptions.pieces import Pieces


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_scores(Pieces):
    """Dropout acted before the softmax, on the scores or on the queries and keys that they are made of.

    A dropped score is 0, and a score of 0 still gets weight; the softmax then shares out all the weight again.

    Which tensor must have zeros in it, so that a token is really left out of the average?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return self.dropout(super().scores(query, key))

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights")
class dropout_before_softmax_as_hidden(Pieces):
    """Dropped positions were hidden like the future, before the softmax, so the other weights sum to 1 again.

    Dropout leaves the remaining weights as they were, times 1 / (1 - p). It does not share the dropped weight out.

    Should the softmax know which weights are going to be dropped?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        if self.training and self.dropout.p > 0:
            kept = (torch.rand_like(scores) >= self.dropout.p) | torch.eye(
                scores.shape[-1], dtype=torch.bool, device=scores.device
            )
            visible = visible & kept
        return super().weights(scores, visible)

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_hidden_scores(Pieces):
    """Dropout acted on the masked scores, before the softmax.

    Where it drops a hidden score, -inf is multiplied by 0: that is NaN, and the whole row is lost.

    After which line are the hidden positions 0, so that dropping them does no harm?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        hidden: Tensor = self.dropout(scores.masked_fill(~visible, -torch.inf))
        return hidden.softmax(dim=-1)

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights")
class divided_again_after_dropout(Pieces):
    """The weights were divided by the sum of their row once more, after dropout.

    That takes the factor 1 / (1 - p) out again, and where all weights of a row are dropped 0 is divided by 0.

    Does a row still have to sum to 1 after dropout, or only on average?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        dropped: Tensor = self.dropout(weights)
        return dropped / dropped.sum(dim=-1, keepdim=True) @ value


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_context(Pieces):
    """Dropout acted on the context, after the weighted sum.

    That drops single numbers of the result. Dropout on the weights leaves whole tokens out of an average.

    Between which two lines of your `forward` do the weights exist, but the context does not yet?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return self.dropout(weights @ value)


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_values(Pieces):
    """Dropout acted on the values and not on the weights.

    That drops single numbers of a token, for every query at once. Dropout on the weights leaves whole tokens out, for
    each query others.

    Which of the two tensors of the last product says who is attended to?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ self.dropout(value)


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_weights_and_context(Pieces):
    """Dropout acted twice: on the weights, and once more on the context.

    The second one drops single numbers of the result, which the step does not ask for.

    How many times does your `forward` drop, and which tensor is meant to be dropped from?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return self.dropout(super().context(weights, value))


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights")
class dropout_not_rescaled(Pieces):
    """Weights were dropped, but the kept ones were not made larger.

    Without the factor 1 / (1 - p) the average in training is smaller than in evaluation.

    If a fifth of the weights is dropped, by what must the others be multiplied to keep the mean?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return self.dropout(weights) * (1 - self.dropout.p if self.training else 1) @ value


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights")
class weights_renormalised_after_dropout(Pieces):
    """After the dropout each row of weights was divided by its sum once more.

    Dropout already keeps the mean by its factor 1 / (1 - p). A row of which everything was dropped even gives 0 / 0.

    Must a row of weights sum to 1 after dropout, or only on average over many calls?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        dropped = self.dropout(weights)
        return dropped / dropped.sum(dim=-1, keepdim=True).clamp(min=1e-9) @ value


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights")
class one_dropout_mask_for_the_batch(Pieces):
    """One dropout mask was drawn and used for every sequence of the batch.

    Dropout decides about each weight by itself; here the sequences always lose the same ones.

    What is the shape of the tensor that your random numbers are drawn in?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights * self.dropout(torch.ones_like(weights[:1])) @ value


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights")
class whole_keys_dropped(Pieces):
    """Whole columns were dropped: a token that was dropped was missing from the average of every query.

    Dropout decides about each weight, that is about each pair of a query and a key, by itself.

    What is the shape of the tensor that your random numbers are drawn in?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ (value * self.dropout(torch.ones_like(value[..., :1])))


@misconception(replaces="CausalAttention", caught_by="test_follows_device")
class dropout_mask_made_on_the_cpu(Pieces):
    """The random numbers of the dropout were drawn on the CPU, wherever the weights were.

    In training on a GPU the weights and what they are multiplied by then lie on two devices.

    How does `torch.rand` learn on which device to draw?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        if self.training:
            weights = weights * (torch.rand(weights.shape) >= self.dropout.p) / (1 - self.dropout.p)
        return weights @ value


@misconception(replaces="CausalAttention", caught_by="test_other_dtypes")
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


@misconception(replaces="CausalAttention", caught_by="test_dropout_only_in_training")
class dropout_mask_not_cut(Pieces):
    """The dropout mask was as large as the longest sequence, whatever the length of `x`.

    In training the weights of a shorter sequence are then multiplied by a mask that has more rows and columns.

    Which tensor has the shape that the random numbers need?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        if self.training and self.dropout.p > 0:
            longest = self.visible.expand(len(weights), -1, -1)
            weights = weights * self.dropout(torch.ones_like(longest, dtype=weights.dtype))
        return weights @ value


@misconception(replaces="CausalAttention", caught_by="test_dropout_only_in_training")
class dropout_in_place(Pieces):
    """The dropout wrote its zeros into the attention weights themselves, in place.

    The softmax needs the weights that it gave to compute its gradient. They are written over, so in training every
    backward pass ends in an error.

    Which argument of the dropout, or which operation on the weights, makes no new tensor?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return F.dropout(weights, self.dropout.p, self.training, inplace=True) @ value


@misconception(replaces="CausalAttention", caught_by="test_dropout_only_in_training")
class dropout_on_in_eval(Pieces):
    """Dropout was still on in eval mode.

    After `module.eval()` a call must give the full average, the same one every time.

    How does a module know which mode it is in, and does your dropout ask for it?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return F.dropout(weights, self.dropout.p) @ value


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights", misses_the_point=True)
class no_dropout(Pieces):
    """Nothing was dropped, not even in training.

    The argument `dropout` is the probability with which an attention weight is set to 0 in training mode.

    Is the dropout layer called in `forward`, or only made in the constructor?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights")
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


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights")
class dropout_keeps_with_p(Pieces):
    """A weight was kept with probability p, and dropped with probability 1 - p.

    The argument `dropout` is the probability of losing a weight, so a small one loses few.

    With `dropout=0.2`, how many of 1000 weights should be 0?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        p = self.dropout.p
        return F.dropout(weights, 1 - p if p > 0 else 0.0, self.training) @ value


@misconception(replaces="CausalAttention", caught_by="test_dropout_only_in_training")
class same_dropout_every_call(Pieces):
    """Every call in training dropped the same weights, because the random numbers were seeded inside the module.

    Dropout helps because each call leaves out something else. A seed inside a module also disturbs everybody else's
    random numbers.

    Who should set the seed: the module, or the one who runs the training?
    """

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        if self.training:
            torch.manual_seed(123)
        return super().context(weights, value)


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights")
class dropout_on_the_tokens(Pieces):
    """Dropout acted on the tokens that came in, and not on the attention weights.

    Single numbers of a token are then missing everywhere: in its query, its key and its value. No token is left out of
    an average.

    Which tensor of shape (B, T, T) says how much of each token goes into an average?
    """

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super().projected(self.dropout(x))

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="CausalAttention", caught_by="test_dropout_acts_on_weights")
class bias_added_after_dropout(Pieces):
    """`W_value` was applied after the weighted sum, so that its bias was added whole, whatever dropout had left.

    A token that is dropped takes its whole value along, and the bias of `W_value` is a part of that value.

    Which tensor do your weights multiply: the tokens, or their values?
    """

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_query(x), self.W_key(x), x

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return self.W_value(self.dropout(weights) @ value)
