"""What learners get wrong in `MultiHeadAttention`: scores and mask."""

import math

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step08_multi_head.misconceptions.pieces import Pieces

# --- the projections --------------------------------------------------------------------------------------------------


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class query_and_key_swapped(Pieces):
    """Query and key changed places, so that row i held what the other tokens ask of token i.

    A row of the scores belongs to one query: it says how well each key answers it.

    In the shape (B, H, T, T), which of the two T counts the queries, and which operand of `@` does it come from?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return super().scores(key, query)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class keys_from_the_queries(Pieces):
    """The keys were made from what `W_query` gives, and not by `W_key` from `x`.

    A token is then found by what it asks for, and not by what it has to offer.

    What goes into `W_key`, and where does its output go?
    """

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, _key, value = super().projected(x)
        return query, query, value


@another_form(keys_from_the_queries)
class keys_projected_from_the_queries(Pieces):
    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, _key, value = super().projected(x)
        return query, self.W_key(query), value


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class values_of_another_layer(Pieces):
    """The values were not made with `W_value`, but with another of the three layers.

    `W_value` then never learns, and a token passes on what it is found by, or what it asks for.

    How many layers does your `forward` call, and how many are there?
    """

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, _value = super().projected(x)
        return query, key, key


@another_form(values_of_another_layer)
class values_from_the_queries(Pieces):
    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, _value = super().projected(x)
        return query, key, query


# --- scores and mask --------------------------------------------------------------------------------------------------


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class scaled_by_all_heads(Pieces):
    """The scores were divided by the root of `d_out`, the width of all heads together.

    A score is a sum over the columns of one head only, so it grows with the root of the head's width.

    When one head's query and key are multiplied, over how many numbers does the sum run?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(self.W_key.out_features)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class scaled_by_length(Pieces):
    """The scores were divided by the square root of T, the number of tokens.

    A score is a sum over the columns of one head. More tokens make more scores, and none of them larger.

    Which of B, H, T and d is the last dimension of a head's key?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(key.shape[-2])


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class divided_after_the_softmax(Pieces):
    """The weights were divided by the root of the head's width, after the softmax, and not the scores before it.

    The rows then no longer sum to 1, and the softmax still gets scores that grow with the width.

    What do the weights of one query have to sum to?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1)

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return super().weights(scores, visible) / math.sqrt(self.W_key.out_features // self.num_heads)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class not_scaled(Pieces):
    """The scores went into the softmax without being divided by the root of the head's width.

    The wider the heads are, the larger the scores grow, and the softmax turns into a choice of one single token.

    Which number does attention divide the scores by, and from which tensor's shape can you read it?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class scaled_by_number_of_heads(Pieces):
    """The scores were divided by the root of the number of heads.

    A score is a sum over the columns of one head, so its size depends on the head's width, not on how many there are.

    Which of the numbers in the shape `(B, H, T, d)` is the width of a head?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(self.num_heads)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class softmax_over_heads(Pieces):
    """The softmax ran over the heads, so that the heads shared out the weight of each pair of tokens among them.

    Each query of each head shares out a weight of 1 among the keys, and the keys are counted by the last dimension.

    Along which dimension of `(B, H, T, T)` must the weights sum to 1?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.softmax(dim=1) * visible


@misconception(replaces="MultiHeadAttention", caught_by="test_future_has_no_effect")
class no_mask(Pieces):
    """Every token attended to every other one, the later ones included.

    A model that is to predict the next token must not see it, and that holds for all heads at once as for a single one.

    Which entries of the scores must be hidden before the softmax?
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return torch.ones_like(super().may_attend(num_tokens))


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class own_token_hidden(Pieces):
    """Each token's own position was hidden together with the future.

    A token may look at itself. The first token has nothing else, so its softmax has no finite entry and gives NaN.

    Is the diagonal of the mask part of the past or of the future? Look at the number handed to `tril` or `triu`.
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return super().may_attend(num_tokens).tril(-1)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class every_weight_nan(Pieces):
    """A mask of zeros and ones was multiplied by -inf, or it hid every position, so that all weights were NaN.

    0 times -inf is NaN, and one NaN spoils its row. A row in which everything is -inf has no softmax either: 0 / 0.

    Print the scores after the mask. Which of them should be ordinary numbers, and what are they?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return (scores + -torch.inf * ~visible).softmax(dim=-1)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class visible_positions_hidden(Pieces):
    """What a token may see was set to -inf, and what it may not see was left.

    `masked_fill` fills where its mask is True. The last token then has nothing left to see, and its row is NaN.

    Does True mean "may attend" in your mask, or "is hidden", and which of the two does the line that uses it need?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(visible, -torch.inf).softmax(dim=-1)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class future_instead_of_past(Pieces):
    """The mask was the wrong way round: each token saw itself and the later tokens, and its past was hidden.

    The last token then sees only itself, and the first one sees the whole sequence.

    Does your mask say "may attend" or "is hidden", and does the line that uses it mean the same?
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return super().may_attend(num_tokens).T


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class softmax_over_queries(Pieces):
    """The softmax ran over the queries, so that the columns of the weights summed to 1 and the rows did not.

    Each query shares out a weight of 1 among the keys, and the keys are counted by the last dimension.

    Along which dimension must the weights sum to 1, and what does `dim` say in your softmax?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=-2)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class masked_after_softmax(Pieces):
    """The mask was applied after the softmax, and the rows were not divided by their new sum.

    The softmax had already shared weight out to the later tokens. That share is lost, and the rows no longer sum to 1.

    What must happen to the hidden scores before the softmax, so that nothing is left to lose?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.softmax(dim=-1) * visible


@misconception(replaces="MultiHeadAttention", caught_by="test_future_has_no_effect")
class mask_in_the_first_head_only(Pieces):
    """Not every head was masked: the first one was, and others saw the future.

    One head that sees the future is enough to give it away: the later layers learn to listen to that head.

    Does the mask of shape `(T, T)` reach every head and every sequence of the scores `(B, H, T, T)`?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        head = torch.arange(self.num_heads, device=scores.device).view(-1, 1, 1)
        return super().weights(scores, visible | (head > 0))


@misconception(replaces="MultiHeadAttention", caught_by="test_lengths_and_head_counts")
class mask_not_cut(Pieces):
    """The mask of the longest sequence was used as it is, whatever the length of `x`.

    The mask has `context_length` rows and columns, and the scores of a shorter sequence have only T.

    How do you take the first T rows and the first T columns of the mask?
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return self.visible


@misconception(replaces="MultiHeadAttention", caught_by="test_lengths_and_head_counts")
class mask_not_cut_in_place(Pieces):
    """The scores were masked in place with the mask of the longest sequence, whatever the length of `x`.

    The mask has `context_length` rows and columns, and the scores of a shorter sequence have only T. In place they
    cannot become larger.

    How do you take the first T rows and the first T columns of the mask?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill_(~self.visible, -torch.inf).softmax(dim=-1)


@misconception(replaces="MultiHeadAttention", caught_by="test_follows_device")
class mask_made_on_the_cpu(Pieces):
    """The mask stayed on the CPU: it was a plain attribute, or made in `forward` without a device.

    `module.to(device)` moves parameters and buffers, and nothing else. On a GPU the mask and the scores then lie on
    two devices.

    With which method of `nn.Module` does a tensor become part of a module without being a parameter?
    """

    def may_attend(self, num_tokens: int) -> Tensor:
        return torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()


@misconception(replaces="MultiHeadAttention", caught_by="test_large_scores")
class no_maximum_subtracted(Pieces):
    """The exponentials of the scores were taken as they are, without subtracting each row's maximum first.

    exp(100) is too large for float32 and becomes inf, exp(-200) becomes 0, and inf / inf and 0 / 0 are NaN.

    What may be subtracted from all scores of a row without changing its softmax?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        exponentials = scores.masked_fill(~visible, -torch.inf).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


# --- the same mistakes in other words ---------------------------------------------------------------------------------


@another_form(softmax_over_heads)
class softmax_over_heads_of_masked_scores(Pieces):
    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=1)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class queries_from_the_keys(Pieces):
    """The queries were not made with `W_query`: the keys, or what else `W_key` gives, took their place.

    `W_query` then never learns, and what a token asks for is what it is found by.

    Which of your layers does `forward` never call?
    """

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        _query, key, value = super().projected(x)
        return key, key, value


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class own_token_hidden_by_a_number(Pieces):
    """Each token's own position was hidden together with the future, by a large negative number.

    A token may look at itself. The first token has nothing else: all its scores became the same number, and the
    softmax of equal scores shares the weight out to all tokens, the later ones included.

    Is the diagonal of the mask part of the past or of the future? Look at the number handed to `tril` or `triu`.
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible.tril(-1), -1e9).softmax(dim=-1)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class hidden_scores_set_to_zero(Pieces):
    """The hidden scores became 0: they were multiplied by the mask, or filled with 0.

    A score of 0 is a score like any other, and exp(0) is 1: the later tokens keep a good part of the weight.

    Which number x makes exp(x) zero?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return (scores * visible).softmax(dim=-1)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class mask_of_ones_added(Pieces):
    """A mask of zeros and ones was added to the scores, or taken from them, as it is.

    Beside the others the hidden scores are then lower by 1 at most, and hidden tokens still get weight.

    How far down must a score go, so that nothing of its weight is left?
    """

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return (scores + visible).softmax(dim=-1)


@another_form(mask_of_ones_added)
class mask_of_ones_added_before_scaling(Pieces):
    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        width = self.W_query.out_features // self.num_heads
        return (scores + visible / math.sqrt(width)).softmax(dim=-1)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class multiplied_by_the_root(Pieces):
    """The scores were multiplied by the root of the head's width instead of divided by it.

    The root is there to make large scores smaller. Multiplied by it, they grow even faster with the width.

    How large is a sum of d products usually, and what makes it as large as one of them?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) * math.sqrt(key.shape[-1])


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class scaled_twice(Pieces):
    """The scores were divided by the head's width instead of its root: by all of it, or twice by the root.

    Of a sum over d numbers the root of d is the usual size. Divided by d the scores get small, and the weights alike.

    By what is a score divided, all in all, between your product and the softmax?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / key.shape[-1]
