"""Names the misconception behind a wrong answer: the one that gives the same answers to the same questions.

A failing check is run again with each of the step's wrong implementations in the student's place. The draws are the
same, so the questions are; whose answers are the student's, in value, shape or error, is the diagnosis.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Set
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from grader import chance
from grader.catalogue import Misconception
from grader.compare import UNITS, magnitude
from grader.implementation import Exchange, LocalBackend, Oracle
from grader.language import gettext as _
from grader.messages import Call, Outcome, Placed, Raised
from grader.verdict import Trial

# A learner's way of making the same mistake sums in another order: room for that, and nothing else.
ROOM = 16.0
# Of the failing checks that a misconception should explain, the share in which it must answer as the student did. Not
# all: random numbers drawn in another order part the answers of one and the same mistake.
SHARE = 0.75
ON_PURPOSE = re.compile(r"(^|:\s*)(raise|assert)\b")  # a line whose error is its author's own
ADDRESS = re.compile(r"0x[0-9a-f]+")
UNEXPLAINED = 3  # failing checks searched in vain before the rest is left unexplained
FURTHER_DRAWS = 3
# What the responder says of a tensor on another device: where it was made is the mistake. Which op met it first, and
# with how many leading dimensions of size 1, is not.
STRAY = re.compile(r"(on the same device, but )\w+ (got one on meta and one of shape \()(?:1, )*")
OTHER_STREAM = 1  # added to a seed of torch's: random numbers that have nothing to do with the student's


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


class Witness(Protocol):
    """Knows what the misconceptions answer."""

    def alike(self, wrong: Misconception, question: Question) -> bool:
        """Whether the check ends for the misconception as it did for the student: refused, after the same answers."""

    def refusing(self, wrong: Misconception, question: Question) -> Set[str]:
        """The checks that refuse the misconception, under the seed and on the device of the question."""


class Diagnostician:
    """Knows a step's misconceptions and pairs of them, and asks them what the student was asked.

    Pairs are asked where no misconception by itself is the answer.
    """

    def __init__(self, misconceptions: list[Misconception], witness: Witness, pairs: list[Misconception]) -> None:
        self.misconceptions = misconceptions
        self.witness = witness
        self.pairs = pairs

    def diagnose(
        self, questions: list[Question], ask_again: Callable[[Question, int], Question | None]
    ) -> dict[str, list[Misconception]]:
        """The misconceptions behind each failing check, by its name: one, or several that can't be told apart.

        `ask_again` puts a check to the student under another seed; None when it does not fail there.
        """
        found: dict[str, list[Misconception]] = {}
        in_vain, pairs = 0, self.pairs
        for question in questions:
            known = [wrong for group in found.values() for wrong in group if self.witness.alike(wrong, question)]
            matching = _unique(known)
            if not matching and in_vain < UNEXPLAINED:
                consistent = self._consistent(self.misconceptions, question, questions)
                consistent = consistent or self._consistent(pairs, question, questions)
                matching = self._told_apart(consistent, question, ask_again)
                matching = matching or self._drawn_anew(question, questions, ask_again)
                if not matching:
                    in_vain += 1
                    pairs = [pair for pair in pairs if not question.called & pair.replaced.keys()]
            if matching:
                found[question.name] = matching
        return {
            question.name: self._whole(found[question.name], found, question)
            for question in questions
            if question.name in found
        }

    def _whole(
        self, matching: list[Misconception], found: dict[str, list[Misconception]], question: Question
    ) -> list[Misconception]:
        """Where only one of two mistakes shows in a check and another check shows both: the two."""
        if len(matching) > 1:
            # A pair beside a part of its own was found where the part alone would not do.
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
        # The nudge stays with the mistake that shows.
        return [replace(pair, nudge=matching[0].nudge) for pair in _unique(both)] or matching

    def _consistent(
        self, candidates: list[Misconception], question: Question, failing: list[Question]
    ) -> list[Misconception]:
        """Those that answer this question as the student did, that explain the other failing checks of what they
        replace, and that would not fail where the student passes; of these the best ones.

        In the checks that are there to catch it, or both parts of it, there is no exception to that.
        """
        explained: list[tuple[Misconception, int]] = []
        names = {other.name for other in failing}
        for wrong in self._matching(candidates, question, names):
            refusing = self.witness.refusing(wrong, question)
            own = wrong.refused_by & refusing
            if len(refusing & names) < SHARE * len(refusing) or not own <= names:
                continue
            related = [other for other in failing if other.called & wrong.replaced.keys()]
            other_answers = {other.name for other in related if not self.witness.alike(wrong, other)}
            count = len(related) - len(other_answers)
            if count >= SHARE * len(related) and not own & other_answers:
                explained.append((wrong, count))
        most = max((count for _wrong, count in explained), default=0)
        return [wrong for wrong, count in explained if count == most]

    def _matching(self, candidates: list[Misconception], question: Question, names: set[str]) -> list[Misconception]:
        """Those that answer this question as the student did. One whose own checks the student passes is out: the
        catalogue proves that it fails there."""
        return [wrong for wrong in candidates if wrong.refused_by & names and self.witness.alike(wrong, question)]

    def _drawn_anew(
        self, question: Question, failing: list[Question], ask_again: Callable[[Question, int], Question | None]
    ) -> list[Misconception]:
        """Those whose numbers no seed repeats, found under further seeds: they are known by how their draws lie, which
        chance hides at times."""
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
        """Those that still answer like the student under further draws."""
        for further in range(1, FURTHER_DRAWS + 1):
            again = ask_again(question, question.seed + further) if len(matching) > 1 else None
            if again is None:
                break
            matching = [wrong for wrong in matching if self.witness.alike(wrong, again)] or matching
        return matching


class AskedHere:
    """Asks the misconceptions themselves, as far as they answer like the student, and remembers what they answered:
    the next student, or the same one's next save, meets the same questions as long as the seed stays."""

    def __init__(
        self, backend: Callable[[Misconception], LocalBackend], reference: Oracle, checks: list[Callable[..., None]]
    ) -> None:
        self._backend, self._reference, self._checks = backend, reference, checks
        self._known: dict[tuple[str, str, int, str, int], _Answers] = {}

    def alike(self, wrong: Misconception, question: Question) -> bool:
        """As a witness says."""
        known = self._answers(wrong, question.check, question)
        if self._same(wrong, question, known):
            return True
        # Drawn from the student's own stream a mask may be the opposite of theirs: then nothing is kept in both, and
        # nothing can be compared.
        parted = known.outcomes[known.matched_by(question.answers) :]
        if not parted or not parted[0].drawn or not chance.may_miss(chance.profile(parted[0].outcome)):
            return False
        return self._same(wrong, question, self._answers(wrong, question.check, question, OTHER_STREAM), OTHER_STREAM)

    def _same(self, wrong: Misconception, question: Question, known: _Answers, stream: int = 0) -> bool:
        theirs = question.answers
        if known.refused is None and known.matched_by(theirs) == len(known.outcomes):  # the rest may be theirs too
            self._ask(wrong, question.check, question, theirs, known, stream)
        if not known.refused:
            return False
        return known.matched_by(theirs) == len(known.outcomes) == len(theirs) and known.size == size_measured(theirs)

    def refusing(self, wrong: Misconception, question: Question) -> Set[str]:
        """As a witness says."""
        for check in self._checks:
            known = self._answers(wrong, check, question)
            if known.refused is None:
                self._ask(wrong, check, question, None, known)
        return {check.__name__ for check in self._checks if self._answers(wrong, check, question).refused}

    def _answers(
        self, wrong: Misconception, check: Callable[..., None], question: Question, stream: int = 0
    ) -> _Answers:
        return self._known.setdefault((wrong.name, check.__name__, question.seed, question.device, stream), _Answers())

    def _ask(
        self,
        wrong: Misconception,
        check: Callable[..., None],
        question: Question,
        theirs: list[Exchange] | None,
        known: _Answers,
        stream: int = 0,
    ) -> None:
        """Runs a check on a misconception from the beginning (a module can't be asked the middle of a conversation):
        to its end, or as long as the answers are `theirs`."""
        asked = _Asked(self._backend(wrong), wrong.own_draws, theirs, stream)
        trial = Trial(check.__name__, asked, self._reference, seed=question.seed, device=question.device)
        with contextlib.suppress(_Apart):
            verdict = trial.run(check, student=trial.student, reference=trial.reference, draw=trial.draw)
            known.refused = verdict.status != "pass"
            known.size = size_measured(verdict.exchanges)
        known.outcomes = asked.outcomes


@dataclass(frozen=True)
class _Answer:
    """One answer of a misconception to a call of this name, and whether random numbers went into it."""

    name: str
    outcome: Outcome
    drawn: bool

    def is_like(self, theirs: Exchange, last: bool) -> bool:
        """Whether the student's answer is this one, or another draw of it; `last`: the check ended with theirs."""
        if self.name != theirs.call.name:
            return False
        if not last and self.outcome.raised and theirs.outcome is not None and theirs.outcome.raised:
            return True  # the check went on, so that it had asked for an error, and any error will do
        if same_answer(theirs.call, self.outcome, theirs.outcome):
            return True
        return self.drawn and theirs.outcome is not None and same_but_for_the_draw(self.outcome, theirs.outcome)


@dataclass
class _Answers:
    """The answers of a misconception in a check, with the names called: all of them where it is known whether the
    check refused it, and the size of the last one, else the first."""

    outcomes: list[_Answer] = field(default_factory=list)
    refused: bool | None = None
    size: int = 0

    def matched_by(self, theirs: list[Exchange]) -> int:
        """How many of these answers are the student's, from the first on."""
        pairs = zip(self.outcomes, theirs, strict=False)
        same = (answer.is_like(exchange, exchange is theirs[-1]) for answer, exchange in pairs)
        return sum(1 for _same in itertools.takewhile(bool, same))


class _Apart(BaseException):
    """The answers are not alike. Not an Exception: no check may take it for one of the student's."""


class _Asked:
    """A backend that keeps its answers, and stops the check at one that is not the student's."""

    def __init__(self, backend: LocalBackend, own_draws: bool, theirs: list[Exchange] | None, stream: int = 0) -> None:
        self._backend, self._own_draws, self._theirs, self._stream = backend, own_draws, theirs, stream
        self.outcomes: list[_Answer] = []

    def begin_check(self, seed: int) -> None:
        """As the backend does, in another stream."""
        self._backend.begin_check(seed + self._stream)

    def ask(self, call: Call) -> Outcome:
        """The backend's answer, as long as it is the student's."""
        outcome = self._backend.ask(in_stream(call, self._stream))
        answer = _Answer(call.name, outcome, self._backend.drew or self._own_draws)
        self.outcomes.append(answer)
        if self._theirs is not None:
            theirs = self._theirs[len(self.outcomes) - 1] if len(self.outcomes) <= len(self._theirs) else None
            if theirs is None or not answer.is_like(theirs, theirs is self._theirs[-1]):
                raise _Apart
        return outcome


def in_stream(call: Call, stream: int) -> Call:
    """The same call, its seed moved to another stream."""
    if not stream or call.options.seed is None:
        return call
    return replace(call, options=replace(call.options, seed=call.options.seed + stream))


def name_of(matching: list[Misconception]) -> str:
    """A diagnosis as reports name it: `a | b` where it is one of two that can't be told apart, `a + b` where both were
    made."""
    return " | ".join(wrong.name for wrong in matching)


def explained(matching: list[Misconception]) -> list[str]:
    """What a diagnosis says: what was done and why it is wrong; of several that can't be told apart, what each did."""
    if len(matching) > 1:
        return [
            _("One of these was done:"),
            *(f"- {' '.join(_(part.what) for part in _parts(wrong))}" for wrong in matching),
        ]
    parts = _parts(matching[0])
    if len(parts) == 1:
        return [_("diagnosis  {what} {why}").format(what=_(parts[0].what), why=_(parts[0].why))]
    return [_("Two things were done:"), *(f"- {_(part.what)} {_(part.why)}" for part in parts)]


def nudge_of(matching: list[Misconception]) -> str:
    """The one nudge of a diagnosis."""
    return _(matching[0].nudge)


def _parts(wrong: Misconception) -> tuple[Misconception, ...]:
    return wrong.parts or (wrong,)


def _unique(found: list[Misconception]) -> list[Misconception]:
    return [wrong for index, wrong in enumerate(found) if wrong not in found[:index]]


def size_measured(answers: list[Exchange]) -> int:
    """The elements of the largest storage that the last answer took, where the check looked at it; else 0.

    A check that looks at an answer's memory has found nothing wrong with its values. Memory that earlier answers took
    was little enough.
    """
    last = answers[-1] if answers else None
    return last.outcome.largest if last and last.measured and last.outcome else 0


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
    if mine.modified != theirs.modified or not _same(mine.value, theirs.value):
        return False
    mine_back, theirs_back = telling_gradients(mine), telling_gradients(theirs)
    return mine_back.keys() == theirs_back.keys() and all(
        _same(mine_back[name], theirs_back[name]) for name in mine_back
    )


def telling_gradients(outcome: Outcome) -> dict[str, Placed | None]:
    """The gradients of an answer, as far as they tell one mistake from another.

    None of them where a value is NaN: how far that spreads on the way back differs between ways to write the same,
    since `max` passes it to the largest entry, and `amax` to all. One of zeros is one that no path leads to.
    """
    if outcome.gradients and _has_nan(outcome.value):
        return {}
    return {name: None if back is None or _is_zero(back) else back for name, back in outcome.gradients.items()}


def _is_zero(placed: Placed) -> bool:
    return placed.device != "meta" and not bool(placed.tensor.any())


def _has_nan(value: Any) -> bool:
    match value:
        case Placed(tensor):
            return tensor.is_floating_point() and tensor.device.type != "meta" and bool(tensor.isnan().any())
        case tuple():
            return any(map(_has_nan, value))
    return False


def same_but_for_the_draw(drawn: Outcome, theirs: Outcome) -> bool:
    """Whether an answer is another draw of one that was drawn: the same kind of tensors, the same values where both
    kept an element, and as many zeros that lie as they would by chance."""
    if drawn.raised or theirs.raised or drawn.gradients.keys() != theirs.gradients.keys():
        return False
    kinds = [kinds_of([outcome.value, dict(outcome.gradients)]) for outcome in (drawn, theirs)]
    if kinds[0] != kinds[1] or drawn.modified != theirs.modified:
        return False
    return chance.alike(chance.profile(drawn), chance.profile(theirs), chance.shapes(drawn))


def kinds_of(value: Any) -> Any:
    """An answer without the values of its tensors."""
    match value:
        case Placed(tensor, device):
            return (tuple(tensor.shape), str(tensor.dtype), device)
        case tuple() | list():
            return [kinds_of(item) for item in value]
        case dict():
            return sorted((name, kinds_of(item)) for name, item in value.items())
    return value


def said_by(raised: Raised) -> tuple[str, str]:
    """What two errors have to share to be one: type and message, without what each run, or each way to write one and
    the same mistake, has of its own. Nothing of an error that the code raises on purpose: everybody words it
    differently."""
    if ON_PURPOSE.search(raised.source):
        return "", ""
    return raised.type, STRAY.sub(r"\1\2", ADDRESS.sub("0x", raised.message))


def _same_error(mine: Raised | None, theirs: Raised | None) -> bool:
    return mine is not None and theirs is not None and said_by(mine) == said_by(theirs)


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
