"""Diagnoses the wrong ways of a step as the grader does, in this process, and asks nothing twice."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from grader.calls.call import Call, Outcome
from grader.checks.backends import Backend, LocalBackend
from grader.checks.catalogue import Misconception
from grader.checks.trial import Verdict, run_check
from grader.oracle.cache import CachedOracle
from grader.oracle.diagnostician import Diagnostician
from grader.oracle.live import Solution
from grader.oracle.tape import Tape
from grader.oracle.witness import Question, Witness


class OtherDraws(LocalBackend):
    """Whose random numbers are others than those of anybody else under the same seed."""

    def begin_check(self, seed: int) -> None:
        """Another stream for the seed."""
        super().begin_check(seed + 1)

    def ask(self, call: Call) -> Outcome:
        """Another stream for a call's seed, too."""
        if call.options.seed is None:
            return super().ask(call)
        options = replace(call.options, seed=call.options.seed + 1)
        return super().ask(replace(call, options=options))


class Clinic:
    """One step's reference and misconceptions; what they answered is remembered from diagnosis to diagnosis.

    `witness` knows what the misconceptions answer, for instance a tape; by default they are asked themselves.
    """

    def __init__(self, step: Solution, witness: Witness | None = None) -> None:
        self.step = step
        self._reference = CachedOracle(step.oracle())
        self._witness = witness or step.witness(self._reference)

    def diagnosis(
        self, replaced: dict[str, Any], seed: int, without: Misconception | None = None, other_draws: bool = False,
        generated: bool = False,
    ) -> dict[str, list[Misconception]]:  # fmt: skip
        """What each failing check is put down to when these names stand in the student's file.

        `without` and the pairs that it is part of are left out of the catalogue; `other_draws`: the student takes
        random numbers in another order than the catalogue does; `generated`: what operators make is tried too.
        """
        student = (OtherDraws if other_draws else LocalBackend)(self.step.responder(replaced))
        verdicts = self.verdicts(student, seed)
        questions = [
            self._question(name, verdict, seed) for name, verdict in verdicts.items() if verdict.status == "fail"
        ]
        for name, verdict in verdicts.items():
            if verdict.status == "pass":
                self._witness.note_passed(name, verdict.called)

        def ask_again(question: Question, further: int) -> Question | None:
            further = self._witness.asked.seed(further) if isinstance(self._witness.asked, Tape) else further
            verdict = run_check(question.check, student, self._reference, seed=further)
            return self._question(question.name, verdict, further) if verdict.status == "fail" else None

        left_out = without.called if without else ""
        known = [wrong for wrong in self.step.misconceptions if wrong.called != left_out]
        pairs = [pair for pair in self.step.pairs if left_out not in [part.called for part in pair.parts]]
        asked = self._witness.asked
        every = asked.generated if isinstance(asked, Tape) else self.step.generated
        made = every if generated else lambda _name: []
        return Diagnostician(known, self._witness, pairs, made).diagnose(questions, ask_again)

    def verdicts(self, student: Backend, seed: int) -> dict[str, Verdict]:
        """What every check of the step says of a student."""
        return {
            check.name: run_check(check.function, student, self._reference, seed=seed) for check in self.step.checks
        }

    def _question(self, name: str, verdict: Verdict, seed: int) -> Question:
        check = next(check for check in self.step.checks if check.name == name)
        return Question(check.function, seed, "cpu", verdict)
