"""What went wrong in a learner's code, in words: their error, their line, what may be behind it. No frame of ours."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from grader.failure import CheckFailed
from grader.language import gettext as _
from grader.messages import Raised
from grader.places import step_folders
from grader.responder import BACKWARD

NOT_PERMITTED = ("Operation not permitted", "can't start new thread")  # what seccomp answers in the sandbox's name
NOT_CONNECTED = ("URLError", "gaierror", "ConnectionError")
OF_THE_COURSE = re.compile(r"No module named '(?:exercises\.)?(step\d\d\w*)'|No module named 'exercises\.")
OF_THE_NOTEBOOK = re.compile(r"name '(display|get_ipython|check)' is not defined")  # IPython's own names, and ours
TOO_MANY = re.compile(r"takes .*positional arguments? but \d+ (was|were) given")
UNKNOWN_NAME = "got an unexpected keyword argument"
# torch, of a module whose super().__init__() was not called: a layer is set, a call or a mode asked for
NOT_INITIALISED = re.compile(r"before Module\.__init__\(\) call|no attribute '_(modules|parameters|buffers|\w+_hooks)'")
NOTEBOOKS_OWN = ("%", "!")
IN_CELL = re.compile(r"\[step\d{2}_\w+\]\Z")  # the name of a file whose source is an answer cell of a notebook
MAX_SEARCHED = 2000  # characters of a message, which may be of any length and make
MAX_COMPARED = 200  # names of parameters that one which is missing is compared with: each takes its time
WRITTEN_OVER = "modified by an inplace operation"  # torch, of a tensor that a backward pass still needs


def learners_error(raised: Raised, shown: str, device: str = "cpu") -> CheckFailed:
    """The learner's own error as a failed check: their error, their line, the shapes there, no frame of ours.

    `device` is where the call's tensors were.
    """
    name = shown.partition("(")[0]
    if raised.type == "NotImplementedError" and not raised.message and raised.function != BACKWARD:
        return CheckFailed(_("{name} is not written yet.").format(name=name), "todo", called=shown)
    if raised.type == "NotThere":
        said = _("The file must define `{name}`, and it does not.")
        if IN_CELL.search(raised.file):
            said = _("The answer cell must define `{name}`, and it does not. No other cell is graded.")
        if raised.message == "not callable":
            said = _("{name} is there, but it is not a function or a class.")
        return CheckFailed(said.format(name=name), called=shown)
    error = f"{raised.type}: {raised.message}" if raised.message else raised.type
    if raised.function == BACKWARD and not raised.line:  # autograd stopped: no line of the learner's ran
        lines = [_("The backward pass through what {name} gave raised {error}").format(name=name, error=error)]
    else:
        lines = [_("{name} raised {error}").format(name=name, error=error)]
    if raised.line and not raised.function:  # the file does not parse
        lines.append(
            _("at line {line} of {file}: {source}").format(line=raised.line, file=raised.file, source=raised.source)
        )
    elif raised.line:
        lines.append(
            _("at line {line} of {file}, in {function}: {source}").format(
                line=raised.line, file=raised.file, function=raised.function, source=raised.source
            )
        )
    if raised.shapes:
        lines.append(_("shapes there: {shapes}").format(shapes=", ".join(raised.shapes)))
    return CheckFailed("\n".join([*lines, *_behind(raised, device)]), called=shown, by_code=True)


def _behind(raised: Raised, device: str) -> Iterator[str]:
    """What may be behind an error, where that is not in what Python and torch say of it."""
    message = raised.message[:MAX_SEARCHED]
    if raised.line and not raised.function and raised.source.startswith(NOTEBOOKS_OWN):
        yield _("Lines that begin with `%` or `!` are for notebooks. A `.py` file can't hold them.")
    if raised.type == "NameError" and IN_CELL.search(raised.file):
        if own := OF_THE_NOTEBOOK.match(message):
            yield _("`{name}` belongs to the notebook: move what needs it to a cell of its own.").format(name=own[1])
        else:
            yield _(
                "Does another cell of the notebook define or import it? Only answer cells are graded: put it into this "
                "one."
            )
    if raised.type == "ModuleNotFoundError":
        of_the_course = OF_THE_COURSE.match(message)
        if of_the_course is None:
            yield _(
                "Where the code runs there is no such module. No step needs more than torch and what Python brings."
            )
        elif of_the_course[1] in {folder.name for folder in step_folders()}:
            said = _("This step builds on {step}, whose answer is not here: put it beside this one.")
            yield said.format(step=of_the_course[1])
    if raised.type == "FileNotFoundError":
        yield _(
            "The code runs in a folder of its own here, where it finds no files but those that it has written itself."
        )
    if any(said in message for said in NOT_PERMITTED) or raised.type in NOT_CONNECTED:
        yield _("The code runs in a sandbox here, where it can start no process or thread and open no connection.")
    if raised.type == "TypeError" and UNKNOWN_NAME in message and not raised.line:
        yield _("Callers name the arguments as the file that you were given does. Is one called otherwise now?")
    if raised.type == "TypeError" and TOO_MANY.search(message) and not raised.line:
        yield _("Compare its arguments with those in the file that you were given. In a method `self` comes first.")
    if NOT_INITIALISED.search(message):
        yield _("`super().__init__()` has to come first in `__init__`: it makes what layers are kept in.")
    if raised.type == "RuntimeError" and WRITTEN_OVER in message:
        yield _(
            "A tensor that the gradient still needs was written over in place, by `x[...] = ...`, by `+=`, by "
            "`inplace=True` or by a method whose name ends in `_`. Make a new tensor there; pieces can be kept in a "
            "list and joined by `torch.cat`."
        )
    if device == "meta":
        yield _(
            "The device `meta` has shapes and no values: what is made on another device, or looks at values, fails "
            "there."
        )


def parameters_misfit(misfit: dict[str, Any], wanted: dict[str, Tensor]) -> str:
    """How the parameters of a learner's module differ from those `wanted`: a process says so, and may say anything."""
    lines = [_("The parameters do not carry the names and shapes that the step asks for.")]
    if misfit.get("missing"):
        lines.append(_("missing: {names}").format(names=", ".join(misfit["missing"])))
    if misfit.get("extra"):
        lines.append(_("not asked for: {names}").format(names=", ".join(misfit["extra"])))
    said = itertools.islice((entry for entry in misfit.get("shapes", ()) if ": " in entry), MAX_COMPARED)
    shapes = dict(entry.split(": ", 1) for entry in said)
    for name in dict.fromkeys(name for name in misfit.get("missing", ()) if name in wanted):
        fitting = [other for other, shape in shapes.items() if shape == str(tuple(wanted[name].shape))]
        deeper = [other for other in fitting if other.endswith(f".{name}")]
        for meant in deeper[:1] or difflib.get_close_matches(name, fitting, n=1, cutoff=0.7):
            lines.append(_("Is {came} meant to be {expected}?").format(came=meant, expected=name))
    for name, first in [entry.split(": ", 1) for entry in misfit.get("twice", ()) if ": " in entry][:1]:
        lines.append(
            _(
                "{name} is {first} under a second name: a layer that two attributes hold stands twice in the state "
                "dict. Keep it in one of them; a plain list or a tuple may hold it too."
            ).format(name=name, first=first)
        )
    for entry in misfit.get("misshapen", ()):
        name, _separator, shape = entry.partition(": ")
        if name in wanted:
            lines.append(
                _("{name} has shape {came}, expected {expected}").format(
                    name=name, came=shape, expected=tuple(wanted[name].shape)
                )
            )
    return "\n".join(lines)
