"""Byte-pair encoding (Sennrich et al. 2016): of all neighbours within words, the most frequent pair becomes one part.

A pair's count is kept up to date by the words that hold it, and the largest is found in a heap: a megabyte of source
code takes a second.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Generic, TypeVar

Part = TypeVar("Part", str, bytes)


class Words(Generic[Part]):
    """Words cut into parts, how often each word comes, and where each pair of neighbours is found."""

    def __init__(self, words: Iterable[list[Part]], times: Iterable[int]) -> None:
        self.words, self.times = list(words), list(times)
        self._pairs: Counter[tuple[Part, Part]] = Counter()
        self._found: defaultdict[tuple[Part, Part], set[int]] = defaultdict(set)
        for index in range(len(self.words)):
            self._count(index, self.times[index])
        self._largest = [(-times, pair) for pair, times in self._pairs.items()]
        heapq.heapify(self._largest)

    def merge_most_frequent(self, least: int = 1) -> Part | None:
        """Makes one part of the pair that comes most often, the smallest of equals, wherever it is, from left to right.

        Returns the new part, or None when no pair comes `least` times.
        """
        while self._largest:
            times, pair = heapq.heappop(self._largest)
            if self._pairs[pair] == -times:  # else its count has changed since, and it is in the heap once more
                return self._merge(pair) if -times >= least else None
        return None

    def _merge(self, pair: tuple[Part, Part]) -> Part:
        part = pair[0] + pair[1]
        changed: set[tuple[Part, Part]] = set()
        for index in self._found.pop(pair):
            changed |= self._count(index, -self.times[index])
            merged: list[Part] = []
            for one in self.words[index]:
                merged.append(one)
                if tuple(merged[-2:]) == pair:
                    merged[-2:] = [part]
            self.words[index] = merged
            changed |= self._count(index, self.times[index])
        for other in changed:
            if self._pairs[other] > 0:
                heapq.heappush(self._largest, (-self._pairs[other], other))
        return part

    def _count(self, index: int, times: int) -> set[tuple[Part, Part]]:
        pairs = list(zip(self.words[index], self.words[index][1:], strict=False))
        for pair in pairs:
            self._pairs[pair] += times
            self._found[pair].add(index)
        return set(pairs)
