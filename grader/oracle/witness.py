"""The answers of a step's misconceptions: each is given the student's calls."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from grader.calls.call import Call, Outcome
from grader.calls.values import copied
from grader.checks.backends import Exchange, LocalBackend, Oracle
from grader.checks.bounded import lifted
from grader.checks.catalogue import Misconception, paired
from grader.checks.trial import Trial
from grader.oracle import randomness
from grader.oracle.likeness import (
    clearly_apart,
    same_answer,
    same_but_for_the_draw,
    same_kinds,
    same_size,
    size_measured,
    too_few_to_tell,
)

OTHER_STREAM = 1  # added to a seed of torch's: random numbers independent of the student's
ALONE = 2  # a file in which nothing else uses what is replaced


@dataclass(frozen=True)
class Question:
    """One failing check under one seed, the student's answers in it, and the public names it called.

    `refused` is the call whose answer failed it, where the check says so; else it was the last one. `blames`: the name
    that was wrong, where the answer of another shows it.
    """

    check: Callable[..., None]
    seed: int
    device: str
    answers: list[Exchange]
    called: frozenset[str]
    refused: Exchange | None = None
    blames: str = ""
    alike: dict[str, bool] = field(default_factory=dict)  # what was found, by the misconception's name

    @property
    def name(self) -> str:
        """The name of the check."""
        return self.check.__name__

    @property
    def about(self) -> str:
        """The public name whose answer failed the check."""
        return self.blames or name_refused(self.answers, self.refused)

    def counts(self, place: int, replaced: Collection[str]) -> bool:
        """Whether the student's answer at this place says something about what replaces these names: an answer of one
        of them, the one that was refused, or the last one, which may have shown what was wrong in it. What was right,
        or is wrong in another name, says nothing: what is wrong there ends its check there, and a right answer may
        differ from a right one by more than a mistake's does from itself, as scores of 1000 let it."""
        theirs = self.answers[place]
        if theirs is self.refused or place == len(self.answers) - 1:
            return True
        return theirs.name in replaced and not theirs.right


def name_refused(answers: Sequence[Exchange], refused: Exchange | None) -> str:
    """The public name whose answer failed a check: of the call that was refused, or of the last one."""
    return refused.name if refused else answers[-1].name if answers else ""


class Witness(Protocol):
    """Compares misconceptions with the student."""

    def alike(self, wrong: Misconception, question: Question) -> bool:
        """Whether the check ends for the misconception as for the student: failed, after the same answers of the names
        that it replaces."""

    def exactly(self, wrong: Misconception, question: Question) -> bool:
        """Whether the misconception, found to be `alike`, gave the student's last answer also where any would do: in
        place of an error."""

    def refusing(self, wrong: Misconception, question: Question) -> Set[str]:
        """The checks that the misconception fails by an answer of a name that it replaces, under the seed and on the
        device of the question. Where it fails by a name that only uses one of those, the student may use none."""

    def undecided(self, wrong: Misconception, question: Question) -> bool:
        """Whether the misconception, found not to be `alike`, parted from the student in an answer that is random, of
        the same shapes: drawn by another Dropout, say, the same mistake gives other numbers."""
        return False

    def contradicts(self, wrong: Misconception, question: Question) -> bool:
        """Whether the misconception, found not to be `alike`, parted from the student in an answer of a name that it
        replaces, of the same shapes and without any chance in it: another form of the same mistake gives the same."""
        return False

    def shows(self, wrong: Misconception, question: Question) -> bool:
        """Whether the check fails on the misconception alone, and by no later call than on the student's code."""
        return True

    def both(self, first: Misconception, second: Misconception) -> Misconception | None:
        """Two misconceptions of different names in one file; None where what that answers is not known, as of those
        that no step lists as a pair on a tape."""
        return None


class AskedHere(Witness):
    """Runs the misconceptions, as far as they answer like the student, and caches their answers: the next student, or
    the same one's next save, gets the same calls as long as the seed stays the same.

    `backend` is asked for a misconception in a file whose other names use what it replaces, and for one (True) whose
    other names do not, or None where there are no such names. `touched` gives the names that use what is replaced.
    """

    def __init__(
        self,
        backend: Callable[[Misconception, bool], LocalBackend | None],
        reference: Oracle,
        checks: list[Callable[..., None]],
        touched: Callable[[Collection[str]], Set[str]],
    ) -> None:
        self._backend, self._reference, self._checks, self._touched = backend, reference, checks, touched
        self._known: dict[tuple[str, str, int, str, int], _KnownAnswers] = {}
        self._combined: dict[tuple[str, str], Misconception] = {}

    def alike(self, wrong: Misconception, question: Question) -> bool:
        """See `Witness`."""
        if wrong.name not in question.alike:
            question.alike[wrong.name] = self._is_alike(wrong, question)
        return question.alike[wrong.name]

    def _is_alike(self, wrong: Misconception, question: Question) -> bool:
        if not question.called & self._touched(wrong.replaced):
            return False  # all that was called is right in it
        answers = self._answers(wrong, question.check, question)
        if self._same(wrong, question, answers):
            return True
        place = answers.matched_by(question, wrong)
        if place >= len(question.answers):
            return False
        # Drawn from the student's own stream, a mask may be the complement of theirs: then no element is kept in both,
        # and nothing can be compared.
        parted = answers.outcomes[place] if place < len(answers.outcomes) else None
        if parted and parted.drawn and randomness.may_miss(randomness.profile(parted.outcome)):
            return self._same(wrong, question, self._answers(wrong, question.check, question, OTHER_STREAM))
        # The student's other functions may not use this one, as the reference's do.
        if question.answers[place].name in wrong.replaced or self._backend(wrong, True) is None:
            return False
        return self._same(wrong, question, self._answers(wrong, question.check, question, ALONE))

    def _same(self, wrong: Misconception, question: Question, answers: _KnownAnswers) -> bool:
        theirs = question.answers
        if answers.refused is None and answers.matched_by(question, wrong) == len(
            answers.outcomes
        ):  # the rest may match too
            self._ask(wrong, question.check, question, answers, question)
        if not answers.refused:
            return False
        matched = answers.matched_by(question, wrong)
        return matched == len(answers.outcomes) == len(theirs) and same_size(answers.size, theirs)

    def exactly(self, wrong: Misconception, question: Question) -> bool:
        """See `Witness`."""
        own, theirs = self._answers(wrong, question.check, question).outcomes, question.answers[-1]
        return len(own) == len(question.answers) and same_answer(theirs.call, own[-1].outcome, theirs.outcome)

    def undecided(self, wrong: Misconception, question: Question) -> bool:
        """See `Witness`."""
        parted, _theirs = self._parted(wrong, question)
        # Else what was dropped tells the difference.
        return parted is not None and parted.drawn and not randomness.tells(randomness.profile(parted.outcome))

    def contradicts(self, wrong: Misconception, question: Question) -> bool:
        """See `Witness`."""
        parted, theirs = self._parted(wrong, question)
        if parted is None or parted.drawn or theirs is None or theirs.outcome is None:
            return False
        return theirs.name in wrong.replaced and clearly_apart(parted.outcome.value, theirs.outcome.value)

    def _parted(self, wrong: Misconception, question: Question) -> tuple[_KnownAnswer | None, Exchange | None]:
        """The answer in which it parted from the student, if both are of the same shapes, and the student's."""
        answers = self._answers(wrong, question.check, question)
        place = min(answers.matched_by(question, wrong), len(answers.outcomes) - 1, len(question.answers) - 1)
        if place < 0:
            return None, None
        theirs, parted = question.answers[place], answers.outcomes[place]
        alike = theirs.outcome is not None and same_kinds(parted.outcome, theirs.outcome)
        return (parted, theirs) if alike else (None, None)

    def refusing(self, wrong: Misconception, question: Question) -> Set[str]:
        """See `Witness`."""
        for check in self._checks:
            answers = self._answers(wrong, check, question)
            if answers.refused is None:
                self._ask(wrong, check, question, answers)
        every = {check.__name__: self._answers(wrong, check, question) for check in self._checks}
        return {name for name, answers in every.items() if answers.refused and answers.about in wrong.replaced}

    def shows(self, wrong: Misconception, question: Question) -> bool:
        """See `Witness`."""
        answers = self._answers(wrong, question.check, question)
        if answers.refused is None:
            self._ask(wrong, question.check, question, answers)
        return bool(answers.refused) and len(answers.outcomes) <= len(question.answers)

    def both(self, first: Misconception, second: Misconception) -> Misconception | None:
        """See `Witness`."""
        names = first.name, second.name
        if names not in self._combined:
            self._combined[names] = paired(first, second, {**first.replaced, **second.replaced})
        return self._combined[names]

    def _answers(
        self, wrong: Misconception, check: Callable[..., None], question: Question, form: int = 0
    ) -> _KnownAnswers:
        return self._known.setdefault(
            (wrong.name, check.__name__, question.seed, question.device, form), _KnownAnswers(form)
        )

    def _ask(
        self,
        wrong: Misconception,
        check: Callable[..., None],
        question: Question,
        answers: _KnownAnswers,
        until: Question | None = None,
    ) -> None:
        """Runs a check on a misconception from the beginning (a module's state depends on the earlier calls): to its
        end, or as long as the answers match those of `until`."""
        backend = self._backend(wrong, answers.form == ALONE)
        assert backend is not None
        asked = _Asked(backend, wrong, until, OTHER_STREAM if answers.form == OTHER_STREAM else 0)
        trial = Trial(check.__name__, asked, self._reference, seed=question.seed, device=question.device)
        with contextlib.suppress(_Apart):
            verdict = trial.run(check, student=trial.student, reference=trial.reference, draw=trial.draw)
            answers.refused = verdict.status != "pass"
            answers.size = size_measured(verdict.exchanges)
            answers.about = verdict.blames or name_refused(verdict.exchanges, verdict.about)
        answers.outcomes = asked.outcomes


@dataclass(frozen=True)
class _KnownAnswer:
    """One answer of a misconception to a call of this name, and whether random numbers were used."""

    name: str
    outcome: Outcome
    drawn: bool

    def is_like(self, question: Question, place: int, wrong: Misconception) -> bool:
        """Whether the student's answer at this place is this one, another draw of it, or one that does not count."""
        theirs = question.answers[place]
        if self.name != theirs.call.name:
            return False
        if theirs.due_error:  # which value was given in place of the error says nothing
            return not self.outcome.raised
        last = place == len(question.answers) - 1
        if not last and self.outcome.raised and theirs.outcome is not None and theirs.outcome.raised:
            return True  # the check went on: it expected an error, and any error counts as the same
        if not question.counts(place, wrong.replaced):
            return True
        with lifted():  # nothing is computed of two tensors before their shapes are compared
            if same_answer(theirs.call, self.outcome, theirs.outcome):
                return True
            if not self.drawn or theirs.outcome is None:
                return False
            if not last and too_few_to_tell(self.outcome, theirs.outcome):
                return True  # what chance parted counts neither way, unless the check ended with it
            return same_but_for_the_draw(self.outcome, theirs.outcome)


@dataclass
class _KnownAnswers:
    """A misconception's answers in a check, with the names called: all of them, with the size of the last one, where
    the check ran to its end; else the first ones. `form`: of the usual file, in another random stream, or of a file
    whose other names do not use what it replaces."""

    form: int = 0
    outcomes: list[_KnownAnswer] = field(default_factory=list)
    refused: bool | None = None
    size: int = 0
    about: str = ""

    def matched_by(self, question: Question, wrong: Misconception) -> int:
        """How many of these answers match the student's, counted from the first."""
        count = min(len(self.outcomes), len(question.answers))
        same = (self.outcomes[place].is_like(question, place, wrong) for place in range(count))
        return sum(1 for _same in itertools.takewhile(bool, same))


class _Apart(BaseException):
    """The answers differ. Not an Exception, so that no check takes it for one of the student's."""


class _Asked:
    """A backend that records its answers and stops the check at the first that differs from the student's."""

    def __init__(self, backend: LocalBackend, wrong: Misconception, until: Question | None, stream: int = 0) -> None:
        self._backend, self._wrong, self._until, self._stream = backend, wrong, until, stream
        self.outcomes: list[_KnownAnswer] = []

    def begin_check(self, seed: int) -> None:
        """Like the backend's, in another random stream."""
        self._backend.begin_check(seed + self._stream)

    def ask(self, call: Call) -> Outcome:
        """The backend's answer, as long as it matches the student's."""
        asked = self._backend.ask(in_stream(call, self._stream))
        # A copy: a later call may write into what this one gave, as a cache does that is used again.
        outcome = replace(asked, value=copied(asked.value), gradients=copied(asked.gradients))
        answer = _KnownAnswer(call.name, outcome, self._backend.drew or self._wrong.own_draws)
        self.outcomes.append(answer)
        place = len(self.outcomes) - 1
        if self._until is not None and (
            place >= len(self._until.answers) or not answer.is_like(self._until, place, self._wrong)
        ):
            raise _Apart
        return outcome


def in_stream(call: Call, stream: int) -> Call:
    """The same call, its seed moved to another random stream."""
    if not stream or call.options.seed is None:
        return call
    return replace(call, options=replace(call.options, seed=call.options.seed + stream))
