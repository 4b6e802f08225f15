"""Pieces of words as tokens, learned from a text: characters first, then pairs of neighbours that come often.

This is GPT-2's byte-pair encoding (Sennrich et al. 2016) on characters in place of bytes. A Korean syllable is one
character, so no token is ever a part of one.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache, cached_property
from itertools import takewhile
from typing import Any

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

    def spelled(self, token: int) -> str:
        """The text of one token; a part of a character as U+FFFD and its bytes."""
        return self.tokens[token]

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


class BytePieces(Pieces):
    """The same on bytes, as GPT-2 has it, so that no text is unknown; a token may be a part of a character.

    A token is kept as a string with one character, U+0000 to U+00FF, for each of its bytes.
    """

    def encode(self, text: str) -> list[int]:
        """The ids of any text."""
        return [token for word in WORD.findall(text) for token in self._word_ids(_bytes_of(word))]

    def decode(self, ids: list[int]) -> str:
        """The text of ids, with U+FFFD in place of a part of a character."""
        return super().decode(ids).encode("latin-1").decode("utf-8", errors="replace")

    def unknown(self, text: str) -> list[str]:
        """An empty list: every character has its bytes."""
        return []

    def spelled(self, token: int) -> str:
        """The text of one token; a part of a character as U+FFFD and its bytes."""
        return spelled(self.tokens[token].encode("latin-1"))


def spelled(raw: bytes) -> str:
    """The text of a token's bytes; a part of a character as U+FFFD and its bytes in hexadecimal."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return f"\ufffd{raw.hex(' ').upper()}"


def _bytes_of(word: str) -> str:
    return word.encode("utf-8", errors="replace").decode("latin-1")


def read(about: dict[str, Any]) -> Pieces:
    """The vocabulary that a checkpoint says it was trained with. Raises KeyError, TypeError."""
    return (BytePieces if about.get("bytes") else Pieces)(about["pieces"])


def learn_bytes(text: str, merges: int = MERGES) -> BytePieces:
    """All 256 bytes, then so many merges, as `learn` makes them."""
    counts = Counter(WORD.findall(text))
    words = Words([list(_bytes_of(word)) for word in counts], counts.values())
    learned = takewhile(bool, (words.merge_most_frequent(least=2) for _merge in range(merges)))
    return BytePieces(list(dict.fromkeys([*map(chr, range(256)), *learned])))


def learn(text: str, merges: int = MERGES) -> Pieces:
    """The pieces of a text: its characters, then so many merges, the most frequent pair within words each time.

    Of equally frequent pairs the smallest wins, so the result depends on the text alone.
    """
    counts = Counter(WORD.findall(text))
    words = Words(map(list, counts), counts.values())
    learned = takewhile(bool, (words.merge_most_frequent(least=2) for _merge in range(merges)))
    return Pieces(list(dict.fromkeys([*sorted(set(text)), *learned])))
