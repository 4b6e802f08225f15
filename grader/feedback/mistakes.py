"""The mistakes of a class to talk about: each with the smallest case that shows it, and for staff the students who made
it."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from grader.base import syntax
from grader.base.limited import OverBudget
from grader.base.results import CheckResult, Graded, StepResult, leading
from grader.course.stubs import MAX_STUB
from grader.feedback.class_page import Wording, wordings_of
from grader.feedback.items import clusters
from grader.feedback.standings import standing

CALLED = re.compile(r"^\S+ {2,}(\w+\(.*)$", re.MULTILINE)
BY_HAND = 16  # cells of a matrix up to which a case is small
LONGEST_CALL = 240  # characters on a slide
PARTS = re.compile(r" \| | \+ ")


@dataclass(frozen=True)
class Maker:
    """A student who made a mistake: the names of person and files, the failing check, and the code that it is about."""

    student: str
    file: str
    check: CheckResult
    code: str = ""


@dataclass
class Mistake:
    """One mistake of a class. `wordings` say what it is, nothing if it is not recognised; `result` is the failing
    check with the smallest case."""

    step: str
    title: str
    wordings: list[Wording]
    result: CheckResult
    makers: list[Maker] = field(default_factory=list)

    @property
    def call(self) -> str:
        """The call of the smallest case: written by the check, not by a learner. Empty if it is too long."""
        call = CALLED.search(self.result.message)
        return call[1] if call and len(call[1]) <= LONGEST_CALL else ""


def mistakes(entries: Sequence[Graded], sources: Mapping[str, Mapping[str, str]] | None = None) -> list[Mistake]:
    """The mistakes, the most frequent first, then in the order of the steps. `sources`: the students' step
    files, by the name of their report, then by step; without it no code is shown."""
    sources = sources or {}
    groups: dict[tuple[str, tuple[str, ...], str], Mistake] = {}
    for entry in entries:
        with syntax.budget():  # for the code of one person
            for step, names, check in _diagnosed(entry):
                wordings = wordings_of(step.name, names, {check.misconception or "": check.words})
                mistake = Mistake(step.name, step.title, wordings, check)
                group = groups.setdefault((step.name, names, wordings[0].what), mistake)
                group.makers.append(_maker(entry, step.name, check, sources))
    unknown = [_unrecognised(cluster.step, cluster.students, entries, sources) for cluster in clusters(entries)]
    for mistake in (everything := [*groups.values(), *filter(None, unknown)]):
        mistake.result = min((maker.check for maker in mistake.makers), key=_sort_key)
    return sorted(everything, key=lambda each: (-len(each.makers), each.step, not each.wordings))


def _diagnosed(entry: Graded) -> Iterator[tuple[StepResult, tuple[str, ...], CheckResult]]:
    """Each diagnosis of a student: the step, the names of the misconceptions, and the check that shows it in the
    smallest case."""
    if entry.report is None:
        return
    # Without its mark: an assignment leaves out steps that the report has.
    graded = msgspec.structs.replace(entry, mark=None)
    for step, stands in zip(entry.report.steps, standing(graded).steps, strict=True):
        for names in stands.diagnoses:
            showing = [check for check in step.checks if names[0] in PARTS.split(check.misconception or "")]
            if showing:
                yield step, names, min(showing, key=_sort_key)


def _unrecognised(
    step: str, students: Iterable[str], entries: Sequence[Graded], sources: Mapping[str, Mapping[str, str]]
) -> Mistake | None:
    """The mistake that these students of one cluster made in a step, which has no name; None without a failing
    check."""
    makers, title = [], ""
    for entry in (entry for entry in entries if entry.student in students and entry.report):
        result = next(one for one in entry.report.steps if one.name == step)  # type: ignore[union-attr]  # see above
        check = leading(result.checks)
        if check:
            title = result.title
            makers.append(_maker(entry, step, check, sources))
    return Mistake(step, title, [], makers[0].check, makers) if makers else None


def _sort_key(check: CheckResult) -> tuple[bool, int]:
    """A sort key: checks with a picture first, small cases before large ones. Small cases are equal, so that the step's
    own order decides: its first ones can be worked out by hand."""
    cells = len(check.parting.expected) * len(check.parting.expected[0]) if check.parting else 0
    return check.parting is None, cells if cells > BY_HAND else 0


def _maker(entry: Graded, step: str, check: CheckResult, sources: Mapping[str, Mapping[str, str]]) -> Maker:
    """The student of this result, with the failing check and the code that it is about."""
    return Maker(entry.student, entry.file, check, excerpt(sources.get(entry.file, {}).get(step, ""), check.about))


def excerpt(source: str, name: str) -> str:
    """The function or class of this name in a file, as it is written; the whole file without one, and of a file that is
    too long its start."""
    if len(source) > MAX_STUB:
        return source[:MAX_STUB]
    first, last = _definitions(source).get(name, (1, None))
    return "\n".join(source.splitlines()[first - 1 : last]) if last else source


@functools.lru_cache(1024)
def _definitions(source: str) -> dict[str, tuple[int, int | None]]:
    """The first and the last line of each function and class of a file, from 1; none if it can't be parsed in time."""
    lines: dict[str, tuple[int, int | None]] = {}
    try:
        tree = syntax.tree_of(source, MAX_STUB)
    except OverBudget:
        tree = None
    for node in tree.body if tree else ():
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            lines.setdefault(node.name, (first, node.end_lineno))
    return lines
