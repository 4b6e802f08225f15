"""What every command line of the kit does alike: its language, its help, and the one line that says what is wrong."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, TextIO

import typer
from typer.core import TyperGroup

from grader import language
from grader.language import gettext as _

TOO_MUCH = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)")
NO_VALUE = re.compile(r"Option '.*' does not take a value\.")
NOT_WHOLE = re.compile(r"Input should be a valid integer.*|Unable to parse input string as an integer.*")
NO_NUMBER = re.compile(r"Input should be a valid number.*")
OUT_OF_RANGE = re.compile(r"Input should be (greater|less) than or equal to (\S+)")
NO_CHOICE = re.compile(r".* is not one of (.*)", re.DOTALL)
NOT_READABLE = re.compile(r".* is not readable", re.DOTALL)
NO_COMMAND = re.compile(r"No such command '(.*?)'\.(?: Did you mean (.*)\?)?")


def speak(stream: TextIO, encoding: str | None = None) -> None:
    """Lets a stream that can't write every letter write a question mark in its place."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding=encoding, errors="replace")


def spoken(words: Sequence[str]) -> str:
    """The language of what is said outside a command, also where its line is not understood: of --lang if it names
    one, else of the system."""
    asked = [after for word, after in itertools.pairwise(words) if word == "--lang"]
    asked += [word.partition("=")[2] for word in words if word.startswith("--lang=")]
    for wanted in (*asked, None):
        with contextlib.suppress(language.UnknownLanguage):
            return language.choose(wanted)
    return "en"


def documented(command: Any) -> Iterator[Any]:
    """Everything that has a line in the --help of a command and of those below it."""
    return (line for one in _commands(command) for line in (one, *one.params) if getattr(line, "help", None))


def _commands(command: Any) -> list[Any]:
    return [command, *(command.commands.values() if isinstance(command, TyperGroup) else ())]


def run(application: typer.Typer, called: str, words: Sequence[str]) -> Any:
    """Runs a command line, its help in the language in use. Raises what typer does where it is not understood."""
    command = typer.main.get_command(application)
    if "--help" in words:
        _translate(command)
    return command(list(words), prog_name=called, standalone_mode=False)


def _translate(command: Any) -> None:
    """Has --help speak the language in use: what is ours in it, and what is typer's."""
    from typer import rich_utils

    from grader import screen  # noqa: F401  # it mends how rich breaks lines of Hangul

    rich_utils.ARGUMENTS_PANEL_TITLE = _("Arguments")
    rich_utils.OPTIONS_PANEL_TITLE = _("Options")
    rich_utils.COMMANDS_PANEL_TITLE = _("Commands")
    rich_utils.DEFAULT_STRING = _("[default: {}]")
    rich_utils.REQUIRED_LONG_STRING = _("[required]")
    for line in documented(command):
        line.help = _(line.help)
    for one in _commands(command):
        one.format_usage = partial(_usage, one)
        one.get_help_option(typer.Context(one)).help = _("Show this message and exit.")


def _usage(command: Any, context: typer.Context, formatter: Any) -> None:
    formatter.write_usage(context.command_path, " ".join(command.collect_usage_pieces(context)), _("Usage:") + " ")


def misunderstood(error: typer.TyperException, command: str) -> str:
    """What is wrong with a command line, in a line that ends in the command to type next."""
    return _("{problem} Type: {command}").format(problem=_problem(error), command=command)


def _problem(error: typer.TyperException) -> str:
    """One sentence."""
    message = str(getattr(error, "message", error))
    parameter, option = getattr(error, "param", None), getattr(error, "option_name", None)
    too_much, unknown = TOO_MUCH.fullmatch(message), NO_COMMAND.fullmatch(message)
    if option is not None and hasattr(error, "possibilities"):
        return _("There is no option {option}.").format(option=option)
    if option is not None and NO_VALUE.fullmatch(message):
        return _("The option {option} takes no value.").format(option=option)
    if option is not None:
        return _("The option {option} needs a value.").format(option=option)
    if parameter is not None and not message:
        return _("The argument {name} is missing.").format(name=parameter.metavar or parameter.name)
    if parameter is not None:
        reason = _reason(message.removeprefix("Value error, ").rstrip("."))
        return _("The value of {option} does not fit: {reason}.").format(option=parameter.opts[0], reason=reason)
    if too_much:
        return _("This is too much: {arguments}.").format(arguments=too_much[1])
    if unknown and unknown[2]:
        return _("There is no command {name}. Perhaps {others}?").format(
            name=unknown[1], others=unknown[2].replace("'", "")
        )
    if unknown:
        return _("There is no command {name}.").format(name=unknown[1])
    return message.rstrip(".") + "."


def _reason(message: str) -> str:
    """Why a value is refused; what typer says for itself where we know no better."""
    if NOT_WHOLE.fullmatch(message):
        return _("it is no whole number")
    if NO_NUMBER.fullmatch(message):
        return _("it is no number")
    if beyond := OUT_OF_RANGE.fullmatch(message):
        said = _("{bound} is the least") if beyond[1] == "greater" else _("{bound} is the most")
        return said.format(bound=beyond[2])
    if choices := NO_CHOICE.fullmatch(message):
        return _("there are {choices}").format(choices=choices[1].replace("'", ""))
    if NOT_READABLE.fullmatch(message):
        return _("it can't be read")
    return message
