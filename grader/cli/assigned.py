"""The options for an assignment of `assignments.toml`, and the refusals without one."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from grader.base import paths
from grader.base.language import gettext as _
from grader.cli import common
from grader.cli.parser import BadInput, Parser, refusal

if TYPE_CHECKING:
    from grader.marks.assignments import Term
    from grader.marks.marking import Marking
    from grader.marks.register import Register

CHECK = "term"


def file_option(parser: Parser) -> None:
    """Adds the option --assignments."""
    parser.option(
        "--assignments",
        Path,
        metavar="FILE",
        help=_("The assignments of a term; by default assignments.toml, if there is one."),
    )


def roster_option(parser: Parser) -> None:
    """Adds the option --roster."""
    parser.option(
        "--roster",
        Path,
        metavar="FILE",
        help=_("The roster: a table, or what a platform exports; by default roster.csv, if there is one."),
    )


def register(args: Namespace, whole_term: Term | None) -> Register:
    """The students and groups of the class, from the files next to the term's `assignments.toml`, without a term from
    the current folder; --roster names another roster. Raises BadInput."""
    from grader.marks import register as registers
    from grader.marks.assignments import BadTerm

    try:
        assignment = getattr(args, "assignment", None) or ""
        if whole_term:
            return registers.read(whole_term.file.parent, whole_term.local, args.roster, assignment)
        return registers.read(Path(), roster=args.roster, assignment=assignment)
    except BadTerm as bad:
        raise refusal(bad, "term") from None


def options(parser: Parser) -> None:
    """Adds the options --assignment and --assignments."""
    parser.option(
        "--assignment", metavar="NAME", help=_("The assignment: one of assignments.toml, or its name in other systems.")
    )
    file_option(parser)


def term(wanted: Path | None) -> Term | None:
    """The term that the file `wanted` describes, by default `assignments.toml` here; None without one. Raises
    BadInput."""
    from grader.marks import assignments

    file = wanted or assignments.FILE
    try:
        return assignments.read(file)
    except FileNotFoundError:
        if wanted is None:
            return None
        sentence = _("There is no file {file}. Type: cp examples/course/assignments.toml .")
        raise BadInput(sentence.format(file=file)) from None
    except assignments.BadTerm as bad:
        raise refusal(bad, check_command(wanted)) from None


def check_command(wanted: Path | None) -> str:
    """The command, without `python -m grader`, that checks this file of assignments; None: `assignments.toml` here."""
    return CHECK if wanted is None else f"{CHECK} --assignments {paths.typed(wanted)}"


def marking(args: Namespace, command: str, *, default: str | None = None, is_name: bool = False) -> Marking | None:
    """The rules by which --assignment is marked; None without `assignments.toml`, or if only --step or --track is
    given. Raises BadInput: the message says to type `command` with an assignment.

    `default` is the value of --assignment if it isn't typed; `is_name`: without a file, any name is accepted, which is
    then the one in other systems.
    """
    from grader.marks import assignments
    from grader.marks import marking as marks

    whole_term = term(args.assignments)
    wanted = None if args.assignment == default else args.assignment
    if whole_term is None:
        if wanted is not None and default is None and not is_name:
            sentence = _("There is no file {file}. Type: cp examples/course/assignments.toml .")
            raise BadInput(sentence.format(file=assignments.FILE))
        return None
    plain = args.step or args.track
    if wanted is None and plain and args.assignments is None:
        return None
    names = list(whole_term.assignments)
    instead = f"python -m grader {command} --assignment {names[0]}"
    if args.assignments is not None:
        instead += f" --assignments {paths.typed(args.assignments)}"
    if wanted is None or wanted not in names:
        sentence = (
            _("Which assignment? {file} has {names}. Type: {command}")
            if wanted is None
            else _("{file} has no assignment {name}, only {names}. Type: {command}")
        )
        raise BadInput(sentence.format(file=whole_term.file, name=wanted, names=", ".join(names), command=instead))
    if plain:
        sentence = _("An assignment has its own steps: leave out --step and --track. Type: {command}")
        raise BadInput(sentence.format(command=instead.replace(names[0], wanted, 1)))
    try:
        return marks.of(whole_term, wanted)
    except assignments.BadTerm as bad:
        raise refusal(bad, check_command(args.assignments)) from None


def steps(args: Namespace, command: str) -> list[str]:
    """The names of the steps of --assignment, or else those that --step and --track choose. Raises BadInput: type
    `command` with a known one."""
    chosen = common.chosen_steps(args, command)
    if not args.assignment and not args.assignments:
        return chosen
    wanted = marking(args, command)
    return wanted.assignment.everything if wanted else chosen
