"""What learners get wrong in step 6, each with the check that catches it."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import misconception, together
from solutions.core.step06_causal_attention import reference


class Pieces(reference.CausalAttention):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])

    def may_attend(self, num_tokens: int) -> Tensor:
        return self.visible[:num_tokens, :num_tokens]

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)

    def context(self, weights: Tensor, value: Tensor) -> Tensor:
        return self.dropout(weights) @ value

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > self.context_length:
            raise ValueError(f"x has {x.shape[1]} tokens, but context_length is {self.context_length}")
        weights = self.weights(self.scores(self.W_query(x), self.W_key(x)), self.may_attend(x.shape[1]))
        return self.context(weights, self.W_value(x))


# --- the scores -------------------------------------------------------------------------------------------------------


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class not_scaled(Pieces):
    """The scores went into the softmax without being divided by the square root of the width.

    The wider the keys are, the larger the scores grow, and the softmax turns into a choice of one single token.

    Which number does attention divide the scores by, and from which tensor's shape can you read it?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1)


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class scaled_by_input_width(Pieces):
    """The scores were divided by the square root of `d_in`, the width of the tokens that come in.

    A score is a sum over the entries of a key, so its size grows with the width of the key, which is `d_out`.

    When query and key are multiplied, over how many numbers does the sum run?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(self.W_key.in_features)


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class scaled_by_width_without_root(Pieces):
    """The scores were divided by `d_out` itself, not by its square root.

    The scores of random queries and keys grow like the root of the width, so this makes them too small, and the
    weights too even.

    What is √4, and what did your code divide by when the width was 4?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / key.shape[-1]


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class scaled_by_length(Pieces):
    """The scores were divided by the square root of T, the number of tokens.

    A score is a sum over the entries of a key. More tokens make more scores, and none of them larger.

    When query and key are multiplied, over how many numbers does the sum run?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(key.shape[-2])


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class multiplied_by_the_root(Pieces):
    """The scores were multiplied by the square root of the width, where they had to be divided by it.

    The wider the keys are, the larger the scores grow. This makes them larger still.

    Which sign must the exponent have in `* d ** 0.5`, or which operator belongs in front of the root?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) * math.sqrt(key.shape[-1])


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class scores_from_values(Pieces):
    """The queries were multiplied with the values, where the keys belong.

    A key says which queries a token answers. Its value is what it gives to those that it answers.

    Which two of query, key and value make the scores?
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > self.context_length:
            raise ValueError(f"x has {x.shape[1]} tokens, but context_length is {self.context_length}")
        query, value = self.W_query(x), self.W_value(x)
        return self.context(self.weights(self.scores(query, value), self.may_attend(x.shape[1])), value)


@misconception(replaces="CausalAttention", caught_by="test_agrees_with_fresh_draws")
class query_and_key_swapped(Pieces):
    """Query and key changed places, so that row i held what the other tokens ask of token i.

    A row of the scores belongs to one query: it says how well each key answers it.

    In the shape (B, T, T), which of the two T counts the queries, and which operand of `@` does it come from?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return super().scores(key, query)


# --- the mask ---------------------------------------------------------------------------------------------------------


@misconception(replaces="CausalAttention", caught_by="test_future_has_no_effect", misses_the_point=True)
class no_mask(Pieces):
    """Every token attended to every other one, the later ones included.

    A model that is to predict the next token must not see it, or it learns to copy it and can predict nothing later.

    Which entries of the scores must be hidden before the softmax?
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return torch.ones_like(super().may_attend(num_tokens))


@misconception(replaces="CausalAttention", caught_by="test_future_has_no_effect")
class mask_off_by_one(Pieces):
    """The mask was shifted by one, so that each token also saw the token right after it.

    That is the very token which a language model has to predict.

    On which diagonal does the first hidden entry of each row lie? Print the mask for three tokens.
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return torch.ones_like(super().may_attend(num_tokens)).tril(1)


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class future_instead_of_past(Pieces):
    """The mask was the wrong way round: each token saw itself and the later tokens, and its past was hidden.

    The last token then sees only itself, and the first one sees the whole sequence.

    Does your mask say "may attend" or "is hidden", and does the line that uses it mean the same?
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return super().may_attend(num_tokens).T


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class every_weight_nan(Pieces):
    """A mask of zeros and ones was multiplied by -inf, or it hid every position, so that all weights were NaN.

    0 times -inf is NaN, and one NaN spoils its row. A row in which everything is -inf has no softmax either: 0 / 0.

    Print the scores after the mask. Which of them should be ordinary numbers, and what are they?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return (scores + -torch.inf * ~visible).softmax(dim=-1)


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class visible_positions_hidden(Pieces):
    """What a token may see was set to -inf, and what it may not see was left.

    `masked_fill` fills where its mask is True. The last token then has nothing left to see, and its row is NaN.

    Does True mean "may attend" in your mask, or "is hidden", and which of the two does the line that uses it need?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(visible, -torch.inf).softmax(dim=-1)


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class weights_returned_too(Pieces):
    """The module returned the context and the weights.

    A layer hands one tensor to the next.

    Which of the two does the layer after this one need?
    """

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]  # what is wrong with it
        context = super().forward(x)
        return context, self.weights(self.scores(self.W_query(x), self.W_key(x)), self.may_attend(x.shape[1]))


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class own_token_hidden(Pieces):
    """Each token's own position was hidden together with the future.

    A token may look at itself. The first token has nothing else, so its softmax has no finite entry and gives NaN.

    Is the diagonal of the mask part of the past or of the future? Look at the number handed to `tril` or `triu`.
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return super().may_attend(num_tokens).tril(-1)


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class hidden_scores_set_to_zero(Pieces):
    """The hidden scores were set to 0 before the softmax.

    A score of 0 is an ordinary score: exp(0) is 1, so the later tokens still get weight.

    Which score has the exponential 0?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return (scores * visible).softmax(dim=-1)


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class masked_after_softmax(Pieces):
    """The mask was applied after the softmax, and the rows were not divided by their new sum.

    The softmax had already shared weight out to the later tokens. That share is lost, and the rows no longer sum to 1.

    What must happen to the hidden scores before the softmax, so that nothing is left to lose?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.softmax(dim=-1) * visible


@misconception(replaces="CausalAttention", caught_by="test_agrees_with_fresh_draws")
class mask_kept_as_parameter(reference.CausalAttention):
    """The mask was kept as an `nn.Parameter` of the module.

    A parameter is a number that is learned, and it is saved and loaded under its name. A mask is neither learned nor
    part of what the step asks for, also with `requires_grad=False`.

    Which method of `nn.Module` keeps a tensor that moves with the module and is not learned?
    """

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.mask = nn.Parameter(torch.ones(context_length, context_length).tril(), requires_grad=False)


@misconception(replaces="CausalAttention", caught_by="test_shorter_sequences_work")
class mask_not_cut_in_place(Pieces):
    """The scores were masked in place with the mask of the longest sequence, whatever the length of `x`.

    The mask has `context_length` rows and columns, and the scores of a shorter sequence have only T. In place they
    cannot become larger.

    How do you take the first T rows and the first T columns of the mask?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill_(~self.visible, -torch.inf).softmax(dim=-1)


@misconception(replaces="CausalAttention", caught_by="test_follows_device")
class mask_kept_as_plain_tensor(nn.Module):
    """The mask was kept as a plain tensor attribute of the module.

    `module.to(device)` moves parameters and buffers, and nothing else: on a GPU the mask stays behind on the CPU.

    With which method of `nn.Module` does a tensor become part of a module without being a parameter? Or could the
    mask be made in `forward`, on the device of `x`?
    """

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.mask = torch.triu(torch.ones(context_length, context_length, dtype=torch.bool), diagonal=1)

    def forward(self, x: Tensor) -> Tensor:
        num_tokens = x.shape[1]
        query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = query @ key.transpose(1, 2)
        scores = scores.masked_fill(self.mask[:num_tokens, :num_tokens], -torch.inf)
        weights = torch.softmax(scores / key.shape[-1] ** 0.5, dim=-1)
        return self.dropout(weights) @ value


@misconception(replaces="CausalAttention", caught_by="test_follows_device")
class mask_made_on_the_cpu(Pieces):
    """The mask was made in `forward` without saying on which device.

    A new tensor is made on the CPU unless told otherwise, so on a GPU the mask and the scores lie on two devices.

    Which argument of `torch.ones` names the device, and which tensor in `forward` knows the right one?
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()


@misconception(replaces="CausalAttention", caught_by="test_shorter_sequences_work")
class mask_not_cut(Pieces):
    """The mask of the longest sequence was used as it is, whatever the length of `x`.

    The mask has `context_length` rows and columns, and the scores of a shorter sequence have only T.

    How do you take the first T rows and the first T columns of the mask?
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return self.visible


@misconception(replaces="CausalAttention", caught_by="test_shorter_sequences_work")
class mask_of_the_first_call(Pieces):
    """The mask was made in the first call and used again in every later one, whatever their length.

    A module is called with many lengths, and the mask must fit the tokens of the call at hand.

    What should the code do when the mask that it kept has another length than `x`?
    """

    kept: Tensor | None = None

    def may_attend(self, num_tokens: int) -> Tensor:
        if self.kept is None or self.kept.device != self.visible.device:
            self.kept = super().may_attend(num_tokens)
        return self.kept


@misconception(replaces="CausalAttention", caught_by="test_too_long_is_an_error")
class any_length_accepted(Pieces):
    """A sequence longer than `context_length` was accepted and answered.

    The module promises a longest length. A caller who goes beyond it made a mistake and should be told.

    Where could `forward` compare T with the length that the constructor was given?
    """

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        visible = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        weights = self.weights(self.scores(self.W_query(x), self.W_key(x)), visible)
        return self.context(weights, self.W_value(x))


@misconception(replaces="CausalAttention", caught_by="test_too_long_is_an_error")
class too_long_is_cut(Pieces):
    """A sequence longer than `context_length` was cut to its last tokens without a word.

    The caller gets fewer tokens back than went in, and finds out much later, if ever.

    What should a function do with an argument that it cannot handle?
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:, -self.context_length :])


@misconception(replaces="CausalAttention", caught_by="test_too_long_is_an_error")
class batch_taken_for_length(Pieces):
    """The length that was compared with `context_length` was that of the batch.

    Then a large batch of short sequences is refused, and T is not looked at.

    x is `(B, T, d_in)`. Which entry of its shape is T?
    """

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.context_length:
            raise ValueError(f"x has {len(x)} tokens, but context_length is {self.context_length}")
        return super().forward(x)


# --- the softmax and the average --------------------------------------------------------------------------------------


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class softmax_over_queries(Pieces):
    """The softmax ran over the queries, so that the columns of the weights summed to 1 and the rows did not.

    Each query shares out a weight of 1 among the keys, and the keys are counted by the last dimension.

    Along which dimension must the weights sum to 1, and what does `dim` say in your softmax?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=-2)


@misconception(replaces="CausalAttention", caught_by="test_large_scores")
class no_maximum_subtracted(Pieces):
    """The exponentials of the scores were taken as they are, without subtracting each row's maximum first.

    exp(100) is too large for float32 and becomes inf, exp(-200) becomes 0, and inf / inf and 0 / 0 are NaN.

    What may be subtracted from all scores of a row without changing its softmax?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        exponentials = scores.masked_fill(~visible, -torch.inf).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="CausalAttention", caught_by="test_large_scores")
class maximum_of_everything(Pieces):
    """One maximum was subtracted from the scores of many rows.

    A row whose scores all lie far below that maximum has exponentials that round to 0, and 0 / 0 is NaN.

    Which numbers belong together in one softmax, and whose maximum should they lose?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        exponentials = (scores - scores.max()).exp() * visible
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="CausalAttention", caught_by="test_large_scores")
class hidden_scores_not_low_enough(Pieces):
    """The hidden scores were set to -100, which is not low enough.

    When the visible scores of a row are themselves near -200, a hidden position at -100 takes all the weight.

    Which number is lower than every score there can be?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -100.0).softmax(dim=-1)


@misconception(replaces="CausalAttention", caught_by="test_agrees_with_fresh_draws")
class keys_of_first_sequence_for_all(Pieces):
    """The queries of every sequence were compared with the keys of the first sequence of the batch.

    The sequences of a batch know nothing of each other: each attends to its own tokens only.

    Does some index or reshape in your code take the batch dimension away from the keys?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return super().scores(query, key[:1])


@misconception(replaces="CausalAttention", caught_by="test_gradients")
class weights_detached(Pieces):
    """The attention weights were cut off from the graph, by `detach`, `.data`, `torch.no_grad` or a new tensor.

    The result is right, but no gradient reaches `W_query` and `W_key`, and they never learn.

    Which operation between the scores and the context does autograd not see?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return super().weights(scores, visible).detach()


@misconception(replaces="CausalAttention", caught_by="test_future_has_no_effect")
class no_gradient_in_eval(Pieces):
    """In eval mode no gradient was kept, because of `torch.no_grad` or a `detach` there.

    eval() switches dropout off, and nothing else. Who needs no gradient says so around the call.

    What does `self.training` decide in your `forward`, besides dropout?
    """

    def forward(self, x: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.training):
            return super().forward(x)


@misconception(replaces="CausalAttention", caught_by="test_other_dtypes")
class always_float32(Pieces):
    """The result was float32, whatever the dtype of the tokens and the parameters.

    A module that was moved to bfloat16 or float64 is to answer in that dtype, or the next layer fails.

    Which line turns the numbers into float32, or makes a float tensor without saying which kind?
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).float()


@misconception(replaces="CausalAttention", caught_by="test_agrees_with_fresh_draws")
class bias_left_out(Pieces):
    """The three linear layers never had a bias, also when `qkv_bias` was True.

    The caller decides with `qkv_bias` whether query, key and value get a bias.

    Which argument of `nn.Linear` should `qkv_bias` be handed to?
    """

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias=False)


@misconception(replaces="CausalAttention", caught_by="test_agrees_with_fresh_draws")
class input_scaled_in_place(Pieces):
    """The tokens of the caller were changed: an operation on `x` wrote its result into `x` itself.

    The caller still needs these tokens, for the residual connection for example.

    Which of your operations on `x` ends in an underscore or is written as `/=`, `*=`, `+=` or `-=`?
    """

    def forward(self, x: Tensor) -> Tensor:
        root = math.sqrt(math.sqrt(self.W_key.out_features))
        value = self.W_value(x)
        bias = 0 if self.W_query.bias is None else self.W_query.bias / root
        key_bias = 0 if self.W_key.bias is None else self.W_key.bias / root
        with torch.no_grad():
            x /= root
        query, key = F.linear(x, self.W_query.weight) + bias, F.linear(x, self.W_key.weight) + key_bias
        weights = self.weights(query @ key.transpose(-2, -1), self.may_attend(x.shape[1]))
        return self.context(weights, value)


# --- the dropout ------------------------------------------------------------------------------------------------------


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


# --- views, lengths and modes -----------------------------------------------------------------------------------------


@misconception(replaces="CausalAttention", caught_by="test_any_regime")
class mask_of_a_fixed_length(reference.CausalAttention):
    """The mask was made for 1,024 tokens, whatever `context_length` says.

    That is GPT-2's length. With a longer context the mask is smaller than the scores, and no shape fits any more.

    Which argument says how many tokens a sequence may have at most?
    """

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        self.register_buffer("visible", torch.ones(1024, 1024, dtype=torch.bool).tril(), persistent=False)


# --- along the wrong dimension ----------------------------------------------------------------------------------------


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class softmax_over_the_batch(Pieces):
    """The softmax ran over the batch, so that the sequences shared out the weight of each pair of tokens among them.

    The sequences of a batch have nothing to do with each other. Each query shares out a weight of 1 among the keys.

    Along which dimension of `(B, T, T)` must the weights sum to 1?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=0)


@misconception(replaces="CausalAttention", caught_by="test_agrees_with_fresh_draws")
class all_dimensions_of_keys_reversed(Pieces):
    """All dimensions of the keys were put in reverse order, as `key.T` does, the batch among them.

    For a matrix that is the transpose. With a batch in front, the batch ends up where the tokens should be.

    Which attribute or method of a tensor exchanges only its last two dimensions?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.permute(2, 1, 0) / math.sqrt(key.shape[-1])


# --- two at once ------------------------------------------------------------------------------------------------------

SCALES = (not_scaled, scaled_by_input_width, scaled_by_width_without_root)
MASKS = (no_mask, mask_off_by_one, future_instead_of_past, own_token_hidden)
WEIGHTS = (hidden_scores_set_to_zero, masked_after_softmax, softmax_over_queries, no_maximum_subtracted)
DROPOUTS = (dropout_on_context, dropout_not_rescaled, dropout_on_in_eval, no_dropout)
PAIRS = [
    *together(SCALES, MASKS),
    *together(SCALES, WEIGHTS),
    *together(SCALES, DROPOUTS),
    *together(MASKS[:-1], (softmax_over_queries,)),  # with the last one all weights are NaN, as many ways make them
    *together(MASKS[1:], (masked_after_softmax, hidden_scores_set_to_zero)),
    *together(MASKS, DROPOUTS),
    *together((masked_after_softmax, softmax_over_queries), DROPOUTS),
]
