"""Made reviews, in English or Korean: one or two clauses, each good or bad, each perhaps negated."""

from __future__ import annotations

import random
from dataclasses import dataclass

BAD, MIXED, GOOD = 0, 1, 2  # what a review says as a whole

Sentence = tuple[str, ...]


@dataclass(frozen=True)
class Language:
    """The words of one language. `apart` are adjectives that no review to learn from negates."""

    things: tuple[str, ...]
    good: tuple[str, ...]
    bad: tuple[str, ...]
    apart: tuple[str, ...]
    negation: str

    def clause(self, thing: str, adjective: str, negated: bool, is_last: bool) -> Sentence:
        """`the room was not good ,`"""
        if self.negation == "not":
            return ("the", thing, "was", *("not",) * negated, adjective, "." if is_last else ",")
        return (thing, *(self.negation,) * negated, adjective, "습니다." if is_last else "고,")


LANGUAGES = {
    "en": Language(
        ("film", "food", "room", "music", "book", "weather", "service", "trip", "concert", "coffee"),
        ("good", "great", "nice", "lovely", "fresh", "warm", "clever", "pleasant"),
        ("bad", "awful", "boring", "cold", "dull", "noisy", "stale", "ugly"),
        ("lovely", "dull"), "not",
    ),
    "ko": Language(
        ("영화는", "음식은", "방은", "음악은", "책은", "날씨는", "서비스는", "여행은", "공연은", "커피는"),
        ("좋았", "훌륭했", "멋졌", "즐거웠", "신선했", "따뜻했", "재치 있었", "편안했"),
        ("나빴", "끔찍했", "지루했", "추웠", "따분했", "시끄러웠", "상했", "못생겼"),
        ("멋졌", "따분했"), "안",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Review:
    """A sentence, its class, and how many of its clauses are negated."""

    words: Sentence
    label: int
    negations: int
    is_apart: bool  # it negates an adjective that no review to learn from negates


class Reviews:
    """Draws reviews; `apart` ones hold a negated adjective that the others never negate."""

    def __init__(self, spoken: str, seed: int) -> None:
        self.language = LANGUAGES[spoken]
        self._random = random.Random(seed)

    def draw(self, count: int, apart: bool = False, negations: int | None = None) -> list[Review]:
        """So many, of one clause or of two; of those with so many negated clauses, if that is said."""
        found: list[Review] = []
        while len(found) < count:
            review = self._one()
            if review.is_apart == apart and negations in (None, review.negations):
                found.append(review)
        return found

    def _one(self) -> Review:
        draw, language = self._random, self.language
        clauses = draw.choice((1, 2, 2))
        words: list[str] = []
        total, negations, is_apart = 0, 0, False
        things = draw.sample(language.things, clauses)
        for number, thing in enumerate(things):
            is_good, negated = draw.random() < 0.5, draw.random() < 0.5
            adjective = draw.choice(language.good if is_good else language.bad)
            words += language.clause(thing, adjective, negated, number == clauses - 1)
            total += 1 if is_good != negated else -1
            negations += negated
            is_apart |= negated and adjective in language.apart
        return Review(tuple(words), MIXED if total == 0 else (GOOD if total > 0 else BAD), negations, is_apart)

    def twins(self) -> tuple[Review, Review]:
        """Two reviews of the same words that say the opposite: not good but bad, good and not bad."""
        language, (first, second) = self.language, self.language.things[:2]
        good, bad = language.good[0], language.bad[0]
        bad_twice = (*language.clause(first, good, True, False), *language.clause(second, bad, False, True))
        good_twice = (*language.clause(first, good, False, False), *language.clause(second, bad, True, True))
        return Review(bad_twice, BAD, 1, False), Review(good_twice, GOOD, 1, False)
