"""One command's line, read by argparse: options, arguments and --help, each sentence of it ours and translated.

`STEP=4` and `--step 4` are two spellings of one option: its name in capitals, with `_` for `-`. An argument is typed by
its name (`SUBMISSIONS=folder`) or by position, a flag as `RESUME=1`. An empty value (`STEP=`) leaves the word out.
argparse's error messages are English, without a hook to change them. So it is configured to accept everything: an
option may lack its value, a flag has none, nothing is required, and no word is rejected. Errors are found here.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from grader.base import paths
from grader.base.language import gettext as _

MISSING = object()  # marks a missing value: the option was the last word, or another option follows
MOST_COLUMNS = 100
INDENT = 2
WORD = re.compile(r"([A-Z][A-Z_]*)=(.*)", re.DOTALL)  # NAME=value

Number = TypeVar("Number", int, float)


class BadInput(Exception):
    """Bad input: one line, which ends in the command to type next. Exit code 2."""


def refusal(problem: object, command: str) -> BadInput:
    """The error, not raised, with this sentence and the command to type next, without `python -m grader`."""
    return BadInput(_("{problem} Type: {command}", problem=problem, command=f"python -m grader {command}"))


class Misunderstood(BadInput):
    """An invalid command line: one sentence, without a command to type yet."""


class Unfit(ValueError):
    """An invalid value of an option: a phrase that says why, such as "not an integer"."""


class Subcommand(NamedTuple):
    """One command: its line in --help and a further note in its own --help (both marked by N_), its options and
    arguments, and what runs it.

    `run` may return an exit code; None is 0. `in_any_language`: an unknown language is nothing that keeps it from
    running.
    """

    name: str
    summary: str
    declare: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], int | None]
    note: str = ""
    in_any_language: bool = False


class Parser(argparse.ArgumentParser):
    """The options and arguments of one command, in the language in use."""

    def __init__(self, called: str, summary: str = "") -> None:
        # A fixed width for its own help, which is never shown: detecting the width imports a lot.
        help_of_argparse = partial(argparse.HelpFormatter, width=80)
        super().__init__(prog=called, add_help=False, allow_abbrev=False, formatter_class=help_of_argparse)
        self.summary = summary
        self.arguments: list[_Argument] = []
        self.flags: set[str] = set()
        self.options: dict[str, str] = {}  # by their names in capitals
        self.may_be_empty: set[str] = set()
        self.named: dict[str, str] = {}  # arguments of the line that is read, by name
        self.in_capitals: set[str] = set()  # its options that were typed as NAME=value

    # --- declaring ---

    def option(
        self, name: str, convert: Callable[[str], object] = str, *, metavar: str, help: str,
        default: object = None, several: bool = False, may_be_empty: bool = False, into: str = "",
    ) -> None:  # fmt: skip
        """Adds an option with a value, kept as `into` (by default its name). `several`: it may be repeated, and its
        values are a list. `may_be_empty`: `NAME=` is one."""
        self.options[capitals(name)] = name
        if may_be_empty:
            self.may_be_empty.add(name)
        self.add_argument(
            name, dest=into or None, action=_Store, convert=convert, metavar=metavar, help=help, several=several,
            default=[] if several else default,
        )  # fmt: skip

    def flag(self, name: str, *, help: str) -> None:
        """Adds an option without a value."""
        self.flags.add(name)
        self.options[capitals(name)] = name
        self.add_argument(name, action="store_true", help=help)

    def argument(self, name: str, *, help: str, into: str = "", required: bool = False) -> None:
        """Adds an argument, a word without an option, kept as `into` (by default its name in small letters); None if it
        is left out."""
        self.arguments.append(_Argument(name, help, into or name.lower(), required))

    # --- reading ---

    def understand(self, words: Sequence[str]) -> argparse.Namespace:
        """The parsed options and arguments of a line. Raises Misunderstood."""
        split = words.index("--") if "--" in words else len(words)
        head, tail = list(words[:split]), list(words[split + 1 :])
        for word in head:
            name, equals, _value = word.partition("=")
            if equals and name in self.flags:
                raise Misunderstood(_("The option {option} takes no value.").format(option=name))
        pairs = itertools.pairwise(["", *head])  # the word before may be an option, and this one its value
        options, others = self.parse_known_args([word for pair in pairs for word in self._dashed(*pair)])
        unknown = next((word for word in others if word.startswith("-") and word != "-"), None)
        if unknown is not None:
            raise Misunderstood(_("There is no option {option}.").format(option=unknown.partition("=")[0]))
        self._take([*others, *tail], options)
        return options

    def error(self, message: str) -> None:  # type: ignore[override]  # argparse's own ends the process
        """Raises Misunderstood with an error of argparse itself, in English: no known input causes one."""
        raise Misunderstood(message)

    def _take(self, words: list[str], args: argparse.Namespace) -> None:
        """Sets each argument of the line in `args`: the value typed by name, else the next of `words`. Raises
        Misunderstood if a required one is missing or a word is left."""
        for argument in self.arguments:
            value = self.named.get(argument.name) or (words.pop(0) if words else None)
            if argument.required and not value:
                raise Misunderstood(_("The argument {name} is missing.").format(name=argument.name))
            setattr(args, argument.into, value)
        if words:
            raise Misunderstood(_("Unexpected arguments: {arguments}.").format(arguments=" ".join(words)))

    def _dashed(self, before: str, word: str) -> list[str]:
        """A word as argparse reads it: [`--step=4`] for `STEP=4`; [] for an argument, kept in `named`, and for an empty
        value; another word as it is, also if `before`, the word before it, is an option that waits for its value.
        Raises Misunderstood for an unknown NAME."""
        found = WORD.fullmatch(word)
        if found is None or (before.startswith("-") and before not in self.flags and "=" not in before):
            return [word]
        name, value = found.groups()
        option = self.options.get(name)
        if any(argument.name == name for argument in self.arguments):
            self.named[name] = value
            return []
        if option is None:
            raise Misunderstood(_("There is no option {option}.").format(option=name))
        self.in_capitals.add(option)
        if option in self.flags:
            return [option] if value not in ("", "0") else []
        return [f"{option}={value}"] if value or option in self.may_be_empty else []

    def spelled(self, option: str) -> str:
        """The option `--step` as it was typed in this line: `--step` or `STEP`."""
        return capitals(option) if option in self.in_capitals else option

    def as_names(self, words: Sequence[str]) -> list[str] | None:
        """The words of a line with options and arguments as NAME=value; None if they are no line of this command."""
        left, spelled = list(words), []
        arguments = [argument.name for argument in self.arguments]
        while left:
            option, equals, value = left.pop(0).partition("=")
            if option in self.flags:
                spelled.append(f"{capitals(option)}=1")
            elif option in self.options.values():
                if not equals and not left:
                    return None
                spelled.append(f"{capitals(option)}={value if equals else left.pop(0)}")
            elif WORD.fullmatch(option + equals + value):
                spelled.append(option + equals + value)
            elif arguments and not option.startswith("-"):
                spelled.append(f"{arguments.pop(0)}={option}{equals}{value}")
            else:
                return None
        return spelled

    def typed(self, args: argparse.Namespace) -> str:
        """The values of the required arguments, quoted for a shell, each after a space: to type the command again."""
        return "".join(f" {paths.typed(Path(getattr(args, a.into)))}" for a in self.arguments if a.required)

    # --- --help ---

    def format_help(self, *, in_capitals: bool = False) -> str:
        """The whole text of --help; `in_capitals`: options are shown as NAME=value."""
        names = [argument.name if argument.required else f"[{argument.name}]" for argument in self.arguments]
        required = _("[required]")
        arguments = [
            (argument.name, f"{argument.help} {required}" if argument.required else argument.help)
            for argument in self.arguments
        ]
        options = [(_invocation(action, in_capitals), _described(action)) for action in self._actions]
        options.append(("HELP=1" if in_capitals else "--help", _("Show this message and exit.")))
        usage = " ".join([_("Usage:"), self.prog, "[OPTIONS]", *names])
        return "\n".join(page(usage, self.summary, [(_("Arguments"), arguments), (_("Options"), options)]))


class _Argument(NamedTuple):
    """A word without an option."""

    name: str
    help: str
    into: str
    required: bool


class _Store(argparse.Action):
    """Stores the value of an option, or appends it to the earlier ones."""

    def __init__(self, *, convert: Callable[[str], object], several: bool, **rest: object) -> None:
        super().__init__(nargs="?", const=MISSING, **rest)  # type: ignore[arg-type]
        self.convert, self.several = convert, several

    def __call__(
        self, parser: argparse.ArgumentParser, args: argparse.Namespace, value: object, _option: str | None = None
    ) -> None:
        """Stores the converted value in `args`. Raises Misunderstood if it is missing or unfit."""
        assert isinstance(parser, Parser)
        option = parser.spelled(self.option_strings[0])
        if value is MISSING or (not value and self.convert is Path):  # Path("") would be the current folder
            raise Misunderstood(_("The option {option} needs a value.").format(option=option))
        try:
            fit = self.convert(str(value))
        except Unfit as unfit:
            sentence = _("Invalid value for {option}: {reason}.")
            raise Misunderstood(sentence.format(option=option, reason=unfit)) from None
        setattr(args, self.dest, [*getattr(args, self.dest), fit] if self.several else fit)


# --- values ----------------------------------------------------------------------------------------------------------


def integer(least: int, most: int | None = None) -> Callable[[str], int]:
    """A function that reads an integer from `least` to `most`, without a bound if None. It raises Unfit for other
    text."""
    return partial(_within, int, _("not an integer"), least, most)


def number(least: float, most: float) -> Callable[[str], float]:
    """A function that reads a number from `least` to `most`. It raises Unfit for other text."""
    return partial(_within, float, _("not a number"), least, most)


def one_of(*choices: str) -> Callable[[str], str]:
    """A function that returns a text if it is one of these words. It raises Unfit for another."""

    def convert(text: str) -> str:
        if text not in choices:
            raise Unfit(_("choose from {choices}").format(choices=", ".join(choices)))
        return text

    return convert


def _within(read: Callable[[str], Number], otherwise: str, least: float, most: float | None, text: str) -> Number:
    """The number in a text. Raises Unfit, with `otherwise` if it is no number, or with the bound that it misses."""
    try:
        value = read(text)
    except ValueError:
        raise Unfit(otherwise) from None
    if not value >= least:  # also rejects NaN
        raise Unfit(_("must be at least {bound}").format(bound=least))
    if most is not None and value > most:
        raise Unfit(_("must be at most {bound}").format(bound=most))
    return value


# --- the text of --help ----------------------------------------------------------------------------------------------


def page(usage: str, summary: str, sections: Sequence[tuple[str, list[tuple[str, str]]]]) -> Iterator[str]:
    """The lines of a help text: usage, description, and a table for each section that has rows: its heading, and its
    rows of a name and a description."""
    width = columns()
    filled = [(heading, rows) for heading, rows in sections if rows]
    left = max((len(name) for _heading, rows in filled for name, _text in rows), default=0) + INDENT + 2
    yield from (usage, "", *wrapped(summary, width))
    for heading, rows in filled:
        yield from ("", f"{heading}:")
        for name, text in rows:
            first, *further = wrapped(text, width - left) or [""]
            yield f"{' ' * INDENT}{name}".ljust(left) + first
            yield from (" " * left + line for line in further)


def columns() -> int:
    """The width of the terminal in columns, at most MOST_COLUMNS; 80 if it is unknown."""
    try:
        return min(int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns), MOST_COLUMNS)
    except (OSError, ValueError):
        return 80


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines of at most `width` columns, broken at its spaces; a Hangul syllable takes two, which textwrap
    does not know."""
    import unicodedata

    lines: list[str] = []
    room = 0
    for word in text.split():
        wide = sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in word)
        if lines and wide < room:
            lines[-1] += f" {word}"
            room -= wide + 1
        else:
            lines.append(word)
            room = width - wide
    return lines


def is_named(word: str) -> bool:
    """Whether a word is NAME=value."""
    return WORD.fullmatch(word) is not None


def capitals(option: str) -> str:
    """The name of an option in capitals: `TOP_K` for `--top-k`."""
    return option.lstrip("-").upper().replace("-", "_")


def _invocation(action: argparse.Action, in_capitals: bool) -> str:
    """An option as --help shows it: `--seed N`, or `SEED=N`."""
    if in_capitals:
        return f"{capitals(action.option_strings[0])}={action.metavar or 1}"
    return " ".join([action.option_strings[0], *([str(action.metavar)] if action.metavar else [])])


def _described(action: argparse.Action) -> str:
    """The description of an option, and its default."""
    if action.default in (None, False) or isinstance(action.default, list):
        return str(action.help)
    return " ".join([str(action.help), _("[default: {}]").format(action.default)])
