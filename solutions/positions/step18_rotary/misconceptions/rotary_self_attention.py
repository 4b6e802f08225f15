"""What learners get wrong in `RotarySelfAttention`, each with the check that catches it."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import misconception
from solutions.positions.step18_rotary import reference
from solutions.positions.step18_rotary.misconceptions.pieces import Parts, Pieces, angles, cos_and_sin, rotated


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class values_turned_too(Pieces):
    """The values were turned as well.

    What is fetched would then depend on where it stood. Only queries and keys are turned, whose product compares
    positions.

    On which of the three parts is `apply_rotary` called?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        query, key, value = super().turned(query, key, value, positions)
        return query, key, self.turn(value, positions, self.base)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class queries_turned_alone(Pieces):
    """Only the queries were turned, and the keys were not.

    A score then depends on where the query stands, and not on how far away the key is.

    On which of the three parts is `apply_rotary` called?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return self.turn(query, positions, self.base), key, value


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class keys_turned_alone(Pieces):
    """Only the keys were turned, and the queries were not.

    A score then depends on where the key stands, and not on how far away it is.

    On which of the three parts is `apply_rotary` called?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return query, self.turn(key, positions, self.base), value


@misconception(
    replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws", misses_the_point=True
)
class nothing_turned(Pieces):
    """Queries and keys were not turned by their positions: plain causal attention.

    Without rotation, or with one that is the same for all tokens of a head, the attention knows nothing of positions.

    Where in your `forward` is `apply_rotary` called, on which shape, and is its result kept?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return query, key, value


@misconception(
    replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws", misses_the_point=True
)
class turned_before_the_heads(Pieces):
    """Queries and keys were turned before they were split into heads.

    The frequencies then run over all columns, and each head gets a few of them. Every head has all frequencies, over
    its own width d.

    Which width does what you hand to `apply_rotary` have?
    """

    def parts(self, x: Tensor) -> Parts:
        query, key, value = super().parts(x)
        return self.turn(query, self.at, self.base), self.turn(key, self.at, self.base), value

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return query, key, value

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        self.at = positions
        return super().forward(x, positions)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class tokens_turned_before_the_projection(Pieces):
    """The tokens were turned before `c_attn`, and with them queries, keys and values.

    A linear layer mixes the columns: after it nothing of the rotation is left that a product could compare.

    Does the rotation come before or after `c_attn`?
    """

    def parts(self, x: Tensor) -> Parts:
        return super().parts(self.turn(x, self.at, self.base))

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return query, key, value

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        self.at = positions
        return super().forward(x, positions)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class heads_taken_for_tokens(Pieces):
    """The rotation counted the heads: it was applied to `(B, T, H, d)`.

    `apply_rotary` takes the last but one dimension for the tokens. Head 0 is then never turned, and all tokens alike.

    Which shape do queries and keys have when they are turned?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        query, key = (self.turn(part.transpose(1, 2), positions, self.base).transpose(1, 2) for part in (query, key))
        return query, key, value


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class opposite_ways(Pieces):
    """Queries and keys were turned in opposite directions.

    The score then depends on the sum of the two positions. Turned the same way, it depends on their difference.

    Which sign do the positions have in your two calls?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        if positions is None:
            positions = torch.arange(query.shape[-2], device=query.device)
        return self.turn(query, positions, self.base), self.turn(key, -positions, self.base), value


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class base_forgotten_in_the_module(Pieces):
    """The module's base was not handed to the rotation, or to one of its two calls.

    The frequencies are then those of 10000, whatever the constructor was told.

    What becomes of `base` after the constructor?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return self.turn(query, positions), self.turn(key, positions), value


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_at_any_positions")
class positions_forgotten_in_the_module(Pieces):
    """The module's `positions` were not handed to the rotation, or to one of its two calls.

    The rows are then counted from 0, whatever the caller said.

    What becomes of `positions` in your `forward`?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return super().turned(query, key, value, None)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_at_any_positions")
class table_of_the_first_call(Pieces):
    """The sines and cosines of the first call were kept, and used for every later one.

    Other positions and another length need other angles.

    When is the table made, and what does it depend on?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        if not hasattr(self, "kept"):
            self.kept = angles(query, positions, self.base)
        cos, sin = cos_and_sin(self.kept[: query.shape[-2]].to(query.device), query)
        return rotated(query, cos, sin), rotated(key, cos, sin), value


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_at_any_positions")
class hidden_by_positions(Pieces):
    """Keys were hidden by their positions, and not by their rows.

    What is causal follows the order of the rows, whatever the positions are: with repeats and gaps they say how far
    apart two tokens are, and not which came first.

    From which numbers is your mask made?
    """

    def hidden(self, scores: Tensor, positions: Tensor | None) -> Tensor:
        if positions is None:
            return super().hidden(scores, positions)
        return positions[None, :] > positions[:, None]


@misconception(replaces="RotarySelfAttention", caught_by="test_future_has_no_effect")
class no_mask(Pieces):
    """Every token attended to every other one, the later ones included.

    A model that is to predict the next token must not see it. torch's own function hides nothing by itself.

    Which argument of `scaled_dot_product_attention` hides the future, or which entries of your scores must be hidden?
    """

    def hidden(self, scores: Tensor, positions: Tensor | None) -> Tensor:
        return torch.zeros_like(scores, dtype=torch.bool)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class future_instead_of_past(Pieces):
    """The mask was the wrong way round: each token saw itself and the later tokens, and its past was hidden.

    The last token then sees only itself, and the first one sees the whole sequence.

    Does your mask say "may attend" or "is hidden", and does the line that uses it mean the same?
    """

    def hidden(self, scores: Tensor, positions: Tensor | None) -> Tensor:
        return super().hidden(scores, positions).T


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class own_token_hidden(Pieces):
    """Each token's own position was hidden together with the future.

    A token may look at itself. The first token has nothing else, so its softmax has no finite entry and gives NaN.

    Is the diagonal of the mask part of the past or of the future? Look at the number handed to `tril` or `triu`.
    """

    def hidden(self, scores: Tensor, positions: Tensor | None) -> Tensor:
        return super().hidden(scores, positions) | torch.eye(len(scores[0, 0]), dtype=torch.bool, device=scores.device)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class masked_after_softmax(Pieces):
    """The mask was applied after the softmax, and the rows were not divided by their new sum.

    The softmax had already shared weight out to the later tokens. That share is lost, and the rows no longer sum to 1.

    What must happen to the hidden scores before the softmax, so that nothing is left to lose?
    """

    def weights(self, scores: Tensor, hidden: Tensor) -> Tensor:
        return scores.softmax(dim=-1).masked_fill(hidden, 0.0)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class softmax_over_queries(Pieces):
    """The softmax ran over the queries, so that the columns of the weights summed to 1 and the rows did not.

    Each query shares out a weight of 1 among the keys, and the keys are counted by the last dimension.

    Along which dimension must the weights sum to 1, and what does `dim` say in your softmax?
    """

    def weights(self, scores: Tensor, hidden: Tensor) -> Tensor:
        return scores.masked_fill(hidden, -torch.inf).softmax(dim=-2)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class not_scaled(Pieces):
    """The scores went into the softmax without being divided by the root of the head's width.

    The wider the heads are, the larger the scores grow, and the softmax turns into a choice of one single token.

    Which number does attention divide the scores by, and from which tensor's shape can you read it?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class scaled_twice(Pieces):
    """The scores were divided by the head's width instead of its root: by all of it, or twice by the root.

    Of a sum over d numbers the root of d is the usual size. torch's own `scaled_dot_product_attention` divides by it
    without being asked.

    By what is a score divided, all in all, between your product and the softmax?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / query.shape[-1]


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class scaled_by_all_heads(Pieces):
    """The scores were divided by the root of `n_embd`, the width of all heads together.

    A score is a sum over the columns of one head only, so it grows with the root of the head's width.

    When one head's query and key are multiplied, over how many numbers does the sum run?
    """

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(self.c_proj.in_features)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class key_query_value_order(Pieces):
    """Query and key changed places: `c_attn` was read as key, query, value, or the keys were multiplied by the queries.

    In GPT-2's layout the first third is the query, the second the key, the last the value. The rows of the scores
    belong to the queries, and the columns to the keys.

    To which names does your code assign the three parts, and which of them comes first in the product?
    """

    def parts(self, x: Tensor) -> Parts:
        query, key, value = super().parts(x)
        return key, query, value


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class cut_into_heads_first(Pieces):
    """The output of `c_attn` was cut into heads first, and each head's columns then into query, key and value.

    The layout is query of all heads, then key of all heads, then value of all heads, each D numbers wide.

    What is the first number of the key of head 0: number d or number D of the 3 · D?
    """

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        parts = self.c_attn(x).unflatten(-1, (self.n_head, -1)).transpose(1, 2).chunk(3, dim=-1)
        query, key, value = self.turned(*parts, positions)
        scores = self.scores(query, key)
        return self.output(self.merged(self.weights(scores, self.hidden(scores, positions)) @ value))


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class split_without_transpose(Pieces):
    """The heads were split off by one bare reshape to `(B, H, T, d)`.

    A reshape keeps the order of the numbers in memory, so each head got pieces of different tokens' columns.

    The columns of one token split into `(H, d)`. Which two dimensions must swap then?
    """

    def split(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], self.n_head, x.shape[1], -1)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class merged_without_transpose(Pieces):
    """The heads were merged by one bare reshape from `(B, H, T, d)` to `(B, T, D)`.

    A reshape keeps the order of the numbers in memory, so a token got pieces of other tokens instead of its own heads.

    Which two dimensions must swap, so that the heads of one token lie next to each other?
    """

    def merged(self, context: Tensor) -> Tensor:
        return context.reshape(context.shape[0], context.shape[2], -1)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class output_not_projected(Pieces):
    """The merged heads were returned without `c_proj`.

    Nothing mixes the heads then, and the layer is never used.

    What is the last line of your `forward`?
    """

    def output(self, merged: Tensor) -> Tensor:
        return merged


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class dropout_on_the_output(Pieces):
    """Dropout acted in training.

    This class takes no `dropout`, and none acts.

    Which line differs between training and evaluation?
    """

    def output(self, merged: Tensor) -> Tensor:
        return F.dropout(self.c_proj(merged), 0.1, self.training)


@misconception(replaces="RotarySelfAttention", caught_by="test_any_regime")
class mask_of_a_fixed_length(Pieces):
    """The causal mask was a buffer for 1,024 tokens.

    There is no `block_size` here: any length has to work.

    For how many tokens is your mask made, and when?
    """

    def __init__(self, n_embd: int, n_head: int, bias: bool = True, base: float = 10000.0) -> None:
        super().__init__(n_embd, n_head, bias, base)
        self.register_buffer("kept", torch.ones(1024, 1024, dtype=torch.bool).triu(1), persistent=False)

    def hidden(self, scores: Tensor, positions: Tensor | None) -> Tensor:
        return self.kept[: scores.shape[-2], : scores.shape[-1]]


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class bias_always_on(Pieces):
    """The argument `bias` did not decide for both linear layers: one of them had a bias always, or never.

    The caller decides with `bias` whether the two layers have one.

    Which argument of `nn.Linear` should `bias` be handed to?
    """

    def __init__(self, n_embd: int, n_head: int, bias: bool = True, base: float = 10000.0) -> None:
        super().__init__(n_embd, n_head, True, base)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class frequencies_learned(Pieces):
    """The frequencies were an `nn.Parameter`.

    They are fixed numbers: the module has the parameters of `c_attn` and `c_proj`, and no others.

    With which method of `nn.Module` does a tensor become part of a module without being a parameter?
    """

    def __init__(self, n_embd: int, n_head: int, bias: bool = True, base: float = 10000.0) -> None:
        super().__init__(n_embd, n_head, bias, base)
        self.theta = nn.Parameter(reference.rotary_frequencies(n_embd // n_head, base))


@misconception(replaces="RotarySelfAttention", caught_by="test_head_counts")
class odd_head_accepted(Pieces):
    """Heads of odd width were accepted, their last column not turned.

    It has no partner to be turned with. That is a mistake of the caller, who should be told.

    What is the width of a head when 6 columns are cut into 2 heads, and where can the constructor act on it?
    """

    def __init__(self, n_embd: int, n_head: int, bias: bool = True, base: float = 10000.0) -> None:
        even = n_embd % (2 * n_head) == 0
        super().__init__(n_embd if even else 2 * n_head * n_embd, n_head, bias, base)
        if not even:
            assert n_embd % n_head == 0
            self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd, bias), nn.Linear(n_embd, n_embd, bias)

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        even = query.shape[-1] // 2 * 2
        query, key = (
            torch.cat([self.turn(part[..., :even], positions, self.base), part[..., even:]], dim=-1)
            for part in (query, key)
        )
        return query, key, value


@misconception(replaces="RotarySelfAttention", caught_by="test_head_counts")
class remainder_columns_dropped(Pieces):
    """Where `n_embd` was not divisible by `n_head`, the remaining columns were left out without a word.

    The caller asked for heads that cannot have equal widths. That is a mistake, and the caller should be told.

    What does `n_embd % n_head` tell you, and where can the constructor act on it?
    """

    def __init__(self, n_embd: int, n_head: int, bias: bool = True, base: float = 10000.0) -> None:
        self.used = n_embd if n_embd % n_head == 0 else n_embd // n_head * n_head
        super().__init__(self.used, n_head, bias, base)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        return torch.cat([super().forward(x[..., : self.used], positions), x[..., self.used :]], dim=-1)


@misconception(replaces="RotarySelfAttention", caught_by="test_follows_device")
class mask_made_on_the_cpu(Pieces):
    """The mask stayed on the CPU: it was a plain attribute, or made in `forward` without a device.

    `module.to(device)` moves parameters and buffers, and nothing else. On a GPU the mask and the scores then lie on
    two devices.

    With which method of `nn.Module` does a tensor become part of a module without being a parameter?
    """

    def hidden(self, scores: Tensor, positions: Tensor | None) -> Tensor:
        return torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class weights_detached(Pieces):
    """The attention weights were cut off from the graph, by `detach`, `.data`, `torch.no_grad` or a new tensor.

    The result is right, but no gradient reaches the query and key part of `c_attn`, and they never learn.

    Which operation between the scores and the context does autograd not see?
    """

    def weights(self, scores: Tensor, hidden: Tensor) -> Tensor:
        return super().weights(scores, hidden).detach()
