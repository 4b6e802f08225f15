"""What learners get wrong in `CausalSelfAttention`: scores, mask, average."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step09_fused_qkv.misconceptions.pieces import Pieces

# --- scores, mask, average --------------------------------------------------------------------------------------------


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class one_big_head(Pieces):
    """The heads were never split: one single head worked on all columns.

    The point of several heads is that each has weights of its own. Here all columns share the same weights.

    What is the shape of your query when its product with the keys is taken? Where does the number of heads appear?
    """

    def heads(self, x: Tensor) -> Tensor:
        return x.unsqueeze(1)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class heads_attend_to_heads(Pieces):
    """The tokens and the heads never changed places, so that within each token its heads attended to each other.

    Attention compares what the last but one dimension counts, and so does torch's `scaled_dot_product_attention`. In
    `(B, T, H, d)` that is the heads.

    Which shape do query, key and value have when their product is taken?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (part.transpose(1, 2) for part in (query, key, value))  # (B, T, H, d)
        p = self.attn_dropout.p if self.training else 0.0
        context = F.scaled_dot_product_attention(query, key, value, dropout_p=p, is_causal=True)
        return context.transpose(1, 2)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class scaled_by_all_heads(Pieces):
    """The scores were divided by the root of `n_embd`, the width of all heads together.

    A score is a sum over the columns of one head only, so it grows with the root of the head's width.

    When one head's query and key are multiplied, over how many numbers does the sum run?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(self.c_proj.in_features)


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws")
class not_scaled(Pieces):
    """The scores went into the softmax without being divided by the root of the head's width.

    The wider the heads are, the larger the scores grow, and the softmax turns into a choice of one single token.

    Which number does attention divide the scores by, and from which tensor's shape can you read it?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1)


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws")
class divided_after_the_softmax(Pieces):
    """The weights were divided by the root of the head's width, after the softmax, and not the scores before it.

    The rows then no longer sum to 1, and the softmax still gets scores that grow with the width.

    What do the weights of one query have to sum to?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1)

    def weights(self, scores: Tensor) -> Tensor:
        return super().weights(scores) / math.sqrt(self.c_proj.in_features // self.n_head)


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws")
class scaled_twice(Pieces):
    """The scores were divided by the head's width instead of its root: by all of it, or twice by the root.

    Of a sum over d numbers the root of d is the usual size. torch's own `scaled_dot_product_attention` divides by it
    without being asked, so that a query that was scaled by hand is scaled twice.

    By what is a score divided, all in all, between your product and the softmax?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        p = self.attn_dropout.p if self.training else 0.0
        query = query / math.sqrt(query.shape[-1])
        return F.scaled_dot_product_attention(query, key, value, dropout_p=p, is_causal=True)


@misconception(replaces="CausalSelfAttention", caught_by="test_future_has_no_effect", misses_the_point=True)
class no_mask(Pieces):
    """Every token attended to every other one, the later ones included.

    A model that is to predict the next token must not see it. torch's own function hides nothing by itself.

    Which argument of `scaled_dot_product_attention` hides the future, or which entries of your scores must be hidden?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.attn_dropout(self.scores(query, key).softmax(dim=-1)) @ value


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class future_instead_of_past(Pieces):
    """The mask was the wrong way round: each token saw itself and the later tokens, and its past was hidden.

    The last token then sees only itself, and the first one sees the whole sequence.

    Does your mask say "may attend" or "is hidden", and does the line that uses it mean the same?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.masked_fill(~self.visible[:length, :length].T, -torch.inf).softmax(dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class own_token_hidden(Pieces):
    """Each token's own position was hidden together with the future.

    A token may look at itself. The first token has nothing else, so its softmax has no finite entry and gives NaN.

    Is the diagonal of the mask part of the past or of the future? Look at the number handed to `tril` or `triu`.
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.masked_fill(~self.visible[:length, :length].tril(-1), -torch.inf).softmax(dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class every_weight_nan(Pieces):
    """A mask of zeros and ones was multiplied by -inf, or it hid every position, so that all weights were NaN.

    0 times -inf is NaN, and one NaN spoils its row. A row in which everything is -inf has no softmax either: 0 / 0.

    Print the scores after the mask. Which of them should be ordinary numbers, and what are they?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return (scores + -torch.inf * ~self.visible[:length, :length]).softmax(dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class visible_positions_hidden(Pieces):
    """What a token may see was set to -inf, and what it may not see was left.

    `masked_fill` fills where its mask is True. The last token then has nothing left to see, and its row is NaN.

    Does True mean "may attend" in your mask, or "is hidden", and which of the two does the line that uses it need?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.masked_fill(self.visible[:length, :length], -torch.inf).softmax(dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class softmax_over_queries(Pieces):
    """The softmax ran over the queries, so that the columns of the weights summed to 1 and the rows did not.

    Each query shares out a weight of 1 among the keys, and the keys are counted by the last dimension.

    Along which dimension must the weights sum to 1, and what does `dim` say in your softmax?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.masked_fill(~self.visible[:length, :length], -torch.inf).softmax(dim=-2)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class masked_after_softmax(Pieces):
    """The mask was applied after the softmax, and the rows were not divided by their new sum.

    The softmax had already shared weight out to the later tokens. That share is lost, and the rows no longer sum to 1.

    What must happen to the hidden scores before the softmax, so that nothing is left to lose?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.softmax(dim=-1) * self.visible[:length, :length]


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class mask_of_the_hidden_positions(Pieces):
    """`scaled_dot_product_attention` was given a mask that is True where a position is hidden.

    In torch's function True means "may attend", so each token saw its future and not its past.

    What does the documentation say about a boolean `attn_mask`? And what is left for the last token to see?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        length = query.shape[-2]
        hidden = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
        p = self.attn_dropout.p if self.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, attn_mask=hidden, dropout_p=p)


@misconception(replaces="CausalSelfAttention", caught_by="test_dropout_only_in_training")
class mask_and_is_causal(Pieces):
    """`scaled_dot_product_attention` was given a mask and `is_causal=True` as well.

    They say the same twice, and torch takes only one of them. Some of its kernels overlook it, but the call raises an
    error as soon as weights are to be dropped.

    Which one of the two is enough here?
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        length = query.shape[-2]
        visible = self.visible[:length, :length]
        p = self.attn_dropout.p if self.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, attn_mask=visible, dropout_p=p, is_causal=True)


@misconception(replaces="CausalSelfAttention", caught_by="test_lengths_and_head_counts")
class mask_not_cut(Pieces):
    """The mask of the longest sequence was used as it is, whatever the length of `x`.

    The mask has `block_size` rows and columns, and the scores of a shorter sequence have only T.

    How do you take the first T rows and the first T columns of the mask?
    """

    def weights(self, scores: Tensor) -> Tensor:
        return scores.masked_fill(~self.visible, -torch.inf).softmax(dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_follows_device")
class mask_made_on_the_cpu(Pieces):
    """The mask stayed on the CPU: it was a plain attribute, or made in `forward` without a device.

    `module.to(device)` moves parameters and buffers, and nothing else. On a GPU the mask and the scores then lie on
    two devices.

    With which method of `nn.Module` does a tensor become part of a module without being a parameter?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_large_scores")
class no_maximum_subtracted(Pieces):
    """The exponentials of the scores were taken as they are, without subtracting each row's maximum first.

    exp(100) is too large for float32 and becomes inf, exp(-200) becomes 0, and inf / inf and 0 / 0 are NaN.

    What may be subtracted from all scores of a row without changing its softmax?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        exponentials = scores.masked_fill(~self.visible[:length, :length], -torch.inf).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="CausalSelfAttention", caught_by="test_large_scores")
class one_maximum_for_all_queries(Pieces):
    """One maximum was subtracted from the scores of all queries.

    A query whose scores all lie far below it gets only zeros, and 0 / 0 is NaN.

    A softmax belongs to one query. Over which dimension is its maximum taken?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        hidden = scores.masked_fill(~self.visible[:length, :length], -torch.inf)
        exponentials = (hidden - hidden.amax(dim=(-2, -1), keepdim=True)).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


@misconception(replaces="CausalSelfAttention", caught_by="test_future_has_no_effect")
class no_gradient_in_eval(Pieces):
    """In eval mode no gradient was kept, because of `torch.no_grad` or a `detach` there.

    eval() switches dropout off, and nothing else. Who needs no gradient says so around the call.

    What does `self.training` decide in your `forward`, besides dropout?
    """

    def forward(self, x: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.training):
            return super().forward(x)


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws")
class weights_detached(Pieces):
    """The attention weights were cut off from the graph, by `detach`, `.data`, `torch.no_grad` or a new tensor.

    The result is right, but no gradient reaches the query and key part of `c_attn`, and they never learn.

    Which operation between the scores and the context does autograd not see?
    """

    def weights(self, scores: Tensor) -> Tensor:
        return super().weights(scores).detach()


# --- the same mistakes in other words ---------------------------------------------------------------------------------


class _HeadsToHeads(Pieces):
    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_head, -1))

    def forward(self, x: Tensor) -> Tensor:
        self.check_length(x)
        return self.output(self.attend(*self.parts(self.c_attn(x))).flatten(2))


@another_form(heads_attend_to_heads)
class heads_attend_to_heads_unmasked(_HeadsToHeads):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1)


@another_form(heads_attend_to_heads)
class heads_attend_to_heads_under_the_mask_of_tokens(_HeadsToHeads):
    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        num_tokens = query.shape[1]
        scores = self.scores(query, key).masked_fill(~self.visible[:num_tokens, :num_tokens], -torch.inf)
        return self.attn_dropout(scores.softmax(dim=-1)) @ value


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class own_token_hidden_by_a_number(Pieces):
    """Each token's own position was hidden together with the future, by a large negative number.

    A token may look at itself. The first token has nothing else: all its scores became the same number, and the
    softmax of equal scores shares the weight out to all tokens, the later ones included.

    Is the diagonal of the mask part of the past or of the future? Look at the number handed to `tril` or `triu`.
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return scores.masked_fill(~self.visible[:length, :length].tril(-1), -1e9).softmax(dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class hidden_scores_set_to_zero(Pieces):
    """The hidden scores became 0: they were multiplied by the mask, or filled with 0.

    A score of 0 is a score like any other, and exp(0) is 1: the later tokens keep a good part of the weight.

    Which number x makes exp(x) zero?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return (scores * self.visible[:length, :length]).softmax(dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class mask_of_ones_added(Pieces):
    """A mask of zeros and ones was added to the scores as numbers, and not used as a boolean mask.

    `scaled_dot_product_attention` adds an `attn_mask` of floats to the scores. Beside the
    others the hidden ones are then lower by 1, and hidden tokens still get weight.

    Which dtype must a mask have, so that True means "may attend"?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        return (scores + self.visible[:length, :length]).softmax(dim=-1)


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws")
class scaled_by_length(Pieces):
    """The scores were divided by the square root of T, the number of tokens.

    A score is a sum over the d numbers of a head, so that its size grows with d. It does not grow with T.

    Which dimension of the key does the product sum over?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(key.shape[-2])


@misconception(replaces="CausalSelfAttention", caught_by="test_agrees_with_fresh_draws")
class multiplied_by_the_root(Pieces):
    """The scores were multiplied by the root of the head's width instead of divided by it.

    The root is there to make large scores smaller. Multiplied by it, they grow even faster with the width.

    How large is a sum of d products usually, and what makes it as large as one of them?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) * math.sqrt(key.shape[-1])


@misconception(replaces="CausalSelfAttention", caught_by="test_attention_by_hand")
class one_token_ahead(Pieces):
    """The mask was off by one: each token also saw the token right after it.

    That is the token which the model has to predict, and now it needs only to copy it.

    What does the second argument of `tril` or `triu` move, and where must the last visible position of a row lie?
    """

    def weights(self, scores: Tensor) -> Tensor:
        length = scores.shape[-1]
        visible = torch.ones(length, length, dtype=torch.bool, device=scores.device).tril(1)
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
