"""The instructor's commands: a class, a course for nbgrader, an autograder for Gradescope, the learner's kit."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from grader.base import paths
from grader.base.files import NotOverwritten
from grader.base.language import gettext as _
from grader.cli import assigned, common
from grader.cli.common import HAS_SOLUTIONS, N_
from grader.cli.parser import BadInput, Misunderstood, Parser, Subcommand, integer, one_of

ASSIGNMENT_NAME = re.compile(r"\w[\w-]*")  # that nbgrader takes, and a folder can have

if TYPE_CHECKING:
    from grader.marks.register import Register

OUT = Path("dist/class")
SQLITE = "sqlite:///"
PLAIN = "attention"  # the assignment of a class without assignments.toml


def _class_line(parser: Parser) -> None:
    """Adds the options of `class`."""
    parser.argument("SUBMISSIONS", required=True, help=_("A folder with one folder per student."))
    parser.option("--out", Path, metavar="FOLDER", default=OUT, help=_("Where the results go."))
    common.seed_option(parser)
    common.choice_options(parser)
    common.device_option(parser, "all")
    parser.option(
        "--jobs", integer(1, 256), metavar="N", help=_("Processes in parallel; as many as there are cores by default.")
    )
    parser.option("--scheduler", metavar="ADDRESS", help=_("Grade on a Dask cluster: tcp://host:8786."))
    parser.option("--gradebook", metavar="URL", help=_("Also write nbgrader's gradebook: sqlite:///gradebook.db."))
    parser.option(
        "--assignment",
        metavar="NAME",
        default=PLAIN,
        help=_("The assignment: one of assignments.toml, or its name in other systems."),
    )
    assigned.file_option(parser)
    assigned.roster_option(parser)
    parser.option(
        "--earlier", Path, metavar="FOLDER", several=True,
        help=_("An earlier assignment's submissions: they stand in for steps that this one lacks. May be repeated."),
    )  # fmt: skip
    parser.option(
        "--student",
        metavar="NAME",
        several=True,
        help=_("Grade this student again, into the same results. May be repeated."),
    )
    parser.option(
        "--also", one_of("gradescope", "junit"), metavar="gradescope|junit", several=True,
        help=_("Also write results for these programs, a file for each student. May be repeated."),
    )  # fmt: skip
    parser.flag("--strict", help=_("For scripts: exit code 1 also if a student has no mark yet."))
    parser.flag("--again", help=_("Grade everyone again, including unchanged submissions."))
    common.language_option(parser)
    common.isolation_option(parser)
    common.patience_option(parser)


def _class(args: Namespace) -> int:
    """Grades a class. Returns the exit code: 130 if stopped, else that of `class_said.outcome`."""
    submissions = Path(args.submissions)
    command = f"class {paths.typed(submissions)}"
    chosen = common.chosen_steps(args, command)
    marking = assigned.marking(args, command, default=PLAIN)
    out = args.out / args.assignment if marking and args.out == OUT else args.out
    steps = marking.assignment.everything if marking else chosen
    limits = common.limits(args, command, args.patience)
    register = assigned.register(args, marking.term if marking else None)
    _require_places(args, submissions, out, command, register)  # before torch loads
    if marking is None and args.assignment != PLAIN:
        sentence = _("There is no assignments.toml here: {name} is only the name that tables get.")
        print(sentence.format(name=args.assignment), file=sys.stderr)
    if args.scheduler is None and HAS_SOLUTIONS:
        from grader.classes import pool

        pool.begin(limits)
    common.require_solutions()
    from grader.classes import class_list, class_run, one_round
    from grader.cli import class_said
    from grader.marks import changes
    from grader.report import console

    request = one_round.Request(
        submissions=submissions, out=out, steps=steps, device=args.device, seed=args.seed, limits=limits,
        assignment=args.assignment, again=args.again, jobs=args.jobs, scheduler=args.scheduler,
        gradebook=args.gradebook, marking=marking, earlier=tuple(args.earlier), only=tuple(args.student),
        register=register, also=tuple(args.also),
    )  # fmt: skip
    try:
        done = class_run.run(request, console.class_progress)
    except class_list.Impossible as impossible:
        raise BadInput(str(impossible)) from None
    except class_run.Stopped as stopped:
        print("\n".join([*changes.lines(stopped.changes), str(stopped)]), file=sys.stderr)
        return 130
    class_said.say(done, out)
    return class_said.outcome(done, strict=args.strict)


def _require_places(args: Namespace, submissions: Path, out: Path, command: str, register: Register) -> None:
    """Raises BadInput if `submissions` is no class, or if results can't be written to `out` or to the gradebook; the
    message says to type `command` with other options."""
    from grader.classes import class_list

    try:
        class_list.required(submissions, out, args.earlier, register, args.assignment)
    except class_list.Impossible as impossible:
        raise BadInput(str(impossible)) from None
    common.require_place(out, f"{command} --out OTHER")
    if not args.gradebook:
        return
    from grader.classes import gradebook

    suggestion = f"{command} --gradebook {SQLITE}gradebook.db"
    if args.gradebook.startswith(SQLITE):
        common.require_parent(Path(args.gradebook.removeprefix(SQLITE)), suggestion)
    try:
        gradebook.require(args.gradebook)
    except gradebook.NoGradebook as problem:
        sentence = _("The gradebook can't be opened ({reason}). Type: python -m grader {command}")
        raise BadInput(sentence.format(reason=problem, command=suggestion)) from None


def _release_line(parser: Parser) -> None:
    """Adds the options of `release`."""
    parser.option("--folder", Path, metavar="FOLDER", default=Path("dist/nbgrader"), help=_("Where the course goes."))
    common.choice_options(parser)
    assigned.options(parser)
    parser.flag("--per-step", help=_("One notebook per step instead of one for all."))
    common.language_option(parser, _("en or ko: the language of the notebooks."))


def _release(args: Namespace) -> None:
    """Writes nbgrader's course and its labs, and prints the next command. Raises BadInput."""
    steps = common.chosen_steps(args, "release")
    marking = assigned.marking(args, "release", is_name=True)
    name = args.assignment or PLAIN
    if not ASSIGNMENT_NAME.fullmatch(name):
        reason = _("letters, digits, - and _ only")
        raise Misunderstood(_("Invalid value for {option}: {reason}.", option="--assignment", reason=reason))
    common.require_solutions()
    try:
        from grader.classes import release as releasing
    except ModuleNotFoundError as missing:
        sentence = _("What instructors need is not installed ({reason}). Type: make release")
        raise BadInput(sentence.format(reason=missing)) from None
    folder = args.folder
    try:
        written = releasing.build(folder, steps, per_step=args.per_step, marking=marking, assignment=name)
        labs = releasing.build_labs(folder, _tracks_of(steps))
    except NotOverwritten as edited:
        sentence = _("{file} was edited and is not overwritten. Type: python -m grader release --folder OTHER")
        raise BadInput(sentence.format(file=edited)) from None
    except OSError as error:
        raise common.unwritable(error.filename or folder, error, "release --folder OTHER") from None
    if written.kept_configuration:
        print(_("{file} already exists and was left alone.", file=folder / "nbgrader_config.py"))
    sentence = _("The course is in {folder}. Type: cd {folder} && nbgrader generate_assignment {name}")
    print(sentence.format(folder=paths.typed(folder), name=name))
    if labs:
        sentence = _("{count} labs, without a mark, are next to it: nbgrader generate_assignment {name}")
        print(sentence.format(count=len(labs), name=releasing.LABS))


def _tracks_of(steps: list[str]) -> set[str]:
    """The names of the tracks of these steps; that of the core without steps."""
    from grader.course import choice

    return {paths.step_folder(step).parent.name for step in steps} or {choice.CORE}


def _gradescope_line(parser: Parser) -> None:
    """Adds the options of `gradescope`."""
    parser.option(
        "--out", Path, metavar="FILE", default=Path("dist/gradescope.zip"), help=_("Where the autograder goes.")
    )
    common.choice_options(parser)
    assigned.options(parser)


def _gradescope(args: Namespace) -> None:
    """Writes the autograder as a zip file. Raises BadInput."""
    steps = common.chosen_steps(args, "gradescope")
    marking = assigned.marking(args, "gradescope")
    steps = marking.assignment.everything if marking else steps
    if marking and marking.term.late_days.free and marking.term.before(marking.assignment.name):
        sentence = _(
            "Gradescope's autograder sees one assignment alone, and can't count late_days of the whole term. "
            "Leave it out of {file}, or type: python -m grader class FOLDER"
        )
        raise BadInput(sentence.format(file=marking.term.file))
    common.require_solutions()
    from grader.classes import gradescope as autograder

    try:
        autograder.build(args.out, steps, marking)
    except OSError as error:
        raise common.unwritable(args.out, error, "gradescope --out OTHER.zip") from None
    sentence = _(
        "The autograder is {file} ({size:.1f} MB): upload it as is. Gradescope: the assignment, Configure Autograder"
    )
    print(sentence.format(file=args.out, size=args.out.stat().st_size / 1e6))


def _kit_line(parser: Parser) -> None:
    """Adds the options of `kit`."""
    parser.option("--folder", Path, metavar="FOLDER", default=Path("dist/kit"), help=_("Where the kit goes."))
    parser.flag("--solutions", help=_("Also hold what make solution shows of a step that passes."))
    common.choice_options(parser)
    assigned.options(parser)


def _kit(args: Namespace) -> None:
    """Records the right and wrong answers of the steps, and writes the learner's kit as a folder and a zip file. Raises
    BadInput."""
    steps = assigned.steps(args, "kit")
    common.require_solutions()
    from grader.author import kit as building
    from grader.author import recorder
    from grader.course import tracks

    left_out = common.left_out(steps)
    folder = args.folder
    with common.recording(folder, "kit"):
        building.require_replaceable(folder)
        print(
            _(
                "Recording right and wrong answers: minutes for steps that changed, seconds for the others. A step "
                "can be used as soon as it is listed."
            ),
            flush=True,
        )
        count = len(recorder.recordable(tracks.with_needed(steps)))
        archive = building.build(folder, steps, common.size_printer(count), with_solutions=args.solutions)
    sentence = _("The learner's kit is {folder}, and as one file {archive} ({size:.1f} MB).")
    print(sentence.format(folder=folder, archive=archive, size=archive.stat().st_size / 1e6))
    print(left_out, end="", file=sys.stderr)


COMMANDS = [
    Subcommand(
        "class", N_(
            "Grade a class: every folder in SUBMISSIONS. Run the same command again to continue where "
            "it stopped."
        ),
        _class_line, _class,
    ),
    Subcommand(
        "release",
        N_("Build a course for nbgrader: source notebooks and a configuration that grades in the sandbox."),
        _release_line, _release,
    ),
    Subcommand(
        "gradescope", N_("Build the autograder for Gradescope: one zip file to upload there."), _gradescope_line,
        _gradescope,
    ),
    Subcommand(
        "kit", N_("Build the learner's copy of the kit, without the solutions, as a folder and as a zip file."),
        _kit_line, _kit,
    ),
]  # fmt: skip
