"""A report as a person reads it in a terminal: pure functions from one `Report` to what rich prints."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.language import gettext as _
from grader.results import CheckResult, Parting, Report, Status, StepResult

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
LABEL = re.compile(r"^(\S+)( {2,})(?=\S)")
OUTPUT_LINES = 10
TABLE_COLUMNS = 4  # of a matrix that is shown in numbers beside the expected one, within 80 columns
TABLE_ROWS = 8
TEXT_WIDTH = 100  # columns, where a report is text and no terminal says how wide it is
SHADES = ("color(17)", "color(18)", "color(19)", "color(20)", "color(21)")  # from the smallest value to the largest
# Symbols stand beside words, never instead of them.
MARKS: dict[Status, tuple[str, str]] = {
    "pass": ("✓", "green"),
    "fail": ("✗", "red"),
    "timeout": ("⏱", "red"),
    "error": ("!", "magenta"),
    "skipped": ("↷", "yellow"),
    "todo": ("·", "dim"),
}
GRADE = "make grade"  # what a learner types


def terminal(report: Report, command: str = GRADE) -> RenderableType:
    """The whole report: what ran, the steps, each step's first failing check in full, and what to do next: `command`,
    in the end."""
    parts: list[RenderableType] = [_heading(report), Text(), steps_table(report)]
    for step in report.steps:
        if step.status not in ("pass", "todo"):
            parts += [Text(), detail(step)]
    parts += [Text(), closing(report, command)]
    return Group(*parts)


def as_text(step: StepResult) -> str:
    """One step as lines of text: its result and points, then what `detail` says where it does not pass."""
    mark, _style = MARKS[step.status]
    result = f"{mark} {step.name}  {number(step.score)} / {number(step.max_score)}  {status_word(step.status)}"
    said = io.StringIO()
    if step.status not in ("pass", "todo"):
        Console(file=said, width=TEXT_WIDTH, color_system=None, force_jupyter=False).print(detail(step))
    return "\n".join(line.rstrip() for line in [result, *said.getvalue().splitlines()])


def plain(text: str) -> str:
    """Text of a learner's making, its control characters shown and not obeyed."""
    return CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def status_word(status: Status) -> str:
    """The word for a status."""
    return {
        "pass": _("pass"), "fail": _("fail"), "timeout": _("too late"), "error": _("grader error"),
        "skipped": _("skipped"), "todo": _("to do"),
    }[status]  # fmt: skip


def next_step(report: Report) -> StepResult | None:
    """The first step that is not passed yet; a step blocked by an earlier one comes after it anyway."""
    return next((step for step in report.steps if step.status not in ("pass", "error")), None)


def _heading(report: Report) -> Text:
    states = {"checked": _("checked"), "not available": _("not available"), "not asked for": _("not asked for")}
    devices = ", ".join(f"{device}: {states.get(state, state)}" for device, state in report.devices.items())
    facts = [
        _("submission {name}").format(name=plain(report.submission)),
        devices,
        _("seed {seed}").format(seed=report.seed),
        _("isolation: {layers}").format(layers=", ".join(report.isolation)),
    ]
    if report.oracle == "recorded":
        facts.append(_("oracle: recorded"))
    return Text(_("Attention from scratch"), "bold").append("\n" + " · ".join(facts), "not bold dim")


def steps_table(report: Report) -> Table:
    """The steps, their points and results, and the score."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", expand=False)
    table.add_column(_("step"), no_wrap=True)
    table.add_column(_("what it is"), ratio=1, overflow="fold")
    table.add_column(_("points"), justify="right", no_wrap=True)
    table.add_column(_("result"), no_wrap=True)
    for step in report.steps:
        mark, style = MARKS[step.status]
        table.add_row(
            step.name, step.title, f"{number(step.score)} / {number(step.max_score)}",
            Text(f"{mark} {status_word(step.status)}", style),
        )  # fmt: skip
    table.add_section()
    table.add_row(
        "",
        Text(_("score"), "bold"),
        Text(f"{number(report.score)} / {number(report.max_score)}", "bold"),
        _bar(report),
    )
    return table


def _bar(report: Report) -> Text:
    width = 10
    full = int(width * report.score / report.max_score) if report.max_score else 0
    return Text("█" * full, "green").append("░" * (width - full), "dim")


def detail(step: StepResult) -> RenderableType:
    """The first failing check of a step in full, how many others fail, and what the code printed."""
    mark, style = MARKS[step.status]
    shown: list[RenderableType] = []
    failing = [check for check in step.checks if check.status != "pass"]
    if failing:
        check = failing[0]
        shown += [Text(f"{mark} {step.name}", f"bold {style}").append(f"  {check.title}", "bold"), _message(check)]
        if check.parting and not check.misconception and max(map(len, check.parting.expected)) <= TABLE_COLUMNS:
            shown.append(Padding(_matrices(check.parting), (0, 0, 0, 2)))
        if check.hint:
            shown.append(Padding(Text(f"→ {check.hint}", "bold"), (0, 0, 0, 2)))
        if len(failing) > 1:
            others = (
                _("One other check of this step does not pass either.")
                if len(failing) == 2
                else _("{count} other checks of this step do not pass either.").format(count=len(failing) - 1)
            )
            shown.append(Padding(Text(others, "dim"), (0, 0, 0, 2)))
    if step.output:
        lines = plain(step.output).rstrip().splitlines()
        printed = "\n".join([*lines[:OUTPUT_LINES], *(["…"] if len(lines) > OUTPUT_LINES else [])])
        shown.append(Padding(Text(_("Your code printed:"), "dim").append("\n" + printed, "not dim"), (0, 0, 0, 2)))
    return Group(*shown)


def _matrices(parting: Parting) -> Table:
    """The expected matrix and the one that came, cell by cell: shaded by value, a star where they differ."""
    rows = list(zip(parting.expected, parting.came, parting.differs, strict=True))[:TABLE_ROWS]
    values = [value for wanted, came, _differs in rows for value in (*wanted, *came) if value is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column(_("row"), justify="right", style="dim", no_wrap=True)
    table.add_column(_("expected values"), no_wrap=True)
    table.add_column(_("your values (* differs)"), no_wrap=True)

    def cells(row: list[float | bool | None], differs: list[bool]) -> Text:
        line = Text()
        for value, apart in zip(row, differs, strict=True):
            share = (value - low) / (high - low) if value is not None and high > low else 0.0
            shade = SHADES[min(int(share * len(SHADES)), len(SHADES) - 1)]
            line.append(f"{_cell(value) + ('*' if apart else ' '):>8}", f"{'bold ' if apart else ''}white on {shade}")
        return line

    for number_of_row, (wanted, came, differs) in enumerate(rows):
        table.add_row(str(number_of_row), cells(wanted, [False] * len(wanted)), cells(came, differs))
    return table


def _cell(value: float | bool | None) -> str:
    if value is None or isinstance(value, bool):
        return "nan" if value is None else str(value)
    return f"{value:.4g}"


def _message(check: CheckResult) -> Padding:
    where = f"{check.name} ({check.device})" if check.device != "cpu" else check.name
    return Padding(Group(Text(where, "dim"), *_lines(plain(check.message))), (0, 0, 0, 2))


def _lines(message: str) -> Iterator[RenderableType]:
    """The message's lines; a label at the start of one stands in a column of its own, so that long values wrap under
    themselves."""
    rows = [(LABEL.match(line), line) for line in message.splitlines()]
    table: Table | None = None
    for label, line in rows:
        if label is None:
            if table is not None:
                yield table
                table = None
            yield Text(line)
            continue
        if table is None:
            table = Table.grid(padding=(0, 2, 0, 0))
            table.add_column(no_wrap=True, style="dim")
            table.add_column(overflow="fold")
        table.add_row(Text(label[1]), Text(line[label.end() :]))
    if table is not None:
        yield table


def closing(report: Report, command: str = GRADE) -> Text:
    """The score and what to do next: two lines, or one when there is nothing left to do."""
    following = next_step(report)
    if any(step.status == "error" for step in report.steps):
        return Text(
            _("Something failed in the grader itself. No points were taken for it; please report it."), "magenta"
        )
    if following is None:
        everything = _("Everything passes: {score} of {total}.")
        return Text(everything.format(score=number(report.score), total=number(report.max_score)), "bold green")
    score = _("{score} of {total}").format(score=number(report.score), total=number(report.max_score))
    if report.score == 0:
        todo = _("start with {step}").format(step=following.name)
    else:
        todo = _("next is {step}").format(step=following.name)
    file = f"{plain(report.submission)}/{following.name}.py"
    how = _("edit {file}, then type: {command}").format(file=file, command=command)
    return Text(f"{score}: {todo}", "bold").append(f"\n{how}", "not bold")


def number(value: float) -> str:
    """Points as they are written: no zeros at the end."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
