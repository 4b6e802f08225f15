"""The command line: finds the command, has its line parsed and runs it; it decides nothing itself."""

from __future__ import annotations

import errno
import importlib
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from grader import __version__
from grader.base import language
from grader.base.language import gettext as _
from grader.cli.common import HAS_SOLUTIONS, N_, replace_unencodable, report_faulty_steps, spoken
from grader.cli.parser import BadInput, Misunderstood, Parser, Subcommand, capitals, is_named, page, refusal

CALLED = language.TYPED or "python -m grader"
# A command at the end of a line.
COMMAND = re.compile(
    r"(?:python -m grader|attention) ([a-z][a-z0-9-]*)((?: (?!python -m grader)(?:'[^']*+'|[^\s']++))*+)(?=$|\n)"
)
GRADING = ("grade", "report", "class")
NOT_OF_MAKE = ("lint",)  # `make lint` is another one
UNWRITABLE = (
    errno.ENOSPC,
    errno.EIO,
    errno.EDQUOT,
)  # of a stream; what a file can't hold is reported by what writes it
UNFIT = (PermissionError, IsADirectoryError, NotADirectoryError)  # a file's owner can fix it
GROUPS = {
    "learner": N_("Commands"),
    "labs": N_("Labs"),
    "instructor": N_("For instructors"),
    "term": N_("For a term"),
    "author": N_("For authors"),
    "publish": N_("For publishers"),
}
LEARNERS = ("learner", "labs")  # the groups of commands that a learner's kit lists


def main(early: Any = None) -> int:
    """Runs the command line. 0: done, 1: `doctor` found a problem that prevents grading, 2: invalid input or another
    error. `early`: a process that loads torch already."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  closed, as by `>&-`; it stays open to the end
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    replace_unencodable(sys.stdout)
    replace_unencodable(sys.stderr)
    for size in ("COLUMNS", "LINES"):  # a terminal of no size is one of unknown size
        if os.environ.get(size, "").strip("0 ") == "":
            os.environ.pop(size, None)
    words = _take_language(sys.argv[1:]) or ["--help"]
    if language.TYPED == "make" or any(map(is_named, words)):
        language.respell = as_typed
    with language.use(spoken(words)), _stopped_by_signals():
        try:
            code = _run(words, early)
            sys.stdout.flush()
        except BrokenPipeError:  # as in `… --help | head -1`: the reader has closed the pipe
            _discard_output()
            return 1
        except OSError as error:
            if not _is_of_a_stream(error):
                raise
            _discard_output()
            sentence = _("Standard output can't be written ({reason}). Type: make doctor")
            print(sentence.format(reason=error.strerror), file=sys.stderr)
            return 2
        return code


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Inside the block SIGTERM and SIGHUP raise KeyboardInterrupt with their number, as Ctrl-C does, so that everything
    that was started is ended. A signal that is ignored, as by `nohup`, stays ignored."""

    def stop(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _take_language(words: list[str]) -> list[str]:
    """Sets KIT_LANG in the environment if a word is `KIT_LANG=ko`; returns the other words."""
    for word in words:
        if word.startswith("KIT_LANG="):
            os.environ["KIT_LANG"] = word.partition("=")[2]
    return [word for word in words if not word.startswith("KIT_LANG=")]


def as_typed(sentence: str) -> str:
    """The sentence with its commands as NAME=value: `make hint STEP=4` for `python -m grader hint 4`."""

    def spelled(found: re.Match[str]) -> str:
        name, words = found[1], re.findall(r"'[^']*'|\S+", found[2])
        command = next((command for command in every_command() if command.name == name), None)
        if command is None or name in NOT_OF_MAKE:
            return found[0]
        named = parser_of(command).as_names(words)
        return found[0] if named is None else " ".join([CALLED, name, *named])

    return COMMAND.sub(spelled, sentence)


def _discard_output() -> None:
    """Discards what standard output still holds, which Python would try to write once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(words: Sequence[str], early: Any = None) -> int:
    """Runs one command line, in the language in use, and returns its exit code. Raises BadInput. `early`: a process
    that loads torch already."""
    if words[0].startswith("-"):
        if words[0] == "--version":
            print("attention-from-scratch", __version__)
            return 0
        if "--help" not in words:
            raise Misunderstood(_("There is no option {option}.").format(option=words[0].partition("=")[0]))
        print(overview())
        return 0
    command = _find(words[0])
    parser = parser_of(command)
    if "--help" in words or "HELP=1" in words:
        print(_in_capitals(parser.format_help(in_capitals=language.respell is as_typed), command.name))
        return 0
    options = parser.understand(words[1:])
    options.early = early
    with language.use(_language(command, parser.typed(options), getattr(options, "lang", None))):
        return command.run(options) or 0


def _language(command: Subcommand, typed: str, wanted: str | None) -> str:
    """The code of the language to run a command in: `wanted`, else the system's. Raises BadInput if it is unknown,
    except for `doctor`, which examines it: English. `typed`: the arguments to repeat in the message."""
    try:
        return language.choose(wanted)
    except language.UnknownLanguage as unknown:
        if command.in_any_language:
            return "en"
        sentence = _("There is no language {name}, only {known}. Type: python -m grader {command} --lang en")
        languages = ", ".join(language.LANGUAGES)
        raise BadInput(sentence.format(name=unknown, known=languages, command=f"{command.name}{typed}")) from None


def parser_of(command: Subcommand) -> Parser:
    """A parser with the options and arguments of a command, its help in the language in use."""
    described = [_(sentence) for sentence in (command.summary, command.note) if sentence]
    parser = Parser(f"{CALLED} {command.name}", " ".join(described))
    command.declare(parser)
    return parser


def commands(group: str) -> list[Subcommand]:
    """The commands of a group, a key of GROUPS; its module here is imported."""
    group_commands: list[Subcommand] = importlib.import_module(f"grader.cli.{group}").COMMANDS
    return group_commands


def overview() -> str:
    """The text of --help without a command."""
    sections = [
        (_(heading), [(command.name, _(command.summary)) for command in commands(group)])
        for group, heading in GROUPS.items()
        if HAS_SOLUTIONS or group in LEARNERS
    ]
    options = [("--help", _("Show this message and exit.")), ("--version", _("Show the version and exit."))]
    sections.append((_("Options"), options))
    usage = " ".join([_("Usage:"), CALLED, "COMMAND [OPTIONS] [ARGS]..."])
    return "\n".join(page(usage, _("Grade attention from scratch."), sections))


def _find(name: str) -> Subcommand:
    """The command of this name; groups are imported until it is found. Raises Misunderstood, with the names like it."""
    names: list[str] = []
    for command in every_command():
        if command.name == name:
            return command
        names.append(command.name)
    import difflib

    close = difflib.get_close_matches(name, names)
    sentence = _("There is no command {name}. Did you mean {others}?") if close else _("There is no command {name}.")
    raise Misunderstood(sentence.format(name=name, others=", ".join(close)))


def every_command() -> Iterator[Subcommand]:
    """The commands of all groups; a group is imported once its commands are asked for."""
    for group in GROUPS:
        yield from commands(group)


def _run(words: list[str], early: Any) -> int:
    """Runs one command line, prints an expected error in one line, and returns the exit code; other errors are
    raised."""
    try:
        return run(words, early)
    except Misunderstood as problem:
        is_command = any(command.name == words[0] for command in every_command())
        instead = refusal(problem, f"{words[0] if is_command else 'grade'} HELP=1")
        print(language.typed(str(instead)), file=sys.stderr)
        return 2
    except BadInput as refused:
        # A command may have been put into the sentence.
        print(_in_capitals(language.typed(str(refused)), words[0]), file=sys.stderr)
        return 2
    except KeyboardInterrupt as stopped:
        sentence = _("Stopped. Nothing was graded. Type: make grade")
        if words[0] not in GRADING:
            sentence = _("Stopped. Type: {command}").format(command=f"{CALLED} {words[0]}")
        print(language.typed(sentence), file=sys.stderr)
        return 128 + int((stopped.args or (signal.SIGINT,))[0])
    except Exception as error:
        if _is_of_a_stream(error) or not _print_reason(error):
            raise
        return 2


def _in_capitals(sentence: str, name: str) -> str:
    """The sentence with the options of the command `name` as NAME, if the person types them so."""
    command = next((command for command in every_command() if command.name == name), None)
    if command is None or language.respell is not as_typed:
        return sentence
    options = "|".join(map(re.escape, parser_of(command).options.values()))
    return re.sub(rf"(?<![\w-])(?:{options})(?![\w-])", lambda option: capitals(option[0]), sentence)


def _is_of_a_stream(error: Exception) -> bool:
    """Whether what was printed could not be written: the reader has closed the pipe, or a device is full."""
    return isinstance(error, OSError) and error.filename is None and error.errno in (errno.EPIPE, *UNWRITABLE)


def _print_reason(error: Exception) -> bool:
    """Prints why a command failed, and returns True; False, and nothing printed, for an unknown error."""
    if isinstance(error, UNFIT) and error.filename is not None and not os.environ.get("KIT_DEBUG"):
        sentence = _("{file} can't be read or written ({reason}). Type: ls -ld {quoted}")
        file = os.fsdecode(error.filename)
        print(sentence.format(file=file, reason=error.strerror, quoted=shlex.quote(file)), file=sys.stderr)
        return True
    from grader.judge import grader as grading
    from grader.judge.launcher import GraderError

    if isinstance(error, grading.NotIsolated):
        print(error, file=sys.stderr)
        return True
    is_ours = isinstance(error, GraderError)
    # What ended or never started says nothing of the steps, and looking through them takes half a minute.
    if (not is_ours or isinstance(error, grading.BrokenJudge | grading.UnfitCopy)) and report_faulty_steps():
        return True
    if not is_ours:
        return False
    print(error, file=sys.stderr)
    if not isinstance(error, grading.UnfitCopy):
        print(_("Type: KIT_DEBUG=1 make grade, and report what it prints."), file=sys.stderr)
    return True
