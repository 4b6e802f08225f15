"""What learners get wrong in `RelativeSelfAttention`, each with the check that catches it."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import misconception
from solutions.positions.step17_relative import reference
from solutions.positions.step17_relative.misconceptions.pieces import Pieces


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


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class always_causal(Pieces):
    """Later tokens were hidden without having been told: always, or where no mask was given.

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
    """The tables, or one of them, were as wide as all heads together, so that each head had vectors of its own.

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
    """The tables, or one of them, had 2k rows.

    k distances before and k after are 2k, and a token's distance to itself is one more.

    Where in your table is the row of the distance 0?
    """

    def __init__(self, d_model: int, num_heads: int, max_distance: int) -> None:
        super().__init__(d_model, num_heads, max_distance)
        self.relative_key = nn.Embedding(2 * max_distance, d_model // num_heads)
        self.relative_value = nn.Embedding(2 * max_distance, d_model // num_heads)


@misconception(replaces="RelativeSelfAttention", caught_by="test_attention_by_hand")
class tables_as_bare_parameters(Pieces):
    """The tables, or one of them, were bare `nn.Parameter`s, called `relative_key` and `relative_value`.

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
    """`W_query`, `W_key` and `W_value`, or one of them, had a bias.

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
