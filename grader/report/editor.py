"""The failing checks as a compiler's lines, `file:line: error: message`, which editors mark at the learner's code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from grader.base.results import OBEYED, CheckResult, Report, StepResult
from grader.base.syntax import parsed
from grader.report.reasons import raised_at
from grader.report.terminal import failing_checks


def lines(report: Report, folder: Path) -> Iterator[str]:
    """Yields a line for each step that fails: the place in its file in `folder` at which the code raised, else the
    start of its function or class, and the message of the first failing check.

    A step that is not written yet has none: it is not a mistake."""
    for step in report.steps:
        if step.status in ("fail", "timeout"):
            check = next(iter(failing_checks(step)), None)
            file = folder / f"{step.name}.py"
            line = check and raised_at(check) or line_of(file, check.about if check else "")
            yield f"{file}:{line}: error: {_message(step, check)}"


def line_of(file: Path, name: str) -> int:
    """The line number, from 1, of the top-level function or class `name` in a file; that of the syntax error in a file
    that has one; 1 if the name is missing or the file can't be read."""
    try:
        body = parsed(file.read_bytes()).body
    except SyntaxError as error:
        return error.lineno or 1
    except (OSError, ValueError):
        return 1
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node.lineno
    return 1


def _message(step: StepResult, check: CheckResult | None) -> str:
    """One line of text: the check's title and the hint for the recognised mistake, else its message; the step's message
    if `check` is None."""
    text = step.message if check is None else f"{check.title}: {check.hint or check.message or check.status}"
    return OBEYED.sub("", " ".join(text.split()))
