"""What learners get wrong in step 27, each with the check that catches it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step27_kv_cache import reference
from solutions.longer_and_faster.step27_kv_cache.reference import split

Cache = Any  # the file's own class
Pair = tuple[Tensor, Tensor]


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention of T queries that are the last of the T_k tokens: (B, H, T, d)."""
    past = key.shape[-2] - query.shape[-2]
    visible = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril(past)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=visible)


def attend_onwards(layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
    """Step 9's attention with its keys and values in a cache: (B, t, D)."""
    heads = (split(part, layer.n_head) for part in layer.c_attn(x).chunk(3, dim=-1))
    output: Tensor = layer.c_proj(reference.attend(*heads, cache))
    return output


# --- the cache ------------------------------------------------------------------------------------------------------


class _Joined:
    """A cache that joins what comes to what is there; every misconception takes one decision in its own way."""

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length
        self.reset()

    def reset(self) -> None:
        self.length = 0
        self.held: Pair | None = None

    def update(self, key: Tensor, value: Tensor) -> Pair:
        self.require_room(key.shape[-2])
        self.held = self.joined(self.taken(key), self.taken(value))
        self.length = self.counted(key.shape[-2])
        return self.given(key, value)

    def require_room(self, tokens: int) -> None:
        if self.length + tokens > self.max_length:
            raise ValueError("full")

    def taken(self, x: Tensor) -> Tensor:
        return x.detach().clone()

    def joined(self, key: Tensor, value: Tensor) -> Pair:
        if self.held is None:
            return key, value
        return torch.cat((self.held[0], key), dim=-2), torch.cat((self.held[1], value), dim=-2)

    def counted(self, tokens: int) -> int:
        return self.length + tokens

    def given(self, key: Tensor, value: Tensor) -> Pair:
        assert self.held is not None
        return self.held


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class NewKeysOnly(_Joined):
    """update returned the new keys and values only.

    A query attends to all of the past: attention needs everything that was given so far.

    What does a new token's query have to be compared with?
    """

    def given(self, key: Tensor, value: Tensor) -> Pair:
        return key.detach(), value.detach()


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class EmptyPlacesToo(_Joined):
    """update returned the whole memory, empty places included.

    Keys of zeros get the score 0, and that is a weight like any other.

    How many of the places hold a token?
    """

    def given(self, key: Tensor, value: Tensor) -> Pair:
        assert self.held is not None
        keys, values = (F.pad(x, (0, 0, 0, self.max_length - self.length)) for x in self.held)
        return keys, values


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class NewestFirst(_Joined):
    """New tokens were put in front of the old ones.

    The order of the keys is that of the text: a causal mask goes by it.

    In which order does torch.cat take its tensors?
    """

    def joined(self, key: Tensor, value: Tensor) -> Pair:
        if self.held is None:
            return key, value
        return torch.cat((key, self.held[0]), dim=-2), torch.cat((value, self.held[1]), dim=-2)


@another_form(NewestFirst)
class NewestKeysFirst(_Joined):
    def joined(self, key: Tensor, value: Tensor) -> Pair:
        keys, values = super().joined(key, value)
        return (keys if self.held is None else torch.cat((key, self.held[0]), dim=-2)), values


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class ValuesNotKept(_Joined):
    """Only the keys were kept: the values that came back are the new ones.

    Each weight belongs to a key and to its value, so that there have to be as many of the one as of the other.

    What are the weights multiplied by?
    """

    def given(self, key: Tensor, value: Tensor) -> Pair:
        assert self.held is not None
        return self.held[0], value.detach()


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class KeysKeptTwice(_Joined):
    """The keys were kept in the place of the values, too.

    Each weight belongs to a key and to its value: the keys say where to look, the values what is found there.

    Which two tensors are put away when a token comes?
    """

    def joined(self, key: Tensor, value: Tensor) -> Pair:
        keys = super().joined(key, value)[0]
        return keys, keys


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class KeysAndValuesExchanged(_Joined):
    """update returned the values first and the keys second.

    It is given a key and a value, and gives back keys and values, in this order.

    In which order do the two leave the function?
    """

    def given(self, key: Tensor, value: Tensor) -> Pair:
        assert self.held is not None
        return self.held[1], self.held[0]


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class WrittenOver(_Joined):
    """Each update was written to the start of the memory, over what was there.

    New tokens belong behind those that the cache holds.

    At which place does the first new token go when `length` is 2?
    """

    def joined(self, key: Tensor, value: Tensor) -> Pair:
        if self.held is None:
            return key, value
        rest = slice(key.shape[-2], None)
        keys = torch.cat((key, self.held[0][..., rest, :], torch.zeros_like(key)), dim=-2)
        values = torch.cat((value, self.held[1][..., rest, :], torch.zeros_like(value)), dim=-2)
        return keys[..., : self.length + key.shape[-2], :], values[..., : self.length + key.shape[-2], :]


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class JoinedAlongHeads(_Joined):
    """New keys were joined to the old ones along the heads.

    Of (B, H, t, d) the tokens are the third axis.

    Which axis grows when a token comes?
    """

    def joined(self, key: Tensor, value: Tensor) -> Pair:
        if self.held is None:
            return key, value
        return torch.cat((self.held[0], key), dim=1), torch.cat((self.held[1], value), dim=1)

    def update(self, key: Tensor, value: Tensor) -> Pair:
        self.length += key.shape[-2]
        if self.held is None or key.shape[-2] == self.held[0].shape[-2]:
            self.held = self.joined(key.detach(), value.detach())
            return self.held
        raise RuntimeError("Sizes of tensors must match except in dimension 1.")


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class LengthCountsCalls(_Joined):
    """`length` counted the calls of update, and not the tokens.

    One update may bring many tokens: all of the prompt, say.

    By how much does `length` grow when three tokens come at once?
    """

    def require_room(self, tokens: int) -> None:
        if (self.held[0].shape[-2] if self.held else 0) + tokens > self.max_length:
            raise ValueError("full")

    def counted(self, tokens: int) -> int:
        return self.length + 1


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class LengthIsAMethod:
    """`length` was a method, which has to be called.

    It is read without parentheses: cache.length is then the method itself, and no number.

    What makes a method look like an attribute, or which line keeps a number under that name?
    """

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length
        self.reset()

    def reset(self) -> None:
        self.held: Pair | None = None

    def length(self) -> int:
        return self.held[0].shape[-2] if self.held else 0

    def update(self, key: Tensor, value: Tensor) -> Pair:
        if self.length() + key.shape[-2] > self.max_length:
            raise ValueError("full")
        new = key.detach(), value.detach()
        self.held = (torch.cat((self.held[0], new[0]), -2), torch.cat((self.held[1], new[1]), -2)) if self.held else new
        return self.held


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class LengthIsCapacity(_Joined):
    """`length` was the room of the cache, max_length, however many tokens it held.

    Positions go on from the number of tokens that are there.

    What is the length of an empty cache?
    """

    def require_room(self, tokens: int) -> None:
        if (self.held[0].shape[-2] if self.held else 0) + tokens > self.max_length:
            raise ValueError("full")

    def reset(self) -> None:
        self.held = None
        self.length = self.max_length

    def counted(self, tokens: int) -> int:
        return self.max_length


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class LengthNotCounted(_Joined):
    """`length` stayed 0: update did not add the new tokens to it.

    Positions go on from the number of tokens that are there.

    Where does `length` change?
    """

    def require_room(self, tokens: int) -> None:
        if (self.held[0].shape[-2] if self.held else 0) + tokens > self.max_length:
            raise ValueError("full")

    def counted(self, tokens: int) -> int:
        return 0


@misconception(replaces="KVCache", caught_by="test_cache_is_full")
class NeverFull(_Joined):
    """More than max_length tokens were accepted.

    The room is a promise about memory, and positions beyond it do not exist.

    With what is the number of tokens compared, and when?
    """

    def require_room(self, tokens: int) -> None:
        """There is always room."""


@misconception(replaces="KVCache", caught_by="test_cache_is_full")
class FullTooEarly(_Joined):
    """A cache with room for exactly the tokens that came was called full.

    max_length tokens fit; one more does not.

    Is it `>` or `>=`?
    """

    def require_room(self, tokens: int) -> None:
        if self.length + tokens >= self.max_length:
            raise ValueError("full")


@misconception(replaces="KVCache", caught_by="test_cache_is_full")
class OldestDropped(_Joined):
    """A full cache dropped its oldest tokens to make room.

    A sliding window does that. Here a cache that is full refuses.

    What is to happen when more than max_length tokens come?
    """

    def require_room(self, tokens: int) -> None:
        """There is always room."""

    def given(self, key: Tensor, value: Tensor) -> Pair:
        assert self.held is not None
        self.held = self.held[0][..., -self.max_length :, :], self.held[1][..., -self.max_length :, :]
        self.length = min(self.length, self.max_length)
        return self.held


@misconception(replaces="KVCache", caught_by="test_cache_is_full")
class CutToFit(_Joined):
    """Of too many tokens those that fitted were taken, and the rest was dropped without a word.

    Whoever goes on with this cache has lost a part of the text, and does not know it.

    What is to happen when more than max_length tokens come?
    """

    def update(self, key: Tensor, value: Tensor) -> Pair:
        room = self.max_length - self.length
        return super().update(key[..., :room, :], value[..., :room, :])


@misconception(replaces="KVCache", caught_by="test_cache_is_full")
class CountedBeforeTheError(_Joined):
    """The tokens were counted before it was seen that they do not fit: the error leaves `length` too large.

    After an error the cache should be as it was.

    What comes first, the question or the change?
    """

    def require_room(self, tokens: int) -> None:
        self.length += tokens
        if self.length > self.max_length:
            raise ValueError("full")

    def counted(self, tokens: int) -> int:
        return self.length


@misconception(replaces="KVCache", caught_by="test_cache_is_full")
class JoinedBeforeTheError(_Joined):
    """The tokens were joined before it was seen that they do not fit: after the error they stay in the cache.

    After an error the cache should be as it was.

    What comes first, the question or the change?
    """

    def update(self, key: Tensor, value: Tensor) -> Pair:
        self.held = self.joined(self.taken(key), self.taken(value))
        self.require_room(key.shape[-2])
        self.length = self.counted(key.shape[-2])
        return self.held


@misconception(replaces="KVCache", caught_by="test_cache_is_reset")
class LengthNotReset(_Joined):
    """reset forgot the tensors, and `length` stayed.

    The next text would begin at the position where the last one ended.

    Of what does the state of the cache consist, and what of it does reset put back?
    """

    length = 0

    def reset(self) -> None:
        self.held = None


@misconception(replaces="KVCache", caught_by="test_cache_is_reset")
class TensorsNotReset(_Joined):
    """reset put `length` back to 0, and the old keys and values stayed.

    The next text would attend to the last one.

    Of what does the state of the cache consist, and what of it does reset put back?
    """

    held: Pair | None = None

    def reset(self) -> None:
        self.length = 0


@misconception(replaces="KVCache", caught_by="test_cache_is_reset")
class MemoryOfTheFirstText(_Joined):
    """After reset the memory of the first text was used again, with its batch size, widths and dtype.

    What comes next may have others.

    When is the memory made, and for which shape?
    """

    memory: Pair | None = None

    def joined(self, key: Tensor, value: Tensor) -> Pair:
        self.memory = self.memory or (
            key.new_empty(*key.shape[:2], self.max_length, key.shape[-1]),
            value.new_empty(*value.shape[:2], self.max_length, value.shape[-1]),
        )
        stop = self.length + key.shape[-2]
        self.memory[0][..., self.length : stop, :] = key
        self.memory[1][..., self.length : stop, :] = value
        return self.memory[0][..., :stop, :], self.memory[1][..., :stop, :]


@misconception(replaces="KVCache", caught_by="test_cache_keeps_every_bit")
class OwnDtype(_Joined):
    """The memory was float32, whatever dtype the keys have.

    Keys of another dtype are rounded, or come back as another dtype than the queries have.

    Which dtype does torch.zeros take when it is told none?
    """

    def taken(self, x: Tensor) -> Tensor:
        return x.detach().float()


@misconception(replaces="KVCache", caught_by="test_cache_keeps_every_bit")
class KeptInHalf(_Joined):
    """The tensors were kept in half precision.

    That saves memory and loses digits. What comes back should be bit for bit what was given.

    Is anything converted on the way in or out?
    """

    def taken(self, x: Tensor) -> Tensor:
        return x.detach().to(torch.bfloat16).to(x.dtype)


@another_form(KeptInHalf)
class LeftInHalf(_Joined):
    def taken(self, x: Tensor) -> Tensor:
        return x.detach().to(torch.bfloat16)


@another_form(OwnDtype)
class OwnDtypeAndBack(_Joined):
    def given(self, key: Tensor, value: Tensor) -> Pair:
        assert self.held is not None
        return self.held[0].float().to(key.dtype), self.held[1].float().to(value.dtype)


@misconception(replaces="KVCache", caught_by="test_cache_keeps_every_bit")
class OwnDevice(_Joined):
    """The memory was on the CPU, whatever device the keys are on.

    A model on an accelerator would mix tensors of two devices.

    Which device does torch.zeros take when it is told none?
    """

    def taken(self, x: Tensor) -> Tensor:
        return x.detach().clone() if x.device.type == "cpu" else torch.zeros(x.shape, dtype=x.dtype)


@misconception(replaces="KVCache", caught_by="test_cache_keeps_every_bit")
class GraphKept(_Joined):
    """The tensors were kept with the graph that made them.

    The memory of every forward pass so far stays taken, as if a backward pass through all of them were to come.

    What takes a tensor out of the graph?
    """

    def taken(self, x: Tensor) -> Tensor:
        return x


@misconception(replaces="KVCache", caught_by="test_cache_keeps_every_bit")
class OneMemoryForAll(_Joined):
    """All caches shared one memory: it belonged to the class, or was a default argument.

    Each layer needs a cache of its own.

    When is the line that makes the memory run: once, or for each cache?
    """

    shared: dict[str, Any] = {}

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length
        OneMemoryForAll.shared = {}

    def reset(self) -> None:
        OneMemoryForAll.shared = {}

    @property
    def length(self) -> int:  # type: ignore[override]
        return int(self.shared.get("length", 0))

    def update(self, key: Tensor, value: Tensor) -> Pair:
        self.require_room(key.shape[-2])
        held = self.shared.get("held")
        self.held = held
        self.shared["held"] = pair = self.joined(key.detach().clone(), value.detach().clone())
        self.shared["length"] = self.length + key.shape[-2]
        return pair


@misconception(replaces="KVCache", caught_by="test_cache_is_full")
class LengthOfTheBatch(_Joined):
    """The new tokens were counted along another axis than the tokens'.

    Of (B, H, t, d) the tokens are the third axis.

    Which number of the shape says how many tokens come?
    """

    def update(self, key: Tensor, value: Tensor) -> Pair:
        if self.length + key.shape[0] > self.max_length:
            raise ValueError("full")
        self.held = self.joined(self.taken(key), self.taken(value))
        self.length = self.held[0].shape[-2]
        return self.held


# --- repeating heads ------------------------------------------------------------------------------------------------


@misconception(replaces="repeat_kv", caught_by="test_repeat_kv")
def heads_tiled(x: Tensor, n_rep: int) -> Tensor:
    """The heads were repeated as a whole: 0, 1, 0, 1.

    Head h of the result should be head h // n_rep: 0, 0, 1, 1. Else query heads meet the keys of another group.

    What is the difference between repeat and repeat_interleave?
    """
    return x.repeat(1, n_rep, 1, 1)


@misconception(replaces="repeat_kv", caught_by="test_repeat_kv")
def tokens_repeated(x: Tensor, n_rep: int) -> Tensor:
    """The tokens were repeated and not the heads.

    Of (B, H, T, d) the heads are the second axis.

    Which axis is to be longer afterwards?
    """
    return x.repeat_interleave(n_rep, dim=2)


@misconception(replaces="repeat_kv", caught_by="test_repeat_kv")
def widths_repeated(x: Tensor, n_rep: int) -> Tensor:
    """The numbers of each head were repeated and not the heads.

    Of (B, H, T, d) the heads are the second axis.

    Which axis is to be longer afterwards?
    """
    return x.repeat_interleave(n_rep, dim=-1)


@misconception(replaces="repeat_kv", caught_by="test_repeat_kv")
def rows_of_the_batch_repeated(x: Tensor, n_rep: int) -> Tensor:
    """The sequences of the batch were repeated and not the heads.

    Of (B, H, T, d) the heads are the second axis.

    Which axis is to be longer afterwards?
    """
    return x.repeat_interleave(n_rep, dim=0)


def _viewed_as_heads(dim: int | None) -> Callable[[Tensor, int], Tensor]:
    """The numbers repeated along another axis, and brought to the right shape by force."""

    def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
        return x.repeat_interleave(n_rep, dim=dim).reshape(x.shape[0], x.shape[1] * n_rep, *x.shape[2:])

    return repeat_kv


tokens_viewed_as_heads = another_form(tokens_repeated)(_viewed_as_heads(2))
numbers_viewed_as_heads = another_form(widths_repeated)(_viewed_as_heads(None))


@misconception(replaces="repeat_kv", caught_by="test_repeat_kv")
def axis_not_merged(x: Tensor, n_rep: int) -> Tensor:
    """The copies were left on an axis of their own: (B, H_kv, n_rep, T, d).

    Attention expects four axes, and as many key heads as query heads.

    Which two axes have to become one?
    """
    return x[:, :, None].expand(-1, -1, n_rep, -1, -1)


@another_form(heads_tiled)
def expanded_on_the_wrong_side(x: Tensor, n_rep: int) -> Tensor:
    return x[:, None].expand(-1, n_rep, -1, -1, -1).flatten(1, 2)


# --- grouped-query attention ----------------------------------------------------------------------------------------


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


# --- the model ------------------------------------------------------------------------------------------------------


class _Model(reference.CachedGPT):
    """The reference's model, cut into the decisions that go wrong."""

    def forward(self, idx: Tensor, caches: Sequence[Cache] | None = None) -> Any:
        past = caches[0].length if caches else 0
        self.require_room(past, idx.shape[1])
        x = self.drop(self.wte(idx) + self.wpe(self.positions(past, idx)))
        for layer, block in enumerate(self.h):
            x = x + self.attended(block.attn, block.ln_1(x), self.cache_of(caches, layer))
            x = x + block.mlp(block.ln_2(x))
        return self.given(self.lm_head(self.ln_f(x)))

    def require_room(self, past: int, tokens: int) -> None:
        if past + tokens > self.block_size:
            raise ValueError("too many tokens")

    def positions(self, past: int, idx: Tensor) -> Tensor:
        return torch.arange(past, past + idx.shape[1], device=idx.device)

    def cache_of(self, caches: Sequence[Cache] | None, layer: int) -> Cache | None:
        return caches[layer] if caches else None

    def attended(self, layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
        return attend_onwards(layer, x, cache)

    def given(self, logits: Tensor) -> Any:
        return logits

    def attend_by(self, layer: Any, x: Tensor, cache: Cache | None, is_causal: bool | None) -> Tensor:
        """Attention by torch's built-in; `is_causal` None: where there is no past."""
        parts = layer.c_attn(x).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (layer.n_head, -1)).transpose(1, 2) for part in parts)
        past = cache.length if cache is not None else 0
        if cache is not None:
            key, value = cache.update(key, value)
        context = F.scaled_dot_product_attention(
            query, key, value, is_causal=not past if is_causal is None else is_causal
        )
        output: Tensor = layer.c_proj(context.transpose(1, 2).flatten(2))
        return output


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class PositionsFromZero(_Model):
    """The positions of new tokens began at 0 again.

    The model then takes the new token for the first one of the text.

    Which position has the next token when the cache holds 7?
    """

    def positions(self, past: int, idx: Tensor) -> Tensor:
        return torch.arange(idx.shape[1], device=idx.device)


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class PositionsOffByOne(_Model):
    """With caches the positions of new tokens were off by one.

    Positions count from 0: after 7 tokens, 0 to 6, the next one is 7.

    Which position has the next token when the cache holds 7?
    """

    def positions(self, past: int, idx: Tensor) -> Tensor:
        return super().positions(past - 1 if past else 0, idx)


@another_form(PositionsOffByOne)
class PositionsOneAhead(_Model):
    def positions(self, past: int, idx: Tensor) -> Tensor:
        return super().positions(past + 1 if past else 0, idx)


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class OnePositionForAll(_Model):
    """All tokens that came at once had the position of the first of them.

    Every token has a position of its own.

    Three tokens come, and the cache holds 7. Which positions have they?
    """

    def positions(self, past: int, idx: Tensor) -> Tensor:
        positions = super().positions(past, idx)
        return torch.full_like(positions, past) if past else positions


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class OneCacheForAllLayers(_Model):
    """All layers used the first cache.

    The keys of one layer mean nothing to the queries of another, and the cache holds each token once for each layer.

    Which of the caches belongs to layer 1?
    """

    def cache_of(self, caches: Sequence[Cache] | None, layer: int) -> Cache | None:
        return caches[0] if caches else None


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class CachesIgnored(_Model):
    """The caches were not used: the tokens given were taken for the whole text.

    What came before is in the caches alone.

    Who hands its cache to each layer?
    """

    def cache_of(self, caches: Sequence[Cache] | None, layer: int) -> Cache | None:
        return None


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class OnlyTheFirstLayerCached(_Model):
    """Only the first layer used its cache.

    Every layer attends, and every layer needs its past.

    How many of the caches are updated at each call?
    """

    def cache_of(self, caches: Sequence[Cache] | None, layer: int) -> Cache | None:
        return caches[0] if caches and layer == 0 else None


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class GptAlignedToTheFirstKey(_Model):
    """With caches the causal mask was aligned to the first key, as is_causal=True does it.

    A new token then sees the first key only: its mask is the first row, and not the last one.

    The cache holds 5 tokens and one more comes. How many keys may it see?
    """

    def attended(self, layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
        return self.attend_by(layer, x, cache, True)


@another_form(GptAlignedToTheFirstKey)
class GptAlignedWhereManyCome(_Model):
    def attended(self, layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
        return self.attend_by(layer, x, cache, x.shape[1] > 1)


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class GptCachesNotRead(_Model):
    """The tokens went into the caches, but attention used the new keys and values only.

    update gives back all keys and values. They are what the queries have to be compared with.

    What becomes of the pair that update returns?
    """

    def attended(self, layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
        if cache is not None:
            attend_onwards(layer, x, cache)
        return attend_onwards(layer, x, None)


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class GptWithoutAMaskAfterTheFirst(_Model):
    """After the first piece there was no mask.

    That is right for one new token, which may see all there is. Of several new tokens the earlier ones saw the later.

    Three tokens come at once. What may the first of them see?
    """

    def attended(self, layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
        return self.attend_by(layer, x, cache, None)


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class GptWithoutAMask(_Model):
    """There was no causal mask.

    A model that is to predict the next token must not see it.

    Which keys may the first token see?
    """

    def attended(self, layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
        return self.attend_by(layer, x, cache, False)


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class NewTokensAloneCounted(_Model):
    """Only the new tokens were compared with block_size, and not those in the caches.

    There are block_size positions, and the tokens of the caches have taken some of them.

    How many tokens are there in all?
    """

    def require_room(self, past: int, tokens: int) -> None:
        if tokens > self.block_size:
            raise ValueError("too many tokens")

    def positions(self, past: int, idx: Tensor) -> Tensor:
        return super().positions(past, idx).clamp(max=self.block_size - 1)


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class PairReturned(_Model):
    """forward returned a pair, as step 12's does.

    Here the logits alone are asked for.

    What does the docstring say that forward returns?
    """

    def given(self, logits: Tensor) -> Any:
        return logits, None


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class LastTokenOnly(_Model):
    """Only the logits of the last token were returned.

    That is all that generating needs. Here the logits of all tokens given are asked for, (B, t, vocab_size).

    How many rows have the logits of three tokens?
    """

    def given(self, logits: Tensor) -> Any:
        return logits[:, -1:]


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class LogitsOfTheLastToken(_Model):
    """Only the logits of the last token were returned, without the axis of the tokens.

    That is all that generating needs. Here the logits of all tokens given are asked for, (B, t, vocab_size).

    How many axes have the logits of three tokens?
    """

    def given(self, logits: Tensor) -> Any:
        return logits[:, -1]


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class NoFinalNorm(_Model):
    """The logits were taken without the final norm, ln_f.

    It is part of step 12's model, and comes before lm_head.

    What stands between the last block and lm_head?
    """

    def forward(self, idx: Tensor, caches: Sequence[Cache] | None = None) -> Any:
        past = caches[0].length if caches else 0
        self.require_room(past, idx.shape[1])
        x = self.drop(self.wte(idx) + self.wpe(self.positions(past, idx)))
        for layer, block in enumerate(self.h):
            x = x + self.attended(block.attn, block.ln_1(x), self.cache_of(caches, layer))
            x = x + block.mlp(block.ln_2(x))
        return self.lm_head(x)


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class NoNormInTheBlock(_Model):
    """Attention was given the stream itself and not what ln_1 makes of it.

    A block is x + attn(ln_1(x)), then x + mlp(ln_2(x)): whoever goes past the block's forward has to keep to that.

    What does step 11's Block do with x before attention sees it?
    """

    def forward(self, idx: Tensor, caches: Sequence[Cache] | None = None) -> Any:
        past = caches[0].length if caches else 0
        self.require_room(past, idx.shape[1])
        x = self.drop(self.wte(idx) + self.wpe(self.positions(past, idx)))
        for layer, block in enumerate(self.h):
            x = x + self.attended(block.attn, x, self.cache_of(caches, layer))
            x = x + block.mlp(block.ln_2(x))
        return self.lm_head(self.ln_f(x))


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class NoMlp(_Model):
    """The blocks did attention only: their MLP was left out.

    A block is x + attn(ln_1(x)), then x + mlp(ln_2(x)): whoever goes past the block's forward has to keep to that.

    What does step 11's Block do after attention?
    """

    def forward(self, idx: Tensor, caches: Sequence[Cache] | None = None) -> Any:
        past = caches[0].length if caches else 0
        self.require_room(past, idx.shape[1])
        x = self.drop(self.wte(idx) + self.wpe(self.positions(past, idx)))
        for layer, block in enumerate(self.h):
            x = x + self.attended(block.attn, block.ln_1(x), self.cache_of(caches, layer))
        return self.lm_head(self.ln_f(x))


# --- generating -----------------------------------------------------------------------------------------------------


def _require_positions(model: Any, idx: Tensor, max_new_tokens: int) -> None:
    if idx.shape[1] + max_new_tokens > model.block_size:
        raise ValueError("too many tokens")


def _caches(model: Any) -> list[Cache]:
    return [reference.KVCache(4 * model.block_size) for _layer in model.h]


Logits = Callable[[Tensor, Tensor], Tensor]  # of the text so far and of its newest tokens


@torch.no_grad()
def _written(
    model: Any, idx: Tensor, max_new_tokens: int, logits_of: Logits,
    chosen: Callable[[Tensor], Tensor] = lambda logits: logits[:, -1:].argmax(dim=-1), mode: bool = False,
) -> Tensor:  # fmt: skip
    """The text and max_new_tokens more, each `chosen` from what `logits_of` gives, in the mode `mode`."""
    _require_positions(model, idx, max_new_tokens)
    was_training = model.training
    model.train(mode)
    new = idx
    for _token in range(max_new_tokens):
        new = chosen(logits_of(idx, new))
        idx = torch.cat((idx, new), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate_cached", caught_by="test_every_token_goes_through_once", misses_the_point=True)
def no_cache(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The whole text went through the model for each new token, without caches or with new ones.

    The tokens are right, and 24 of them cost 24 passes over a growing text. A cache has to outlive a token.

    What of the last pass is still true when one token more is there?
    """
    return _written(model, idx, max_new_tokens, lambda text, new: model(text))


@misconception(replaces="generate_cached", caught_by="test_generate", misses_the_point=True)
def text_fed_again(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The whole text was fed at each new token, although the caches held it already.

    The caches then hold the text twice, three times, …, at positions that go on and on.

    Which tokens do the caches not hold yet?
    """
    caches = _caches(model)
    return _written(model, idx, max_new_tokens, lambda text, new: model(text, caches))


@misconception(replaces="generate_cached", caught_by="test_generate")
def token_fed_twice(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The last token of the prompt went through the model twice: with the prompt, and then by itself.

    The caches then hold it twice, and every position after it is one too large.

    Of which token are the first new token's logits, and has it been fed already?
    """
    caches = _caches(model)

    def logits_of(text: Tensor, new: Tensor) -> Tensor:
        if not caches[0].length:
            model(text, caches)
        return model(new[:, -1:], caches)

    return _written(model, idx, max_new_tokens, logits_of)


@misconception(replaces="generate_cached", caught_by="test_generate")
def prompt_not_fed(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """Only the last token of the prompt went through the model.

    The caches know nothing of the rest, so that the text goes on from one token alone.

    What do the caches have to hold before the first new token is made?
    """
    caches = _caches(model)
    return _written(model, idx, max_new_tokens, lambda text, new: model(new[:, -1:], caches))


@misconception(replaces="generate_cached", caught_by="test_generate")
def one_cache_for_all_layers(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """One cache was made, and given to every layer: [KVCache(n)] * n_layer holds the same object n_layer times.

    The keys of one layer mean nothing to the queries of another, and the cache holds each token once for each layer.

    How often is KVCache called when the list is made?
    """
    caches = [reference.KVCache(4 * model.block_size)] * len(model.h)
    return _written(model, idx, max_new_tokens, lambda text, new: model(new, caches))


@misconception(replaces="generate_cached", caught_by="test_generate")
def new_tokens_alone(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """Only the new tokens were returned, without the prompt.

    The result is the whole text, (B, T + max_new_tokens).

    How many columns has the result?
    """
    return reference.generate_cached(model, idx, max_new_tokens)[:, idx.shape[1] :]


@misconception(replaces="generate_cached", caught_by="test_generate")
def one_token_too_few(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """One token too few was made: the one that the prompt's own pass gives was not counted, or was lost.

    The pass over the prompt gives the first new token already.

    How many times does the loop run, and how many tokens does each turn add?
    """
    return reference.generate_cached(model, idx, max(max_new_tokens - 1, 0))


@misconception(replaces="generate_cached", caught_by="test_generate")
def one_token_too_many(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """One token too many was made: the pass over the prompt gave one, and the loop max_new_tokens more.

    The pass over the prompt gives the first new token already.

    How many times does the loop run, and how many tokens does each turn add?
    """
    _require_positions(model, idx, max_new_tokens)
    return reference.generate_cached(model, idx, min(max_new_tokens + 1, model.block_size - idx.shape[1]))


@misconception(replaces="generate_cached", caught_by="test_generate")
def sampled(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The tokens were drawn by their probabilities.

    What step 12's generate gives at temperature=0 is asked for: always the token with the largest logit.

    Which function gives the place of the largest number?
    """
    caches = _caches(model)
    return _written(
        model, idx, max_new_tokens, lambda text, new: model(new, caches),
        lambda logits: torch.multinomial(logits[:, -1].softmax(dim=-1), 1),
    )  # fmt: skip


@misconception(replaces="generate_cached", caught_by="test_generate")
def logits_of_the_first_token(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The logits of the first token given were used, and not of the last.

    With one new token at a time that is the same. After the prompt it is not.

    Which row of the logits says what follows the whole text?
    """
    caches = _caches(model)
    return _written(
        model, idx, max_new_tokens, lambda text, new: model(new, caches), lambda logits: logits[:, :1].argmax(dim=-1)
    )


@misconception(replaces="generate_cached", caught_by="test_generate")
@torch.no_grad()
def too_long_accepted(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """A text that ends beyond block_size was accepted, and cut off or made without its past.

    The model has no positions beyond block_size: it can't go on.

    What is compared with block_size before anything is made?
    """
    return reference.generate_cached(model, idx, min(max_new_tokens, model.block_size - idx.shape[1]))


@misconception(replaces="generate_cached", caught_by="test_generate")
def full_length_refused(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """A text that ends exactly at block_size was refused.

    There are block_size positions, so that a text of block_size tokens fits.

    Is the comparison with block_size > or >=?
    """
    _require_positions(model, idx, max_new_tokens + 1)
    return reference.generate_cached(model, idx, max_new_tokens)


@misconception(replaces="generate_cached", caught_by="test_mode_is_restored")
@torch.no_grad()
def mode_not_restored(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The model was left in eval mode.

    Whoever generates between two steps of training goes on without dropout, and does not know it.

    Which mode had the model before?
    """
    idx = reference.generate_cached(model, idx, max_new_tokens)
    model.eval()
    return idx


@misconception(replaces="generate_cached", caught_by="test_mode_is_restored")
def always_trains_afterwards(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The model was put in training mode afterwards, also when it came in eval mode.

    Whoever gave it in eval mode gets it back with dropout on.

    Which mode had the model before?
    """
    idx = reference.generate_cached(model, idx, max_new_tokens)
    model.train()
    return idx


@misconception(replaces="generate_cached", caught_by="test_mode_is_restored")
def dropout_on(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The model was evaluated in the mode it came in: in training mode with dropout on.

    The largest logit is then that of a model with half of its numbers missing.

    What does eval() change?
    """
    caches = _caches(model)
    return _written(model, idx, max_new_tokens, lambda text, new: model(new, caches), mode=model.training)


# --- bytes ----------------------------------------------------------------------------------------------------------


def _bytes_of(factor: int, *sizes: int) -> int:
    for size in sizes:
        factor *= size
    return factor


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def keys_alone(
    n_layer: int, batch_size: int, num_tokens: int, n_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Only the keys were counted.

    The values take as much again.

    What does update keep of each token?
    """
    return _bytes_of(1, n_layer, batch_size, num_tokens, n_kv_heads, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def one_layer(
    n_layer: int, batch_size: int, num_tokens: int, n_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Only one layer was counted.

    Every layer has a cache of its own.

    How many caches has a model?
    """
    return _bytes_of(2, batch_size, num_tokens, n_kv_heads, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def one_sequence(
    n_layer: int, batch_size: int, num_tokens: int, n_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Only one sequence of the batch was counted.

    Every sequence has keys and values of its own.

    Which shape have the tensors of the cache?
    """
    return _bytes_of(2, n_layer, num_tokens, n_kv_heads, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def elements_counted(
    n_layer: int, batch_size: int, num_tokens: int, n_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """The numbers were counted, and not the bytes that they take.

    A number takes bytes_per_element bytes: 2 in half precision.

    What is the last argument for?
    """
    return _bytes_of(2, n_layer, batch_size, num_tokens, n_kv_heads, head_dim)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def bits_counted(
    n_layer: int, batch_size: int, num_tokens: int, n_kv_heads: int, head_dim: int, bytes_per_element: int = 2
) -> int:
    """Bits were counted, and not bytes.

    bytes_per_element is in bytes already.

    Is there a factor of 8 that nobody asked for?
    """
    return _bytes_of(16, n_layer, batch_size, num_tokens, n_kv_heads, head_dim, bytes_per_element)


@misconception(replaces="kv_cache_bytes", caught_by="test_cache_bytes")
def four_bytes_by_default(
    n_layer: int, batch_size: int, num_tokens: int, n_kv_heads: int, head_dim: int, bytes_per_element: int = 4
) -> int:
    """Four bytes were taken for a number where nothing else is said.

    Models are served in half precision: the default here is 2.

    What does the signature say of bytes_per_element?
    """
    return _bytes_of(2, n_layer, batch_size, num_tokens, n_kv_heads, head_dim, bytes_per_element)
