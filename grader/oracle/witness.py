"""The answers of a step's misconceptions: each is given the student's calls."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from grader.calls.call import Call, Outcome
from grader.checks.backends import LocalBackend, Oracle
from grader.checks.catalogue import Misconception
from grader.checks.implementation import Exchange
from grader.checks.trial import Trial
from grader.oracle import randomness
from grader.oracle.likeness import same_answer, same_but_for_the_draw, same_size, size_measured

OTHER_STREAM = 1  # added to a seed of torch's: random numbers independent of the student's


@dataclass(frozen=True)
class Question:
    """One failing check under one seed, the student's answers in it, and the public names it called."""

    check: Callable[..., None]
    seed: int
    device: str
    answers: list[Exchange]
    called: frozenset[str]

    @property
    def name(self) -> str:
        """The name of the check."""
        return self.check.__name__


class Witness(Protocol):
    """Compares misconceptions with the student."""

    def alike(self, wrong: Misconception, question: Question) -> bool:
        """Whether the check ends for the misconception as for the student: failed, after the same answers."""

    def refusing(self, wrong: Misconception, question: Question) -> Set[str]:
        """The checks that the misconception fails, under the seed and on the device of the question."""


class AskedHere:
    """Runs the misconceptions, as far as they answer like the student, and caches their answers: the next student, or
    the same one's next save, gets the same calls as long as the seed stays the same."""

    def __init__(
        self, backend: Callable[[Misconception], LocalBackend], reference: Oracle, checks: list[Callable[..., None]]
    ) -> None:
        self._backend, self._reference, self._checks = backend, reference, checks
        self._known: dict[tuple[str, str, int, str, int], _KnownAnswers] = {}

    def alike(self, wrong: Misconception, question: Question) -> bool:
        """See `Witness`."""
        known = self._answers(wrong, question.check, question)
        if self._same(wrong, question, known):
            return True
        # Drawn from the student's own stream, a mask may be the complement of theirs: then no element is kept in both,
        # and nothing can be compared.
        parted = known.outcomes[known.matched_by(question.answers) :]
        if not parted or not parted[0].drawn or not randomness.may_miss(randomness.profile(parted[0].outcome)):
            return False
        return self._same(wrong, question, self._answers(wrong, question.check, question, OTHER_STREAM), OTHER_STREAM)

    def _same(self, wrong: Misconception, question: Question, known: _KnownAnswers, stream: int = 0) -> bool:
        theirs = question.answers
        if known.refused is None and known.matched_by(theirs) == len(known.outcomes):  # the rest may match too
            self._ask(wrong, question.check, question, theirs, known, stream)
        if not known.refused:
            return False
        return known.matched_by(theirs) == len(known.outcomes) == len(theirs) and same_size(known.size, theirs)

    def refusing(self, wrong: Misconception, question: Question) -> Set[str]:
        """See `Witness`."""
        for check in self._checks:
            known = self._answers(wrong, check, question)
            if known.refused is None:
                self._ask(wrong, check, question, None, known)
        return {check.__name__ for check in self._checks if self._answers(wrong, check, question).refused}

    def _answers(
        self, wrong: Misconception, check: Callable[..., None], question: Question, stream: int = 0
    ) -> _KnownAnswers:
        return self._known.setdefault(
            (wrong.name, check.__name__, question.seed, question.device, stream), _KnownAnswers()
        )

    def _ask(
        self,
        wrong: Misconception,
        check: Callable[..., None],
        question: Question,
        theirs: list[Exchange] | None,
        known: _KnownAnswers,
        stream: int = 0,
    ) -> None:
        """Runs a check on a misconception from the beginning (a module's state depends on the earlier calls): to its
        end, or as long as the answers match `theirs`."""
        asked = _Asked(self._backend(wrong), wrong.own_draws, theirs, stream)
        trial = Trial(check.__name__, asked, self._reference, seed=question.seed, device=question.device)
        with contextlib.suppress(_Apart):
            verdict = trial.run(check, student=trial.student, reference=trial.reference, draw=trial.draw)
            known.refused = verdict.status != "pass"
            known.size = size_measured(verdict.exchanges)
        known.outcomes = asked.outcomes


@dataclass(frozen=True)
class _KnownAnswer:
    """One answer of a misconception to a call of this name, and whether random numbers were used."""

    name: str
    outcome: Outcome
    drawn: bool

    def is_like(self, theirs: Exchange, last: bool) -> bool:
        """Whether the student's answer is this one, or another draw of it; `last`: the check ended with theirs."""
        if self.name != theirs.call.name:
            return False
        if not last and self.outcome.raised and theirs.outcome is not None and theirs.outcome.raised:
            return True  # the check went on: it expected an error, and any error counts as the same
        if same_answer(theirs.call, self.outcome, theirs.outcome):
            return True
        return self.drawn and theirs.outcome is not None and same_but_for_the_draw(self.outcome, theirs.outcome)


@dataclass
class _KnownAnswers:
    """A misconception's answers in a check, with the names called: all of them, with the size of the last one, where
    the check ran to its end; else the first ones."""

    outcomes: list[_KnownAnswer] = field(default_factory=list)
    refused: bool | None = None
    size: int = 0

    def matched_by(self, theirs: list[Exchange]) -> int:
        """How many of these answers match the student's, counted from the first."""
        pairs = zip(self.outcomes, theirs, strict=False)
        same = (answer.is_like(exchange, exchange is theirs[-1]) for answer, exchange in pairs)
        return sum(1 for _same in itertools.takewhile(bool, same))


class _Apart(BaseException):
    """The answers differ. Not an Exception, so that no check takes it for one of the student's."""


class _Asked:
    """A backend that records its answers and stops the check at the first that differs from the student's."""

    def __init__(self, backend: LocalBackend, own_draws: bool, theirs: list[Exchange] | None, stream: int = 0) -> None:
        self._backend, self._own_draws, self._theirs, self._stream = backend, own_draws, theirs, stream
        self.outcomes: list[_KnownAnswer] = []

    def begin_check(self, seed: int) -> None:
        """Like the backend's, in another random stream."""
        self._backend.begin_check(seed + self._stream)

    def ask(self, call: Call) -> Outcome:
        """The backend's answer, as long as it matches the student's."""
        outcome = self._backend.ask(in_stream(call, self._stream))
        answer = _KnownAnswer(call.name, outcome, self._backend.drew or self._own_draws)
        self.outcomes.append(answer)
        if self._theirs is not None:
            theirs = self._theirs[len(self.outcomes) - 1] if len(self.outcomes) <= len(self._theirs) else None
            if theirs is None or not answer.is_like(theirs, theirs is self._theirs[-1]):
                raise _Apart
        return outcome


def in_stream(call: Call, stream: int) -> Call:
    """The same call, its seed moved to another random stream."""
    if not stream or call.options.seed is None:
        return call
    return replace(call, options=replace(call.options, seed=call.options.seed + stream))
