"""Names the misconception behind a wrong answer: the one that gives the same answers to the same questions.

A failing check is run again with each of the step's wrong implementations in the student's place. The draws are the
same, so the questions are; whose answers are the student's, in value, shape or error, is the diagnosis.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grader.catalogue import Misconception
from grader.compare import UNITS, magnitude
from grader.implementation import Backend, Exchange, Oracle
from grader.messages import Call, Outcome, Placed, Raised
from grader.verdict import Trial

# A learner's way of making the same mistake sums in another order: room for that, and nothing else.
ROOM = 16.0
# Of the failing checks that a misconception should explain, the share in which it must answer as the student did. Not
# all: random numbers drawn in another order part the answers of one and the same mistake.
SHARE = 0.75
UNEXPLAINED = 3  # failing checks searched in vain before the rest is left unexplained
FURTHER_DRAWS = 3


@dataclass(frozen=True)
class Question:
    """One failing check under one seed, what the student answered in it, and the public names it called."""

    check: Callable[..., None]
    seed: int
    device: str
    answers: list[Exchange]
    called: frozenset[str]

    @property
    def name(self) -> str:
        """The name of the check."""
        return self.check.__name__


# Whether a misconception gives the student's answers to all of a question.
AnswersAlike = Callable[[Misconception, Question], bool]


class Diagnostician:
    """Knows a step's misconceptions and asks them what the student was asked."""

    def __init__(self, misconceptions: list[Misconception], answers_alike: AnswersAlike) -> None:
        self.misconceptions = misconceptions
        self.answers_alike = answers_alike

    def diagnose(
        self, questions: list[Question], ask_again: Callable[[Question, int], Question | None]
    ) -> dict[str, list[Misconception]]:
        """The misconceptions behind each failing check, by its name: one, or several that can't be told apart.

        `ask_again` puts a check to the student under another seed; None when it does not fail there.
        """
        found: dict[str, list[Misconception]] = {}
        in_vain = 0
        for question in questions:
            known = [wrong for group in found.values() for wrong in group if self.answers_alike(wrong, question)]
            matching = _unique(known)
            if not matching and in_vain < UNEXPLAINED:
                matching = self._told_apart(
                    self._consistent(self._matching(question, questions), questions), question, ask_again
                )
                in_vain += not matching
            if matching:
                found[question.name] = matching
        return found

    def _matching(self, question: Question, failing: list[Question]) -> list[Misconception]:
        """Those that answer this question as the student did. One whose own check the student passes is out: the
        catalogue proves that it fails there."""
        names = {other.name for other in failing}
        return [
            wrong for wrong in self.misconceptions if wrong.caught_by in names and self.answers_alike(wrong, question)
        ]

    def _consistent(self, matching: list[Misconception], failing: list[Question]) -> list[Misconception]:
        """Those that also explain the other failing checks of what they replace, and of these the best ones."""
        explained: list[tuple[Misconception, int]] = []
        for wrong in matching:
            related = [question for question in failing if question.called & wrong.replaced.keys()]
            count = sum(self.answers_alike(wrong, question) for question in related)
            if count >= SHARE * len(related):
                explained.append((wrong, count))
        most = max((count for _wrong, count in explained), default=0)
        return [wrong for wrong, count in explained if count == most]

    def _told_apart(
        self, matching: list[Misconception], question: Question, ask_again: Callable[[Question, int], Question | None]
    ) -> list[Misconception]:
        """Those that still answer like the student under further draws."""
        for further in range(1, FURTHER_DRAWS + 1):
            again = ask_again(question, question.seed + further) if len(matching) > 1 else None
            if again is None:
                break
            matching = [wrong for wrong in matching if self.answers_alike(wrong, again)] or matching
        return matching


def asked_here(backend: Callable[[Misconception], Backend], reference: Oracle) -> AnswersAlike:
    """Asks the misconceptions themselves, as far as they answer like the student."""

    def answers_alike(wrong: Misconception, question: Question) -> bool:
        alike = _Alike(backend(wrong), question.answers)
        trial = Trial(question.name, alike, reference, seed=question.seed, device=question.device)
        with contextlib.suppress(_Settled):
            trial.run(question.check, student=trial.student, reference=trial.reference, draw=trial.draw)
        return alike.matched == len(question.answers) > 0

    return answers_alike


class _Settled(BaseException):
    """It is known whether the answers are alike. Not an Exception: no check may take it for one of the student's."""


class _Alike:
    """A backend that compares each of its answers with the student's, and stops the check once that is settled."""

    def __init__(self, backend: Backend, answers: list[Exchange]) -> None:
        self._backend, self._answers = backend, answers
        self.matched = 0

    def begin_check(self, seed: int) -> None:
        """As the backend does."""
        self._backend.begin_check(seed)

    def ask(self, call: Call) -> Outcome:
        """The backend's answer, as long as it is the student's."""
        outcome, theirs = self._backend.ask(call), self._answers[self.matched]
        if call.name != theirs.call.name or not same_answer(call, outcome, theirs.outcome):
            raise _Settled
        self.matched += 1
        if self.matched == len(self._answers):
            raise _Settled
        return outcome


def _unique(found: list[Misconception]) -> list[Misconception]:
    return [wrong for index, wrong in enumerate(found) if wrong not in found[:index]]


def is_about_parameters(call: Call) -> bool:
    """Whether a module was asked for its parameters: as it was made they are random, and only names and shapes tell."""
    return call.handle is not None and call.name == "parameters"


def same_answer(call: Call, mine: Outcome | None, theirs: Outcome | None) -> bool:
    """Whether two answers to a call are one."""
    if mine is None or theirs is None or not is_about_parameters(call):
        return same_outcome(mine, theirs)
    return parameter_shapes(mine) == parameter_shapes(theirs)


def parameter_shapes(outcome: Outcome) -> list[tuple[str, str]]:
    """What counts of an answer about parameters."""
    values = outcome.value if isinstance(outcome.value, dict) else {}
    return sorted(
        (name, f"{tuple(value.tensor.shape)} {value.tensor.dtype} {value.device}")
        for name, value in values.items()
        if isinstance(value, Placed)
    )


def same_outcome(mine: Outcome | None, theirs: Outcome | None) -> bool:
    """Whether two outcomes are one: the same error, or values (NaN where NaN is) and gradients that agree."""
    if mine is None or theirs is None:
        return mine is theirs
    if mine.raised or theirs.raised:
        return _same_error(mine.raised, theirs.raised)
    return (
        _same(mine.value, theirs.value)
        and mine.gradients.keys() == theirs.gradients.keys()
        and all(_same(mine.gradients[name], theirs.gradients[name]) for name in mine.gradients)
        and mine.modified == theirs.modified
    )


def _same_error(mine: Raised | None, theirs: Raised | None) -> bool:
    return mine is not None and theirs is not None and (mine.type, mine.message) == (theirs.type, theirs.message)


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, Placed) and isinstance(theirs, Placed):
        return mine.device == theirs.device and _close(mine.tensor, theirs.tensor)
    if isinstance(mine, tuple) and isinstance(theirs, tuple):
        return len(mine) == len(theirs) and all(_same(one, other) for one, other in zip(mine, theirs, strict=True))
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(_same(mine[name], theirs[name]) for name in mine)
    return type(mine) is type(theirs) and bool(mine == theirs)


def _close(mine: Tensor, theirs: Tensor) -> bool:
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return False
    if mine.device.type == "meta":
        return True
    if not mine.is_floating_point():
        return torch.equal(mine, theirs)
    room = ROOM * UNITS.get(mine.dtype, 16.0) * torch.finfo(mine.dtype).eps * magnitude(mine, 1e-3)
    return torch.allclose(mine.double(), theirs.double(), rtol=0.0, atol=room, equal_nan=True)
