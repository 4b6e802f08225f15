"""The checks of all steps on a device: the references through the judge, then right variants and wrong ways in here."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from grader.base.limits import Limits
from grader.checks.backends import LocalBackend
from grader.checks.catalogue import Misconception
from grader.checks.trial import Verdict, run_check
from grader.course.submissions import Submission
from grader.judge.grader import Grader
from grader.oracle.live import Solution

SEED = 1
MESSAGE = 400  # characters of a refusal that are kept
PATIENCE = 6.0  # a worker on an accelerator starts it first, and compiles kernels
AT_MOST = 0.5  # of what is left, for the wrong ways of one step: Triton compiles a kernel for each of them

Tell = Callable[[str], None]


def graded(steps: Sequence[Solution], device: str, deadline: float, tell: Tell) -> list[dict[str, Any]]:
    """Each reference as a submission, in a sandboxed worker: status, points, seconds, and what a refusal says."""
    sources = {step.name: (f"{step.name}.py", step.solved()) for step in steps}
    found = []
    with Grader(1, Limits(patience=PATIENCE)) as grader:
        for step in steps:
            if time.monotonic() > deadline:
                break
            tell(f"{step.name}: graded")
            (result,) = grader.grade(Submission("cuda", sources), [step.name], device=device, seed=SEED).steps
            failing = next((check for check in result.checks if check.status != "pass"), None)
            found.append({
                "step": step.name, "status": result.status, "score": result.score, "of": result.max_score,
                "seconds": round(result.seconds, 2),
                "said": f"{failing.name}: {failing.message}"[:MESSAGE] if failing else result.message,
            })  # fmt: skip
    return found


def right_and_wrong(steps: Sequence[Solution], device: str, deadline: float, tell: Tell) -> list[dict[str, Any]]:
    """Of each step, the variants that pass every check, and the wrong ways that the check they name refuses."""
    return [_step(step, device, deadline, tell) for step in steps if not step.lacking and time.monotonic() < deadline]


def _step(step: Solution, device: str, deadline: float, tell: Tell) -> dict[str, Any]:
    tell(f"{step.name}: variants and wrong ways")
    start = time.monotonic()
    deadline = min(deadline, start + max(AT_MOST * (deadline - start), 1.0))
    surprises: list[str] = []
    passed = refused = variants = wrongs = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about what wrong ways do
        for variant in step.variants:
            if time.monotonic() > deadline:
                break
            variants += 1
            said = [_said(name, verdict) for name, verdict in _verdicts(step, device, variant.replaced).items()
                    if verdict.status != "pass"]  # fmt: skip
            passed += not said
            surprises += [f"{variant.name}: {one}" for one in said]
        for wrong in step.misconceptions:
            if time.monotonic() > deadline:
                break
            wrongs += 1
            verdict = _verdict_of_its_check(step, device, wrong)
            refused += verdict.status == "fail"
            surprises += [] if verdict.status == "fail" else [f"{wrong.name}: {_said(wrong.caught_by, verdict)}"]
    return {
        "step": step.name, "variants": variants, "passed": passed, "wrong_ways": wrongs, "refused": refused,
        "not_tried": len(step.variants) + len(step.misconceptions) - variants - wrongs,
        "seconds": round(time.monotonic() - start, 2), "surprises": surprises,
    }  # fmt: skip


def _verdicts(step: Solution, device: str, replaced: dict[str, Any]) -> dict[str, Verdict]:
    student = LocalBackend(step.responder(replaced, watched=True))
    reference = LocalBackend(step.responder())
    return {
        check.name: run_check(check.function, student, reference, seed=SEED, device=device) for check in step.checks
    }


def _verdict_of_its_check(step: Solution, device: str, wrong: Misconception) -> Verdict:
    check = next(check for check in step.checks if check.name == wrong.caught_by)
    student = LocalBackend(step.responder(wrong.replaced, watched=True))
    return run_check(check.function, student, LocalBackend(step.responder()), seed=SEED, device=device)


def _said(check: str, verdict: Verdict) -> str:
    return f"{check}: {verdict.status}. {verdict.message}"[:MESSAGE]
