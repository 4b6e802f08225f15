"""An implementation of a step: anything that answers calls.

A check talks to `student` and `reference`, which are of one class. What stands behind (a sandboxed worker, a module of
this process, a recording) is a backend that turns a `Call` into an `Outcome`.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from grader.compare import returned_nothing
from grader.draws import Draw
from grader.failure import CheckFailed
from grader.language import gettext as _
from grader.messages import Call, HandleId, Options, Outcome, Placed, Raised
from grader.responder import BACKWARD, Responder
from grader.show import show_call, show_value

NOT_PERMITTED = ("Operation not permitted", "can't start new thread")  # what seccomp answers in the sandbox's name
NOT_CONNECTED = ("URLError", "gaierror", "ConnectionError")
OF_THE_COURSE = re.compile(r"No module named '(exercises\.|step\d\d)")  # a file that was not handed in
TOO_MANY = re.compile(r"takes .*positional arguments? but \d+ (was|were) given")
UNKNOWN_NAME = "got an unexpected keyword argument"
# torch, of a module whose super().__init__() was not called: a layer is set, a call or a mode asked for
NOT_INITIALISED = re.compile(r"before Module\.__init__\(\) call|no attribute '_(modules|parameters|buffers|\w+_hooks)'")
NOTEBOOKS_OWN = ("%", "!")
IN_CELL = re.compile(r"\[step\d{2}_\w+\]\Z")  # the name of a file whose source is an answer cell of a notebook
MAX_COMPARED = 200  # names of parameters that one which is missing is compared with: each takes its time
WRITTEN_OVER = "modified by an inplace operation"  # torch, of a tensor that a backward pass still needs


class Backend(Protocol):
    """What answers calls."""

    def ask(self, call: Call) -> Outcome:
        """The outcome of one call. Raises CheckFailed when no outcome came (killed, too late, nonsense)."""

    def begin_check(self, seed: int) -> None:
        """Forgets the modules made so far and seeds the random stream."""


class Oracle(Backend, Protocol):
    """A backend that knows the right answers, and with them the inputs that they answer."""

    def draws(self, check: str, seed: int, device: str) -> Draw:
        """The inputs of a check under a seed, on a device: the calls that follow belong to it."""

    def again(self) -> Backend | None:
        """A second backend with the same answers; None where it is known that every check runs on them."""


class LocalBackend:
    """Answers in this process: a reference, a misconception or a variant. Never a learner's code.

    It keeps a random stream of its own, as a learner's process has one: what one side draws does not move the other.
    """

    def __init__(self, responder: Responder) -> None:
        self.responder = responder
        self.drew = False  # whether the last call took random numbers, apart from what was done before it
        self._stream: Tensor | None = None

    def ask(self, call: Call) -> Outcome:
        """The outcome of the call, computed here."""
        streams = [torch.get_rng_state() if self._stream is None else self._stream]
        torch.set_rng_state(streams[0])
        outcome = self.responder.respond(call, lambda: streams.append(torch.get_rng_state()))
        self._stream = torch.get_rng_state()
        self.drew = not torch.equal(streams[-1], self._stream)
        return outcome

    def begin_check(self, seed: int) -> None:
        """Forgets the modules made so far and seeds the random stream."""
        self.responder.begin_check(seed)
        self._stream = torch.get_rng_state()

    def draws(self, check: str, seed: int, device: str) -> Draw:
        """Fresh inputs for the seed."""
        return Draw(seed, check)

    def again(self) -> Backend:
        """Another of the same names: both sides of a check number the modules they make."""
        return LocalBackend(Responder(self.responder.names))


@dataclass
class Exchange:
    """One call and what came back, as it is kept for diagnosis. `maker` made the module that is called, if one is.

    `measured`: the check looked at how much memory the call took.
    """

    call: Call
    maker: Exchange | None = None
    outcome: Outcome | None = None
    measured: bool = False

    @property
    def shown(self) -> str:
        """The call as the learner would type it."""
        return show_call(self.call, self.maker.shown if self.maker else "")

    @property
    def name(self) -> str:
        """The public name that is called, or whose module is."""
        return self.maker.name if self.maker else self.call.name


@dataclass
class Implementation:
    """One implementation of a step, as a check sees it: `student.softmax(x)` calls and gives an `Answer`.

    A class call gives a `Handle`. `using(…)` sets the options of the calls made through what it returns.
    """

    _backend: Backend
    _device: str = "cpu"
    _options: Options | None = None
    _exchanges: list[Exchange] = field(default_factory=list)
    _handle_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _waiting: list[Exchange] = field(default_factory=list)  # what goes out with the next call

    def using(
        self,
        *,
        gradients: bool = False,
        seed: int | None = None,
        largest: bool = False,
        functions: bool = False,
        device: str | None = None,
    ) -> Implementation:
        """The same implementation with options for its calls.

        `gradients` back-propagates a fixed pattern from every output; `seed` sets torch's seed right before the call;
        `largest` notes the largest storage made (elements); `functions` the torch functions called; `device` is where
        tensor arguments are put, "meta" for shapes only.
        """
        options = Options(gradients, seed, largest, functions, device or self._device)
        return Implementation(
            self._backend, self._device, options, self._exchanges, self._handle_numbers, self._waiting
        )

    def __getattr__(self, name: str) -> Callable[..., Answer]:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Answer:
            return self._ask(Call(name, args, kwargs, options=self._options or Options(device=self._device)))

        return call

    def _make(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handle:
        """A module of this class. It is made with the next call, and fails there."""
        call = self._numbered(Call(name, args, kwargs, options=self._options or Options(device=self._device)))
        exchange = Exchange(call)
        self._waiting.append(exchange)
        return Handle(self, exchange, Outcome(HandleId(call.new_handle)), call.options.device)

    def _numbered(self, call: Call) -> Call:
        call.new_handle = next(self._handle_numbers)
        call.args = tuple(_sendable(value) for value in call.args)
        call.kwargs = {name: _sendable(value) for name, value in call.kwargs.items()}
        return call

    def _ask(self, call: Call, maker: Exchange | None = None) -> Answer:
        waiting = self._waiting.copy()
        self._waiting.clear()
        call.first = tuple(earlier.call for earlier in waiting)
        exchange = Exchange(self._numbered(call), maker)
        self._exchanges.append(exchange)
        outcome = exchange.outcome = self._backend.ask(call)
        if outcome.off_limits:
            raise OffLimits(exchange.shown.partition("(")[0], outcome.off_limits)
        if outcome.of is not None and outcome.of < len(waiting):
            raise _not_done(waiting[outcome.of], outcome)
        if outcome.raised is not None:
            raise learners_error(outcome.raised, exchange.shown, call.options.device)
        if isinstance(outcome.value, HandleId):
            return Handle(self, exchange, outcome, call.options.device)
        return Answer(self, exchange, outcome)

    def _finish(self) -> None:
        """Has done what still waits for a call to go out with."""
        if self._waiting:
            maker = self._waiting[-1].maker or self._waiting[-1]
            self._ask(Call("is_training", handle=maker.call.new_handle, options=maker.call.options), maker)


class OffLimits(CheckFailed):
    """The called code used a built-in that the step puts off limits."""

    def __init__(self, name: str, functions: list[str]) -> None:
        # What a built-in is made of has a name with an underscore, and tells whoever called the whole nothing.
        functions = [function for function in functions if not function.startswith("_")] or functions
        super().__init__(
            _(
                "{name} used torch's own {functions}, off limits in this step: it does the work that you are to write."
            ).format(name=name, functions=", ".join(f"`{function}`" for function in functions))
        )
        self.name = name


class Answer:
    """What came back from one call that did not raise."""

    def __init__(self, implementation: Implementation, exchange: Exchange, outcome: Outcome) -> None:
        self._implementation = implementation
        self.exchange = exchange
        self.outcome = outcome

    @property
    def shown(self) -> str:
        """The call as the learner would type it."""
        return self.exchange.shown

    @property
    def value(self) -> Any:
        """The value: a tensor, a tuple of values, a scalar or None."""
        return _unwrapped(self.outcome.value)

    def tensor(self) -> Tensor:
        """The value, which must be one tensor."""
        if not isinstance(self.outcome.value, Placed):
            raise CheckFailed(
                _("expected  a tensor\ncame      {came}").format(came=show_value(self.outcome.value))
                + returned_nothing(self.outcome.value),
                called=self.shown,
            )
        return self.outcome.value.tensor

    def tensors(self, count: int) -> tuple[Tensor, ...]:
        """The values, which must be a tuple or list of `count` tensors."""
        value = self.outcome.value
        if not isinstance(value, tuple) or len(value) != count or not all(isinstance(item, Placed) for item in value):
            raise CheckFailed(
                _("expected  a tuple of {count} tensors\ncame      {came}").format(count=count, came=show_value(value))
                + returned_nothing(value),
                called=self.shown,
            )
        return tuple(item.tensor for item in value)

    @property
    def gradients(self) -> dict[str, Tensor | None]:
        """The gradient of each argument (by position or name) and parameter, None where no path leads."""
        return {name: value.tensor if value else None for name, value in self.outcome.gradients.items()}

    @property
    def largest(self) -> int:
        """The elements of the largest storage that an op of the call made."""
        self.exchange.measured = True
        return self.outcome.largest

    @property
    def functions(self) -> frozenset[str]:
        """The names of the torch functions that the call used."""
        return frozenset(self.outcome.functions)

    def __call__(self, *args: Any, **kwargs: Any) -> Answer:
        raise _no_module(self.outcome, self.shown)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise _no_module(self.outcome, self.shown)


class Handle(Answer):
    """A module made by a class call. It is called, and asked for its parameters, like a module."""

    def __init__(self, implementation: Implementation, exchange: Exchange, outcome: Outcome, device: str) -> None:
        super().__init__(implementation, exchange, outcome)
        self.number: int = outcome.value.number
        self.device = device
        self._options = Options(device=device)

    def using(
        self, *, gradients: bool = False, seed: int | None = None, largest: bool = False, functions: bool = False
    ) -> Handle:
        """The same module with options for its call, as in `Implementation.using`."""
        other = Handle(self._implementation, self.exchange, self.outcome, self.device)
        other._options = Options(gradients, seed, largest, functions, self.device)
        return other

    def __call__(self, *args: Any, **kwargs: Any) -> Answer:
        """The module's forward."""
        return self._ask("__call__", args, kwargs, self._options)

    def parameters(self) -> dict[str, Tensor]:
        """Every parameter by name; one that has two names stands under both."""
        values = self._ask("parameters").value
        return {name: value.clone() for name, value in values.items()} if isinstance(values, dict) else {}

    def load_parameters(self, values: dict[str, Tensor], *, evaluating: bool = False) -> None:
        """Copies the values into the parameters of the same names. Fails, saying which, when the names do not fit.

        Like all that is done to a module and has no answer it goes out with the next call, and fails there.
        """
        self._do("load_parameters", (dict(values), evaluating))

    def train(self) -> Handle:
        """Puts the module in training mode."""
        self._do("train")
        return self

    def eval(self) -> Handle:
        """Puts the module in evaluation mode."""
        self._do("eval")
        return self

    def to(self, device: str | None = None, dtype: torch.dtype | None = None) -> Handle:
        """Moves the module; its later calls get their tensors on the same device."""
        name = None if dtype is None else str(dtype).removeprefix("torch.")
        self._do("to", (device, name))
        if device is not None:
            self.device = device
            self._options = Options(device=device)
        return self

    def is_training(self) -> bool:
        """Whether every part of the module is in training mode."""
        return bool(self._ask("is_training").value)

    def is_evaluating(self) -> bool:
        """Whether every part of the module is in evaluation mode."""
        return bool(self._ask("is_evaluating").value)

    def shares(self, first: str, second: str) -> bool:
        """Whether two attribute paths lead to one object."""
        return bool(self._ask("shares", (first, second)).value)

    def _do(self, name: str, args: tuple[Any, ...] = ()) -> None:
        call = Call(name, args, handle=self.number, options=Options(device=self.device))
        self._implementation._waiting.append(Exchange(call, self.exchange))

    def _ask(
        self,
        name: str,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        options: Options | None = None,
    ) -> Answer:
        call = Call(name, args, kwargs or {}, handle=self.number, options=options or Options(device=self.device))
        return self._implementation._ask(call, self.exchange)


def learners_error(raised: Raised, shown: str, device: str = "cpu") -> CheckFailed:
    """The learner's own error as a failed check: their error, their line, the shapes there, no frame of ours.

    `device` is where the call's tensors were.
    """
    name = shown.partition("(")[0]
    if raised.type == "NotImplementedError" and not raised.message:
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
        if raised.source.startswith(NOTEBOOKS_OWN):
            lines.append(_("Lines that begin with `%` or `!` are for notebooks. A `.py` file can't hold them."))
    elif raised.line:
        lines.append(
            _("at line {line} of {file}, in {function}: {source}").format(
                line=raised.line, file=raised.file, function=raised.function, source=raised.source
            )
        )
    if raised.shapes:
        lines.append(_("shapes there: {shapes}").format(shapes=", ".join(raised.shapes)))
    if raised.type == "ModuleNotFoundError" and not OF_THE_COURSE.match(raised.message):
        lines.append(
            _("Where the code runs there is no such module. No step needs more than torch and what Python brings.")
        )
    if raised.type == "FileNotFoundError":
        lines.append(
            _(
                "The code runs in a folder of its own here, where it finds no files but those that it has written "
                "itself."
            )
        )
    if any(said in raised.message for said in NOT_PERMITTED) or raised.type in NOT_CONNECTED:
        lines.append(
            _("The code runs in a sandbox here, where it can start no process or thread and open no connection.")
        )
    if raised.type == "TypeError" and UNKNOWN_NAME in raised.message and not raised.line:
        lines.append(_("Callers name the arguments as the file that you were given does. Is one called otherwise now?"))
    if raised.type == "TypeError" and TOO_MANY.search(raised.message) and not raised.line:
        lines.append(
            _("Compare its arguments with those in the file that you were given. In a method `self` comes first.")
        )
    if NOT_INITIALISED.search(raised.message):
        lines.append(_("`super().__init__()` has to come first in `__init__`: it makes what layers are kept in."))
    if raised.type == "NameError" and IN_CELL.search(raised.file):
        lines.append(
            _(
                "Does another cell of the notebook define or import it? Only answer cells are graded: put it into "
                "this one."
            )
        )
    if raised.type == "RuntimeError" and WRITTEN_OVER in raised.message:
        lines.append(
            _(
                "A tensor that the gradient still needs was written over in place, by `x[...] = ...`, by `+=` or by a "
                "method whose name ends in `_`. Make a new tensor there; pieces can be kept in a list and joined by "
                "`torch.cat`."
            )
        )
    if device == "meta":
        lines.append(
            _(
                "The device `meta` has shapes and no values: what is made on another device, or looks at values, fails "
                "there."
            )
        )
    return CheckFailed("\n".join(lines), called=shown, by_code=True)


def _not_done(exchange: Exchange, outcome: Outcome) -> CheckFailed:
    """What was done before a call, and did not go well: to a module, or to make it."""
    if outcome.raised is not None:
        failure = learners_error(outcome.raised, exchange.shown, exchange.call.options.device)
        failure.by_code = False  # an error that is due is one of the call
        return failure
    if exchange.call.handle is None:
        return _no_module(outcome, exchange.shown)
    misfit = outcome.value if isinstance(outcome.value, dict) else {}
    wanted = exchange.call.args[0] if exchange.call.name == "load_parameters" else {}
    return CheckFailed(_misfit(misfit, wanted), called=exchange.maker.shown if exchange.maker else "")


def _no_module(outcome: Outcome, shown: str) -> CheckFailed:
    return CheckFailed(
        _("expected  an nn.Module\ncame      {came}").format(came=show_value(outcome.value)), called=shown
    )


def _misfit(misfit: dict[str, Any], wanted: dict[str, Tensor]) -> str:
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


def _sendable(value: Any) -> Any:
    match value:
        case Handle():
            return HandleId(value.number)
        case Answer():
            return value.value
        case torch.dtype() | torch.device():
            return str(value).removeprefix("torch.")
        case tuple() | list():
            return tuple(_sendable(item) for item in value)
    return value


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Placed):
        return value.tensor
    if isinstance(value, tuple):
        return tuple(_unwrapped(item) for item in value)
    if isinstance(value, dict):
        return {name: _unwrapped(item) for name, item in value.items()}
    return value
