"""Compares a student's answers in a failing check with those of misconceptions.

A misconception that is asked a check gives a list of fingerprints. An `AnswerSource` provides them: a tape has them
from a recording, `AskedHere` runs the misconception as far as it answers like the student. Both are compared in the
same way, so that a learner's kit and a checkout name the same mistakes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec.structs import replace

from grader.calls.call import Call, Outcome
from grader.checks.backends import Exchange, LocalBackend, Oracle
from grader.checks.bounded import lifted
from grader.checks.catalogue import Misconception, paired
from grader.checks.trial import Trial, Verdict
from grader.oracle import randomness
from grader.oracle.fingerprints import Print, agree_in, clearly_apart, far_nearer, fingerprint
from grader.oracle.likeness import same_size, size_measured
from grader.oracle.wrong_ways import Replacements

# A misconception as it is; in another random stream; in a file in which nothing uses it.
USUAL, OTHER_STREAM, ALONE = range(3)


@dataclass(frozen=True)
class Question:
    """One failing check under one seed, with its verdict on the student."""

    check: Callable[..., None]
    seed: int
    device: str
    verdict: Verdict
    alike: dict[str, bool] = field(default_factory=dict)  # what was found, by the misconception's name

    @property
    def answers(self) -> list[Exchange]:
        """The student's answers in the check."""
        return self.verdict.exchanges

    @property
    def called(self) -> frozenset[str]:
        """The public names that the check called."""
        return self.verdict.called

    @property
    def name(self) -> str:
        """The name of the check."""
        return self.check.__name__

    @property
    def about(self) -> str:
        """The public name with the answer that failed the check."""
        return self.verdict.failure.blames or (self.verdict.last.name if self.verdict.last else "")

    def counts(self, index: int, replaced: Collection[str]) -> bool:
        """True if the student's answer at this index (from 0) says something about code that replaces these names: an
        answer of one of them that was wrong, the one that was refused, or the last one, which may have shown what was
        wrong in a refused one of another name. What was right, or is wrong in another name, says nothing: what is wrong
        there ends its check there, and a right answer may differ from a right one by more than a mistake's does from
        itself, as scores of 1000 let it."""
        theirs, refused = self.answers[index], self.verdict.failure.about
        if theirs is refused or (index == len(self.answers) - 1 and (refused is None or refused.name not in replaced)):
            return True
        return theirs.name in replaced and not theirs.right

    def agrees(self, print_: Print, index: int, wrong: Misconception) -> bool:
        """True if the student's answer at this index has this fingerprint, or does not count for this misconception;
        False if the student has no such answer."""
        if index >= len(self.answers):
            return False
        last = index == len(self.answers) - 1
        return not self.counts(index, wrong.replaced) or agree_in(print_, self.answers[index], self.device, last)


@dataclass
class Replies:
    """A misconception's answers in a check: a fingerprint for each call, as far as it was asked. `refused` is None if
    it was not asked to the end; `about`: the public name with the answer that failed it; `size`: of the last one, if
    the check measures it."""

    prints: list[Print] = field(default_factory=list)
    refused: bool | None = None
    about: str = ""
    size: int = 0

    def matched_by(self, question: Question, wrong: Misconception) -> int:
        """The number of these answers, counted from the first, that are the student's or don't count."""
        count = len(self.prints)
        return next((n for n in range(count) if not question.agrees(self.prints[n], n, wrong)), count)

    def end_like(self, question: Question, matched: int) -> bool:
        """Whether the check ended on these answers as on the student's; `matched` is the result of `matched_by`."""
        all_match = matched == len(self.prints) == len(question.answers) > 0
        return bool(self.refused) and all_match and same_size(self.size, question.answers)


class AnswerSource(Protocol):
    """The source of misconceptions' answers; `checks` are by name."""

    checks: Mapping[str, Any]

    def note_passed(self, check: str, called: Set[str]) -> None:
        """Takes the public names that a check calls until it passes: it can't refuse code that touches none of them."""
        return

    def answers(
        self, wrong: Misconception, check: str, question: Question, form: int = USUAL, until: Question | None = None
    ) -> Replies | None:
        """A misconception's answers in the check with this name, under the seed and on the device of the question: to
        the end, or until they differ from those of `until`. `form`: as it is (USUAL), with other random numbers
        (OTHER_STREAM), or not used by other names of the file (ALONE). None if it passes the check, or has no such
        form."""

    def both(self, first: Misconception, second: Misconception) -> Misconception | None:
        """Two misconceptions that replace different names, as one; None if the answers of both together are not
        known."""
        return None


class Witness:
    """Compares misconceptions with the student."""

    def __init__(self, asked: AnswerSource) -> None:
        """Takes the misconceptions' answers from `asked`."""
        self.asked = asked
        self.both = asked.both
        self.note_passed = asked.note_passed

    def alike(self, wrong: Misconception, question: Question) -> bool:
        """Whether the check ends for the misconception as for the student: failed, after the same answers of the names
        that it replaces. Cached in the question."""
        if wrong.name not in question.alike:
            question.alike[wrong.name] = self._is_alike(wrong, question)
        return question.alike[wrong.name]

    def _is_alike(self, wrong: Misconception, question: Question) -> bool:
        """True if some form of the misconception ends the check as the student's code did."""
        usual = self.asked.answers(wrong, question.name, question, USUAL, until=question)
        matched = usual.matched_by(question, wrong) if usual else 0
        if usual and usual.end_like(question, matched):
            return True
        for form in self._further(wrong, question, usual, matched):
            answers = self.asked.answers(wrong, question.name, question, form, until=question)
            if answers and answers.end_like(question, answers.matched_by(question, wrong)):
                return True
        return False

    def _further(self, wrong: Misconception, question: Question, usual: Replies | None, parted: int) -> Sequence[int]:
        """The forms, OTHER_STREAM or ALONE, that may still answer like the student: the usual one first differed at
        index `parted`. `usual` None: it passes the check, and both may."""
        if usual is None:  # it passes the check, on a tape
            return OTHER_STREAM, ALONE
        # Drawn from the student's own stream, a mask may be the complement of theirs: then no element is kept in both,
        # and nothing can be compared.
        if parted < len(usual.prints) and randomness.may_miss(usual.prints[parted].profile):
            return (OTHER_STREAM,)
        # The student's other functions may not use this one, as the reference's do.
        uses_it = parted < len(question.answers) and question.answers[parted].name not in wrong.replaced
        return (ALONE,) if uses_it else ()

    def exactly(self, wrong: Misconception, question: Question) -> bool:
        """Whether the misconception, found to be `alike`, gave exactly the student's last answer, even if any value
        would do: in place of an error."""
        prints = self._usual(wrong, question).prints
        last = question.answers[-1]
        return len(prints) == len(question.answers) and agree_in(prints[-1], last, question.device, exactly=True)

    def is_refused(self, wrong: Misconception, check: str, question: Question) -> bool:
        """Whether the misconception fails the check with this name by an answer of a name that it replaces, under the
        seed and on the device of the question. If it fails by a name that only uses one of those, the student need not
        use it."""
        replies = self.asked.answers(wrong, check, question)
        return replies is not None and bool(replies.refused) and replies.about in wrong.replaced

    def undecided(self, wrong: Misconception, question: Question) -> bool:
        """Whether the misconception, found not to be `alike`, first differs from the student in an answer that is
        random, of the same shapes: drawn by another Dropout, say, the same mistake gives other numbers. So does the
        same mistake in an answer that need not be exact, which then is far nearer to it than to the right one. Or the
        check ended on the misconception for what its code costs, after answers that the student's are like."""
        if self._cost_more(wrong, question):
            return True
        print_, theirs = self._first_difference(wrong, question)
        if print_ is None or theirs is None or theirs.outcome is None:
            return False
        if not print_.drawn and theirs is question.verdict.failure.about and theirs.name in wrong.replaced:
            due = question.verdict.failure.due
            return due is not None and not due.part and far_nearer(print_, theirs, due.wanted, question.device)
        if not print_.drawn or print_.profile:
            return False
        return 0 < len(print_.numbers) == len(randomness.shapes(theirs.outcome))

    def _cost_more(self, wrong: Misconception, question: Question) -> bool:
        """Whether the check ended earlier on the misconception, on an answer that is the student's, who went on."""
        usual = self._usual(wrong, question, until=question)
        last = len(usual.prints) - 1
        if not usual.refused or not 0 <= last < len(question.answers) - 1:
            return False
        is_last_alike = agree_in(usual.prints[last], question.answers[last], question.device)
        return is_last_alike and usual.matched_by(question, wrong) == last + 1

    def contradicts(self, wrong: Misconception, question: Question) -> bool:
        """Whether the misconception, found not to be `alike`, first differs from the student in an answer of a name
        that it replaces, of the same shapes and without any chance in it: another form of the same mistake gives the
        same."""
        print_, theirs = self._first_difference(wrong, question)
        if print_ is None or theirs is None or print_.drawn or theirs.name not in wrong.replaced:
            return False
        return clearly_apart(print_, theirs, question.device)

    def repeats(self, wrong: Misconception, question: Question) -> bool:
        """Whether the misconception is `alike` in this question, of another seed, or can't be told apart by it: the
        first answer in which they differ, or the last, was drawn at random, or it has `own_draws`."""
        print_, theirs = self._first_difference(wrong, question)
        by_chance = print_ is not None and theirs is not None and print_.drawn
        return by_chance or wrong.own_draws or self.alike(wrong, question)

    def _first_difference(self, wrong: Misconception, question: Question) -> tuple[Print | None, Exchange | None]:
        """The first answer of the misconception that differs from the student's, or its last one; and the student's at
        this index. (None, None) if one of them has no answer."""
        answers = self._usual(wrong, question, until=question)
        place = min(answers.matched_by(question, wrong), len(answers.prints) - 1, len(question.answers) - 1)
        return (answers.prints[place], question.answers[place]) if place >= 0 else (None, None)

    def shows(self, wrong: Misconception, question: Question) -> bool:
        """Whether the check fails on the misconception alone, and by no later call than on the student's code."""
        answers = self._usual(wrong, question)
        return bool(answers.refused) and len(answers.prints) <= len(question.answers)

    def _usual(self, wrong: Misconception, question: Question, until: Question | None = None) -> Replies:
        """The answers of a misconception in its usual form; empty without any."""
        return self.asked.answers(wrong, question.name, question, until=until) or Replies()


class AskedHere(AnswerSource):
    """Runs the misconceptions, as far as they answer like the student, and caches their answers: the next student, or
    the same one's next save, gets the same calls as long as the seed stays the same.

    `backend` is asked for a misconception in a file with other names that use what it replaces, and for one (True) in a
    file with other names that do not, or None if there are no such names. `touched` gives the names that use what is
    replaced.
    """

    def __init__(
        self,
        backend: Callable[[Misconception, bool], LocalBackend | None],
        reference: Oracle,
        checks: list[Callable[..., None]],
        touched: Callable[[Collection[str]], Set[str]],
    ) -> None:
        self._backend, self._reference, self._touched = backend, reference, touched
        self.checks = {check.__name__: check for check in checks}
        self._known: dict[tuple[str, str, int, str, int], Replies] = {}
        self._called: dict[str, Set[str]] = {}
        self._combined: dict[tuple[str, str], Misconception] = {}

    def note_passed(self, check: str, called: Set[str]) -> None:
        """Takes the public names that a check calls until it passes."""
        self._called[check] = called

    def answers(
        self, wrong: Misconception, check: str, question: Question, form: int = USUAL, until: Question | None = None
    ) -> Replies | None:
        """The answers of a misconception, by running the check from its first call on: a module's state depends on the
        earlier ones. Cached; see `AnswerSource`."""
        called = until.called if until is not None else self._called.get(check)
        if called is not None and not called & self._touched(wrong.replaced):
            return None  # all that was called is right in it
        key = wrong.name, check, question.seed, question.device, form
        replies = self._known.setdefault(key, Replies())
        # A prefix that the student shares may go on.
        if replies.refused is None and (until is None or replies.matched_by(until, wrong) == len(replies.prints)):
            backend = self._backend(wrong, form == ALONE)
            if backend is None:
                return None
            asked = _FingerprintBackend(
                backend, wrong, question.device, until, OTHER_STREAM if form == OTHER_STREAM else 0
            )
            trial = Trial(check, asked, self._reference, seed=question.seed, device=question.device)
            replies = self._known[key] = Replies(asked.prints)
            with contextlib.suppress(_Apart):
                function = self.checks.get(check, question.check)
                verdict = trial.run(function, student=trial.student, reference=trial.reference, draw=trial.draw)
                replies.refused, replies.size = verdict.status != "pass", size_measured(verdict.exchanges)
                replies.about = verdict.blamed
        return replies

    def both(self, first: Misconception, second: Misconception) -> Misconception | None:
        """A pair of misconceptions that replace different names, as one, in which one may use the other; cached."""
        names = first.name, second.name
        if names not in self._combined:
            replaced = {**first.replaced, **second.replaced}
            for user, used in ((first, second), (second, first)):
                if isinstance(user.replaced, Replacements) and user.replaced.keys() & self._touched(used.replaced):
                    replaced |= user.replaced.over(used.replaced)
            self._combined[names] = paired(first, second, replaced)
        return self._combined[names]


class _Apart(BaseException):
    """The answers differ. Not an Exception, so that no check takes it for one of the student's."""


class _FingerprintBackend:
    """A backend that takes a fingerprint of each answer, and stops the check at the first that is not the student's."""

    def __init__(
        self, backend: LocalBackend, wrong: Misconception, device: str, until: Question | None, stream: int
    ) -> None:
        """Stops at the first answer that differs from the student's in `until` (None: never); `stream` is added to each
        seed."""
        self._backend, self._wrong, self._device, self._until, self._stream = backend, wrong, device, until, stream
        self.prints: list[Print] = []

    def begin_check(self, seed: int) -> None:
        """Starts a check on the backend, with the seed moved by `stream`."""
        self._backend.begin_check(seed + self._stream)

    def ask(self, call: Call) -> Outcome:
        """The backend's answer, with its fingerprint added to `prints`. Raises _Apart if it differs from the
        student's."""
        if self._stream and call.options.seed is not None:
            call = replace(call, options=replace(call.options, seed=call.options.seed + self._stream))
        # A copy: a later call may write into what this one gave, as a cache does that is used again.
        outcome = self._backend.ask(call).copied()
        drawn = self._backend.drew or self._wrong.own_draws
        with lifted():  # no two tensors of different shapes meet
            print_ = fingerprint(call, outcome, self._device, drawn)
            parted = self._until is not None and not self._until.agrees(print_, len(self.prints), self._wrong)
        self.prints.append(print_)
        if parted:
            raise _Apart
        return outcome
