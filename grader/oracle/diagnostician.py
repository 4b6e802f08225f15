"""Names the misconception behind a wrong answer: the one that gives the same answers to the same calls.

A failing check is run again on each of the step's wrong implementations. The draws are the same, so the calls are too;
the implementation that gives the student's answers, in value, shape or error, is the diagnosis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace

from grader.base.language import gettext as _
from grader.checks.catalogue import Misconception
from grader.oracle.witness import Question, Witness

# Of the failing checks that a misconception should explain, the share in which it must give the student's answers. Not
# all: random numbers drawn in another order make the answers of the same mistake differ.
SHARE = 0.75
UNEXPLAINED = 3  # failing checks of one public name searched without success before its rest is left unexplained
FURTHER_DRAWS = 3


class Diagnostician:
    """Puts the student's calls to a step's misconceptions and pairs of them.

    Pairs are tried where no single misconception matches.
    """

    def __init__(self, misconceptions: list[Misconception], witness: Witness, pairs: list[Misconception]) -> None:
        self.misconceptions = misconceptions
        self.witness = witness
        self.pairs = pairs
        self.unwritten: AbstractSet[str] = frozenset()

    def diagnose(
        self, questions: list[Question], ask_again: Callable[[Question, int], Question | None],
        unwritten: AbstractSet[str] = frozenset(),
    ) -> dict[str, list[Misconception]]:  # fmt: skip
        """The misconceptions behind each failing check, by its name: one, or several that can't be distinguished.

        `ask_again` runs a check on the student's code under another seed; None when it does not fail there. The checks
        `unwritten` met a part that is not written yet: they speak neither for a misconception nor against it.
        """
        self.unwritten = unwritten
        found: dict[str, list[Misconception]] = {}
        in_vain: Counter[str] = Counter()
        pairs = self.pairs
        for question in questions:
            known = [wrong for group in found.values() for wrong in group if self.witness.alike(wrong, question)]
            matching = _unique(known)
            if not matching and in_vain[question.about] < UNEXPLAINED:
                consistent = self._consistent(self.misconceptions, question, questions)
                consistent = consistent or self._consistent(pairs, question, questions)
                matching = self._told_apart(consistent, question, ask_again)
                matching = matching or self._drawn_anew(question, questions, ask_again)
                if not matching:
                    in_vain[question.about] += 1
                    pairs = [pair for pair in pairs if not question.called & pair.replaced.keys()]
            if matching:
                found[question.name] = matching
        if 0 < len(found) < len(questions):
            self._beside(questions, found, ask_again)
        return {
            question.name: self._whole(found[question.name], found, question)
            for question in questions
            if question.name in found
        }

    def _beside(
        self, questions: list[Question], found: dict[str, list[Misconception]],
        ask_again: Callable[[Question, int], Question | None],
    ) -> None:  # fmt: skip
        """Adds what stands beside a mistake that was found: a second one, which explains what the first does not, and
        both of them where a check meets both."""
        for question in questions:
            if question.name in found:
                continue
            left = [other for other in questions if other.name not in found]
            singles = _unique([wrong for group in found.values() for wrong in group if not wrong.parts])
            matching = [both for both in self._combined(singles, singles) if self.witness.alike(both, question)]
            if not matching and sum(1 for other in left if other.about == question.about) :
                matching = self._told_apart(
                    self._consistent(self.misconceptions, question, left), question, ask_again
                )
            if matching:
                found[question.name] = matching[:1] if matching[0].parts else matching

    def _combined(self, firsts: list[Misconception], seconds: list[Misconception]) -> Iterator[Misconception]:
        """Each of the first with each of the second ones, where they replace different names."""
        for place, first in enumerate(firsts):
            for second in seconds[place + 1 :]:
                if not first.replaced.keys() & second.replaced.keys():
                    both = self.witness.both(first, second)
                    if both is not None:
                        yield both

    def _whole(
        self, matching: list[Misconception], found: dict[str, list[Misconception]], question: Question
    ) -> list[Misconception]:
        """Where a check shows only one of two mistakes and another check shows both: returns the pair."""
        if len(matching) > 1:
            # A pair next to one of its own parts was found where the part alone did not match.
            parts = [wrong for wrong in matching if any(wrong in pair.parts for pair in matching)]
            return [
                next((replace(wrong, nudge=part.nudge) for part in parts if part in wrong.parts), wrong)
                for wrong in matching
                if wrong not in parts
            ]
        both = [
            pair
            for group in found.values()
            if all(matching[0] in pair.parts for pair in group)
            for pair in group
            if self.witness.alike(pair, question)
        ]
        # The nudge is that of the mistake that shows.
        return [replace(pair, nudge=matching[0].nudge) for pair in _unique(both)] or matching

    def _consistent(
        self, candidates: list[Misconception], question: Question, failing: list[Question]
    ) -> list[Misconception]:
        """The best of those that give the student's answer here, explain the other failing checks of what they replace,
        and would not fail where the student passes.

        The checks that are meant to catch it, or both of its parts, allow no exception.
        """
        explained: list[tuple[Misconception, int]] = []
        names = {other.name for other in failing}
        for wrong in self._matching(candidates, question, names):
            # A check that another name fails says nothing about what this one would have answered.
            silent = {other.name for other in failing if other.about not in wrong.replaced}
            refusing = self.witness.refusing(wrong, question) - self.unwritten - silent
            own = wrong.refused_by & refusing
            if len(refusing & names) < SHARE * len(refusing) or not own <= names:
                continue
            alike = {other.name for other in failing if self.witness.alike(wrong, other)}
            related = names - silent
            if len(related & alike) >= SHARE * len(related) and not own & (related - alike):
                explained.append((wrong, len(alike)))
        most = max((count for _wrong, count in explained), default=0)
        return [wrong for wrong, count in explained if count == most]

    def _matching(self, candidates: list[Misconception], question: Question, names: set[str]) -> list[Misconception]:
        """Those that give the student's answer. A misconception whose own checks the student passes is ruled out: the
        catalogue proves that it fails there."""
        seen = names | self.unwritten
        return [wrong for wrong in candidates if wrong.refused_by & seen and self.witness.alike(wrong, question)]

    def _drawn_anew(
        self, question: Question, failing: list[Question], ask_again: Callable[[Question, int], Question | None]
    ) -> list[Misconception]:
        """Those whose numbers no seed repeats, identified under further seeds by the statistics of their draws, which
        one sample may hide."""
        candidates = [wrong for wrong in self.misconceptions if wrong.own_draws]
        for further in range(1, FURTHER_DRAWS + 1) if candidates else ():
            again = [ask_again(other, other.seed + further) for other in failing]
            asked = [other for other in again if other is not None]
            for other in asked:
                if other.name == question.name and (matching := self._consistent(candidates, other, asked)):
                    return matching
        return []

    def _told_apart(
        self, matching: list[Misconception], question: Question, ask_again: Callable[[Question, int], Question | None]
    ) -> list[Misconception]:
        """Those that still give the student's answers under further draws."""
        for further in range(1, FURTHER_DRAWS + 1):
            again = ask_again(question, question.seed + further) if len(matching) > 1 else None
            if again is None:
                break
            matching = [wrong for wrong in matching if self.witness.alike(wrong, again)] or matching
        return matching


def name_of(matching: list[Misconception]) -> str:
    """A diagnosis as reports name it: `a | b` for one of two that can't be distinguished, `a + b` for both at once."""
    return " | ".join(wrong.name for wrong in matching)


def explained(matching: list[Misconception]) -> list[str]:
    """The text of a diagnosis: what was done and why it is wrong; what each did, of several that can't be
    distinguished."""
    if len(matching) > 1:
        return [
            _("One of these is the cause:"),
            *(f"- {' '.join(_(part.what) for part in _parts(wrong))}" for wrong in matching),
        ]
    parts = _parts(matching[0])
    if len(parts) == 1:
        return [_("diagnosis  {what} {why}").format(what=_(parts[0].what), why=_(parts[0].why))]
    return [_("Two mistakes were made:"), *(f"- {_(part.what)} {_(part.why)}" for part in parts)]


def nudge_of(matching: list[Misconception]) -> str:
    """The one nudge of a diagnosis."""
    return _(matching[0].nudge)


def _parts(wrong: Misconception) -> tuple[Misconception, ...]:
    return wrong.parts or (wrong,)


def _unique(found: list[Misconception]) -> list[Misconception]:
    return [wrong for index, wrong in enumerate(found) if wrong not in found[:index]]
