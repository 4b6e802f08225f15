"""What learners get wrong in the layers, the mask and the scale of `GroupedQueryAttention`."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step27_kv_cache import reference
from solutions.longer_and_faster.step27_kv_cache.misconceptions import grouped_query_attention as known
from solutions.longer_and_faster.step27_kv_cache.misconceptions.forms import Cache
from solutions.longer_and_faster.step27_kv_cache.reference import attend, split


class _Layers(reference.GroupedQueryAttention):
    """The reference's layer, cut into the decisions that go wrong."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        query, key, value = self.projected(x)
        key, value = split(key, self.n_kv_heads), split(value, self.n_kv_heads)
        return self.mixed(attend(split(query, self.n_head) * self.factor(), key, value, cache))

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)

    def factor(self) -> float:
        return 1.0

    def mixed(self, x: Tensor) -> Tensor:
        output: Tensor = self.o_proj(x)
        return output


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class KeyAndValueLayersExchanged(_Layers):
    """`k_proj` made the values, and `v_proj` the keys.

    Both layers have the same shape, and nothing fails: but a state dict brings the weights under these names.

    Which of the three layers makes what the queries are compared with?
    """

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.q_proj(x), self.v_proj(x), self.k_proj(x)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class ValuesByTheKeyLayer(_Layers):
    """The values were made by `k_proj`.

    Values have a layer of their own: what makes a token easy to find is not what it has to say.

    Which layer makes the keys, and which the values?
    """

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.q_proj(x), self.k_proj(x), self.k_proj(x)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class QueryProjectedTwice(_Layers):
    """`q_proj` was applied twice.

    It takes the width n_embd and gives it back, so that nothing fails: but the queries are others.

    How often does x go through `q_proj`?
    """

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.q_proj(self.q_proj(x)), self.k_proj(x), self.v_proj(x)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class OutputProjectedTwice(_Layers):
    """`o_proj` was applied twice.

    It takes the width n_embd and gives it back, so that nothing fails: but the output is another.

    How often do the merged heads go through `o_proj`?
    """

    def mixed(self, x: Tensor) -> Tensor:
        return super().mixed(super().mixed(x))


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class ScaledByTheKeyWidth(_Layers):
    """The scores were divided by the root of the width of all key heads together.

    A score is a dot product of d numbers, however many key heads there are.

    How many products are summed up in one score?
    """

    def factor(self) -> float:
        return float(self.n_kv_heads) ** -0.5


@another_form(known.HeadsByABareView)
class KeyHeadsByABareView(_Layers):
    """The query's heads are right."""

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, *pair = super().projected(x)
        key, value = (y.reshape(len(x), self.n_kv_heads, x.shape[1], -1).transpose(1, 2).flatten(2) for y in pair)
        return query, key, value


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class PastMaskedInPlaceOfTheFuture(known._Grouped):
    """The mask was the wrong way round: tokens saw the ones after them and not those before.

    A causal model hides the future, which it has to predict.

    Is j > i or j < i the future of query i?
    """

    def mixed(self, query: Tensor, key: Tensor, value: Tensor, past: int) -> Tensor:
        scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).triu(past)
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=-1) @ value
