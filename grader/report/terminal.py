"""A report for the terminal: pure functions from one `Report` to what rich prints."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import msgspec
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.base import language
from grader.base.language import gettext as _
from grader.base.results import (
    OBEYED,
    CheckResult,
    LineRemark,
    Parting,
    Report,
    Status,
    StepResult,
    TrackResult,
    failed_steps,
    failing_in_order,
    is_open,
)
from grader.report import reasons

CONTROL = re.compile(rf"[\x00-\x08\x0b-\x1f]|{OBEYED.pattern}")
COMMAND = re.compile(r"^([^\S\n]*+)(::|##\[)", re.MULTILINE)  # a runner of workflows obeys it
OURS = re.compile(r"^([^\S\n]*+)(?=[✓✗◷↷])", re.MULTILINE)  # the first characters of a line of the grader's own
LABEL = re.compile(r"^(\S+)( {2,})(?=\S)")
OUTPUT_LINES = 10
TABLE_COLUMNS = 4  # most columns of a matrix shown next to the expected one, within 80 columns of text
TABLE_ROWS = 8
TEXT_WIDTH = 100  # columns, if the report is text without a terminal
SHADES = ("color(17)", "color(18)", "color(19)", "color(20)", "color(21)")  # from the smallest value to the largest
# Symbols are shown next to words, never instead of them.
MARKS: dict[Status, tuple[str, str]] = {
    "pass": ("✓", "green"),
    "fail": ("✗", "red"),
    "timeout": ("◷", "red"),
    "error": ("!", "magenta"),
    "skipped": ("↷", "yellow"),
    "todo": ("·", "dim"),
}
BY_HAND = "by_hand"  # in the names of checks with numbers that the lesson works through
GRADE = language.typed("make grade")  # what a learner types


def terminal(report: Report, command: str = GRADE, note: str = "", *, every_check: bool = False) -> RenderableType:
    """The whole report for rich to print: the steps, the first failing check of each in full, and what to do next.

    `command` is the command line that grades again, `note` a sentence on the other tracks; `every_check` lists the
    checks of each step with their points."""
    shown: list[RenderableType] = [Text(_("Attention from scratch"), "bold"), Text(), steps_table(report)]
    if report.notes or report.unread:
        shown += [Text(), Text("\n".join([*map(plain, report.notes), *unread(report)]), "yellow")]
    for step in report.steps:
        if every_check:
            shown += [Text(), Text(step.name, "bold"), Padding(checks_table(step), (0, 0, 0, 2))]
        if step.note or step.status not in ("pass", "todo") or parts(step):
            shown += [Text(), detail(step)]
    shown += [Text(), closing(report, command)]
    if note:
        shown.append(Text(note, "dim"))
    return Group(*shown, Text(), _what_ran(report))


def as_text(step: StepResult) -> str:
    """One step as lines of text: its result and points, then `detail` if it does not pass."""
    status, word = badge_of(step)
    mark, _style = MARKS[status]
    result = f"{mark} {step.name}  {number(step.score)} / {number(step.max_score)}  {word}"
    written = io.StringIO()
    if step.note or step.status not in ("pass", "todo") or parts(step):
        Console(file=written, width=TEXT_WIDTH, color_system=None, force_jupyter=False).print(detail(step))
    return "\n".join(line.rstrip() for line in [result, *written.getvalue().splitlines()])


def unread(report: Report) -> list[str]:
    """A line for each file that was handed in and not read."""
    return [plain(_("Not read: {file} ({reason})", file=file, reason=reason)) for file, reason in report.unread.items()]


def why_open(report: Report) -> str:
    """The reason why there is no mark yet; empty if there is one."""
    failed = failed_steps(report)
    reasons = [_("The grader itself failed in {steps}.", steps=", ".join(failed))] if failed else []
    reasons += dict.fromkeys(plain(step.unusable) for step in report.steps if is_open(step) and step.unusable)
    reasons = [" ".join([*reasons, _("There is no mark yet: a person must look.")])] if reasons else []
    return " ".join(filter(None, [*reasons, report.open]))


def score_of(report: Report) -> str:
    """The total in words: no number while the mark is open."""
    if report.score is None or why_open(report):
        return _("no mark yet")
    return _("{score} of {total}", score=number(report.score), total=number(report.max_score))


def visible(text: str) -> str:
    """Untrusted text with control and invisible characters as Python's escapes."""
    return CONTROL.sub(lambda match: escaped(match[0]), text)


def plain(text: str) -> str:
    """Untrusted text that is `visible`, and in which no line is a command to a runner of workflows."""
    return COMMAND.sub(r"\1\\\2", visible(text))


def escaped(letter: str) -> str:
    """A character as Python escapes it, by its number."""
    number = ord(letter)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def quoted(text: str) -> str:
    """The output of a learner's code, or its error, as `plain` text in which no line looks like one of the grader's
    own."""
    return OURS.sub(r"\1| ", plain(text))


def badge_of(step: StepResult) -> tuple[Status, str]:
    """The status to show for a step, and its word: a step whose mark is open neither passes nor fails."""
    return ("error", _("no mark yet")) if is_open(step) else (step.status, status_word(step.status, step.blocked_by))


def status_word(status: Status, blocked_by: str | None = None) -> str:
    """The word for a status; a step that an earlier one blocks was graded by itself, and not skipped."""
    if status == "skipped" and blocked_by:
        return _("blocked")
    return {
        "pass": _("pass"), "fail": _("fail"), "timeout": _("timed out"), "error": _("grader error"),
        "skipped": _("skipped"), "todo": _("to do"),
    }[status]  # fmt: skip


def next_step(report: Report) -> StepResult | None:
    """The first step that is not passed yet, after the one that blocks it; None if all are passed."""
    return next((step for step in report.steps if not step.is_settled), None)


def _what_ran(report: Report) -> Text:
    """The submission, devices, seed and isolation."""
    facts = [
        _("submission {name}", name=plain(report.submission)),
        ", ".join(f"{device}: {state}" for device, state in device_states(report)),
        _("seed {seed}", seed=report.seed),
        _("isolation: {layers}", layers=", ".join(report.isolation)),
    ]
    if report.oracle == "recorded":
        facts.append(_("oracle: recorded"))
    return Text(" · ".join(facts), "dim")


def device_states(report: Report) -> list[tuple[str, str]]:
    """Each device, and whether the checks ran there."""
    states = {"checked": _("checked"), "not available": _("not available"), "not requested": _("not requested")}
    return [(device, states.get(state, state)) for device, state in report.devices.items()]


def steps_table(report: Report) -> Table:
    """The steps, their points and results, and the score."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", expand=False)
    table.add_column(_("step"), no_wrap=True)
    table.add_column(_("what it is"), ratio=1, overflow="fold")
    table.add_column(_("points"), justify="right", no_wrap=True)
    table.add_column(_("result"), no_wrap=True)
    for step in report.steps:
        status, word = badge_of(step)
        mark, style = MARKS[status]
        table.add_row(
            step.name,
            step.title.partition(":")[0],
            f"{number(step.score)} / {number(step.max_score)}",
            Text(f"{mark} {word}", style),
        )
    table.add_section()
    for track in several_tracks(report):
        table.add_row("", track.title, f"{number(track.score)} / {number(track.max_score)}", "")
    table.add_row(
        "",
        Text(_("score"), "bold"),
        Text(_("no mark yet") if why_open(report) else f"{number(report.score)} / {number(report.max_score)}", "bold"),
        _bar(report),
    )
    return table


def several_tracks(report: Report) -> list[TrackResult]:
    """The graded tracks, if there are several: then each has its own total."""
    return report.tracks if len(report.tracks) > 1 else []


def apart(report: Report) -> str:
    """A sentence on why the steps' points do not add up to the total; empty if they do, or while the mark is open."""
    steps = sum(step.score for step in report.steps if step.score is not None)
    if report.score is None or why_open(report) or abs(steps - report.score) < 0.005:
        return ""
    sentence = _("The steps add up to {steps}, and {score} count: “About this mark” says why.")
    return sentence.format(steps=number(steps), score=number(report.score))


def share(report: Report) -> float:
    """The part of the points that were earned, 0 to 1; 0 while the mark is open."""
    return (report.score or 0.0) / report.max_score if report.max_score and not why_open(report) else 0.0


def _bar(report: Report) -> Text:
    """A bar of ten characters, green up to the share of points that were earned."""
    width = 10
    full = int(width * share(report))
    return Text("█" * full, "green").append("░" * (width - full), "dim")


def detail(step: StepResult) -> RenderableType:
    """The first failing check of a step in full, how many others fail, notes, and what the code printed; for a step
    without a score, one line that says why."""
    mark, style = MARKS[badge_of(step)[0]]
    shown: list[RenderableType] = []
    failing = failing_checks(step)
    if step.without_score:
        return Text(f"{mark} {step.name}", f"bold {style}").append(f"  {plain(step.message)}", "not bold default")
    check = failing[0] if failing else None
    if (step.note or step.message) and not check:
        shown.append(Text(f"{mark} {step.name}", f"bold {style}"))
    if check:
        shown += [Text(f"{mark} {step.name}", f"bold {style}").append(f"  {check.title}", "bold"), _message(check)]
        if check.parting and not check.misconception and max(map(len, check.parting.expected)) <= TABLE_COLUMNS:
            shown.append(Padding(_matrices(check.parting), (0, 0, 0, 2)))
        if check.hint:
            shown.append(Padding(Text(f"→ {check.hint}", "bold"), (0, 0, 0, 2)))
        if BY_HAND in check.name and not check.unwritten and not step.stuck:
            sentence = _("The lesson works such a case by hand: make lesson STEP={number}")
            shown.append(Padding(Text(sentence.format(number=int(step.name[4:6])), "dim"), (0, 0, 0, 2)))
        others = [other for other in failing if other is not check and not other.unwritten]
        alike = sum(reasons.same(check, other) for other in others)
        further = [reasons.more(alike, alike=True)] * bool(alike) + [reasons.more(len(others) - alike)] * (
            len(others) > alike
        )
        shown += [Padding(Text(sentence, "dim"), (0, 0, 0, 2)) for sentence in further]
        if left := parts(step):
            shown.append(Padding(Text(left), (0, 0, 0, 2)))
    if step.message and not check:
        shown.append(Padding(Text(plain(step.message)), (0, 0, 0, 2)))
    if step.note:
        shown.append(Padding(Text(plain(step.note)), (0, 0, 0, 2)))
    for remark in step.remarks:
        shown.append(Padding(Text(plain(line_said(remark))), (0, 0, 0, 2)))
    if step.output:
        lines = quoted(step.output).rstrip().splitlines()
        printed = "\n".join([*lines[:OUTPUT_LINES], *(["…"] if len(lines) > OUTPUT_LINES else [])])
        shown.append(Padding(Text(_("Your code printed:"), "dim").append("\n" + printed, "not dim"), (0, 0, 0, 2)))
    return Group(*shown)


def line_said(remark: LineRemark) -> str:
    """A sentence with a remark on one line of code, and that line."""
    return _("line {line}: `{code}`: {text}", line=remark.line, code=remark.code.strip(), text=remark.text)


def failing_checks(step: StepResult) -> list[CheckResult]:
    """The checks of a step that do not pass, the first to show first; one for all of them if the file can't be run."""
    if not step.stuck:
        return failing_in_order(step.checks)
    most = sum(check.max_points for check in step.checks)
    first = min(step.checks, key=lambda check: len(check.message))
    title = _("The file can't be run.")
    return [msgspec.structs.replace(first, name=f"{step.name}.py", title=title, max_points=most)]


def parts(step: StepResult) -> str:
    """The progress of a step that is written in part: "attention ✓ 7 of 9 · SelfAttention: not written yet"; else
    empty.

    The points of a name are those of the checks that are about it.
    """
    unwritten = dict.fromkeys(check.about for check in step.checks if check.unwritten and check.about)
    if not unwritten or all(check.unwritten for check in step.checks):
        return ""
    texts = []
    for name in dict.fromkeys(check.about for check in step.checks if check.about):
        if name in unwritten:
            waits = next((check.waits_for for check in step.checks if check.about == name and check.waits_for), "")
            sentence = _("{name}: waits for {step}") if waits else _("{name}: not written yet")
            texts.append(sentence.format(name=plain(name), step=waits))
            continue
        own = [check for check in step.checks if check.about == name]
        mark, _style = MARKS["pass" if all(check.status == "pass" for check in own) else "fail"]
        points, most = number(sum(check.points for check in own)), number(sum(check.max_points for check in own))
        texts.append(_("{name} {mark} {points} of {most}", name=plain(name), mark=mark, points=points, most=most))
    return " · ".join(texts)


def checks_table(step: StepResult) -> Table:
    """Every check of a step with its points, as `grade -v` lists them."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for check in step.checks:
        mark, style = MARKS["todo" if check.unwritten else check.status]
        points = f"{number(check.points)} / {number(check.max_points)}"
        where = f" ({check.device})" if check.device != "cpu" else ""
        table.add_row(Text(mark, style), points, Text(check.title + where, "dim" if check.status == "pass" else ""))
    return table


def _matrices(parting: Parting) -> Table:
    """The expected and the actual matrix, cell by cell: shaded by value, with a star at each difference."""
    rows = list(zip(parting.expected, parting.got, parting.differs, strict=True))[:TABLE_ROWS]
    values = [value for wanted, got, _differs in rows for value in (*wanted, *got) if value is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column(_("row"), justify="right", style="dim", no_wrap=True)
    table.add_column(_("expected values"), no_wrap=True)
    table.add_column(_("your values (* differs)"), no_wrap=True)

    def cells(row: list[float | bool | None], differs: list[bool]) -> Text:
        """One row of a matrix as text, shaded by value, with a star at what differs."""
        line = Text()
        for value, apart in zip(row, differs, strict=True):
            share = (value - low) / (high - low) if value is not None and high > low else 0.0
            shade = SHADES[min(int(share * len(SHADES)), len(SHADES) - 1)]
            cell = _cell(value) + ("*" if apart else " ")
            line.append(f"{cell:>8}", f"{'bold ' if apart else ''}white on {shade}").append(" ")
        return line

    for number_of_row, (wanted, got, differs) in enumerate(rows):
        table.add_row(str(number_of_row), cells(wanted, [False] * len(wanted)), cells(got, differs))
    return table


def _cell(value: float | bool | None) -> str:
    """A number with four digits, a boolean, or `nan` for None."""
    if value is None or isinstance(value, bool):
        return "nan" if value is None else str(value)
    return f"{value:.4g}"


def _message(check: CheckResult) -> Padding:
    """A check's name, its device unless that is the CPU, and its message, indented."""
    where = f"{check.name} ({check.device})" if check.device != "cpu" else check.name
    return Padding(Group(Text(where, "dim"), *_lines(quoted(check.message))), (0, 0, 0, 2))


def _lines(message: str) -> Iterator[RenderableType]:
    """The lines of a message; labels are in a column of their own, so that long values wrap below themselves."""
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


def closing(report: Report, command: str = GRADE, *, of_class: bool = False) -> Text:
    """The score and what to do next: two lines, or one if nothing is left to do; `of_class`, without a command."""
    following = next_step(report)
    if any(step.status == "error" for step in report.steps):
        return Text(_("The grader itself failed, so this step has no score. Please report it."), "magenta")
    if following is None:
        everything = _("Everything passes: {score} of {total}.")
        if report.notes and (report.score or 0.0) < report.max_score:  # lateness, or a person, took the rest
            everything = _("Every check passes; {score} of {total} count.")
        if report.steps and all(step.without_score for step in report.steps):
            everything = _("Nothing could be graded: what is missing here is said above.")
        return Text(everything.format(score=number(report.score), total=number(report.max_score)), "bold green")
    score = score_of(report)
    name = following.blocked_by or following.name
    todo = _("start with {step}") if report.score == 0 else _("next is {step}")
    if report.score and any(step.name == name and step.status in ("fail", "timeout") for step in report.steps):
        todo = _("{step} does not pass yet")
    todo = todo.format(step=name)
    if of_class:
        return Text(f"{score}: {todo}", "bold")
    file = f"{plain(report.submission)}/{name}.py"
    how = _("edit {file}, then type: {command}", file=file, command=command)
    return Text(f"{score}: {todo}", "bold").append(f"\n{how}", "not bold")


def number(value: float | None) -> str:
    """Points as text, without trailing zeros; a dash for None."""
    if value is None:
        return "–"
    return f"{value:.2f}".rstrip("0").rstrip(".")
