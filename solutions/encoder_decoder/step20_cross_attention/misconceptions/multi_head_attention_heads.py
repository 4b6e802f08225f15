"""What learners get wrong in `MultiHeadAttention`: heads."""

from torch import Tensor, nn

from grader.checks.catalogue import misconception
from solutions.encoder_decoder.step20_cross_attention.misconceptions.pieces import Pieces


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand", misses_the_point=True)
class key_reshaped_with_query_length(Pieces):
    """Key and value were reshaped with the number of queries.

    `T_q` and `T_k` are equal in self-attention only. In cross attention the reshape fails, or puts tokens of one
    sequence into another.

    From which tensor does your code read the length that it gives to the key's reshape?
    """

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        B, T, D = query.shape
        return tuple(x.reshape(B, T, self.n_heads, D // self.n_heads).transpose(1, 2) for x in (query, key, value))


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class key_alone_reshaped_with_query_length(Pieces):
    """The key was reshaped with the number of queries, the value with its own.

    `T_q` and `T_k` are equal in self-attention only. In cross attention the reshape fails, or puts tokens of one
    sequence into another.

    From which tensor does your code read the length that it gives to the key's reshape?
    """

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        key = key.reshape(query.shape[0], query.shape[1], self.n_heads, -1).transpose(1, 2)
        query, value = (x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for x in (query, value))
        return query, key, value


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class key_reshaped_with_open_batch(Pieces):
    """Key and value were reshaped with the number of queries, and the batch was left open with -1.

    Where the lengths differ, tokens of one sequence fall into another, or the batches no longer fit.

    From which tensor does your code read the length that it gives to the key's reshape?
    """

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        T = query.shape[1]
        return tuple(
            x.reshape(-1, T, self.n_heads, x.shape[-1] // self.n_heads).transpose(1, 2) for x in (query, key, value)
        )


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws", misses_the_point=True)
class heads_by_a_bare_view(Pieces):
    """Heads were made by one reshape to `(B, H, T, d)`, without a transpose.

    A reshape keeps the numbers in their order. The first head then gets the first tokens with all their columns, not
    all tokens with their first columns.

    In which order do B, T and D lie in memory, and which two dimensions must change places?
    """

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.reshape(x.shape[0], self.n_heads, x.shape[1], -1) for x in (query, key, value))


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class merged_without_transpose(Pieces):
    """The heads were merged by one reshape, without the transpose back.

    A reshape keeps the numbers in their order. The rows of the output then mix several queries of one head.

    Which two dimensions have to change places before the heads' columns lie next to each other?
    """

    def merge(self, context: Tensor) -> Tensor:
        return context.reshape(context.shape[0], context.shape[2], -1)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class columns_interleaved(Pieces):
    """Head h got every H-th column, beginning with column h.

    The contract's head h has the columns h·d … (h + 1)·d - 1, next to each other. Weights that were trained that way do
    not fit otherwise.

    When the last dimension is cut in two, which of them should count the heads: the first or the second?
    """

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.unflatten(-1, (-1, self.n_heads)).permute(0, 3, 1, 2) for x in (query, key, value))

    def merge(self, context: Tensor) -> Tensor:
        return context.permute(0, 2, 3, 1).flatten(2)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class merged_columns_interleaved(Pieces):
    """The heads were merged column by column: the first column of every head, then the second of every head.

    Merging undoes splitting: all columns of head 0 come first, then those of head 1.

    After the transpose, which of the last two dimensions counts the heads?
    """

    def merge(self, context: Tensor) -> Tensor:
        return context.permute(0, 2, 3, 1).flatten(2)


@misconception(replaces="MultiHeadAttention", caught_by="test_agrees_with_fresh_draws")
class heads_of_width_n_heads(Pieces):
    """The number of heads and the width of a head changed places.

    There are then d heads, each of the width H. Only where the two are equal it does not show.

    Which of the two numbers stands first in your reshape, and what is it?
    """

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.unflatten(-1, (-1, self.n_heads)).transpose(1, 2) for x in (query, key, value))


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand", misses_the_point=True)
class one_head_for_all(Pieces):
    """The columns were not split into heads: there is one head of the full width.

    One head makes one average for each query. H of them make H averages, with weights of their own.

    Which shape do your scores have, and where in it is H?
    """

    def split(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.unsqueeze(1) for x in (query, key, value))


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class heads_summed(Pieces):
    """The heads' outputs were summed and repeated, not put next to each other.

    In a sum what the heads found separately can no longer be told apart, and `W_o` has nothing to mix.

    Which operation makes D columns of H times d columns?
    """

    def merge(self, context: Tensor) -> Tensor:
        return context.sum(dim=1).repeat(1, 1, self.n_heads)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class not_mixed(Pieces):
    """`W_o` was not applied: the merged heads were returned.

    After merging, the first columns come from head 0 alone, the next from head 1. `W_o` mixes them.

    Which of the four layers does your `forward` never call?
    """

    def mix(self, merged: Tensor) -> Tensor:
        return merged


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class mixed_before_merging(Pieces):
    """The output layer was applied to each token's values before attention.

    `W_o` mixes the columns of all heads, each with weights of its own. Before attention there is nothing of different
    heads to mix.

    What does `W_o` act on in the contract?
    """

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(query), self.W_k(key), self.W_o(self.W_v(value))

    def mix(self, merged: Tensor) -> Tensor:
        return merged


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class query_added(Pieces):
    """The query was added to the output.

    The residual belongs to the blocks of the next steps, around this module and not in it.

    What does the contract call the output of this class: what was gathered, or what was gathered and more?
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        output, weights = super().forward(query, key, value, mask)
        return query + output, weights


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class projections_with_a_bias(Pieces):
    """The four layers were made with a bias.

    The contract has none: a state dict without biases does not fit.

    Which argument of `nn.Linear` leaves the bias out?
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, dropout)
        self.W_q, self.W_k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.W_v, self.W_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)


@misconception(replaces="MultiHeadAttention", caught_by="test_by_hand")
class output_layer_with_a_bias(Pieces):
    """`W_o` was made with a bias.

    Step 8's `out_proj` has one; here none of the four layers has.

    Which argument of `nn.Linear` leaves the bias out?
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, dropout)
        self.W_o = nn.Linear(d_model, d_model)


@misconception(replaces="MultiHeadAttention", caught_by="test_unequal_heads_are_refused")
class unequal_heads_accepted(Pieces):
    """A `d_model` that is not divisible by `n_heads` was accepted: the width of a head was rounded down.

    Some columns then belong to no head, and nobody is told.

    What is 6 // 4, and how much of the 6 is left over?
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, 1, dropout)
        width = n_heads * (d_model // n_heads)
        self.n_heads = n_heads
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, width, bias=False) for _ in range(3))
        self.W_o = nn.Linear(width, d_model, bias=False)
