"""What learners get wrong in `KVCache`, each with the check that catches it."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step27_kv_cache.misconceptions.forms import Pair


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
