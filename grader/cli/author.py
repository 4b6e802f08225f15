"""The author's commands: lint a step, record its tape, collect its sentences."""

from __future__ import annotations

import sys
from argparse import Namespace

from grader.base.language import gettext as _
from grader.cli import common
from grader.cli.common import N_
from grader.cli.parser import BadInput, Parser, Subcommand


def _record(args: Namespace) -> None:
    """Records the answers of the chosen steps for learners' kits. Raises BadInput if a reference fails its checks."""
    steps = common.chosen_steps(args, "record")
    common.require_solutions()
    from grader.author import recorder

    left_out = common.left_out(steps)
    try:
        recorder.record_all(steps=steps, on_step=common.size_printer(len(recorder.recordable(steps))))
    except recorder.NotRecorded as failure:
        sentence = _("The reference fails its own check: {reason} Type: make prove")
        raise BadInput(sentence.format(reason=failure)) from None
    print(left_out, end="", file=sys.stderr)


def _lint_line(parser: Parser) -> None:
    parser.argument("STEPS", help=_("Only these steps: 4, step04, a name, 1-6 or 1-6,13."))


def _lint(args: Namespace) -> int:
    """Prints the mistakes in one step, or in all; returns the exit code."""
    common.require_checkout()
    from grader.author import lint

    return lint.main(args.steps or "")


def _messages_line(parser: Parser) -> None:
    parser.argument("STEP", into="steps", help=_("Only these steps: 4, step04, a name, 1-6 or 1-6,13."))
    parser.flag("--check", help=_("Change nothing; say what is missing or stale, and exit with 1 if anything is."))


def _messages(args: Namespace) -> int:
    """Updates the Korean catalogues, or with --check prints their problems. Returns the exit code."""
    common.require_checkout()
    args.step, args.track = [args.steps] if args.steps else [], []
    names = common.chosen_steps(args, "messages")
    from grader.author import lint, translations

    if args.check:
        problems = translations.problems()
        print("\n".join(problems), end="\n" if problems else "")
        return 1 if problems else 0
    if unread := lint.unparsed():
        print("\n".join(unread), file=sys.stderr)
        return 2
    for line in translations.update(names):
        print(line)
    return 0


COMMANDS = [
    Subcommand(
        "record", N_("Record the tape of every step: what a learner's copy of the kit answers from."),
        common.choice_options, _record,
    ),
    Subcommand(
        "lint", N_("Say what is wrong with the folder of a step, a line for each mistake."), _lint_line, _lint,
    ),
    Subcommand(
        "messages", N_("Collect new sentences for translation."), _messages_line, _messages,
    ),
]  # fmt: skip
