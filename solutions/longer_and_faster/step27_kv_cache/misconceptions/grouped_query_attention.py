"""What learners get wrong in `GroupedQueryAttention`, each with the check that catches it."""

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step27_kv_cache import reference
from solutions.longer_and_faster.step27_kv_cache.misconceptions.forms import Cache, Pair


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention of T queries that are the last of the T_k tokens: (B, H, T, d)."""
    past = key.shape[-2] - query.shape[-2]
    visible = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril(past)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=visible)


class _Grouped(reference.GroupedQueryAttention):
    """The reference's layer, cut into the decisions that go wrong."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        query = self.heads(self.q_proj(x), self.n_head)
        key, value = self.heads(self.k_proj(x), self.n_kv_heads), self.heads(self.v_proj(x), self.n_kv_heads)
        past = cache.length if cache is not None else 0
        key, value = self.keys(key, value, cache)
        context = self.mixed(query, key, value, past)
        return self.o_proj(context.transpose(1, 2).flatten(2))

    def heads(self, x: Tensor, count: int) -> Tensor:
        return x.unflatten(-1, (count, -1)).transpose(1, 2)

    def keys(self, key: Tensor, value: Tensor, cache: Cache | None) -> Pair:
        key, value = (key, value) if cache is None else cache.update(key, value)
        return self.repeated(key), self.repeated(value)

    def repeated(self, x: Tensor) -> Tensor:
        return x.repeat_interleave(self.n_head // self.n_kv_heads, dim=1)

    def mixed(self, query: Tensor, key: Tensor, value: Tensor, past: int) -> Tensor:
        return attend(query, key, value)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class TiledGroups(_Grouped):
    """Query head h met key head h % n_kv_heads: the key heads were tiled.

    Neighbouring query heads share a key head: head h uses h // (n_head / n_kv_heads).

    Which query heads belong to key head 0?
    """

    def repeated(self, x: Tensor) -> Tensor:
        return x.repeat(1, self.n_head // self.n_kv_heads, 1, 1)


@another_form(TiledGroups)
class QueryHeadsRegrouped(_Grouped):
    """The query's heads were taken in another order, and left in it."""

    def mixed(self, query: Tensor, key: Tensor, value: Tensor, past: int) -> Tensor:
        repeats = self.n_head // self.n_kv_heads
        query = query.unflatten(1, (repeats, self.n_kv_heads)).transpose(1, 2).flatten(1, 2)
        return attend(query, key, value)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class AsManyKeyHeads(reference.GroupedQueryAttention):
    """There were as many heads of keys and values as of queries: n_kv_heads was not looked at.

    Keys and values are n_kv_heads * d wide. That is what makes the cache small.

    How wide is what k_proj gives?
    """

    def __init__(self, n_embd: int, n_head: int, n_kv_heads: int, bias: bool = False) -> None:
        super().__init__(n_embd, n_head, n_head, bias)
        if n_head % n_kv_heads:
            raise ValueError("n_kv_heads")


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class NoOutputProjection(reference.GroupedQueryAttention):
    """There was no o_proj: the heads were put side by side, and that was all.

    The output projection mixes what the heads have found.

    What comes after the heads are merged?
    """

    def __init__(self, n_embd: int, n_head: int, n_kv_heads: int, bias: bool = False) -> None:
        super().__init__(n_embd, n_head, n_kv_heads, bias)
        self.o_proj = torch.nn.Identity()  # type: ignore[assignment]


@another_form(NoOutputProjection)
class OutputNotProjected(_Grouped):
    """There is one, and forward does not use it."""

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        query = self.heads(self.q_proj(x), self.n_head)
        key, value = self.heads(self.k_proj(x), self.n_kv_heads), self.heads(self.v_proj(x), self.n_kv_heads)
        key, value = self.keys(key, value, cache)
        return attend(query, key, value).transpose(1, 2).flatten(2)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class BiasByDefault(reference.GroupedQueryAttention):
    """The linear layers had a bias although `bias` is False.

    nn.Linear has one unless it is told otherwise.

    What are the four layers told about `bias`?
    """

    def __init__(self, n_embd: int, n_head: int, n_kv_heads: int, bias: bool = False) -> None:
        super().__init__(n_embd, n_head, n_kv_heads, True)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention_in_pieces")
class RepeatedBeforeTheCache(_Grouped):
    """Keys and values were repeated before they went into the cache.

    The numbers are right, but the cache then holds n_head heads, and nothing of its memory is saved.

    What goes into the cache, and what is made of it each time?
    """

    def keys(self, key: Tensor, value: Tensor, cache: Cache | None) -> Pair:
        key, value = self.repeated(key), self.repeated(value)
        return (key, value) if cache is None else cache.update(key, value)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention_in_pieces")
class AlignedToTheFirstKey(_Grouped):
    """The causal mask was aligned to the first key, as scaled_dot_product_attention does it with is_causal=True.

    A new token then sees the first key only: its mask is the first row, and not the last one.

    The cache holds 5 tokens and one more comes. How many keys may it see?
    """

    def mixed(self, query: Tensor, key: Tensor, value: Tensor, past: int) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)


@another_form(AlignedToTheFirstKey)
class AlignedWhereManyCome(_Grouped):
    def mixed(self, query: Tensor, key: Tensor, value: Tensor, past: int) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=query.shape[-2] > 1)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention_in_pieces")
class NoMaskWithACache(_Grouped):
    """With a cache there was no mask.

    That is right for one new token, which may see all there is. Of several new tokens the earlier ones saw the later.

    Three tokens come at once. What may the first of them see?
    """

    def mixed(self, query: Tensor, key: Tensor, value: Tensor, past: int) -> Tensor:
        return F.scaled_dot_product_attention(
            query, key, value, is_causal=key.shape[-2] == query.shape[-2] and not past
        )


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention_in_pieces")
class NeverAMaskWithACache(_Grouped):
    """As soon as there was a cache there was no mask, for the first piece either.

    The tokens of a prompt come at once, and none of them may see the ones after it.

    What does the mask depend on: on the cache, or on positions?
    """

    cached = False

    def keys(self, key: Tensor, value: Tensor, cache: Cache | None) -> Pair:
        self.cached = cache is not None
        return super().keys(key, value, cache)

    def mixed(self, query: Tensor, key: Tensor, value: Tensor, past: int) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=not self.cached)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class NoMask(_Grouped):
    """There was no causal mask: tokens saw the ones after them.

    A model that is to predict the next token must not see it.

    Which keys may the first token see?
    """

    def mixed(self, query: Tensor, key: Tensor, value: Tensor, past: int) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention_in_pieces")
class PastHidden(_Grouped):
    """The mask hid the tokens of the cache: new tokens saw only one another.

    The mask of the new tokens was put where the past stands, or the past was left out of it as False.

    Which of the columns of the mask are the tokens of the cache, and what should stand there?
    """

    def mixed(self, query: Tensor, key: Tensor, value: Tensor, past: int) -> Tensor:
        return attend(query, key[..., past:, :], value[..., past:, :])


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention_in_pieces")
class OneTooFar(_Grouped):
    """With a cache the diagonal of the mask was off by one: a token saw the one after it.

    The first new token has the position `length`, as counted before the update: it sees that many tokens and itself.

    How many tokens does the first new one see when the cache held 2?
    """

    def mixed(self, query: Tensor, key: Tensor, value: Tensor, past: int) -> Tensor:
        if not past:
            return attend(query, key, value)
        visible = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril(past + 1)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=visible)


@another_form(OneTooFar, caught_by="test_grouped_attention")
class OneTooFarAlways(_Grouped):
    """Without a cache, too."""

    def mixed(self, query: Tensor, key: Tensor, value: Tensor, past: int) -> Tensor:
        past = key.shape[-2] - query.shape[-2]
        visible = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril(past + 1)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=visible)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention_in_pieces")
class CacheIgnored(_Grouped):
    """The cache was not used: the tokens of x saw only one another, and the cache stayed empty.

    What came before is in the cache alone.

    Where do the new keys go, and where do the old ones come from?
    """

    def keys(self, key: Tensor, value: Tensor, cache: Cache | None) -> Pair:
        return self.repeated(key), self.repeated(value)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention_in_pieces")
class CacheNotRead(_Grouped):
    """The tokens went into the cache, but attention used the new keys and values only.

    update gives back all keys and values. They are what the queries have to be compared with.

    What becomes of the pair that update returns?
    """

    def keys(self, key: Tensor, value: Tensor, cache: Cache | None) -> Pair:
        if cache is not None:
            cache.update(key, value)
        return self.repeated(key), self.repeated(value)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class NotScaled(_Grouped):
    """The scores were not divided by the root of d.

    The wider the heads, the larger their dot products: the softmax saturates.

    By what did `attention` divide the scores, in step 3?
    """

    def mixed(self, query: Tensor, key: Tensor, value: Tensor, past: int) -> Tensor:
        return attend(query * query.shape[-1] ** 0.5, key, value)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class ScaledByTheModel(_Grouped):
    """The scores were divided by the root of n_embd and not of d, the width of a head.

    A score is a dot product of d numbers.

    How many products are summed up in one score?
    """

    def mixed(self, query: Tensor, key: Tensor, value: Tensor, past: int) -> Tensor:
        return attend(query * self.n_head**-0.5, key, value)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class HeadsByABareView(_Grouped):
    """The heads were split by a view to (B, H, T, d), without a transpose.

    That puts the numbers of several tokens into one head.

    Of which two axes is the width D of a token made?
    """

    def heads(self, x: Tensor, count: int) -> Tensor:
        return x.reshape(x.shape[0], count, x.shape[1], -1)


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class HeadsNotMerged(_Grouped):
    """The heads were merged by a reshape, without a transpose.

    That puts the numbers of several tokens side by side.

    In which order do the axes have to stand before the last two become one?
    """

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        query = self.heads(self.q_proj(x), self.n_head)
        key, value = self.heads(self.k_proj(x), self.n_kv_heads), self.heads(self.v_proj(x), self.n_kv_heads)
        key, value = self.keys(key, value, cache)
        return self.o_proj(attend(query, key, value).reshape(x.shape))


@misconception(replaces="GroupedQueryAttention", caught_by="test_grouped_attention")
class AnyNumberOfHeads(reference.GroupedQueryAttention):
    """Numbers that do not divide each other were accepted.

    Some of the width, or some of the heads, would be left out without a word.

    Which two divisions have to come out even, and who looks?
    """

    def __init__(self, n_embd: int, n_head: int, n_kv_heads: int, bias: bool = False) -> None:
        n_kv_heads = n_kv_heads if n_head % n_kv_heads == 0 else 1
        super().__init__(n_embd - n_embd % n_head, n_head, n_kv_heads, bias)


@another_form(AnyNumberOfHeads)
class AnyNumberOfKeyHeads(reference.GroupedQueryAttention):
    """The width is looked at."""

    def __init__(self, n_embd: int, n_head: int, n_kv_heads: int, bias: bool = False) -> None:
        super().__init__(n_embd, n_head, n_kv_heads if n_head % n_kv_heads == 0 else 1, bias)
