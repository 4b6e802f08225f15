"""The verdict on a step as the page shows it: the learner's code, what was expected and what it got, and what to do."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType

from grader.base.language import gettext as _
from grader.base.results import CheckResult, StepResult, leading
from grader.base.syntax import parsed
from grader.report import page as report_page
from grader.report import reasons, sums
from grader.report import terminal as reports
from grader.report.page import Block, CheckView, StepView
from grader.web import editor
from grader.web.server import TEMPLATES

# The classes of the style sheet: a token has the first one with a kind that contains its own.
COLOURS: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "c"), (String, "s"), (Number, "n"), (Keyword, "k"), (Operator.Word, "k"), (Name.Function, "f"),
    (Name.Class, "f"), (Name.Builtin, "b"), (Name.Decorator, "b"),
)  # fmt: skip


@dataclass(frozen=True)
class CodeLine:
    """A line of the learner's file; `about`: it belongs to the name that the check asks for; `fault`: it raised the
    error."""

    number: int
    text: Markup
    about: bool
    fault: bool
    body: bool = False  # the start of what it is about, behind its docstring


def html(
    step: str,
    title: str,
    file: Path,
    source: str | None,
    result: StepResult | None,
    calm: str = "",
    link_form: str = "",
    *,
    notes: Sequence[str] = (),
) -> str:
    """The HTML of a step's column. `calm` is the syntax error that keeps the file from being graded: a sentence, then
    the line and its caret (empty if it parses). `link_form` is the form of links to the editor (`editor.scheme`),
    `notes` are sentences on what was left out of the file, `source` is None for a file that can't be read or is
    missing, and `result` for one not graded yet. A learner's text is escaped."""
    case = _nothing_to_grade(file, source, result)
    source = source or ""
    check = leading(result.checks) if result and not calm else None
    shown = file.parent.name + "/" + file.name
    view = report_page.view(result) if result else None
    lead = _with_sums(view.failing[0], step) if view and check and view.failing else None
    before, behind = _around_picture(lead) if lead else ([], [])
    lines = listing(source, check, _calm_line(calm, source))
    at = next((line.number for kind in ("fault", "body", "about") for line in lines if getattr(line, kind)), 1)
    opens = partial(_at_line, file, link_form)
    return report_page.environment(TEMPLATES).get_template("step_verdict.html.j2").render(
        **report_page.template_values() | {"linked": partial(report_page.linked, opens=opens)},
        name=step, title=title, file=shown, result=result, calm=calm.partition("\n"),
        view=view, before=before, behind=behind, parts=reports.parts(result) if result else "",
        lines=lines, source=source, case=case, at=at, path=file.resolve(), open=_opens(file, link_form),
        lead=lead, notes=notes, **_others(view, check),
    )  # fmt: skip


def _at_line(file: Path, link_form: str, named: str, line: str) -> str:
    """The link that opens the line that a message names, in the file with the name `named` in the same folder, or in
    the step's own."""
    other = file.parent / Path(named).name
    return editor.link(other if other.is_file() else file, int(line), link_form)


def _with_sums(check: CheckView, step: str) -> CheckView:
    """The check, with a heat map of which cells show their sums if its message writes the inputs out; else the check as
    it is."""
    parting = check.result.parting
    call = next((pair.text for block in check.blocks for pair in block.pairs if pair.code), "")
    operands = sums.in_call(call)
    if parting is None or not operands or parting.slice:
        return check
    return replace(check, heat_map=report_page.heat_map(parting, f"{step}-lead", operands=operands))


def _nothing_to_grade(file: Path, source: str | None, result: StepResult | None) -> str:
    """A sentence that says why a file has nothing to grade; empty if it has."""
    if not file.exists():
        return _("There is no file {file}.", file=file.name) if source is None else ""
    if result is not None and result.unusable:
        return result.unusable
    return _("{file} is empty.", file=file.name) if source is not None and not source.strip() else ""


def _opens(file: Path, link_form: str) -> str:
    """The link to the file, with LINE in place of a line's number; empty if no link can open the editor."""
    return editor.link(file, 0, link_form.replace("{line}", "LINE"))


def listing(source: str, check: CheckResult | None, fault: int = 0) -> list[CodeLine]:
    """The source in colours, line by line: those that a failing check is about are marked (without one, those still to
    write), and the one that raised the error, which is line `fault` if that is not 0."""
    blamed = check.about if check and check.status in ("fail", "timeout") else ""
    if check and not fault:
        fault = reasons.raised_at(check)
    first, body, last = _definition(source, blamed) if blamed or fault else _to_write(source)
    return [
        CodeLine(number, text, first <= number <= last, number == fault, number == body)
        for number, text in enumerate(highlighted(source), 1)
    ]


def _around_picture(check: CheckView) -> tuple[list[Block], list[Block]]:
    """The blocks of text before and after the check's heat map. The diagnosis comes first; a picture of the whole
    answer replaces its text."""
    said = [pair for block in check.blocks for pair in block.pairs if not pair.code]
    blocks = [
        Block(block.kind, [pair for pair in block.pairs if pair.code], block.lines)
        for block in check.blocks
        if block.lines or any(pair.code for pair in block.pairs)
    ]
    first = [Block("pairs", said, [])] if said else []
    if check.heat_map is None or not blocks or blocks[0].kind != "pairs":
        return first + blocks, []
    shown = blocks[0].pairs if check.heat_map.notes else blocks[0].pairs[:1]
    return [*first, Block("pairs", shown, [])], blocks[1:]


def highlighted(source: str) -> list[Markup]:
    """The lines of a Python source as HTML, with the classes of the style sheet; each line is complete in itself."""
    lines = [Markup()]
    for kind, text in PythonLexer(stripnl=False, ensurenl=False).get_tokens(source):
        colour = next((name for wanted, name in COLOURS if kind in wanted), "")
        for number, part in enumerate(reports.visible(text).split("\n")):
            if number:
                lines.append(Markup())
            if part:
                lines[-1] += Markup('<span class="{}">{}</span>').format(colour, part) if colour else escape(part)
    return lines[:-1] if lines and not lines[-1] else lines


def _others(view: StepView | None, check: CheckResult | None) -> dict[str, Any]:
    """Variables of the template: `rest`, the checks that fail for other reasons than the first, and their number,
    `others`."""
    failing = view.failing[1:] if view and check else []
    count = sum(not result.unwritten for other in failing for result in (other.result, *other.alike))
    return {"rest": failing, "others": count}


def _definition(source: str, name: str) -> tuple[int, int, int]:
    """The lines, from 1, of a top-level function or class: the first, the first behind its docstring, and the last. (0,
    0, -1) if it is missing or the source does not parse."""
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0, 0, -1
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            behind = node.body[1:] if ast.get_docstring(node) is not None else node.body
            return node.lineno, (behind or node.body)[0].lineno, node.end_lineno or node.lineno
    return 0, 0, -1


def _to_write(source: str) -> tuple[int, int, int]:
    """The line with the first `raise NotImplementedError` in the form of `_definition`; (0, 0, -1) without one."""
    lines = enumerate(source.splitlines(), 1)
    number = next((number for number, text in lines if text.strip() == "raise NotImplementedError"), 0)
    return number, number, number or -1


def _calm_line(calm: str, source: str) -> int:
    """The line of the syntax error that keeps a file from being graded; 0 without one."""
    if not calm:
        return 0
    try:
        parsed(source)
    except SyntaxError as error:
        return error.lineno or 0
    except (ValueError, RecursionError, MemoryError):
        return 0
    return 0
