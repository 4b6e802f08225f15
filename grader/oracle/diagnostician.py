"""Names the misconception behind a wrong answer: the one that gives the same answers to the same calls.

A failing check is run again on each of the step's wrong implementations. The draws are the same, so the calls are too;
the implementation that gives the student's answers, in value, shape or error, is the diagnosis.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from grader.base.limits import slowness
from grader.checks.catalogue import Misconception
from grader.oracle.witness import Question, Witness

if TYPE_CHECKING:
    from grader.oracle.live import Solution

# Of processor time, for all that a diagnosis runs; more on a slow machine, so that mistakes have the same names there.
SECONDS_IN_THE_CORE, SECONDS = 1.0, 3.0
# Of the failing checks that a misconception should explain, the share in which it must give the student's answers. Not
# all: random numbers drawn in another order make the answers of the same mistake differ.
SHARE = 0.75
# Of the checks that a misconception fails, the share that the student fails as well. Another form of the same mistake
# may be right about dtypes, devices or lengths when the catalogue's is not.
ALSO_REFUSED = 0.5
UNEXPLAINED = 3  # failing checks of one public name searched without success before its rest is left unexplained
FURTHER_DRAWS = 3
CONFIRMED = 3  # comparisons in a check for which there has to be time before one starts: a match is compared again
FEWEST = 2  # checks that each of two mistakes in one name has to explain: one alone may be a coincidence
MOST_COMPARED = 1200  # misconceptions, in search of a second mistake: each comparison may run one
MOST_SEARCHED = 6  # failing checks of one public name in which a second mistake is looked for


class _OutOfTime(Exception):
    """What comes next would take more processor time than is left."""


@dataclass(frozen=True)
class _Explanation:
    """A misconception, the checks in which it gives the student's answers, those that it fails, and those that
    contradict it."""

    wrong: Misconception
    alike: frozenset[str]
    refusing: frozenset[str]
    contradicting: frozenset[str]

    def stands_beside(self, other: _Explanation, enough: float) -> bool:
        """True if a student may have made both mistakes: together they explain `enough` checks (a number), and neither
        shows in a check that the other explains alone."""
        shows = (self.alike & other.refusing) - other.alike or (other.alike & self.refusing) - self.alike
        unexplained = (self.contradicting - other.alike) or (other.contradicting - self.alike)
        return not shows and not unexplained and len(self.alike | other.alike) >= enough


class Diagnostician:
    """Puts the student's calls to a step's misconceptions and pairs of them.

    Pairs are tried if no single misconception matches, and then what edits of many steps and operators make:
    `generated` gives the mistakes in a public name. A comparison starts if `seconds` of processor time are not over
    when it ends, by what the last one in the same check took.
    """

    def __init__(
        self, misconceptions: list[Misconception], witness: Witness, pairs: list[Misconception],
        generated: Callable[[str], list[Misconception]] = lambda name: [], seconds: float = math.inf,
    ) -> None:  # fmt: skip
        self.misconceptions, self.pairs, self.generated = misconceptions, pairs, generated
        self.witness = witness
        self._until = time.thread_time() + seconds
        self.unwritten: AbstractSet[str] = frozenset()
        self._compared = 0
        self._took: dict[str, float] = {}  # seconds of processor time for a comparison, by the check's name

    def diagnose(
        self,
        questions: list[Question],
        ask_again: Callable[[Question, int], Question | None],
        unwritten: AbstractSet[str] = frozenset(),
    ) -> dict[str, list[Misconception]]:
        """The misconceptions behind each failing check, by its name: one, or several that can't be distinguished. A
        check without a diagnosis is missing.

        `ask_again` runs a check on the student's code under another seed; None when it does not fail there. The checks
        `unwritten` met a part that is not written yet: they count neither for a misconception nor against it."""
        self.unwritten = unwritten
        by_check: dict[str, list[Misconception]] = {}
        try:
            self._search(questions, by_check, ask_again)
            if len(by_check) < len(questions):
                self._add_second_mistakes(questions, by_check, ask_again)
        except _OutOfTime:
            found = _unique([wrong for group in by_check.values() for wrong in group])
            known = {each.name: [wrong for wrong in found if each.alike.get(wrong.name)] for each in questions}
            by_check = {name: alike for name, alike in known.items() if alike} | by_check
        return {
            question.name: _one_form_each(self._with_pair(by_check[question.name], by_check, question))
            for question in questions
            if question.name in by_check
        }

    def _search(
        self, questions: list[Question], by_check: dict[str, list[Misconception]],
        ask_again: Callable[[Question, int], Question | None],
    ) -> None:  # fmt: skip
        """Adds to `by_check` the misconceptions behind each failing check."""
        in_vain: Counter[str] = Counter()
        pairs = self.pairs
        for question in questions:
            alike = [wrong for group in by_check.values() for wrong in group if self._alike(wrong, question)]
            matching = _unique(alike)
            if not matching and in_vain[question.about] < UNEXPLAINED:
                consistent = self._consistent(self.misconceptions, question, questions)
                consistent = consistent or self._consistent(pairs, question, questions)
                matching = self._confirmed(consistent, question, ask_again)
                matching = matching or self._drawn_anew(question, questions, ask_again)
                matching = matching or self._generated(question, questions, ask_again)
                if not matching:
                    in_vain[question.about] += 1
                    pairs = [pair for pair in pairs if not question.called & pair.replaced.keys()]
            if matching:
                by_check[question.name] = matching

    def _add_second_mistakes(
        self, questions: list[Question], by_check: dict[str, list[Misconception]],
        ask_again: Callable[[Question, int], Question | None],
    ) -> None:  # fmt: skip
        """Adds to `by_check` a second mistake, in checks that the first one found does not explain, or the pair of both
        in checks that meet both."""
        in_vain: Counter[str] = Counter()
        self._compared = 0
        for question in questions:
            if question.name in by_check or in_vain[question.about] >= UNEXPLAINED:
                continue
            if self._compared >= MOST_COMPARED:  # a file in which everything is wrong, or which rests on one that is
                return
            left = [other for other in questions if other.name not in by_check]
            every = [wrong for group in by_check.values() for wrong in group]
            singles = _unique([wrong for wrong in every if not wrong.parts])
            consistent = self._consistent(self.misconceptions, question, left)
            alone = [wrong for wrong in consistent if not self._is_excluded(wrong, singles, question)]
            matching = self._confirmed(alone, question, ask_again)
            combined = self._consistent(self._combined(singles, left), question, questions)[:1]
            matching = matching or [self._part_that_shows(pair, question) for pair in combined]
            matching = matching or self._half_of_two(question, left)
            matching = matching or [
                wrong
                for wrong in self._generated(question, left, ask_again)
                if not self._is_excluded(wrong, singles, question) and self._is_no_coincidence(wrong, every, left)
            ]
            if matching:
                by_check[question.name] = matching
            else:
                in_vain[question.about] += 1

    def _is_no_coincidence(self, wrong: Misconception, found: list[Misconception], left: list[Question]) -> bool:
        """False for a generated mistake in a name that has a mistake in `found` already, if it explains only one of the
        checks `left`: among so many, one may give the answer that the first mistake gives in another form."""
        again = any(wrong.replaced.keys() & other.replaced.keys() for other in found)
        return not again or sum(self._alike(wrong, other) for other in left) >= FEWEST

    def _is_excluded(self, wrong: Misconception, found: list[Misconception], question: Question) -> bool:
        """True if another mistake found in the same name shows in this check: then its answers can't be those of
        `wrong` alone."""
        return any(
            wrong.replaced.keys() & other.replaced.keys() and self.witness.shows(other, question) for other in found
        )

    def _half_of_two(self, question: Question, failing: list[Question]) -> list[Misconception]:
        """The mistakes that may be behind a check, if its name has two: each gives the student's answers in the check
        that is meant to catch it, and together they explain checks that neither explains alone. Empty if no two do."""
        names = {other.name for other in failing}
        related = [other for other in failing if other.about == question.about]
        explained: dict[str, _Explanation] = {}
        for other in related[:MOST_SEARCHED]:
            for wrong in self._matching([*self.misconceptions, *self.generated(other.about)], other, names):
                if wrong.name in explained or other.about not in wrong.replaced:
                    continue
                alike = frozenset(way.name for way in related if self._alike(wrong, way))
                refusing = frozenset(self._refusing(wrong, other))
                if len(alike) < FEWEST or not wrong.refused_by & refusing <= alike:
                    continue
                if len(refusing & names) >= ALSO_REFUSED * len(refusing):
                    apart = [way for way in related if way.name not in alike]
                    against = frozenset(way.name for way in apart if self.witness.contradicts(wrong, way))
                    explained[wrong.name] = _Explanation(wrong, alike, refusing, against)
        here = [
            way
            for way in explained.values()
            if question.name in way.alike
            and any(way.stands_beside(other, SHARE * len(related)) for other in explained.values())
        ]
        most = max((len(way.alike) for way in here), default=0)
        return [way.wrong for way in here if len(way.alike) == most]

    def _combined(self, singles: list[Misconception], left: list[Question]) -> list[Misconception]:
        """Pairs of a mistake found and one that a check of those `left` is meant to catch, if they replace different
        names."""
        names = {other.name for other in left}
        seconds = [wrong for wrong in self.misconceptions if wrong in singles or wrong.refused_by & names]
        pairs = [
            self.witness.both(first, second)
            for first in singles
            for second in seconds
            if not first.replaced.keys() & second.replaced.keys()
        ]
        return [both for both in pairs if both is not None]

    def _part_that_shows(self, pair: Misconception, question: Question) -> Misconception:
        """The only one of a pair that fails the check on its own, as early as the student's code does; else the pair.
        The other one may only resemble the student's code, by drawing random numbers in the same order, say."""
        shown = [part for part in pair.parts if self.witness.shows(part, question)]
        return shown[0] if len(shown) == 1 else pair

    def _with_pair(
        self, matching: list[Misconception], by_check: dict[str, list[Misconception]], question: Question
    ) -> list[Misconception]:
        """The diagnosis of a check, with a pair in place of its mistake if another check shows that both were made, and
        this one shows only one of them."""
        if len(matching) > 1:
            # A pair next to one of its own parts was found in a check that the part alone did not match. It may be
            # another form of that part.
            of_pairs = {id(pair): {part.called for part in pair.parts} for pair in matching}
            parts = [wrong for wrong in matching if any(wrong.called in called for called in of_pairs.values())]
            return [
                next((replace(wrong, nudge=part.nudge) for part in parts if part.called in of_pairs[id(wrong)]), wrong)
                for wrong in matching
                if wrong not in parts
            ]
        both = [
            pair
            for group in by_check.values()
            if all(matching[0] in pair.parts for pair in group)
            for pair in group
            if all(part.replaced.keys() & question.called for part in pair.parts) and self.witness.alike(pair, question)
        ]
        # The nudge is that of the mistake that shows.
        return [replace(pair, nudge=matching[0].nudge) for pair in _unique(both)] or matching

    def _consistent(
        self, candidates: list[Misconception], question: Question, failing: list[Question]
    ) -> list[Misconception]:
        """The best candidates: they give the student's answer here, explain the other failing checks of the names that
        they replace, and fail no check that the student passes.

        The checks that are meant to catch it, or both of its parts, allow no exception.
        """
        explained: list[tuple[Misconception, int, int]] = []
        names = {other.name for other in failing}
        for wrong in self._matching(candidates, question, names, failing):
            # A check that another name fails says nothing about what this one would have answered.
            silent = {other.name for other in failing if other.about not in wrong.replaced}
            alike = {other.name for other in failing if self._alike(wrong, other)}
            # A random answer that was drawn otherwise says nothing either.
            random = {
                other.name
                for other in failing
                if other.name not in alike | silent and self.witness.undecided(wrong, other)
            }
            related = names - silent - random
            if any(other.name in related - alike and self.witness.contradicts(wrong, other) for other in failing):
                continue
            if len(related & alike) < SHARE * len(related):
                continue
            # Last, since it runs whole checks.
            refusing = self._refusing(wrong, question) - silent
            own = wrong.refused_by & refusing
            if len(refusing & names) < ALSO_REFUSED * len(refusing) or not own <= names:
                continue
            if not own & (related - alike):
                explained.append((wrong, len(alike), len(refusing - names)))
        # Of those that explain as much, the ones that the least speaks against: of the checks that the student passes.
        most = max(((alike, -passed) for _wrong, alike, passed in explained), default=None)
        found = {wrong.name for wrong, alike, passed in explained if (alike, -passed) == most}
        best = [wrong for wrong in candidates if wrong.name in found]
        if len(best) > 1 and question.answers and question.answers[-1].due_error:
            return [wrong for wrong in best if self.witness.exactly(wrong, question)] or best
        return best

    def _matching(
        self, candidates: list[Misconception], question: Question, names: set[str], failing: Sequence[Question] = ()
    ) -> Iterator[Misconception]:
        """Yields the candidates that give the student's answer: those that the check is meant to catch first, then
        those of the name that gave the failing answer. A misconception is ruled out if the student passes its own
        checks (`names` are those that fail), since the catalogue proves that it fails there, or if one of the checks
        `failing` is known to contradict it."""
        seen = names | self.unwritten
        self._compared += len(candidates)
        likely = [wrong for wrong in candidates if not wrong.refused_by or wrong.refused_by & seen]
        likely.sort(key=lambda wrong: (question.name not in wrong.refused_by, question.about not in wrong.replaced))
        for wrong in likely:
            if not self._is_ruled_out(wrong, question, failing) and self._alike(wrong, question, CONFIRMED):
                yield wrong

    def _is_ruled_out(self, wrong: Misconception, question: Question, failing: Sequence[Question]) -> bool:
        """True if a comparison in another failing check, of a name that it replaces, has contradicted it already."""
        asked = [other for other in failing if other is not question and other.alike.get(wrong.name) is False]
        return any(
            self.witness.contradicts(wrong, other) and not self.witness.undecided(wrong, other)
            for other in asked
            if other.about in wrong.replaced
        )

    def _alike(self, wrong: Misconception, question: Question, times: int = 1) -> bool:
        """Whether the check ends for the misconception as for the student. Raises _OutOfTime if `times` as many seconds
        as the last comparison in this check took are not left."""
        if wrong.name not in question.alike:
            start = self._require(times * self._took.get(question.name, 0.0))
            self.witness.alike(wrong, question)
            self._took[question.name] = time.thread_time() - start
        return question.alike[wrong.name]

    def _refusing(self, wrong: Misconception, question: Question) -> set[str]:
        """The names of the checks that refuse the misconception, without those that met what is not written yet. Raises
        _OutOfTime."""
        found = set()
        for check in self.witness.asked.checks.keys() - self.unwritten:
            self._require(self._took.get(check, 0.0))
            if self.witness.is_refused(wrong, check, question):
                found.add(check)
        return found

    def _require(self, seconds: float) -> float:
        """The processor time now, in seconds. Raises _OutOfTime if so many seconds are not left."""
        now = time.thread_time()
        if now + seconds > self._until:
            raise _OutOfTime
        return now

    def _drawn_anew(
        self, question: Question, failing: list[Question], ask_again: Callable[[Question, int], Question | None]
    ) -> list[Misconception]:
        """The candidates with numbers that no seed repeats, identified under further seeds by the statistics of their
        draws, which one sample may hide. Empty if none matches."""
        candidates = [wrong for wrong in self.misconceptions if wrong.own_draws and question.name in wrong.refused_by]
        for further in range(1, FURTHER_DRAWS + 1) if candidates else ():
            again = [ask_again(other, other.seed + further) for other in failing]
            others = [other for other in again if other is not None]
            for other in others:
                if other.name == question.name and (matching := self._consistent(candidates, other, others)):
                    return matching
        return []

    def _confirmed(
        self, matching: list[Misconception], question: Question, ask_again: Callable[[Question, int], Question | None]
    ) -> list[Misconception]:
        """Those of the `matching` misconceptions that still give the student's answers under one more draw or several:
        one draw may agree by coincidence. All if the check does not fail under another draw."""
        for further in range(1, FURTHER_DRAWS + 1) if matching else ():
            again = ask_again(question, question.seed + further)
            if again is None:
                break
            left = [wrong for wrong in matching if self._alike(wrong, again)]
            matching = left or [wrong for wrong in matching if self.witness.repeats(wrong, again)]
            if len({wrong.called for wrong in matching}) <= 1:
                break
        return matching

    def _generated(
        self, question: Question, failing: list[Question], ask_again: Callable[[Question, int], Question | None]
    ) -> list[Misconception]:
        """The first generated mistake that gives the student's answers in this check, is contradicted by no other one,
        and gives them again under another draw; alone in a list, which is empty if none does."""
        related = [other for other in failing if other.about == question.about and other is not question]
        for wrong in self.generated(question.about):
            if self._is_ruled_out(wrong, question, related) or not self._alike(wrong, question, CONFIRMED):
                continue
            alike = [other for other in related if self._alike(wrong, other)]
            rest = [other for other in related if other not in alike]
            random = [other for other in rest if self.witness.undecided(wrong, other)]
            if any(self.witness.contradicts(wrong, other) for other in rest):
                continue
            enough = 1 + len(alike) >= SHARE * (1 + len(related) - len(random))
            if enough and self._confirmed([wrong], question, ask_again):
                return [wrong]
        return []


def of_step(step: Solution, witness: Witness, patience: float = 1.0) -> Diagnostician:
    """The diagnostician of a step, with the time of its track, times `patience` and how slow this machine is."""
    seconds = patience * slowness() * (SECONDS_IN_THE_CORE if step.track == "core" else SECONDS)
    return Diagnostician(step.misconceptions, witness, step.pairs, step.generated, seconds)


def _one_form_each(matching: list[Misconception]) -> list[Misconception]:
    """The misconceptions, of several forms of the same mistake only the first."""
    return list({wrong.called: wrong for wrong in reversed(matching)}.values())[::-1]


def _unique(mistakes: list[Misconception]) -> list[Misconception]:
    """The misconceptions without repetition, in order."""
    return [wrong for index, wrong in enumerate(mistakes) if wrong not in mistakes[:index]]
