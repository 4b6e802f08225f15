"""Describes an error of a learner's code: their error, their line, its likely cause. No frame of ours."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from grader.base.errors import CheckFailed
from grader.base.language import gettext as _
from grader.base.paths import step_folders
from grader.calls.call import LeftOut, Raised
from grader.calls.responder import BACKWARD

NOT_PERMITTED = ("Operation not permitted", "can't start new thread")  # what Python says when seccomp refuses a call
NOT_CONNECTED = ("URLError", "gaierror", "ConnectionError")
OF_THE_COURSE = re.compile(r"No module named '(?:exercises\.)?(step\d\d\w*)'|No module named 'exercises\.")
OF_THE_NOTEBOOK = re.compile(r"name '(display|get_ipython|check)' is not defined")  # IPython's own names, and ours
TOO_MANY = re.compile(r"positional arguments? but \d+ (was|were) given")
UNKNOWN_NAME = "got an unexpected keyword argument"
# torch, of a module without a call of super().__init__(): a layer is set, a call or a mode asked for
NOT_INITIALISED = re.compile(r"before Module\.__init__\(\) call|no attribute '_(modules|parameters|buffers|\w+_hooks)'")
NOTEBOOKS_OWN = ("%", "!")
IN_CELL = re.compile(r"\[step\d{2}_\w+\]\Z")  # the name of a file that is an answer cell of a notebook
OF_A_CLASS = ("__init__", "forward", "__call__")
NO_PART = "no part "  # the responder's words, before the path
MOST_NAMES = 5  # of functions in a message
MAX_SEARCHED = 2000  # characters of a message, which the learner's code controls
MAX_COMPARED = 200  # names that a missing parameter is compared with: each comparison takes time
TOOK_LONG = "TookLong"  # the worker's error if a line at the top level takes too long
FOR_ARRAYS = re.compile(  # what torch and NumPy say if a tensor is taken for an array
    r"Can't call numpy\(\) on Tensor|'Tensor' object has no attribute '(astype|copy|fill|ptp)'|\bout=NoneType, axis="
    r"|unexpected keyword argument 'axis'"
)
NO_CUDA = re.compile(
    r"not compiled with CUDA|no NVIDIA driver|No CUDA GPUs|CUDA is not available|CUDA driver"
    r"|re-initialize CUDA in forked"
)
NO_INPUT = "EOF when reading a line"
WRITTEN_OVER = "modified by an inplace operation"  # torch, of a tensor that a backward pass still needs


def learners_error(raised: Raised, shown: str, device: str = "cpu") -> CheckFailed:
    """The failed check for an error of the learner's own code, with that error as `raised`; `shown` is the call as
    text, `device` that of its tensors."""
    failure = _described(raised, shown, device)
    failure.raised = raised
    return failure


def _described(raised: Raised, shown: str, device: str) -> CheckFailed:
    """The learner's own error as a failed check: their error, their line, the shapes there, no frame of ours.

    `device` is the device of the call's tensors.
    """
    name = shown.partition("(")[0]
    if raised.type == "NotImplementedError" and not raised.message and raised.function != BACKWARD:
        if raised.file and raised.function not in (name, *OF_A_CLASS):
            sentence = _("{name} calls {function} in {file}, which is not written yet.")
            sentence = sentence.format(name=name, function=raised.function, file=raised.file)
            return CheckFailed(sentence, "todo", called=shown)
        return CheckFailed(_("{name} is not written yet.", name=name), "todo", called=shown)
    if raised.type == "NotThere":
        sentence = _("The file must define `{name}`, but does not.")
        if IN_CELL.search(raised.file):
            sentence = _("The answer cell must define `{name}`, but does not, nor does another cell.")
        if raised.message == "not callable":
            sentence = _("{name} exists, but is not a function or a class.")
        if raised.message.startswith(NO_PART):
            sentence = _("The module has no part `{part}` that is a module, and the step asks for one.")
        lines = [sentence.format(name=name, part=raised.message.removeprefix(NO_PART)), *_why_missing(raised, device)]
        return CheckFailed("\n".join(lines), called=shown)
    error = f"{raised.type}: {raised.message}" if raised.message else raised.type
    if raised.function == BACKWARD and not raised.line:  # autograd stopped: no line of the learner's ran
        lines = [_("The backward pass through what {name} gave raised {error}", name=name, error=error)]
    else:
        lines = [_("{name} raised {error}", name=name, error=error)]
    if raised.line and not raised.function:  # the file does not parse
        lines.append(_("at line {line} of {file}: {source}", line=raised.line, file=raised.file, source=raised.source))
    elif raised.line:
        lines.append(
            _("at line {line} of {file}, in {function}: {source}").format(
                line=raised.line, file=raised.file, function=raised.function, source=raised.source
            )
        )
    if raised.shapes:
        lines.append(_("shapes there: {shapes}", shapes=", ".join(raised.shapes)))
    lines += _why_missing(raised, device) or _causes(raised, device)
    return CheckFailed("\n".join(lines), called=shown, by_code=True)


def _why_missing(raised: Raised, device: str) -> list[str]:
    """Sentences on why a name is missing: the line at the top level that would have bound it, and that failed; empty
    without one."""
    if raised.left_out is None:
        return []
    line = raised.left_out
    error = f"{line.type}: {line.message}" if line.message else line.type
    sentence = _("Line {line} of {file}, `{source}`, failed: {error}").format(
        line=line.line, file=line.file, source=line.source, error=error
    )
    return [sentence, *_causes(Raised(line.type, line.message, line.file, line.line, "", line.source), device)]


def left_out(line: LeftOut) -> str:
    """A sentence about a line at the top level that was left out."""
    if line.type == TOOK_LONG:
        sentence = _(
            "Line {line} of {file}, `{source}`, took longer than {error}: it was left out, the rest was graded."
        )
        return sentence.format(line=line.line, file=line.file, source=line.source, error=line.message)
    error = f"{line.type}: {line.message}" if line.message else line.type
    if not line.line:
        return _("{file}: {error} was raised, and the rest was not run.", file=line.file, error=error)
    sentence = _("Line {line} of {file}, `{source}`, raised {error}: it was left out, the rest was graded.")
    text = sentence.format(line=line.line, file=line.file, source=line.source, error=error)
    return " ".join([text, *_causes_in_the_sandbox(line.type, line.message, line.source)])


def other_work(functions: list[str], called: str) -> CheckFailed:
    """The failure of a call (`called`, as text) on `meta` that used other torch functions than the same call on the
    CPU; `functions` are those that only one of them used."""
    sentence = _(
        "On the `meta` device the code does other work than on the CPU: only one of the two calls {functions}. The "
        "device should make no difference."
    )
    return CheckFailed(
        sentence.format(functions=", ".join(f"`{name}`" for name in functions[:MOST_NAMES])), called=called
    )


def unmeasured(measured: int, least: float, called: str) -> CheckFailed:
    """The failure of a call (`called`, as text) that was measured to take less than the `least` of any right way."""
    sentence = _(
        "What was done could not be measured: {measured:,} were counted, and any right way takes {least:,} or more. "
        "Compute with torch's ordinary functions (or NumPy's, if the step asks for these)."
    )
    return CheckFailed(sentence.format(measured=measured, least=round(least)), called=called)


def _causes(raised: Raised, device: str) -> Iterator[str]:
    """Sentences on likely causes of an error that the messages of Python and torch don't name."""
    message = raised.message[:MAX_SEARCHED]
    if raised.near.isidentifier() and raised.left_out is None and raised.type in ("NameError", "AttributeError"):
        yield _("Did you mean `{name}`?", name=raised.near)
    yield from _causes_in_the_file(raised, message)
    yield from _causes_in_the_sandbox(raised.type, message, raised.source)
    if raised.type == "TypeError" and UNKNOWN_NAME in message and not raised.line:
        yield _("Callers use the argument names of the file that you were given. Was one renamed?")
    if raised.type == "TypeError" and TOO_MANY.search(message) and not raised.line:
        yield _("Compare its arguments with those in the file that you were given. In a method `self` comes first.")
    if NOT_INITIALISED.search(message):
        yield _("`super().__init__()` must come first in `__init__`: it creates what layers are stored in.")
    if raised.type == "RuntimeError" and WRITTEN_OVER in message:
        yield _(
            "A tensor that the gradient still needs was overwritten in place, by `x[...] = ...`, `+=`, "
            "`inplace=True` or a method whose name ends in `_`. Create a new tensor instead; pieces can be "
            "collected in a list and joined with `torch.cat`."
        )
    if raised.line and FOR_ARRAYS.search(message):
        yield _("NumPy's functions and methods are for arrays, and this is a tensor: use torch's, as `torch.exp(x)`.")
    if raised.line and NO_CUDA.search(message):
        yield _("The device 'cuda' is hard-coded, and there is none here. Use the device of an input: `x.device`.")
    if raised.type == "BdbQuit" or (raised.type == "EOFError" and NO_INPUT in message):
        yield _(
            "The grader runs your code without a keyboard. `make repro` runs the failing call in a process of your "
            "own, where `breakpoint()`, `input()` and a debugger work."
        )
    if device == "meta":
        yield _(
            "The device `meta` has shapes but no values: creating a tensor on another device fails there, and so does "
            "looking at values that the same code doesn't look at on the CPU."
        )


def _causes_in_the_file(raised: Raised, message: str) -> Iterator[str]:
    """Hints for code that runs in a notebook, or with other steps, and not in this file alone."""
    if raised.line and not raised.function and raised.source.startswith(NOTEBOOKS_OWN):
        yield _("Lines that start with `%` or `!` are for notebooks. A `.py` file can't hold them.")
    if raised.type == "NameError" and IN_CELL.search(raised.file):
        if own := OF_THE_NOTEBOOK.match(message):
            yield _("`{name}` only exists in a notebook: move what needs it to another cell.", name=own[1])
        else:
            yield _("No other cell of the notebook defines or imports it, or several do: put it into this one.")
    if raised.type == "ModuleNotFoundError":
        of_the_course = OF_THE_COURSE.match(message)
        if of_the_course is None:
            yield _(
                "This module is not available where code is graded: what it may import is the standard library, torch "
                "and NumPy."
            )
        elif of_the_course[1] in {folder.name for folder in step_folders()}:
            sentence = _("This step builds on {step}, which was not handed in: put it next to this one.")
            yield sentence.format(step=of_the_course[1])


def _causes_in_the_sandbox(kind: str, message: str, source: str) -> Iterator[str]:
    """Hints for errors from what the sandbox refuses or lacks: `kind` is the error's class name, `source` its line."""
    if (kind, message) == ("SystemExit", "2") and ".parse_" in source:  # argparse has printed how it is called
        yield _(
            "argparse reads the command line of a program, and graded code has none: call it below "
            '`if __name__ == "__main__":`.'
        )
    if kind == "FileNotFoundError":
        yield _("The code runs in an empty folder of its own: it finds no files but those it has written itself.")
    if any(words in message for words in NOT_PERMITTED) or kind in NOT_CONNECTED:
        yield _("The code runs in a sandbox: it can start no processes or threads and open no connections.")


def parameters_misfit(misfit: dict[str, Any], wanted: dict[str, Tensor]) -> str:
    """Lines on how the parameters of a learner's module differ from those `wanted`. `misfit` is what
    `calls.modules.load_parameters` returned, from a worker, and untrusted."""
    lines = [_("The parameters do not have the names and shapes that the step asks for.")]
    if misfit.get("missing"):
        lines.append(_("missing: {names}", names=", ".join(misfit["missing"])))
    if misfit.get("extra"):
        lines.append(_("unexpected: {names}", names=", ".join(misfit["extra"])))
    entries = itertools.islice((entry for entry in misfit.get("shapes", ()) if ": " in entry), MAX_COMPARED)
    shapes = dict(entry.split(": ", 1) for entry in entries)
    for name in dict.fromkeys(name for name in misfit.get("missing", ()) if name in wanted):
        fitting = [other for other, shape in shapes.items() if shape == str(tuple(wanted[name].shape))]
        deeper = [other for other in fitting if other.endswith(f".{name}")]
        for meant in deeper[:1] or difflib.get_close_matches(name, fitting, n=1, cutoff=0.7):
            lines.append(_("Should {got} be {expected}?", got=meant, expected=name))
    for name, first in [entry.split(": ", 1) for entry in misfit.get("twice", ()) if ": " in entry][:1]:
        lines.append(
            _(
                "{name} is {first} under a second name: a layer that two attributes hold appears twice in the "
                "state dict. Keep it in one of them; a plain list or a tuple may hold it too."
            ).format(name=name, first=first)
        )
    for entry in misfit.get("misshapen", ()):
        name, _separator, shape = entry.partition(": ")
        if name in wanted:
            lines.append(
                _("{name} has shape {got}, expected {expected}").format(
                    name=name, got=shape, expected=tuple(wanted[name].shape)
                )
            )
    return "\n".join(lines)
