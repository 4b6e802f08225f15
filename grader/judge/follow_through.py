"""Grades a step by itself: if an earlier step of the course that it imports is wrong, or was not handed in, it is
graded again with the reference in that place, by its public names alone. Without it marks would depend on what passes
by luck under one seed. Before that, what the same person handed in with an earlier assignment takes the place of what
is absent.

No reference takes the place of a later or unrelated step, and an import counts that really ran.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import msgspec

from grader.base.language import gettext as _
from grader.base.paths import is_recorded, step_folder
from grader.base.results import StepResult, leading
from grader.course.stubs import is_untouched, original, public_names, solved_of
from grader.course.submissions import Submission
from grader.course.tracks import may_rest_on
from grader.judge.imported_names import ALL, Sources, imported_names, imported_steps
from grader.judge.messages import GradeRequest, Route, StepGraded

ROUNDS = 5  # times the time of a step: what grading one with references may take in all
LOST = ("fail", "timeout", "todo")


@dataclass
class Earlier:
    """The earlier steps that keep a step from being graded as it is: those that are `wrong`, and those that are
    `absent`, which another assignment may hold. `names` are those of both, in order."""

    wrong: list[StepResult] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The names of these steps, which references replace, sorted."""
        return sorted([*(step.name for step in self.wrong), *self.absent])


class FollowThrough:
    """Grades again the steps that failing steps depend on. `run` grades steps of a request; `graded` has every result,
    also of needed steps that are not `wanted`, which say why a step fails."""

    def __init__(
        self,
        request: GradeRequest,
        graded: dict[str, StepGraded],
        wanted: Collection[str],
        run: Callable[[GradeRequest, list[str]], dict[str, StepGraded]],
    ) -> None:
        self.request, self.graded, self.wanted, self.run = request, graded, wanted, run
        self.settled: set[str] = set()

    def settle(self, name: str) -> None:
        """Replaces the result of the step with this name in `graded`, if it fails and imports earlier steps that are
        wrong or absent: by its result with references in their place. Those steps are settled first. A second call does
        nothing."""
        if name in self.settled:
            return
        self.settled.add(name)
        step, spent, earlier, seen = self.graded[name].result, 0.0, Earlier(), set[str]()
        again = self.graded[name]
        # A reference may get it as far as its next import. Each time one more takes its place, so that the end comes by
        # itself; the time is there for code that uses it up, and not for a machine that is busy.
        while spent < ROUNDS * self.request.limits.of_step(None).step_seconds:
            seen.update(again.imported)
            before, earlier = earlier.names, self._earlier(step, seen, earlier.names)
            if earlier.names == before:
                break
            sources = with_references(self.request.sources, earlier.names)
            if sources is None:
                self._store(name, without_points(step, earlier, self.request.sources))
                return
            again = self._graded_again(name, sources, earlier)
            spent += again.result.seconds
        if earlier.names:
            self._store(name, by_itself(step, again.result, earlier))

    def _earlier(self, step: StepResult, imported: Collection[str], replaced: Collection[str]) -> Earlier:
        """The steps, of those it has `imported`, that keep a failing step from being graded as it is, with those that
        references have `replaced` already; empty for a step that passes. Settles these steps."""
        rests_on = sorted(may_rest_on(step.name).intersection(imported))
        if step.status not in LOST or _is_absent(step.name, self.request.sources) or not rests_on:
            return Earlier()
        if missing := [name for name in rests_on if name not in self.graded]:
            self.graded |= self.run(self.request, missing)
        for name in rests_on:
            self.settle(name)
        results = {name: self.graded[name].result for name in rests_on}
        sources = with_references(self.request.sources, replaced) or self.request.sources
        taken = imported_names(step.name, sources)
        earlier = Earlier()
        for name, other in results.items():
            # A step that is only blocked counts for itself in those that import it.
            if other.is_settled or (other.blocked_by and other.status == "skipped"):
                continue
            if other.status == "todo" and name not in self.wanted and _is_absent(name, self.request.sources):
                earlier.absent.append(name)
            elif name in replaced or _takes_a_wrong_name(taken.get(name, {ALL}), other):
                earlier.wrong.append(other)
        return earlier

    def _graded_again(self, name: str, sources: Sources, earlier: Earlier) -> StepGraded:
        """The step graded with these sources, in which references replace the earlier steps; a second time if the
        grader itself failed."""
        problems = {step: problem for step, problem in self.request.problems.items() if step not in earlier.names}
        public = {step: public_names(original(step_folder(step))) for step in earlier.names}
        again = msgspec.structs.replace(
            self.request, sources=dict(sources), problems=problems, references=public, in_order=False
        )
        alone = self.run(again, [name])[name]
        return self.run(again, [name])[name] if alone.result.status == "error" else alone

    def _store(self, name: str, result: StepResult) -> None:
        """Stores the result of a step that was graded on references."""
        self.graded[name] = msgspec.structs.replace(self.graded[name], result=result, route=Route.ON_REFERENCES)


def _takes_a_wrong_name(taken: set[str], other: StepResult) -> bool:
    """True if one of the names that a step takes from another one, which fails, is wrong (ALL: it takes all). Names
    that no check calls have no verdict of their own: then the whole file counts, and so it does if nothing of it could
    be called."""
    failing = [check for check in other.checks if check.status != "pass"]
    if ALL in taken or not failing or not all(check.refused for check in failing):
        return True
    refused = {check.refused for check in failing}
    judged = {name for check in other.checks for name in check.called}
    return bool(taken & refused) or not taken & judged


def _is_absent(name: str, sources: Sources) -> bool:
    """True if the sources lack the step, or have its stub unchanged."""
    return name not in sources or is_untouched(sources[name][1])


def with_earlier(submission: Submission, wanted: Collection[str]) -> tuple[dict[str, tuple[str, str]], set[str]]:
    """The sources of a submission, completed by its author's earlier hand-ins, and the names of the steps that come
    from these.

    Only steps that are not `wanted`, so not graded, are taken from there: a step of this assignment is graded as it was
    handed in with it."""
    taken = {
        step: source
        for step, source in submission.earlier.items()
        if step not in wanted and step not in submission.problems and _is_absent(step, submission.sources)
    }
    return submission.sources | taken, set(taken)


def note_earlier(step: StepResult, sources: Sources, taken: Collection[str]) -> StepResult:
    """The result of a step; with a note if it imports a step that was `taken` from an earlier hand-in."""
    used = [name for name in imported_steps(step.name, sources) if name in taken]
    if not used or step.status == "todo":
        return step
    sentences = [
        _("{step} was not handed in with this assignment: your earlier one ({file}) was used.").format(
            step=name, file=sources[name][0]
        )
        for name in used
    ]
    return msgspec.structs.replace(step, note=" ".join([*sentences, *([step.note] if step.note else [])]))


def with_references(sources: Sources, names: Collection[str]) -> dict[str, tuple[str, str]] | None:
    """The sources with the references in place of the steps with these names; None in a learner's kit, which has no
    references."""
    folders = [step_folder(name) for name in names]
    if any(is_recorded(folder) for folder in folders):
        return None
    references = {
        folder.name: (f"<{folder.name}>", solved_of((folder / "reference.py").read_text(encoding="utf-8")))
        for folder in folders
    }
    return dict(sources) | references


def with_stock(sources: Sources, imported: Collection[str]) -> dict[str, tuple[str, str]] | None:
    """The sources with the modules of torch in place of those imported steps that have them in a `stock.py`; None if no
    step has. What draws random numbers then draws them as every catalogue does."""
    found = {name: file for name in imported if (file := step_folder(name) / "stock.py").is_file()}
    if not found:
        return None
    return dict(sources) | {name: (f"<{name}>", file.read_text(encoding="utf-8")) for name, file in found.items()}


def by_itself(step: StepResult, regraded: StepResult, earlier: Earlier) -> StepResult:
    """The result of a step that counts: `regraded`, its result with references in place of the `earlier` steps, with a
    note on these, and the seconds of both runs. If any of them is wrong, it is blocked by the first wrong one, and
    `skipped` in place of `pass`; steps that are only absent leave the status. `step`: the result as handed in."""
    # An import of what was not there is told by the step's note.
    left_out = [line for line in step.left_out if not any(other in line for other in earlier.names)]
    result = msgspec.structs.replace(
        regraded, seconds=round(step.seconds + regraded.seconds, 4), references=earlier.names, left_out=left_out
    )
    names = ", ".join(earlier.names)
    if not earlier.wrong:
        sentence = _("{steps} was not handed in with this step: the reference took its place.")
        if len(earlier.names) > 1:
            sentence = _("{steps} were not handed in with this step: the references took their place.")
        return msgspec.structs.replace(result, note=sentence.format(steps=names))
    sentence = _("Graded by itself, with the reference in place of {steps}, it is worth {score} of {total}.")
    worth = sentence.format(steps=names, score=f"{regraded.score or 0.0:.4g}", total=f"{regraded.max_score:.4g}")
    return msgspec.structs.replace(
        result,
        status="skipped" if regraded.status == "pass" else regraded.status,
        blocked_by=earlier.wrong[0].name,
        note=f"{_why_blocked(earlier.wrong[0])} {worth}",
    )


def without_points(step: StepResult, earlier: Earlier, sources: Sources) -> StepResult:
    """The result of a step that earlier ones block, if there are no references to grade it with: checks that rest on
    these may pass by luck and get no points; all others count as they are."""
    if earlier.wrong:
        blocker, message = earlier.wrong[0].name, _why_blocked(earlier.wrong[0])
    else:
        blocker, message = earlier.absent[0], _("It imports {step}, which was not handed in.")
        message = message.format(step=blocker)
    message += " " + _("What it is worth by itself can only be graded where the references are.")
    waits = {
        name
        for check in step.checks
        for name in check.called
        if imported_names(step.name, sources, name).keys() & set(earlier.names)
    }
    checks = [
        check if check.called and waits.isdisjoint(check.called) else msgspec.structs.replace(
            check, status="skipped", points=0.0, message=message if check.status == "pass" else
            f"{message}\n{check.message}".strip(),
        )
        for check in step.checks
    ]  # fmt: skip
    failing = any(check.status in ("fail", "timeout") for check in checks)
    score = round(sum(check.points for check in checks), 6)
    return msgspec.structs.replace(
        step, status="fail" if failing else "skipped", score=score, checks=checks, message="" if failing else message,
        note=message if failing else step.note, blocked_by=blocker,
    )  # fmt: skip


def _why_blocked(wrong: StepResult) -> str:
    """A sentence on the wrong earlier step, and the check that fails there."""
    broken = leading(wrong.checks)
    if broken is None:
        return _("Blocked by {step}, which it imports. Fix that first.").format(step=wrong.name)
    sentence = _("Blocked by {step}, which it imports: “{title}” ({check}) fails there. Fix that first.")
    return sentence.format(step=wrong.name, title=broken.title, check=broken.name)
