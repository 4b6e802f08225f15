"""What learners get wrong in `KVCache` when they join old and new: the axis, and which tensor goes where."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step27_kv_cache.misconceptions import kv_cache
from solutions.longer_and_faster.step27_kv_cache.misconceptions.forms import Pair


class _Along:
    """A cache that joins along `axis`, and reads its length from the keys that it holds."""

    axis = 2

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length
        self.reset()

    def reset(self) -> None:
        self.held: Pair | None = None

    @property
    def length(self) -> int:
        return 0 if self.held is None else self.held[0].shape[2]

    def update(self, key: Tensor, value: Tensor) -> Pair:
        if self.length + key.shape[2] > self.max_length:
            raise ValueError("full")
        key, value = key.detach().clone(), value.detach().clone()
        self.held = (key, value) if self.held is None else self.joined(self.held, key, value)
        return self.held

    def joined(self, held: Pair, key: Tensor, value: Tensor) -> Pair:
        return torch.cat((held[0], key), dim=self.axis), torch.cat((held[1], value), dim=self.axis)


@another_form(kv_cache.JoinedAlongHeads)
class JoinedAlongHeadsByCat(_Along):
    axis = 1


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class JoinedAlongTheBatch(_Along):
    """New keys were joined to the old ones along the batch.

    Of (B, H, t, d) the tokens are the third axis. Another row of the batch is another text.

    Which axis grows when a token comes?
    """

    axis = 0


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class JoinedAlongTheWidth(_Along):
    """New keys were joined to the old ones along the width of a head, the last axis.

    Of (B, H, t, d) the tokens are the third axis. A key that grows wider no longer fits the query.

    Which axis grows when a token comes?
    """

    axis = -1


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class NewestValuesFirst(_Along):
    """New values were put in front of the old ones, and new keys behind them.

    Key and value of a token then stand in different places, and a weight meets another token's value.

    In which order do keys and values stand after the second update?
    """

    def joined(self, held: Pair, key: Tensor, value: Tensor) -> Pair:
        return torch.cat((held[0], key), dim=2), torch.cat((value, held[1]), dim=2)


@misconception(replaces="KVCache", caught_by="test_cache_by_hand")
class KeysJoinedToTheValues(_Along):
    """The new keys were joined to the old values.

    From the second update on the values are keys, and where the two differ in width they do not fit at all.

    Which of the two tensors that come belongs to the values?
    """

    def joined(self, held: Pair, key: Tensor, value: Tensor) -> Pair:
        return torch.cat((held[0], key), dim=2), torch.cat((held[1], key), dim=2)
