"""What learners get wrong in `RotarySelfAttention`: which part is turned by what, and masks."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.positions.step18_rotary import reference
from solutions.positions.step18_rotary.misconceptions.pieces import Parts, Pieces, angles, cos_and_sin, rotated
from solutions.positions.step18_rotary.misconceptions.rotary_self_attention import (
    base_forgotten_in_the_module,
    bias_always_on,
    dropout_on_the_output,
    positions_forgotten_in_the_module,
    table_of_the_first_call,
)


@another_form(base_forgotten_in_the_module)
class base_forgotten_for_the_keys(Pieces):
    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return self.turn(query, positions, self.base), self.turn(key, positions), value


@another_form(base_forgotten_in_the_module)
class base_forgotten_for_the_queries(Pieces):
    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return self.turn(query, positions), self.turn(key, positions, self.base), value


@another_form(positions_forgotten_in_the_module)
class positions_forgotten_for_the_keys(Pieces):
    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return self.turn(query, positions, self.base), self.turn(key, None, self.base), value


@another_form(positions_forgotten_in_the_module)
class positions_forgotten_for_the_queries(Pieces):
    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return self.turn(query, None, self.base), self.turn(key, positions, self.base), value


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class values_turned_in_place_of_keys(Pieces):
    """Queries and values were turned, and the keys were not.

    A score compares a query with a key: both have to be turned, and the values are left as they are.

    On which of the three parts is `apply_rotary` called?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        return self.turn(query, positions, self.base), key, self.turn(value, positions, self.base)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class frequencies_of_all_columns(Pieces):
    """The frequencies were made for `n_embd` columns, and a head took the first of them.

    Each head has its own width d, and its pairs have all frequencies from 1 down to nearly 1 / base.

    Which width does your code hand to `rotary_frequencies`?
    """

    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        if positions is None:
            positions = torch.arange(query.shape[-2], device=query.device)
        frequency = reference.rotary_frequencies(self.c_proj.in_features, self.base, device=query.device)
        cos, sin = cos_and_sin(positions[:, None] * frequency[: query.shape[-1] // 2], query)
        return rotated(query, cos, sin), rotated(key, cos, sin), value


@another_form(table_of_the_first_call)
class table_of_the_first_call_and_its_length(Pieces):
    def turned(self, query: Tensor, key: Tensor, value: Tensor, positions: Tensor | None) -> Parts:
        if not hasattr(self, "kept"):
            self.kept = angles(query, positions, self.base)
        cos, sin = cos_and_sin(self.kept, query)
        return rotated(query, cos, sin), rotated(key, cos, sin), value


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class later_tokens_seen_alone(Pieces):
    """The mask was inverted: each token saw the later tokens alone, and its past and itself were hidden.

    The last token has nothing left to look at, so its softmax has no finite entry and gives NaN.

    Does your mask say "may attend" or "is hidden", and does the line that uses it mean the same?
    """

    def hidden(self, scores: Tensor, positions: Tensor | None) -> Tensor:
        return ~super().hidden(scores, positions)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class one_token_ahead(Pieces):
    """Each token saw the token after it as well.

    The next token is the one that a model has to predict.

    What does the second argument of `tril` or `triu` move, and where does it have to stand?
    """

    def hidden(self, scores: Tensor, positions: Tensor | None) -> Tensor:
        return super().hidden(scores, positions).triu(2)


@misconception(replaces="RotarySelfAttention", caught_by="test_attention_agrees_with_fresh_draws")
class parts_in_another_order(Pieces):
    """The output of `c_attn` was read in another order than query, key, value.

    In GPT-2's layout the first third is the query, the second the key, the last the value.

    To which names does your code assign the three parts?
    """

    order = (2, 1, 0)

    def parts(self, x: Tensor) -> Parts:
        parts = super().parts(x)
        query, key, value = (parts[number] for number in self.order)
        return query, key, value


@another_form(parts_in_another_order)
class value_before_key(parts_in_another_order):
    order = (0, 2, 1)


@another_form(parts_in_another_order)
class value_query_key(parts_in_another_order):
    order = (1, 2, 0)


@another_form(parts_in_another_order)
class key_value_query(parts_in_another_order):
    order = (2, 0, 1)


@another_form(dropout_on_the_output)
class dropout_on_the_weights(Pieces):
    def weights(self, scores: Tensor, hidden: Tensor) -> Tensor:
        return F.dropout(super().weights(scores, hidden), 0.1, self.training)


class _Biased(Pieces):
    """A module whose layers are made in the learner's order, so that they draw the same numbers."""

    attn: bool | None = None
    proj: bool | None = None

    def __init__(self, n_embd: int, n_head: int, bias: bool = True, base: float = 10000.0) -> None:
        nn.Module.__init__(self)
        if n_embd % (2 * n_head) != 0:
            raise ValueError(n_embd)
        self.n_head, self.base = n_head, base
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=bias if self.attn is None else self.attn)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias if self.proj is None else self.proj)


@another_form(bias_always_on)
class bias_always_on_c_attn(_Biased):
    attn = True


@another_form(bias_always_on)
class bias_always_on_c_proj(_Biased):
    proj = True


@another_form(bias_always_on)
class bias_never_on_c_attn(_Biased):
    attn = False


@another_form(bias_always_on)
class bias_never_on_c_proj(_Biased):
    proj = False
