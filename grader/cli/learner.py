"""The learner's commands: grade, watch, lessons, hints, stubs, tracks, doctor."""

from __future__ import annotations

import contextlib
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from grader.base import language, paths
from grader.base.language import gettext as _
from grader.cli import common, completion, watch
from grader.cli.common import EXERCISES, N_
from grader.cli.parser import BadInput, Parser, Subcommand

if TYPE_CHECKING:
    from grader.base.results import Report
    from grader.course.submissions import Submission

REPORT = Path("dist", "report.html")

# --- grade -----------------------------------------------------------------------------------------------------------


def _grade_line(parser: Parser) -> None:
    """Adds the options of `grade`."""
    common.submission_option(parser)
    common.choice_options(parser)
    common.device_option(parser, "all")
    common.seed_option(parser)
    common.language_option(parser)
    parser.option("--json", Path, metavar="FILE", help=_("Write the report as JSON; - for standard output."))
    parser.option("--html", Path, metavar="FILE", help=_("Write the report as one HTML page."))
    parser.flag("-v", help=_("List every check with its points."))
    parser.flag("--editor", help=_("Print the failing steps as file:line: error: message, for an editor."))
    parser.flag("--open", help=_("Open the page of --html in the browser."))
    common.isolation_option(parser)
    common.patience_option(parser)


def _grade(args: Namespace) -> None:
    """Grades a submission, and prints or writes the report as the options say. Raises BadInput."""
    if args.open and args.html is None:
        raise BadInput(_("There is no page to open. Type: python -m grader grade --html report.html --open"))
    names = common.chosen_steps(args, "grade")
    limits = common.limits(args, "grade", args.patience)
    common.require_folder(args.submission, "grade")
    to_stdout = str(args.json) == "-"
    common.require_parent(None if to_stdout else args.json, "grade --json report.json")
    common.require_parent(args.html, "grade --html report.html")
    from grader.judge import launcher

    with contextlib.closing(launcher.start(args.early)) as judges:  # torch loads there meanwhile
        from grader.course import choice, submissions, unread
        from grader.judge import grader as grading

        common.translate_stubs(args)
        read = submissions.read(args.submission)
        if nothing_found := unread.without_answer(read):
            raise BadInput(nothing_found)
        wanted = names or choice.by_default(read.sources, read.problems)
        with grading.Grader(1 if len(wanted) == 1 else None, limits, source=judges) as grader:
            from grader.base import results
            from grader.learner import track_list  # before torch is there
            from grader.report import console

            with console.progress(len(wanted)) as advance:
                report = grader.grade(read, wanted, device=args.device, seed=args.seed, on_step=advance)
    if to_stdout:
        common.replace_unencodable(sys.stdout, encoding="utf-8")
        sys.stdout.write(results.as_json(report))
    else:
        if args.json is not None:
            common.write(args.json, results.as_json(report), "grade --json report.json")
        if args.editor:
            _for_an_editor(report, args.submission)
            return
        _save_and_show(args, read, report, "" if names else track_list.further(read, report))
    if args.html is not None:
        _write_page(report, args, to_stdout)


def _save_and_show(args: Namespace, read: Submission, report: Report, note: str) -> None:
    """Saves the verdicts if the submission's folder is a learner's own, and prints the report and then `note`."""
    from grader.learner import verdicts
    from grader.report import console

    if args.submission == EXERCISES or (args.submission / verdicts.FILE.parent).is_dir():
        verdicts.write(args.submission, read, report.steps)
    console.show(report, _grade_command(args.submission), note, every_check=args.v)


def _report(args: Namespace) -> None:
    """Does what `grade` does, writes the report as a page and opens it. Raises BadInput."""
    args.html, args.open = args.html or REPORT, True
    if args.html == REPORT:
        common.make_folder(REPORT.parent, "report --html OTHER.html")
    _grade(args)


def _for_an_editor(report: Report, folder: Path) -> None:
    """Prints each failing check as `file:line: error: message`."""
    from grader.report import editor

    for line in editor.lines(report, folder):
        print(line)


def _write_page(report: Report, args: Namespace, to_stdout: bool) -> None:
    """Writes the page of --html, and opens it if --open asks for that."""
    from grader.course import lessons
    from grader.report import page  # jinja2 is imported only for a page

    hints = lessons.hints_of(step.name for step in report.steps)
    common.write(args.html, page.html(report, hints=hints), "grade --html report.html")
    print(_("The page is {file}").format(file=args.html.resolve()), file=sys.stderr if to_stdout else sys.stdout)
    if args.open and not page.show_in_browser(args.html):
        print(_("No browser was found here: open that file in one."), file=sys.stderr)


def _grade_command(folder: Path) -> str:
    """The command that grades this folder again, in the spelling that the person types."""
    command = "make grade" if folder == EXERCISES else f"python -m grader grade --submission {paths.typed(folder)}"
    return language.typed(command)


# --- stubs and tracks ------------------------------------------------------------------------------------------------


def _exercises_line(parser: Parser) -> None:
    parser.option("--folder", Path, metavar="FOLDER", default=EXERCISES, help=_("Where the stubs go."))
    parser.flag("--solved", help=_("Write the references instead, which a course's own tests grade."))
    common.language_option(parser, _("en or ko: the language of the stubs."))


def _exercises(args: Namespace) -> None:
    """Writes the stubs, or with --solved the references, into a folder, and prints what was done. Raises BadInput."""
    common.require_references()
    if args.solved:
        common.require_solutions()
    from grader.course import exercises as stubs

    folder = args.folder
    try:
        if args.solved:
            stubs.write_solved(folder)
            return
        result = stubs.write(folder)
    except OSError as error:
        raise common.unwritable(folder, error, "exercises --folder OTHER") from None
    for name in result.kept:
        print(_("{file} holds your work and was left alone.").format(file=folder / f"{name}.py"))
    count = len(result.written) + len(result.fresh)
    print(_("{count} stubs in {folder} are up to date.").format(count=count, folder=folder))


def _begin_line(parser: Parser) -> None:
    """Adds the options of `begin`."""
    parser.argument("TRACK", into="track_name", help=_("A track: its name."))
    common.choice_options(parser)
    common.submission_option(parser)
    common.language_option(parser, _("en or ko: the language of the stubs."))


def _begin(args: Namespace) -> None:
    """Writes the stubs of a track, and prints which were written and which kept. Raises BadInput."""
    common.require_references()
    from grader.course import choice
    from grader.course import exercises as stubs

    args.track += [args.track_name] if args.track_name else []
    names = common.chosen_steps(args, "begin")
    if not names:
        others = [name for name in choice.track_names() if name != choice.CORE] or [choice.CORE]
        sentence = _("Which track? There are: {tracks}. Type: make begin TRACK={first}")
        raise BadInput(sentence.format(tracks=", ".join(others), first=others[0]))
    try:
        result = stubs.begin(names, args.submission)
    except OSError as error:
        raise common.unwritable(args.submission, error, "begin TRACK --submission OTHER") from None
    for name in result.kept:
        print(_("{file} already exists and was left alone.").format(file=args.submission / f"{name}.py"))
    for name in result.written:
        print(_("Wrote {file}").format(file=args.submission / f"{name}.py"))
    print(_("To read how it starts, type: make lesson STEP={number}").format(number=int(names[0][4:6])))


def _submission_line(parser: Parser) -> None:
    common.submission_option(parser)
    common.language_option(parser)


def _tracks(args: Namespace) -> None:
    """Grades the steps with work that has no verdict yet, and prints the tracks and the progress in them."""
    common.require_folder(args.submission, "tracks")
    from grader.judge.grader import Grader
    from grader.learner import current, progress, track_list
    from grader.report import console

    submission, so_far = progress.in_folder(args.submission)
    if names := so_far.ungraded:
        print(_("Grading what you have started: {steps}").format(steps=", ".join(names)), file=sys.stderr)
        with Grader(None if len(names) > 1 else 1) as grader:
            so_far = current.graded(grader, args.submission, submission, so_far, names)
    console.say(track_list.terminal(so_far))


# --- one step --------------------------------------------------------------------------------------------------------


def _step_line(parser: Parser) -> None:
    """Adds the argument STEP, and the options --step, --lang and --submission."""
    parser.argument("STEP", into="step_name", help=_("A step: its name or number."))
    parser.option("--step", metavar="STEP", help=_("A step: its name or number."))
    common.language_option(parser)
    common.submission_option(parser)


def _current(args: Namespace, command: str) -> str:
    """The full name of the step to show: the one typed, else the first that does not pass, which is graded and printed.
    Raises BadInput, with `command` to type, if all pass or the name is unknown."""
    wanted = args.step_name or args.step
    if wanted:
        return common.one_step(wanted, command)
    common.require_folder(args.submission, command)
    from grader.learner import current

    name = current.step_in(args.submission)
    if name is None:
        raise BadInput(_("Every step passes. Name one: python -m grader {command} 1").format(command=command))
    print(_("The current step: {step}").format(step=name))
    return name


def _hint(args: Namespace) -> None:
    """Prints the step's next hint. Raises BadInput if it has none."""
    name = _current(args, "hint")
    common.require_folder(args.submission, "hint")
    from grader.course import lessons
    from grader.report import console

    try:
        console.say(lessons.shown(name, lessons.next_hint(name, args.submission)))
    except lessons.NoLesson:
        sentence = _("There are no hints for {step}. Type: python -m grader lesson {step}")
        raise BadInput(sentence.format(step=name)) from None


def _repro_line(parser: Parser) -> None:
    """Adds the options of `repro`."""
    _step_line(parser)
    common.seed_option(parser)
    common.device_option(parser, "cpu")
    parser.flag("--write-only", help=_("Write the program and don't run it."))


def _repro(args: Namespace) -> None:
    """Writes the program that repeats a step's first failing call, and runs it unless --write-only. Raises BadInput."""
    wanted = args.step_name or args.step
    name = common.one_step(wanted, "repro") if wanted else None
    common.require_folder(args.submission, "repro")
    from grader.learner import repro

    device = "cpu" if args.device == "all" else args.device
    repro.run(args.submission, name, device=device, seed=args.seed, runs=not args.write_only)


def _lesson_line(parser: Parser) -> None:
    _step_line(parser)
    parser.flag("--page", help=_("In the browser, with the pictures drawn."))


def _lesson(args: Namespace) -> None:
    """Prints the lesson, or opens it in the browser. Raises BadInput for a step without a lesson."""
    if args.page:
        args.device, args.step_name = "cpu", args.step_name or args.step
        watch.COURSE.run(args)
        return
    name = _current(args, "lesson")
    from grader.course import lessons
    from grader.report import console

    try:
        console.say(lessons.Lesson(lessons.reading(name)))
    except lessons.NoLesson:
        sentence = _("There is no lesson for {step}. Type: python -m grader grade --step {step}")
        raise BadInput(sentence.format(step=name)) from None


def _solution(args: Namespace) -> None:
    """Prints the solution of a step that passes. Raises BadInput for one that does not."""
    name = common.one_step(args.step_name or args.step, "solution")
    common.require_folder(args.submission, "solution")
    from grader.course import solutions, submissions
    from grader.judge.grader import Grader
    from grader.report import console, solution

    number = int(name[4:6])
    try:
        solved = solutions.solution(name)
    except solutions.NoSolution:
        sentence = _(
            "This copy of the kit holds no solutions: ask whoever gave it to you. Type: make lesson STEP={number}"
        )
        raise BadInput(sentence.format(number=number)) from None
    with Grader(1) as grader:
        result = grader.grade(submissions.read(args.submission), [name], device="cpu").steps[0]
    if result.status != "pass":
        sentence = _("{step} does not pass yet, and its solution is shown once it does. Type: make hint STEP={number}")
        raise BadInput(sentence.format(step=name, number=number))
    ways = [(way.name, _(way.trades), way.code) for way in solved.ways]
    console.say(solution.terminal(name, solved.reference, ways), whole_lines=True)


def _reset(args: Namespace) -> None:
    """Replaces a step's file by its stub, keeps the work as a dated copy, and prints its path. Raises BadInput."""
    name = common.one_step(args.step_name or args.step, "reset")
    common.require_folder(args.submission, "reset")
    from grader.course import lessons
    from grader.report import console

    try:
        console.say(lessons.as_sentence(lessons.reset(name, args.submission)))
    except lessons.NoStub:
        sentence = _("The stub of {step} is not in this copy of the kit. Type: python -m grader doctor")
        raise BadInput(sentence.format(step=name)) from None
    except OSError as error:
        sentence = _("Nothing was changed: {reason}. Type: python -m grader doctor")
        raise BadInput(sentence.format(reason=error.strerror or error)) from None


# --- what works -------------------------------------------------------------------------------------------------


def _doctor(args: Namespace) -> int:
    """Prints the state of this machine. Returns the exit code: 0 if `make grade` works, else 1."""
    from grader.learner import doctor as examination
    from grader.report import console

    with console.status_line() as looking_at:
        findings = list(examination.examine(args.submission, looking_at))
    console.say(examination.table(findings))
    return 0 if examination.works(findings) else 1


COMMANDS = [
    watch.COURSE,
    watch.EXPLORE,
    Subcommand(
        "grade", N_("Grade a submission and say what to do next."), _grade_line, _grade,
        note=N_(
            "The exit code is 0 whether the submission passes or not (--json says which), and 2 if nothing was graded."
        ),
    ),
    Subcommand("report", N_("Grade, and open the report as a page in the browser."), _grade_line, _report),
    watch.WATCH,
    Subcommand("hint", N_("Give one more hint for a step."), _step_line, _hint),
    Subcommand("lesson", N_("Show the lesson of a step."), _lesson_line, _lesson),
    Subcommand("repro", N_("Run the first failing call of a step in a process of your own."), _repro_line, _repro),
    Subcommand("solution", N_("Show the reference and other right ways of a step that passes."), _step_line, _solution),
    Subcommand("reset", N_("Put the stub of a step back; your work is kept next to it, dated."), _step_line, _reset),
    Subcommand("tracks", N_("List the tracks: what each needs and how far you are."), _submission_line, _tracks),
    Subcommand("begin", N_("Write the stubs of a track into your exercises."), _begin_line, _begin),
    Subcommand(
        "exercises", N_("Write the stubs. A file that a learner has worked on is left alone."), _exercises_line,
        _exercises,
    ),
    Subcommand(
        "doctor", N_("Say what works here, what does not, and how to fix it."), _submission_line, _doctor,
        in_any_language=True,
    ),
    *completion.COMMANDS,
]  # fmt: skip
