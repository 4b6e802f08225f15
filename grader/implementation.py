"""An implementation of a step: anything that answers calls.

A check talks to `student` and `reference`, which are of one class. What stands behind (a sandboxed worker, a module of
this process, a recording) is a backend that turns a `Call` into an `Outcome`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from grader.compare import returned_nothing
from grader.draws import Draw
from grader.failure import CheckFailed
from grader.language import gettext as _
from grader.messages import Call, HandleId, Options, Outcome, Placed
from grader.raised import learners_error, parameters_misfit
from grader.responder import Responder
from grader.show import show_call, show_value


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
    return CheckFailed(parameters_misfit(misfit, wanted), called=exchange.maker.shown if exchange.maker else "")


def _no_module(outcome: Outcome, shown: str) -> CheckFailed:
    return CheckFailed(
        _("expected  an nn.Module\ncame      {came}").format(came=show_value(outcome.value)), called=shown
    )


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
