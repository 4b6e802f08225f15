"""What learners get wrong in `CausalAttention`: the mask."""

import math

import torch
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.core.step06_causal_attention import reference
from solutions.core.step06_causal_attention.misconceptions.pieces import Pieces


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
    """A sequence longer than `context_length` was cut to its first or last tokens without a word.

    The caller gets fewer tokens back than went in, and finds out much later, if ever.

    What should a function do with an argument that it cannot handle?
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:, -self.context_length :])


@another_form(too_long_is_cut)
class too_long_is_cut_at_the_end(Pieces):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:, : self.context_length])


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


@another_form(batch_taken_for_length)
class shape_taken_apart_in_another_order(Pieces):
    def may_attend(self, num_tokens: int) -> Tensor:
        return self.visible[: self.length, : self.length]

    def forward(self, x: Tensor) -> Tensor:
        self.length, _num_tokens, _width = x.shape
        if self.length > self.context_length:
            raise ValueError(f"x has {self.length} tokens, but context_length is {self.context_length}")
        query, key, value = self.projected(x)
        return self.context(self.weights(self.scores(query, key), self.may_attend(self.length)), value)


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class full_length_refused(Pieces):
    """A sequence of exactly `context_length` tokens was refused with an error.

    `context_length` is the most tokens that a sequence may have, and so a length that it may have.

    Which of `>` and `>=` stands in your condition, and for which T should it first be true?
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] >= self.context_length:
            raise ValueError(f"x has {x.shape[1]} tokens, but context_length is {self.context_length}")
        return super().forward(x)


@misconception(replaces="CausalAttention", caught_by="test_by_hand")
class mask_added_as_ones(Pieces):
    """A mask of zeros and ones was added to the scores, or subtracted from them.

    That moves a score by 1 and hides nothing: the later tokens only get somewhat less weight.

    What must be added to a score so that its exponential is 0?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return (scores + visible.to(scores.dtype)).softmax(dim=-1)


@another_form(mask_added_as_ones)
class mask_added_before_the_scaling(Pieces):
    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return (scores + visible.to(scores.dtype) / math.sqrt(self.W_key.out_features)).softmax(dim=-1)


@misconception(replaces="CausalAttention", caught_by="test_shorter_sequences_work")
class mask_cut_at_the_wrong_end(Pieces):
    """For a sequence shorter than `context_length` the rows and the columns of the mask were taken from different ends.

    Row i of the mask belongs to token i, and so does column i. The first T rows go with the first T columns.

    Which tokens do the rows that you took belong to, and which the columns?
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return self.visible[:num_tokens, -num_tokens:]


@another_form(mask_cut_at_the_wrong_end)
class last_rows_of_the_mask(Pieces):
    def may_attend(self, num_tokens: int) -> Tensor:
        return self.visible[-num_tokens:, :num_tokens]
