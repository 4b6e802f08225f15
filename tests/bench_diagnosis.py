"""`make bench-diagnosis`: how often a shipped misconception is named, and how often a stranger is given a wrong name.

Each misconception is graded in the student's place under many seeds. Strangers are wrong answers outside the catalogue:
each misconception again, with its own name taken out of the catalogue that diagnoses it.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field

from grader import course, preload
from grader.catalogue import Misconception
from grader.diagnose import Diagnostician, Question, asked_here
from grader.implementation import LocalBackend
from grader.verdict import run_check

SEEDS = 50


@dataclass
class Tally:
    """What became of one step's diagnoses."""

    named: int = 0
    among: int = 0
    missed: Counter[str] = field(default_factory=Counter)
    strangers: int = 0
    wrong_names: Counter[str] = field(default_factory=Counter)


def names_given(step: course.Step, wrong: Misconception, catalogue: list[Misconception], seed: int) -> set[str]:
    """The names that the first failing check with a diagnosis gives to this wrong answer."""
    student = LocalBackend(step.responder(wrong.replaced))
    reference = LocalBackend(step.responder())
    verdicts = {check.name: run_check(check.function, student, reference, seed=seed) for check in step.checks}
    questions = [
        Question(check.function, seed, "cpu", verdicts[check.name].exchanges, verdicts[check.name].called)
        for check in step.checks
        if verdicts[check.name].status == "fail"
    ]

    def ask_again(question: Question, further: int) -> Question | None:
        verdict = run_check(question.check, student, reference, seed=further)
        if verdict.status != "fail":
            return None
        return Question(question.check, further, "cpu", verdict.exchanges, verdict.called)

    doctor = Diagnostician(catalogue, asked_here(lambda other: LocalBackend(step.responder(other.replaced)), reference))
    found = doctor.diagnose(questions, ask_again)
    return {other.name for other in next(iter(found.values()), [])}


def tally(step: course.Step, seeds: int) -> Tally:
    """One step's misconceptions, each diagnosed under `seeds` seeds, and once as a stranger."""
    result = Tally()
    catalogue = step.misconceptions
    for wrong in catalogue:
        for seed in range(1, seeds + 1):
            names = names_given(step, wrong, catalogue, seed)
            if names == {wrong.name}:
                result.named += 1
            elif wrong.name in names:
                result.among += 1
            else:
                result.missed[wrong.name] += 1
        others = [other for other in catalogue if other is not wrong]
        result.strangers += 1
        given = names_given(step, wrong, others, 1)
        if given:
            result.wrong_names[f"{wrong.name} called {', '.join(sorted(given))}"] += 1
    return result


def main(seeds: int = SEEDS, only: str = "") -> int:
    """Prints one line a step; the exit code says whether every misconception was named."""
    preload.load_torch()
    missed = 0
    print(
        f"{'step':26}{'wrong ways':>11}{'named':>8}{'among two':>11}{'missed':>8}{'strangers named':>17}"
        f"   ({seeds} seeds)"
    )
    for step in course.steps():
        if only not in step.name:
            continue
        result = tally(step, seeds)
        total = result.named + result.among + sum(result.missed.values())
        missed += sum(result.missed.values())
        print(
            f"{step.name:26}{total // seeds:11}{result.named / total:8.1%}{result.among / total:11.1%}"
            f"{sum(result.missed.values()) / total:8.1%}{sum(result.wrong_names.values()):8} of {result.strangers}"
        )
        for name, count in [*result.missed.items(), *result.wrong_names.items()]:
            print(f"    {name}: {count}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS, sys.argv[2] if len(sys.argv) > 2 else ""))
