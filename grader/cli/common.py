"""Shared by all commands: common options, and common checks of the input.

Nothing heavy is imported at the top of any module here: `make grade` starts loading torch in another process first.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grader.base import files, language, paths
from grader.base.language import N_ as N_
from grader.base.language import gettext as _
from grader.cli.parser import BadInput, Parser, Unfit, integer, number, refusal

if TYPE_CHECKING:
    from grader.base.limits import Limits

EXERCISES = Path("exercises")
HAS_SOLUTIONS = (paths.ROOT / "solutions").is_dir()


# --- options ---------------------------------------------------------------------------------------------------------


def language_option(parser: Parser, help: str = "") -> None:
    """Adds the option --lang."""
    parser.option("--lang", metavar="en|ko", help=help or _("en or ko."))


def submission_option(parser: Parser) -> None:
    """Adds the option --submission."""
    parser.option("--submission", Path, metavar="FOLDER", default=EXERCISES, help=_("A folder of step files."))


def choice_options(parser: Parser) -> None:
    """Adds the options --step and --track."""
    parser.option(
        "--step",
        metavar="STEPS",
        several=True,
        help=_("Only these steps: 4, step04, a name, 1-6 or 1-6,13. May be repeated."),
    )
    parser.option("--track", metavar="NAME", several=True, help=_("Only the steps of this track. May be repeated."))


def device_option(parser: Parser, default: str) -> None:
    """Adds the option --device."""
    parser.option(
        "--device", device_name, metavar="cpu|cuda|mps|…|all", default=default, help=_("Where the checks run.")
    )


def device_name(text: str) -> str:
    """The text, if it is a device as torch names them, or `all`. Raises Unfit for another."""
    if not language.DEVICE.fullmatch(text):
        raise Unfit(_("a device is named as torch names it: cpu, cuda, mps, xpu, or all"))
    return text


def seed_option(parser: Parser) -> None:
    """Adds the option --seed."""
    parser.option("--seed", integer(0, 2**53), metavar="N", help=_("Repeat a run with the same draws."))


def isolation_option(parser: Parser) -> None:
    """Adds the option --require-isolation."""
    parser.option(
        "--require-isolation", metavar="LAYERS", help=_("Refuse to grade without these layers: landlock,seccomp.")
    )


def patience_option(parser: Parser) -> None:
    """Adds the option --patience."""
    parser.option(
        "--patience",
        number(0.1, 100),
        metavar="FACTOR",
        default=1.0,
        help=_("Multiply every deadline by this: 3 for a slow machine."),
    )


# --- the language ----------------------------------------------------------------------------------------------------


def replace_unencodable(stream: object, encoding: str | None = None) -> None:
    """Makes a text stream write a question mark for every character that it can't encode; `encoding` replaces its
    own."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding=encoding, errors="replace")


def spoken(words: Sequence[str]) -> str:
    """The code of the language for messages outside a command, also if its line is invalid: the first known one among
    --lang in the `words` of the line, LANG= there, and the system's; else `en`."""
    languages = [after for word, after in itertools.pairwise(words) if word == "--lang"]
    languages += [word.partition("=")[2] for word in words if word.startswith(("--lang=", "LANG="))]
    for wanted in (*languages, None):
        with contextlib.suppress(language.UnknownLanguage):
            return language.choose(wanted)
    return "en"


def translate_stubs(args: argparse.Namespace) -> None:
    """Writes the stubs in `exercises` again in the language of --lang or KIT_LANG, if one was given and no
    stub is edited."""
    folder = args.submission
    if folder != EXERCISES or not (os.environ.get("KIT_LANG") or args.lang):
        return
    from grader.course import exercises

    with contextlib.suppress(OSError):
        if written := exercises.write_in_language(folder):
            sentence = _("Wrote the untouched files of {folder} in this language: {count}")
            print(sentence.format(folder=folder, count=len(written)), file=sys.stderr)


# --- steps -----------------------------------------------------------------------------------------------------------


def chosen_steps(args: argparse.Namespace, command: str) -> list[str]:
    """The names of the steps that --step and --track choose; empty if neither was given. Raises BadInput for an unknown
    one: the message says to type `command` with a known one."""
    from grader.course import choice

    try:
        return choice.chosen(args.step, args.track)
    except choice.UnknownChoice as unknown:
        _require_names()
        option = "" if hasattr(args, "steps") else f"{unknown.option} "  # `messages 4` takes them without one
        raise refusal(unknown, f"{command} {option}{unknown.instead}") from None


def one_step(wanted: str | None, command: str) -> str:
    """The full name of the step with this name or number. Raises BadInput if it is None or unknown: the message says to
    type `command` with a known one."""
    from grader.course import choice

    if wanted is None:
        names = choice.step_names()
        sentence = _("Which step? They are {first} to {last}. Type: python -m grader {command} {first}")
        raise BadInput(sentence.format(first=names[0], last=names[-1], command=command))
    try:
        return choice.single(wanted)
    except choice.UnknownChoice as unknown:
        _require_names()
        raise refusal(unknown, f"{command} {unknown.instead}") from None


# --- checks of the input
# -------------------------------------------------------------------------------------------------


def limits(args: argparse.Namespace, command: str, patience: float = 1.0) -> Limits:
    """The limits of a run: the layers of --require-isolation, and `patience`, a factor on each deadline. Raises
    BadInput for an unknown layer: the message says to type `command` with known ones."""
    from grader.base.limits import Limits

    if args.require_isolation is None:
        return Limits(patience=patience)
    from grader.judge import grader as grading
    from grader.sandbox.kernel import LAYERS

    try:
        return Limits(patience=patience, required=grading.required_layers(args.require_isolation))
    except grading.UnknownLayer as unknown:
        sentence = _(
            "There is no layer “{name}”. The layers are {layers}. "
            "Type: python -m grader {command} --require-isolation landlock,seccomp"
        )
        raise BadInput(sentence.format(name=unknown, layers=", ".join(LAYERS), command=command)) from None


def require_folder(folder: Path, command: str) -> None:
    """Raises BadInput if the folder is missing or can't be read: type `command` with another one."""
    if not folder.is_dir():
        sentence = _("There is no folder {folder}. Type: python -m grader {command} --submission FOLDER")
        raise BadInput(sentence.format(folder=folder, command=command))
    try:
        os.listdir(folder)
    except OSError as error:
        sentence = _("{folder} can't be read ({reason}). Type: python -m grader {command} --submission FOLDER")
        raise BadInput(sentence.format(folder=folder, reason=error.strerror, command=command)) from None


def require_parent(file: Path | None, suggestion: str) -> None:
    """Raises BadInput if a file can't be written at the end, since its folder is missing or it is a folder itself;
    `suggestion` is the command to type, without `python -m grader`. None is no file, and fine."""
    if file is not None and (not file.parent.is_dir() or file.is_dir()):
        number = errno.EISDIR if file.is_dir() else errno.ENOENT
        raise unwritable(file, OSError(number, os.strerror(number)), suggestion)


def require_place(folder: Path, suggestion: str) -> None:
    """Raises BadInput if a folder can't be made or written; `suggestion` is the command to type next."""
    there = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        number = errno.EACCES if there.is_dir() else errno.EEXIST if there == folder else errno.ENOTDIR
        raise unwritable(folder, OSError(number, os.strerror(number)), suggestion)


def left_out(names: list[str]) -> str:
    """A line, with its newline, for each of these steps that a kit leaves out because a package is missing here; empty
    without one. Raises BadInput if all are left out."""
    from grader.course import steps

    lacking = steps.lacking(names)
    lines = [
        _("{step} is left out: {package} is not installed here. To add it on Linux, type: make triton").format(
            step=step, package=package
        )
        for step, package in lacking.items()
    ]
    if names and lacking.keys() >= set(names):
        raise BadInput("\n".join(lines))
    return "".join(f"{line}\n" for line in lines)


def require_checkout() -> None:
    """Raises BadInput in a learner's kit, which has no solutions; those of a checkout may be incomplete."""
    if not HAS_SOLUTIONS:
        raise BadInput(_("This copy of the kit has no solutions. Type: make grade"))


def require_solutions() -> None:
    """Raises BadInput without the solutions, or if the folder of a step is incomplete."""
    require_checkout()
    from grader.author import lint

    _refuse(lint.in_folders())


def require_references() -> None:
    """Raises BadInput if stubs can't be generated from a reference; other files may be missing."""
    if HAS_SOLUTIONS:
        from grader.author import lint

        _refuse(lint.in_references())


def report_faulty_steps() -> bool:
    """Prints the mistakes in the folders of the steps; returns whether there are any: then the engine is not at fault.
    False, and nothing printed, in a learner's kit and with KIT_DEBUG."""
    if not HAS_SOLUTIONS or os.environ.get("KIT_DEBUG"):
        return False
    from grader.author import lint

    try:
        _refuse(lint.problems())
    except BadInput as refusal:
        print(refusal, file=sys.stderr)
        return True
    return False


def make_folder(folder: Path, suggestion: str) -> None:
    """Makes a folder and those above it. Raises BadInput if it can't be made; `suggestion` is the command to type."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error, suggestion) from None


def unwritable(file: Path | str, error: OSError, suggestion: str) -> BadInput:
    """The error, not raised, for a file or folder that can't be written; `suggestion` is the command to type next,
    without `python -m grader`."""
    sentence = _("{file} can't be written ({reason}). Type: {command}")
    return BadInput(sentence.format(file=file, reason=error.strerror, command=f"python -m grader {suggestion}"))


def write(file: Path, content: str | bytes, suggestion: str) -> None:
    """Writes a file whole or not at all. Raises BadInput if it can't be written; `suggestion` is the command to type
    next."""
    try:
        files.write(file, content)
    except OSError as error:
        raise unwritable(file, error, suggestion) from None


def size_printer(total: int) -> Callable[[str, int], None]:
    """A function to call with the name and the bytes of each recorded step, of `total` steps: it prints them with the
    time left."""
    began, done = time.monotonic(), 0

    def tell(name: str, size: int) -> None:
        nonlocal done
        done += 1
        minutes = (time.monotonic() - began) / done * (total - done) / 60
        left = _("about {minutes} min left", minutes=round(minutes)) if minutes >= 1 else ""
        print(f"{done:>3}/{total}  {name:26}{size:>9,} bytes  {left}".rstrip(), flush=True)

    return tell


@contextlib.contextmanager
def recording(folder: Path, command: str) -> Iterator[None]:
    """Raises BadInput in place of the errors of a block that records answers into a kit in `folder`; the message says
    to type `command` with another folder."""
    from grader.author.recorder import NotRecorded

    try:
        yield
    except files.NotOverwritten:
        sentence = _("{folder} holds something other than a kit. Type: python -m grader {command} --folder OTHER")
        raise BadInput(sentence.format(folder=folder, command=command)) from None
    except OSError as error:
        raise unwritable(folder, error, f"{command} --folder OTHER") from None
    except NotRecorded as failure:
        raise BadInput(_("The reference fails its own check: {reason} Type: make prove", reason=failure)) from None


def _require_names() -> None:
    """Raises BadInput if folders of steps are misnamed or share a number: then a step that is not found may exist."""
    if HAS_SOLUTIONS:
        from grader.author import lint

        _refuse(lint.in_names())


def _refuse(problems: list[str]) -> None:
    """Raises BadInput with these lines, if there are any."""
    if problems:
        raise BadInput("\n".join([*problems, _("This is for the author of the step. Type: make prove")]))
