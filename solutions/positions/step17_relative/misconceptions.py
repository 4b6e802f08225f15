"""What learners get wrong in step 17, each with the check that catches it."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import misconception, together
from solutions.core.step07_heads.reference import merge_heads, split_heads
from solutions.positions.step17_relative import reference

Device = torch.device | str | None
Names = dict[str, object]

POSITIONS = ("relative_positions", "RelativeSelfAttention")
SLOPES = ("alibi_slopes", "alibi_bias", "alibi_attention")
BIAS = ("alibi_bias", "alibi_attention")


class Pieces(reference.RelativeSelfAttention):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    rows: Callable[..., Tensor] = staticmethod(reference.relative_positions)

    def split(self, x: Tensor) -> Tensor:
        return split_heads(x, self.num_heads)

    def content(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1)

    def key_vectors(self, index: Tensor) -> Tensor:
        return self.relative_key(index)

    def value_vectors(self, index: Tensor) -> Tensor:
        return self.relative_value(index)

    def position(self, query: Tensor, key: Tensor, vectors: Tensor) -> Tensor:
        return torch.einsum("bhid,ijd->bhij", query, vectors)

    def scores(self, content: Tensor, position: Tensor, d: int) -> Tensor:
        return (content + position) / math.sqrt(d)

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(dim=-1)

    def context(self, weights: Tensor, value: Tensor, vectors: Tensor) -> Tensor:
        return weights @ value + torch.einsum("bhij,ijd->bhid", weights, vectors)

    def merged(self, context: Tensor) -> Tensor:
        return merge_heads(context)

    def output(self, merged: Tensor) -> Tensor:
        return self.out_proj(merged)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = (self.split(layer(x)) for layer in (self.W_query, self.W_key, self.W_value))
        index = self.rows(x.shape[1], self.max_distance, device=x.device)
        position = self.position(query, key, self.key_vectors(index))
        weights = self.weights(self.scores(self.content(query, key), position, query.shape[-1]), mask)
        return self.output(self.merged(self.context(weights, value, self.value_vectors(index))))


def everywhere(rows: Callable[..., Tensor]) -> Names:
    """Both names of a file whose attention uses these relative positions."""
    module = type("RelativeSelfAttention", (Pieces,), {"rows": staticmethod(rows)})
    return {"relative_positions": rows, "RelativeSelfAttention": module}


def in_the_module_alone(wrong: Callable[[], Names]) -> Callable[..., object]:
    """The same mistake in a module that makes its own index, beside a function that is right."""
    module = wrong()["RelativeSelfAttention"]
    module.__doc__ = wrong.__doc__  # type: ignore[attr-defined]  # a class has one
    return misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")(module)  # type: ignore[arg-type]


def distances(num_tokens: int, device: Device) -> Tensor:
    """j - i, (T, T)."""
    position = torch.arange(num_tokens, device=device)
    return position[None, :] - position[:, None]


# --- the relative positions -------------------------------------------------------------------------------------------


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def query_minus_key() -> Names:
    """The distance was i - j, the query's position minus the key's.

    Before and after change places then. Shaw counts from the query: a key further on has a positive distance.

    For query 0 and key 1, which sign does j - i have, and which one has your distance?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return reference.relative_positions(num_tokens, max_distance, device).T

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def not_clipped() -> Names:
    """The distances were not clipped.

    The table has only 2k + 1 rows. Distances beyond k find none there, or leave it on the other side.

    How far apart are the first and the last of many tokens, and how many rows has the table?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device) + max_distance

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def not_shifted() -> Names:
    """The distances from -k to k were not shifted by k.

    A table has no row of a negative number: row 0 belongs to the distance -k.

    Which number has to be added to -k so that it becomes 0?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device).clamp(-max_distance, max_distance)

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def clipped_after_the_shift() -> Names:
    """The distances were shifted first, and then clipped to -k to k.

    Everything beyond row k falls on row k then, and rows below 0 are left.

    Between which two numbers do the distances lie once k was added to them?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return (distances(num_tokens, device) + max_distance).clamp(-max_distance, max_distance)

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def left_and_right_alike() -> Names:
    """The distance lost its sign, and then k was added: a key before and a key after shared a vector.

    Whether a token stands before or after another one is half of what a relative position says.

    Which of your operations takes the sign away?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device).abs().clamp(max=max_distance) + max_distance

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand", misses_the_point=True)
def distance_without_sign() -> Names:
    """The distance without its sign, from 0 to k, was the row.

    A key before and a key after share a vector then, and the upper half of the table is never used.

    Which of your operations takes the sign away?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device).abs().clamp(max=max_distance)

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def clipped_one_too_early() -> Names:
    """The distances were clipped at k - 1, one below the largest one.

    Distances up to k have a vector of their own.

    Is the largest distance that stays what it is k, or one less?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        most = max(max_distance - 1, 0)
        return distances(num_tokens, device).clamp(-most, most) + max_distance

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def upper_side_one_short() -> Names:
    """The distances were clipped to -k to k - 1.

    Distances have no end that is left out, unlike ranges in Python: both -k and k have a row.

    How many rows are there from -k to k, 0 included?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device).clamp(-max_distance, max(max_distance - 1, 0)) + max_distance

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def shifted_by_the_tokens() -> Names:
    """The distances were shifted by T - 1 and not by k.

    That would fit a table with a row for every distance there can be. This one has 2k + 1 rows.

    Which row of the table belongs to a token's distance to itself?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device).clamp(-max_distance, max_distance) + num_tokens - 1

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand", misses_the_point=True)
def position_of_the_key() -> Names:
    """The row was chosen by the position of the key alone.

    That is an absolute position. A relative one depends on the query, too.

    Are the rows of your T × T matrix all alike?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        position = torch.arange(num_tokens, device=device).clamp(max=2 * max_distance)
        return position.expand(num_tokens, num_tokens)

    return everywhere(rows)


@misconception(replaces="relative_positions", caught_by="test_positions_by_hand")
def positions_as_floats(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
    """The relative positions were floating-point numbers.

    They count the rows of a table, and an index is a whole number: int64.

    Which of your calls makes floats of whole numbers?
    """
    return reference.relative_positions(num_tokens, max_distance, device).float()


@misconception(replaces="relative_positions", caught_by="test_positions_by_hand")
def positions_as_int32(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
    """The relative positions were int32.

    torch's own dtype for an index is int64, and that is asked for.

    Which dtype does `torch.arange` have if you say nothing?
    """
    return reference.relative_positions(num_tokens, max_distance, device).int()


@misconception(replaces="relative_positions", caught_by="test_positions_on_their_device")
def positions_on_the_cpu(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
    """The relative positions were made on the CPU, whatever `device` said.

    A table on a GPU can be asked for them only there.

    Which of your calls that make new tensors take a `device`?
    """
    return reference.relative_positions(num_tokens, max_distance)


# --- Shaw's attention -------------------------------------------------------------------------------------------------


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class relative_scores_not_scaled(Pieces):
    """The scores of the relative keys were added after the scaling: they were not divided by √d.

    The relative key is a part of the key. What the query makes of it belongs under the same root.

    Which of the two sums does your division by √d reach?
    """

    def scores(self, content: Tensor, position: Tensor, d: int) -> Tensor:
        return content / math.sqrt(d) + position


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class content_not_scaled(Pieces):
    """Only the scores of the relative keys were divided by √d, and those of the keys themselves were not.

    Both belong to one score, which is divided as a whole.

    Where do the parentheses stand around your sum?
    """

    def scores(self, content: Tensor, position: Tensor, d: int) -> Tensor:
        return content + position / math.sqrt(d)


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class relative_scores_scaled_twice(Pieces):
    """The scores of the relative keys were divided by √d twice.

    Once before they were added, and once more with the sum, makes d and not its root.

    How often is a relative score divided on its way to the softmax?
    """

    def scores(self, content: Tensor, position: Tensor, d: int) -> Tensor:
        return (content + position / math.sqrt(d)) / math.sqrt(d)


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class not_scaled(Pieces):
    """The scores were not divided by √d at all.

    The wider the heads are, the larger the scores grow, and the softmax turns into a choice of one single token.

    Which number does attention divide the scores by, and from which tensor's shape can you read it?
    """

    def scores(self, content: Tensor, position: Tensor, d: int) -> Tensor:
        return content + position


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class scaled_by_all_heads(Pieces):
    """The scores were divided by the root of d_model, the width of all heads together.

    A score is a sum over the columns of one head only, so it grows with the root of the head's width.

    When one head's query and key are multiplied, over how many numbers does the sum run?
    """

    def scores(self, content: Tensor, position: Tensor, d: int) -> Tensor:
        return (content + position) / math.sqrt(d * self.num_heads)


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class divided_by_the_width(Pieces):
    """The scores were divided by d and not by its root.

    They come out too small, so the weights are too even.

    Is the scale in your code applied once, and is there a root in it?
    """

    def scores(self, content: Tensor, position: Tensor, d: int) -> Tensor:
        return (content + position) / d


@misconception(replaces="RelativeSelfAttention", caught_by="test_attention_by_hand", misses_the_point=True)
class relative_keys_left_out(Pieces):
    """The relative keys did not enter the scores.

    The weights then know nothing of where the keys stand.

    Where does `relative_key` appear in your `forward`, before the softmax?
    """

    def scores(self, content: Tensor, position: Tensor, d: int) -> Tensor:
        return content / math.sqrt(d)


@misconception(replaces="RelativeSelfAttention", caught_by="test_attention_by_hand")
class relative_values_left_out(Pieces):
    """The relative values did not enter the context.

    Shaw's attention adds a vector to the values, too: the context says from how far away something was fetched.

    Where does `relative_value` appear in your `forward`, after the softmax?
    """

    def context(self, weights: Tensor, value: Tensor, vectors: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="RelativeSelfAttention", caught_by="test_attention_by_hand", misses_the_point=True)
class no_relative_positions(Pieces):
    """Neither the relative keys nor the relative values were used: plain attention.

    Attention by itself does not know the order of its tokens. The two tables are what this step is about.

    Where in your `forward` is `relative_positions` called?
    """

    def scores(self, content: Tensor, position: Tensor, d: int) -> Tensor:
        return content / math.sqrt(d)

    def context(self, weights: Tensor, value: Tensor, vectors: Tensor) -> Tensor:
        return weights @ value


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class content_left_out(Pieces):
    """The scores came from the relative keys alone, without the keys themselves.

    The key that a query sees is the sum of both.

    Where does the key itself enter the scores?
    """

    def scores(self, content: Tensor, position: Tensor, d: int) -> Tensor:
        return position / math.sqrt(d) + 0 * content


@misconception(replaces="RelativeSelfAttention", caught_by="test_attention_by_hand")
class relative_key_meets_the_key(Pieces):
    """The relative key was multiplied by the key and not by the query.

    It is added to the key, and the query is what a key is multiplied by: q · (k + a) = q · k + q · a.

    Which of the two does your product of the relative keys use?
    """

    def position(self, query: Tensor, key: Tensor, vectors: Tensor) -> Tensor:
        return torch.einsum("bhjd,ijd->bhij", key, vectors)


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class query_of_the_wrong_row(Pieces):
    """The relative key of query i and key j was multiplied by the query of row j.

    Row i of the scores belongs to query i, in both of its parts.

    Which letter do query and vectors share in your einsum, or which axis do they meet on?
    """

    def position(self, query: Tensor, key: Tensor, vectors: Tensor) -> Tensor:
        return torch.einsum("bhjd,ijd->bhij", query, vectors)


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class one_number_per_distance(Pieces):
    """The relative key was summed up to one number for each distance, whatever the query.

    T5 learns such a bias. Shaw's is a vector, so that each query can look for distances of its own.

    Where does the query enter the part of the score that comes from the distance?
    """

    def position(self, query: Tensor, key: Tensor, vectors: Tensor) -> Tensor:
        return vectors.sum(-1).expand(*query.shape[:2], -1, -1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_attention_by_hand")
class one_table_for_keys_and_values(Pieces):
    """The relative values were taken from the table of the relative keys.

    What makes a distance worth looking at, and what is fetched from there, are learned apart: two tables.

    Which of the two tables is each of your look-ups made in?
    """

    def value_vectors(self, index: Tensor) -> Tensor:
        return self.relative_key(index)


@misconception(replaces="RelativeSelfAttention", caught_by="test_attention_by_hand")
class one_table_of_two_names(Pieces):
    """`relative_key` and `relative_value` were one and the same `nn.Embedding`.

    What makes a distance worth looking at, and what is fetched from there, are learned apart: two tables.

    How many embeddings does your constructor make?
    """

    def __init__(self, d_model: int, num_heads: int, max_distance: int) -> None:
        super().__init__(d_model, num_heads, max_distance)
        self.relative_value = self.relative_key


@misconception(replaces="RelativeSelfAttention", caught_by="test_attention_by_hand")
class tables_exchanged(Pieces):
    """The two tables changed places: keys got the vectors of `relative_value`, and values those of `relative_key`.

    A checkpoint fits only if each name does what it says.

    Which table is used before the softmax, and which one after it?
    """

    def key_vectors(self, index: Tensor) -> Tensor:
        return self.relative_value(index)

    def value_vectors(self, index: Tensor) -> Tensor:
        return self.relative_key(index)


@misconception(replaces="RelativeSelfAttention", caught_by="test_attention_by_hand")
class relative_values_not_weighted(Pieces):
    """The relative values were averaged, or summed, over the keys without their weights.

    A value counts as much as its weight, and the vector that is added to it counts as much as the value.

    By what is a relative value multiplied before the sum over the keys?
    """

    def context(self, weights: Tensor, value: Tensor, vectors: Tensor) -> Tensor:
        return weights @ value + vectors.mean(dim=1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class relative_values_of_the_key(Pieces):
    """The relative values were those of key j and query i the other way round.

    In the context of query i each value gets the vector of j - i, as the key did.

    In your sum over j, in which order do i and j stand in the vectors?
    """

    def context(self, weights: Tensor, value: Tensor, vectors: Tensor) -> Tensor:
        return weights @ value + torch.einsum("bhij,jid->bhid", weights, vectors)


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class softmax_over_queries(Pieces):
    """The softmax ran over the queries, so that the columns of the weights summed to 1 and the rows did not.

    Each query shares out a weight of 1 among the keys, and the keys are counted by the last dimension.

    Along which dimension must the weights sum to 1, and what does `dim` say in your softmax?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(dim=-2)


@misconception(replaces="RelativeSelfAttention", caught_by="test_masks")
class mask_not_used(Pieces):
    """The mask was not used.

    Every token then attends to every other one, whatever the caller hides.

    Where does `mask` appear in your `forward`?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores.softmax(dim=-1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_masks")
class mask_inverted(Pieces):
    """What may be attended to was hidden, and what is hidden was left.

    True means "may attend", and `masked_fill` fills where its mask is True.

    Which of the two does the line that uses the mask need?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return (scores if mask is None else scores.masked_fill(mask, -torch.inf)).softmax(dim=-1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_masks")
class mask_inverted_by_a_large_number(Pieces):
    """What may be attended to got a large negative score, and what is hidden was left.

    True means "may attend", and the number belongs where the mask is False.

    Which of the two does the line that uses the mask need?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return (scores if mask is None else scores.masked_fill(mask, -1e30)).softmax(dim=-1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_masks")
class masked_with_zero(Pieces):
    """Hidden scores were set to 0.

    A score of 0 is an ordinary one, of weight exp(0) = 1 before the division.

    Which score has an exponential of 0?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return (scores if mask is None else scores.masked_fill(~mask, 0.0)).softmax(dim=-1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_masks")
class masked_after_the_softmax(Pieces):
    """The mask was applied after the softmax, and the rows were not divided by their new sum.

    The softmax had already shared weight out to the hidden tokens. That share is lost.

    What must happen to the hidden scores before the softmax?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores.softmax(dim=-1) * (1 if mask is None else mask.to(scores.dtype))


@misconception(replaces="RelativeSelfAttention", caught_by="test_masks")
class mask_added_as_numbers(Pieces):
    """The boolean mask was added to the scores, so that True was 1 and False 0.

    A difference of 1 between two scores hides nothing.

    What has to be added to a score so that its exponential is 0?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return (scores if mask is None else scores + mask).softmax(dim=-1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_masks")
class mask_of_one_row_per_head(Pieces):
    """A head dimension was put into every mask.

    The mask broadcasts to (B, H, T, T) as it is. Another dimension in front of its last two moves the batch.

    Which shapes of a mask does the contract name, and what does yours become?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weights(scores, mask if mask is None else mask.unsqueeze(1))


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class always_causal(Pieces):
    """Later tokens were always hidden.

    The attention of this step sees both sides, and `mask` is how a caller hides something.

    Which line of your `forward` hides a token without having been told?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        causal = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        return super().weights(scores, causal if mask is None else mask & causal)


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class weights_detached(Pieces):
    """The attention weights were cut off from the graph, by `detach`, `.data` or `torch.no_grad`.

    The result is right, but no gradient reaches queries, keys and relative keys, and they never learn.

    Which operation between the scores and the context does autograd not see?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weights(scores, mask).detach()


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class tables_detached(Pieces):
    """The vectors were taken out of the tables without their graph, by `.data` or `detach`.

    The result is right, but the tables never learn.

    How are the rows taken: by calling the embedding, or out of `weight.data`?
    """

    def key_vectors(self, index: Tensor) -> Tensor:
        return self.relative_key.weight.data[index]

    def value_vectors(self, index: Tensor) -> Tensor:
        return self.relative_value.weight.data[index]


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class dropout_in_training(Pieces):
    """Dropout acted on the weights in training.

    This class takes no `dropout`, and none acts.

    Which line differs between training and evaluation?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return F.dropout(super().weights(scores, mask), 0.1, self.training)


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class split_without_transpose(Pieces):
    """The heads were split off by one bare reshape to `(B, H, T, d)`.

    A reshape keeps the order of the numbers in memory, so each head got pieces of different tokens' columns.

    The columns of one token split into `(H, d)`. Which two dimensions must swap then?
    """

    def split(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], self.num_heads, x.shape[1], -1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class merged_without_transpose(Pieces):
    """The heads were merged by one bare reshape from `(B, H, T, d)` to `(B, T, D)`.

    A reshape keeps the order of the numbers in memory, so a token got pieces of other tokens instead of its own heads.

    Which two dimensions must swap, so that the heads of one token lie next to each other?
    """

    def merged(self, context: Tensor) -> Tensor:
        return context.reshape(context.shape[0], context.shape[2], -1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_attention_by_hand")
class not_projected(Pieces):
    """The merged heads were returned without `out_proj`.

    Nothing mixes the heads then, and the layer is never used.

    What is the last line of your `forward`?
    """

    def output(self, merged: Tensor) -> Tensor:
        return merged


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class table_for_each_head(Pieces):
    """The tables were as wide as all heads together, so that each head had vectors of its own.

    Here the heads share them: a row has the width d of one head.

    Which of the two widths, d_model or d, does your `nn.Embedding` have?
    """

    def __init__(self, d_model: int, num_heads: int, max_distance: int) -> None:
        super().__init__(d_model, num_heads, max_distance)
        self.relative_key = nn.Embedding(2 * max_distance + 1, d_model)
        self.relative_value = nn.Embedding(2 * max_distance + 1, d_model)


@misconception(replaces="RelativeSelfAttention", caught_by="test_any_regime")
class index_of_a_fixed_length(Pieces):
    """The relative positions were made once, for 1,024 tokens.

    A longer sequence has no relative positions then.

    When are the relative positions made, and for how many tokens?
    """

    def __init__(self, d_model: int, num_heads: int, max_distance: int) -> None:
        super().__init__(d_model, num_heads, max_distance)
        self.register_buffer("kept", reference.relative_positions(1024, max_distance), persistent=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        self.rows = lambda num_tokens, max_distance, device: self.kept[:num_tokens, :num_tokens]
        return super().forward(x, mask)


@misconception(replaces="RelativeSelfAttention", caught_by="test_attention_by_hand")
class table_of_the_positive_side(Pieces):
    """The tables had k + 1 rows, one for each distance without its sign.

    Distances run from -k to k, and each of them has a row.

    How many whole numbers are there from -k to k?
    """

    def __init__(self, d_model: int, num_heads: int, max_distance: int) -> None:
        super().__init__(d_model, num_heads, max_distance)
        self.relative_key = nn.Embedding(max_distance + 1, d_model // num_heads)
        self.relative_value = nn.Embedding(max_distance + 1, d_model // num_heads)


@misconception(replaces="RelativeSelfAttention", caught_by="test_attention_by_hand")
class table_without_the_middle(Pieces):
    """The tables had 2k rows.

    k distances before and k after are 2k, and a token's distance to itself is one more.

    Where in your table is the row of the distance 0?
    """

    def __init__(self, d_model: int, num_heads: int, max_distance: int) -> None:
        super().__init__(d_model, num_heads, max_distance)
        self.relative_key = nn.Embedding(2 * max_distance, d_model // num_heads)
        self.relative_value = nn.Embedding(2 * max_distance, d_model // num_heads)


@misconception(replaces="RelativeSelfAttention", caught_by="test_attention_by_hand")
class tables_as_bare_parameters(Pieces):
    """The tables were bare `nn.Parameter`s, called `relative_key` and `relative_value`.

    The contract asks for `nn.Embedding`, whose parameter is called `relative_key.weight`: a state dict fits only so.

    Which class of torch's is a table that is asked by row numbers?
    """

    def __init__(self, d_model: int, num_heads: int, max_distance: int) -> None:
        super().__init__(d_model, num_heads, max_distance)
        for name in ("relative_key", "relative_value"):
            table = getattr(self, name).weight
            delattr(self, name)
            setattr(self, name, nn.Parameter(table.detach()))


@misconception(replaces="RelativeSelfAttention", caught_by="test_attention_by_hand")
class biases_in_the_projections(Pieces):
    """`W_query`, `W_key` and `W_value` had a bias.

    The three have none here; `out_proj` has one.

    What does `nn.Linear` do if you say nothing about `bias`?
    """

    def __init__(self, d_model: int, num_heads: int, max_distance: int) -> None:
        super().__init__(d_model, num_heads, max_distance)
        for name in ("W_query", "W_key", "W_value"):
            setattr(self, name, nn.Linear(d_model, d_model))


@misconception(replaces="RelativeSelfAttention", caught_by="test_attention_by_hand")
class no_bias_in_the_output(Pieces):
    """`out_proj` had no bias.

    The three projections have none, and `out_proj` has one.

    Which of your four linear layers is made with `bias=False`?
    """

    def __init__(self, d_model: int, num_heads: int, max_distance: int) -> None:
        super().__init__(d_model, num_heads, max_distance)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)


@misconception(replaces="RelativeSelfAttention", caught_by="test_lengths_and_head_counts")
class unequal_heads_accepted(Pieces):
    """A width that the heads cannot share equally was accepted, and the remaining columns were left out.

    The caller asked for heads that cannot have equal widths. That is a mistake, and the caller should be told.

    What does `d_model % num_heads` tell you, and where can the constructor act on it?
    """

    def __init__(self, d_model: int, num_heads: int, max_distance: int) -> None:
        super().__init__(d_model // num_heads * num_heads, num_heads, max_distance)
        self.used = d_model // num_heads * num_heads

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return torch.cat([super().forward(x[..., : self.used], mask), x[..., self.used :]], dim=-1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_lengths_and_head_counts")
class index_of_the_first_call(Pieces):
    """The relative positions were made at the first call and kept, for the length of that call.

    Another length needs a matrix of its own size.

    When are the relative positions made, and for how many tokens?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if not hasattr(self, "kept"):
            self.kept = reference.relative_positions(x.shape[1], self.max_distance, device=x.device)
        self.rows = lambda num_tokens, max_distance, device: self.kept.to(device)
        return super().forward(x, mask)


@misconception(replaces="RelativeSelfAttention", caught_by="test_follows_device")
class index_on_the_cpu(Pieces):
    """The relative positions were made on the CPU in `forward`, without a device.

    On a GPU the tables and the rows asked of them then lie on two devices.

    From which tensor can `forward` take the device?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        self.rows = lambda num_tokens, max_distance, device: reference.relative_positions(num_tokens, max_distance)
        return super().forward(x, mask)


# A module that makes its own index, wrong beside a function that is right.
query_minus_key_in_the_module = in_the_module_alone(query_minus_key)
not_clipped_in_the_module = in_the_module_alone(not_clipped)
alike_in_the_module = in_the_module_alone(left_and_right_alike)
not_shifted_in_the_module = in_the_module_alone(not_shifted)


# --- ALiBi's slopes ---------------------------------------------------------------------------------------------------


def attention_with(bias: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """ALiBi's attention with another bias."""

    def alibi_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        added = bias(query.shape[1], query.shape[2], device=query.device).to(query.dtype)
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + added
        return scores.softmax(dim=-1) @ value

    return alibi_attention


def with_bias(bias: Callable[..., Tensor]) -> Names:
    """Both names of a file whose attention adds this bias."""
    return {"alibi_bias": bias, "alibi_attention": attention_with(bias)}


def with_slopes(slopes: Callable[..., Tensor]) -> Names:
    """All names of a file whose bias has these slopes."""

    def alibi_bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        distance = distances(num_tokens, device)
        bias = slopes(num_heads, device=device)[:, None, None] * distance
        return bias.masked_fill(distance > 0, -torch.inf)

    return {"alibi_slopes": slopes, **with_bias(alibi_bias)}


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def formula_for_any_number() -> Names:
    """The formula of powers of two was used for any number of heads.

    Three heads have the slopes of two heads, and one more from the series of four.

    What does the contract say of a number of heads that is no power of two?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        return torch.tensor([2 ** (-8 * h / num_heads) for h in range(1, num_heads + 1)], device=device)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def further_slopes_in_order() -> Names:
    """The slopes beyond the power of two were the 1st, 2nd, 3rd, … of twice as many heads.

    Every other one of them is there already. The new ones lie in between: the 1st, 3rd, 5th, ….

    Which slopes do 4 heads have in common with 8?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        below = 1 << (num_heads.bit_length() - 1)
        first = [2 ** (-8 * h / below) for h in range(1, below + 1)]
        between = [2 ** (-4 * h / below) for h in range(2, 2 * below + 1)]
        return torch.tensor(first + between[: num_heads - below], device=device)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_of_any_number")
def first_slopes_of_twice_as_many() -> Names:
    """The slopes beyond the power of two were the first ones of twice as many heads, and none was left out.

    Every other one of them is there already. The new ones lie in between: the 1st, 3rd, 5th, ….

    Which slopes do 4 heads have in common with 8?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        below = 1 << (num_heads.bit_length() - 1)
        first = [2 ** (-8 * h / below) for h in range(1, below + 1)]
        between = [2 ** (-4 * h / below) for h in range(1, 2 * below + 1)]
        return torch.tensor(first + between[: num_heads - below], device=device)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def cut_from_twice_as_many() -> Names:
    """The slopes of the power of two above were taken, and the last ones cut off.

    The small slopes are lost then, with which a head sees far. The contract begins with the power of two below.

    What are the three slopes of three heads?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        above = 1 << (num_heads - 1).bit_length()
        return torch.tensor([2 ** (-8 * h / above) for h in range(1, num_heads + 1)], device=device)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def slopes_in_another_order() -> Names:
    """The slopes were sorted, or those in between stood before the others.

    The numbers are right, but each head has its own, and a checkpoint was trained with this order.

    Which slopes come first in the contract, and which ones last?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        return reference.alibi_slopes(num_heads, device).sort(descending=True).values

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def slopes_from_the_smallest() -> Names:
    """The slopes ran from the smallest to the largest.

    Head 1 has the steepest slope, and the last of a power of two has 2^-8.

    What is the slope of the first of four heads?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        return reference.alibi_slopes(num_heads, device).flip(0)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def first_slope_is_one() -> Names:
    """The heads were counted from 0, so that the first slope was 1.

    h runs from 1 to H: the first slope is already 2^(-8 / H), and the last one 2^-8.

    Where does your range start?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        right = reference.alibi_slopes(num_heads, device)
        below = 1 << (num_heads.bit_length() - 1)
        return torch.cat([right[:below] * 2 ** (8 / below), right[below:] * 2 ** (4 / below)])

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def halves_whatever_the_heads() -> Names:
    """The slopes were 1/2, 1/4, 1/8, … for any number of heads.

    That holds for 8 heads only. For others the 8 powers of two are shared out among the heads.

    Where does H stand in the exponent?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        return torch.tensor([2.0**-h for h in range(1, num_heads + 1)], device=device)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def growing_slopes() -> Names:
    """The exponent of the slopes had no minus sign.

    Slopes between 2 and 256 hide everything but the nearest token. They lie between 2^-8 and 1.

    Is 2^(8h / H) above or below 1?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        return 1 / reference.alibi_slopes(num_heads, device)

    return with_slopes(slopes)


@misconception(replaces=SLOPES, caught_by="test_slopes_by_hand")
def exponents_in_place_of_powers() -> Names:
    """The exponents themselves were the slopes, without the power of two.

    The slopes are to fall by the same factor from head to head.

    Where is the 2 that is raised to -8h / H?
    """

    def slopes(num_heads: int, device: Device = None) -> Tensor:
        return reference.alibi_slopes(num_heads, device).log2()

    return with_slopes(slopes)


@misconception(replaces="alibi_slopes", caught_by="test_slopes_of_any_number")
def slopes_on_the_cpu(num_heads: int, device: Device = None) -> Tensor:
    """The slopes were made on the CPU, whatever `device` said.

    On a GPU they cannot be multiplied by distances that lie there.

    Which of your calls that make new tensors take a `device`?
    """
    return reference.alibi_slopes(num_heads)


@misconception(replaces="alibi_slopes", caught_by="test_slopes_by_hand")
def slopes_in_double(num_heads: int, device: Device = None) -> Tensor:
    """The slopes were float64.

    The contract asks for float32; a float64 bias would widen the scores.

    Which dtype does what you return have?
    """
    return reference.alibi_slopes(num_heads, device).double()


# --- ALiBi's bias -----------------------------------------------------------------------------------------------------


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def far_tokens_favoured() -> Names:
    """The bias grew with the distance: +slope · (i - j).

    The farther away a key is, the more is to be taken off its score.

    Which sign does the bias of a key far back have?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        right = reference.alibi_bias(num_heads, num_tokens, device)
        return torch.where(right.isinf(), right, -right)

    return with_bias(bias)


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def later_tokens_visible() -> Names:
    """Later tokens had a bias like the earlier ones, by their distance, and not -∞.

    ALiBi's attention is causal: no query may see a key after it.

    What stands above the diagonal of your bias?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        return -reference.alibi_slopes(num_heads, device)[:, None, None] * distances(num_tokens, device).abs()

    return with_bias(bias)


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def later_tokens_rewarded() -> Names:
    """Nothing was hidden: the bias was -slope · (i - j) above the diagonal too, where it is positive.

    A key after the query even gains by its distance. ALiBi's attention is causal: it gets -∞.

    What stands above the diagonal of your bias?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        return reference.alibi_slopes(num_heads, device)[:, None, None] * distances(num_tokens, device)

    return with_bias(bias)


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def zeros_above_the_diagonal() -> Names:
    """The bias of later tokens was 0.

    A bias of 0 takes nothing off: they are seen better than any earlier token.

    Which number, added to a score, makes its weight 0?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        return (reference.alibi_slopes(num_heads, device)[:, None, None] * distances(num_tokens, device)).tril()

    return with_bias(bias)


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def past_hidden() -> Names:
    """The earlier tokens were hidden and the later ones visible.

    The bias is -∞ where j > i. Rows are queries, columns are keys.

    Which of `tril` and `triu` does your code use, and on which side is the future?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        return reference.alibi_bias(num_heads, num_tokens, device).transpose(-2, -1)

    return with_bias(bias)


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def own_token_hidden() -> Names:
    """Each token's own position was hidden together with the future.

    A token may look at itself. The first token has nothing else, so its softmax has no finite entry and gives NaN.

    Is the diagonal part of the past or of the future?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        return reference.alibi_bias(num_heads, num_tokens, device).masked_fill(
            distances(num_tokens, device) == 0, -torch.inf
        )

    return with_bias(bias)


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def large_number_in_place_of_infinity() -> Names:
    """Later tokens had a large negative number in place of -∞.

    The softmax may look the same, but the contract asks for -∞, which no score can make up for.

    What does `float("-inf")` do in a softmax?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        return reference.alibi_bias(num_heads, num_tokens, device).clamp(min=-1e9)

    return with_bias(bias)


@misconception(replaces="alibi_bias", caught_by="test_bias_by_hand")
def bias_without_the_query(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
    """The bias was slope · j, by the position of the key alone.

    BLOOM adds this one: it differs by one number in each row, and the softmax is the same. Here the bias itself is
    asked for, -slope · (i - j), which is 0 on the diagonal.

    What does your bias say of a token's distance to itself?
    """
    place = torch.arange(num_tokens, device=device)
    bias = reference.alibi_slopes(num_heads, device)[:, None, None] * place.expand(num_tokens, -1)
    return bias.masked_fill(distances(num_tokens, device) > 0, -torch.inf)


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def slopes_on_the_keys() -> Names:
    """The slopes were laid along the keys and not along the heads.

    Without two further dimensions (H,) meets the last axis of (T, T), which are the keys.

    Which shape do the slopes need, so that they count the first axis of (H, T, T)?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        distance = distances(num_tokens, device)
        made = (reference.alibi_slopes(num_heads, device) * distance).expand(num_heads, -1, -1)
        return made.masked_fill(distance > 0, -torch.inf)

    return with_bias(bias)


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def one_slope_for_all_heads() -> Names:
    """All heads had one and the same slope.

    Some heads are to look near and others far: each has a slope of its own.

    Where does the number of the head enter the bias?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        return reference.alibi_bias(num_heads, num_tokens, device)[:1].repeat(num_heads, 1, 1)

    return with_bias(bias)


@misconception(replaces="alibi_bias", caught_by="test_bias_by_hand")
def batch_dimension_in_front(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
    """The bias had a batch dimension in front: `(1, H, T, T)`.

    It is to be `(H, T, T)`; a sum spreads it over the batch by itself.

    Which line adds the dimension of size 1, and who needs it?
    """
    return reference.alibi_bias(num_heads, num_tokens, device)[None]


@misconception(replaces="alibi_bias", caught_by="test_bias_of_any_size")
def bias_on_the_cpu(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
    """The bias was made on the CPU, whatever `device` said.

    On a GPU it cannot be added to scores that lie there.

    Which of your calls that make new tensors take a `device`?
    """
    return reference.alibi_bias(num_heads, num_tokens)


# --- ALiBi's attention ------------------------------------------------------------------------------------------------


def added_bias(query: Tensor) -> Tensor:
    """The right bias for these queries."""
    return reference.alibi_bias(query.shape[1], query.shape[2], device=query.device).to(query.dtype)


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def bias_before_the_scaling(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The bias was added before the division by √d, and divided with the scores.

    The slopes are meant for scaled scores. Divided as well, they depend on the width of the head.

    Where do the parentheses stand around your sum?
    """
    scores = (query @ key.transpose(-2, -1) + added_bias(query)) / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def alibi_not_scaled(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The scores were not divided by √d before the bias was added.

    ALiBi changes nothing about the scaling: it comes first, as in every attention.

    Which number does attention divide the scores by?
    """
    return (query @ key.transpose(-2, -1) + added_bias(query)).softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def alibi_divided_by_the_width(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The scores were divided by d and not by its root.

    They come out too small, so the weights are too even.

    Is the scale in your code applied once, and is there a root in it?
    """
    return (query @ key.transpose(-2, -1) / query.shape[-1] + added_bias(query)).softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def alibi_scaled_by_value_width(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The scores were divided by the root of the values' width.

    The dot product adds over the width of the query and the key. The values may be wider or narrower.

    Over which dimension of which tensor did the dot product add?
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(value.shape[-1]) + added_bias(query)
    return scores.softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def bias_added_to_the_weights(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The bias was added to the weights, after the softmax.

    Weights are to sum to 1, and -∞ among them makes everything infinite. The bias belongs to the scores.

    What comes first in your code: the softmax, or the sum with the bias?
    """
    weights = (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])).softmax(dim=-1)
    return (weights + added_bias(query)) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def bias_left_out(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The attention was causal, and had no bias.

    Without it no query knows how far away a key is.

    Where does `alibi_bias` appear in your attention?
    """
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def bias_of_both_sides(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The attention had ALiBi's distances on both sides, and no mask.

    ALiBi's attention is causal: no query may see a key after it.

    What happens in your attention to the scores above the diagonal?
    """
    distance = distances(query.shape[2], query.device).abs()
    bias = -reference.alibi_slopes(query.shape[1], query.device)[:, None, None] * distance
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + bias.to(query.dtype)
    return scores.softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def bias_added_to_causal_weights(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The mask came before the softmax, and the rest of the bias was added to the weights after it.

    Weights are to sum to 1. The whole bias belongs to the scores.

    What comes first in your code: the softmax, or the sum with the bias?
    """
    bias = added_bias(query)
    hidden = bias.isinf()
    scores = (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])).masked_fill(hidden, -torch.inf)
    return (scores.softmax(dim=-1) + bias.masked_fill(hidden, 0.0)) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def slope_of_the_first_head(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """All heads had the bias of the first one.

    Each head has a slope of its own, so that some look near and some far.

    Which shape has your bias when it is added to scores of (B, H, T, T)?
    """
    bias = added_bias(query)[:1]
    return (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + bias).softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def bias_subtracted(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The bias was subtracted from the scores.

    It is negative already. Subtracted, it favours what is far away, and +∞ makes everything NaN.

    Which sign does `alibi_bias` have?
    """
    return (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) - added_bias(query)).softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def alibi_softmax_over_queries(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The softmax ran over the queries, so that the columns of the weights summed to 1 and the rows did not.

    Each query shares out a weight of 1 among the keys, and the keys are counted by the last dimension.

    Along which dimension must the weights sum to 1, and what does `dim` say in your softmax?
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + added_bias(query)
    return scores.softmax(dim=-2) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def keys_ask_the_queries(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The keys were multiplied by the queries, so that rows belonged to keys.

    The rows of the scores belong to the queries, and the bias counts on it.

    Which of the two stands first in your product?
    """
    scores = key @ query.transpose(-2, -1) / math.sqrt(query.shape[-1]) + added_bias(query)
    return scores.softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_dtypes_and_device")
def float32_bias_promotes(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The float32 bias was added to scores of another dtype as it is.

    In half precision the sum is float32, which cannot be multiplied by the values, or comes back with the wrong dtype.

    What can be done to the bias before it is added?
    """
    bias = reference.alibi_bias(query.shape[1], query.shape[2], device=query.device)
    return (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + bias).softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_dtypes_and_device")
def result_left_in_float32(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The float32 bias made scores and weights float32, and the values were widened to fit.

    The result comes back in the dtype of the query.

    Which dtype has your bias when it is added?
    """
    bias = reference.alibi_bias(query.shape[1], query.shape[2], device=query.device)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + bias
    return scores.softmax(dim=-1) @ value.to(scores.dtype)


@misconception(replaces="alibi_attention", caught_by="test_alibi_dtypes_and_device")
def attention_in_float32(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Everything was converted to float32, and the result stayed float32 or lost the digits of float64.

    The result has the dtype of the query, and no fewer digits.

    Which of your conversions names a dtype, rather than taking that of the query?
    """
    query, key, value = query.float(), key.float(), value.float()
    return reference.alibi_attention(query, key, value)


@misconception(replaces="alibi_attention", caught_by="test_alibi_dtypes_and_device")
def alibi_bias_on_the_cpu(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The bias was made without a device, on the CPU.

    On a GPU it cannot be added to scores that lie there.

    From which tensor can the bias take its device?
    """
    bias = reference.alibi_bias(query.shape[1], query.shape[2]).to(query.dtype)
    return (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + bias).softmax(dim=-1) @ value


# --- two mistakes in one file -----------------------------------------------------------------------------------------

SCALES = (relative_scores_not_scaled, not_scaled, scaled_by_all_heads, divided_by_the_width)
MASKS = (mask_not_used, mask_inverted, masked_after_the_softmax)
VALUES = (relative_values_left_out, relative_values_not_weighted)
PAIRS = [
    *together(SCALES, VALUES),
    *together(MASKS, VALUES),
    *together(SCALES, MASKS),
]
