"""The learner's commands that stay open and grade each save: in the terminal, and as a page in the browser."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from grader.base.language import gettext as _
from grader.cli import common
from grader.cli.common import N_
from grader.cli.parser import BadInput, Parser, Subcommand


def _watch_line(parser: Parser) -> None:
    """Adds the options of `watch`."""
    parser.argument("STEP", into="step_name", help=_("Start with this step."))
    common.choice_options(parser)
    common.submission_option(parser)
    common.device_option(parser, "cpu")
    parser.flag("--page", help=_("Also show the session as a page in the browser."))
    common.language_option(parser)
    common.isolation_option(parser)


def _watch(args: Namespace) -> None:
    """Runs watch mode, or with --page the course's page, until the learner ends it. Raises BadInput."""
    names = common.chosen_steps(args, "watch")
    start = common.one_step(args.step_name, "watch") if args.step_name else next(iter(names), None)
    common.require_folder(args.submission, "watch")
    limits = common.limits(args, "watch")
    if sys.stdout.isatty():  # the imports below take half a second
        print(_("Loading torch, once …"), flush=True)
    if args.page:
        _show_course(args.submission, start, args.device, limits.required, names)
        return
    from grader.learner import watch as watching

    watching.run(args.submission, start, args.device, limits.required, names)


def _show_course(
    folder: Path, start: str | None, device: str, required: tuple[str, ...] = (), names: Sequence[str] = (),
    *, place: str = "/",
) -> None:  # fmt: skip
    """Serves the page of the course until it is ended, opened at the step `start`, else at the path `place` of its URL.
    `required`: isolation layers; `names`: the steps to cover, by default the learner's. Raises BadInput if the page's
    packages are missing."""
    try:
        from grader.web import course
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        sentence = _("The page needs packages that are not here. Type: {command}")
        raise BadInput(sentence.format(command=f"{sys.executable} -m pip install -r requirements/page.lock")) from None
    course.run(folder, start, device, required, names, place=f"/step/{int(start[4:6])}" if start else place)


def _course_line(parser: Parser) -> None:
    parser.argument("STEP", into="step_name", help=_("Open the page at this step."))
    _explore_line(parser)


def _course(args: Namespace) -> None:
    start = common.one_step(args.step_name, "course") if args.step_name else None
    common.translate_stubs(args)
    _begin_course(args, "course", start)


def _explore_line(parser: Parser) -> None:
    common.submission_option(parser)
    common.device_option(parser, "cpu")
    common.language_option(parser)


def _explore(args: Namespace) -> None:
    _begin_course(args, "explore", None, "/explore")


def _begin_course(args: Namespace, command: str, start: str | None, place: str = "/") -> None:
    """Serves the course's page, opened at the step `start`, else at the path `place` of its URL. Raises BadInput, with
    `command` to type, without the folder."""
    common.require_folder(args.submission, command)
    if sys.stdout.isatty():
        print(_("Loading torch, once …"), flush=True)
    _show_course(args.submission, start, args.device, place=place)


COURSE = Subcommand(
    "course", N_("Open the course as one page in the browser, which shows each save."), _course_line, _course
)
EXPLORE = Subcommand("explore", N_("Look inside your own GPT, on the page of the course."), _explore_line, _explore)
WATCH = Subcommand("watch", N_("Grade each save as it happens, until q is pressed."), _watch_line, _watch)
