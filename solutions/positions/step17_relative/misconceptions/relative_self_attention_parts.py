"""What learners get wrong in `RelativeSelfAttention`: one of its parts, in the way that others get both wrong."""

import torch
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.positions.step17_relative import reference
from solutions.positions.step17_relative.misconceptions.pieces import Pieces
from solutions.positions.step17_relative.misconceptions.relative_self_attention import (
    biases_in_the_projections,
    index_of_a_fixed_length,
    relative_values_not_weighted,
    table_for_each_head,
    table_without_the_middle,
    tables_as_bare_parameters,
)


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class relative_keys_of_the_key(Pieces):
    """The relative keys were those of key j and query i the other way round.

    Query i sees at j the vector of j - i, and the relative values are taken so as well.

    In your product with the query, in which order do i and j stand in the vectors?
    """

    def position(self, query: Tensor, key: Tensor, vectors: Tensor) -> Tensor:
        return torch.einsum("bhid,jid->bhij", query, vectors)


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class keys_ask_the_queries_in_the_module(Pieces):
    """The keys were multiplied by the queries, so that rows belonged to keys.

    The rows of the scores belong to the queries, in both of their parts.

    Which of the two stands first in your product?
    """

    def content(self, query: Tensor, key: Tensor) -> Tensor:
        return key @ query.transpose(-2, -1)


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class values_left_out(Pieces):
    """The context was made of the relative values alone, without the values themselves.

    The value that a query fetches is the sum of both.

    Where does the value itself enter the context?
    """

    def context(self, weights: Tensor, value: Tensor, vectors: Tensor) -> Tensor:
        return torch.einsum("bhij,ijd->bhid", weights, vectors) + 0 * value


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class tokens_added_to_the_output(Pieces):
    """The tokens were added to the output: a residual.

    The residual belongs to the block around an attention. This class gives what attention adds.

    What stands beside `out_proj(…)` in your last line?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x + super().forward(x, mask)


@misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")
class weights_beside_the_output(Pieces):
    """A pair was returned: the result, and the weights.

    The contract gives the result alone.

    How many values stand behind your `return`?
    """

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        self.seen = super().weights(scores, mask)
        return self.seen

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]  # that is the mistake
        return super().forward(x, mask), self.seen


@another_form(relative_values_not_weighted)
class relative_values_summed(Pieces):
    def context(self, weights: Tensor, value: Tensor, vectors: Tensor) -> Tensor:
        return weights @ value + vectors.sum(dim=1)


class _Remade(Pieces):
    """A module of which one layer, called `name`, is made again by `made`."""

    name = ""

    def made(self, d_model: int, num_heads: int, max_distance: int) -> nn.Module:
        raise NotImplementedError

    def __init__(self, d_model: int, num_heads: int, max_distance: int) -> None:
        super().__init__(d_model, num_heads, max_distance)
        with torch.random.fork_rng(devices=[]):
            made = self.made(d_model, num_heads, max_distance)
        delattr(self, self.name)
        self.add_module(self.name, made)


class _Biased(_Remade):
    def made(self, d_model: int, num_heads: int, max_distance: int) -> nn.Module:
        return nn.Linear(d_model, d_model)


@another_form(biases_in_the_projections)
class bias_of_the_queries(_Biased):
    name = "W_query"


@another_form(biases_in_the_projections)
class bias_of_the_keys(_Biased):
    name = "W_key"


@another_form(biases_in_the_projections)
class bias_of_the_values(_Biased):
    name = "W_value"


class _Middleless(_Remade):
    def made(self, d_model: int, num_heads: int, max_distance: int) -> nn.Module:
        return nn.Embedding(2 * max_distance, d_model // num_heads)


@another_form(table_without_the_middle)
class key_table_without_the_middle(_Middleless):
    name = "relative_key"


@another_form(table_without_the_middle)
class value_table_without_the_middle(_Middleless):
    name = "relative_value"


class _Wide(_Remade):
    def made(self, d_model: int, num_heads: int, max_distance: int) -> nn.Module:
        return nn.Embedding(2 * max_distance + 1, d_model)


@another_form(table_for_each_head)
class key_table_for_each_head(_Wide):
    name = "relative_key"


@another_form(table_for_each_head)
class value_table_for_each_head(_Wide):
    name = "relative_value"


class _Bare(Pieces):
    name = ""

    def __init__(self, d_model: int, num_heads: int, max_distance: int) -> None:
        super().__init__(d_model, num_heads, max_distance)
        table = getattr(self, self.name).weight
        delattr(self, self.name)
        self.register_parameter(self.name, nn.Parameter(table.detach()))


@another_form(tables_as_bare_parameters)
class key_table_as_a_bare_parameter(_Bare):
    name = "relative_key"


@another_form(tables_as_bare_parameters)
class value_table_as_a_bare_parameter(_Bare):
    name = "relative_value"


@another_form(index_of_a_fixed_length)
class index_of_512_tokens(Pieces):
    longest = 512

    def __init__(self, d_model: int, num_heads: int, max_distance: int) -> None:
        super().__init__(d_model, num_heads, max_distance)
        index = reference.relative_positions(self.longest, max_distance)
        self.register_buffer("index", index, persistent=False)
        self.rows = lambda num_tokens, max_distance, device: self.index[:num_tokens, :num_tokens]


@another_form(index_of_a_fixed_length)
class index_of_128_tokens(index_of_512_tokens):
    longest = 128
