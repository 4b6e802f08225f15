"""Pieces of words as tokens, learned from a text: characters first, then pairs of neighbours that come often.

This is GPT-2's byte-pair encoding (Sennrich et al. 2016) on characters in place of bytes. A Korean syllable is one
character, so no token is ever a part of one.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache, cached_property
from itertools import takewhile

from .merging import Words

WORD = re.compile(r"\n +| ?\w+| ?[^\s\w]+|\s")  # a line's indentation belongs to its break: in code it is one word
MERGES = 200


class Pieces:
    """A vocabulary: its tokens in the order in which they were learned, the token's place being its id."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self._word_ids = cache(self._cut)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each token."""
        return {token: index for index, token in enumerate(self.tokens)}

    def encode(self, text: str) -> list[int]:
        """The ids of a text. A character that was not in the text it learned from is left out: see `unknown`."""
        known = "".join(character for character in text if character in self.ids)
        return [token for word in WORD.findall(known) for token in self._word_ids(word)]

    def decode(self, ids: list[int]) -> str:
        """The text of ids."""
        return "".join(self.tokens[token] for token in ids)

    def unknown(self, text: str) -> list[str]:
        """The characters of a text that it does not know, each once."""
        return sorted({character for character in text if character not in self.ids})

    def _cut(self, word: str) -> list[int]:
        """The pair that was learned first is merged first, as when it was learned."""
        parts = list(word)
        while len(parts) > 1:
            ranks = [self.ids.get(first + second, len(self.tokens)) for first, second in zip(parts, parts[1:])]
            best = min(range(len(ranks)), key=ranks.__getitem__)
            if ranks[best] == len(self.tokens):
                break
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        return [self.ids[part] for part in parts]


def learn(text: str, merges: int = MERGES) -> Pieces:
    """The pieces of a text: its characters, then so many merges, the most frequent pair within words each time.

    Of equally frequent pairs the smallest wins, so the result depends on the text alone.
    """
    counts = Counter(WORD.findall(text))
    words = Words(map(list, counts), counts.values())
    learned = takewhile(bool, (words.merge_most_frequent(least=2) for _merge in range(merges)))
    return Pieces(list(dict.fromkeys([*sorted(set(text)), *learned])))
