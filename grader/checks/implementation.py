"""An implementation of a step, as checks see it.

A check calls `student` and `reference`, which are of one class. Behind each is a backend (a sandboxed worker, a module
in this process, a recording), which turns a `Call` into an `Outcome`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor

from grader.base.errors import CheckFailed
from grader.base.language import gettext as _
from grader.calls.call import Call, Measure, Options, Outcome
from grader.calls.values import HandleId, PlacedTensor, bare, leaves, mapped
from grader.checks.backends import Backend, Exchange
from grader.checks.bounded import lifted
from grader.checks.compare import returned_nothing
from grader.checks.learner_errors import learners_error, other_work, parameters_misfit, unmeasured
from grader.checks.value_text import show_value


class Waits(Protocol):
    """A queue in which the calls of an implementation wait."""

    def asked(self, implementation: Implementation, exchange: Exchange, first: list[Exchange]) -> Answer:
        """The answer to a call, which may still wait; `first`: the calls to send before it."""


class How(TypedDict, total=False):
    """The options of calls and of what is recorded: those of `using(…)`.

    `gradients` back-propagates a fixed pattern from every output; `seed` sets torch's seed right before the call;
    `measures` are noted of the call (`calls.call.Measure`); `functions` records the torch functions called. `no_grad`
    calls under `torch.no_grad()`; `strided` passes tensors and arrays without a contiguous dimension; `made_on_meta`
    makes `meta` the default device, so that a class's parameters have names and shapes only. `keep` gives a `Handle`
    for an object that is no value; `again` calls with other values in the same tensors before, and notes whether the
    call changes that earlier result. `part`: the check compares this one of the values returned and no other, and so
    does the diagnosis. `going_on`: the call goes on in the random numbers of the one before, while otherwise each has
    its own.
    """

    gradients: bool
    seed: int | None
    measures: tuple[Measure, ...]
    functions: bool
    no_grad: bool
    strided: bool
    made_on_meta: bool
    keep: bool
    again: bool
    part: int | None
    going_on: bool


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
    _waiting: list[Exchange] = field(default_factory=list)  # sent with the next call
    _queue: Waits | None = None  # in which calls wait, if they do
    _before_reading: Callable[[], None] = lambda: None  # what is done before a check looks at an answer

    def using(self, *, device: str | None = None, **how: Unpack[How]) -> Implementation:
        """The same implementation with options for its calls; tensor arguments are moved to `device`; "meta" is for
        shapes only."""
        options = Options(device=device or self._device, **how)
        return replace(self, _options=options)

    def __getattr__(self, name: str) -> Callable[..., Answer]:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Answer:
            return self._ask(Call(name, args, kwargs, options=self._options or Options(device=self._device)))

        return call

    def _make(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handle:
        """A module of this class. It is made lazily, with the next call, which also reports its errors."""
        call = self._numbered(Call(name, args, kwargs, options=self._options or Options(device=self._device)))
        exchange = Exchange(call)
        self._waiting.append(exchange)
        return Handle(self, exchange, Outcome(HandleId(call.new_handle)), call.options.device)

    def _numbered(self, call: Call) -> Call:
        """The same call, changed in place: with a new handle number for its result, its arguments ready to send."""
        call.new_handle = next(self._handle_numbers)
        call.args = mapped(call.args, _sendable)
        call.kwargs = mapped(call.kwargs, _sendable)
        return call

    def _ask(self, call: Call, maker: Exchange | None = None) -> Answer:
        """The answer to a call: sent with those that wait to go before it or, with a queue, when it is read. Raises
        CheckFailed. `maker`: the exchange that made the called module."""
        waiting = self._waiting.copy()
        self._waiting.clear()
        call.first = tuple(earlier.call for earlier in waiting)
        exchange = Exchange(self._numbered(call), maker)
        self._exchanges.append(exchange)
        if self._queue is not None:
            return self._queue.asked(self, exchange, waiting)
        with lifted():
            outcome = exchange.outcome = self._backend.ask(call)
        return self._answered(exchange, outcome, waiting)

    def _answered(self, exchange: Exchange, outcome: Outcome, waiting: list[Exchange]) -> Answer:
        """The answer with this outcome. Raises CheckFailed if the call gave no value. `waiting`: the exchanges of the
        calls in its `first`."""
        call = exchange.call
        if outcome.off_limits:
            raise OffLimits(exchange.shown.partition("(")[0], outcome.off_limits)
        if outcome.of is not None and outcome.of < len(waiting):
            raise _not_done(waiting[outcome.of], outcome)
        if outcome.raised is not None:
            raise learners_error(outcome.raised, exchange.shown, call.options.device)
        if outcome.elsewhere:
            raise other_work(outcome.elsewhere, exchange.shown)
        if isinstance(outcome.value, HandleId):
            return Handle(self, exchange, outcome, call.options.device)
        return Answer(self, exchange, outcome)

    def _finish(self) -> None:
        """Sends the operations that wait for a next call (`load_parameters`, `train`, …), if any: the check is over."""
        if self._waiting:
            maker = self._waiting[-1].maker or self._waiting[-1]
            self._ask(Call("is_training", handle=maker.call.new_handle, options=maker.call.options), maker)


class OffLimits(CheckFailed):
    """The called code used a built-in that the step puts off limits."""

    def __init__(self, name: str, functions: list[str]) -> None:
        # The internal ops of a built-in start with an underscore, and mean nothing to the learner.
        functions = [function for function in functions if not function.startswith("_")] or functions
        super().__init__(
            _(
                "{name} used torch's own {functions}, which is off limits in this step: it does the work that "
                "you are asked to write."
            ).format(name=name, functions=", ".join(f"`{function}`" for function in functions))
        )
        self.off_limits = name


class Answer:
    """The result of a call that did not raise."""

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
        """The value: a tensor, an array, a tuple or dictionary of values, a scalar or None."""
        self._implementation._before_reading()
        return bare(self.outcome.value)

    def tensor(self) -> Tensor:
        """The value, if it is one tensor; else fails."""
        self._implementation._before_reading()
        if not isinstance(self.outcome.value, PlacedTensor):
            message = _("expected  a tensor\ngot       {got}").format(got=show_value(self.outcome.value))
            raise CheckFailed(message + returned_nothing(self.outcome.value), called=self.shown)
        return self.outcome.value.tensor

    def array(self) -> np.ndarray[Any, Any]:
        """The value, if it is one NumPy array; else fails."""
        self._implementation._before_reading()
        if not isinstance(self.outcome.value, np.ndarray):
            sentence = _("expected  {expected}\ngot       {got}")
            message = sentence.format(expected=_("a NumPy array"), got=show_value(self.outcome.value))
            raise CheckFailed(message + returned_nothing(self.outcome.value), called=self.shown)
        return self.outcome.value

    def tensors(self, count: int) -> tuple[Tensor, ...]:
        """The values, if they are a tuple or list of `count` tensors; else fails."""
        self._implementation._before_reading()
        value = self.outcome.value
        fits = isinstance(value, tuple) and len(value) == count
        if not (fits and all(isinstance(item, PlacedTensor) for item in value)):
            raise CheckFailed(
                _("expected  a tuple of {count} tensors\ngot       {got}").format(count=count, got=show_value(value))
                + returned_nothing(value),
                called=self.shown,
            )
        return tuple(item.tensor for item in value)

    @property
    def gradients(self) -> dict[str, Tensor | None]:
        """The gradient of each argument (by position or name) and parameter; None if no path leads to it."""
        self._implementation._before_reading()
        return {name: value.tensor if value else None for name, value in self.outcome.gradients.items()}

    def measured(self, measure: Measure) -> Any:
        """A measurement of the call; see `calls.call.Measure`. Fails if the called code prevented it."""
        self.exchange.measured = measure
        if measure not in self.outcome.measured:
            sentence = _("The code changed how memory is measured. Leave `tracemalloc` alone.")
            raise CheckFailed(sentence, called=self.shown)
        got: Any = self.outcome.measured[measure]
        if measure not in ("largest", "peak"):
            return got
        returned = list(leaves(bare(self.outcome.value)))
        if measure == "largest":
            return self.not_below(got, max((leaf.numel() for leaf in returned if isinstance(leaf, Tensor)), default=0))
        return self.not_below(got, max((leaf.nbytes for leaf in returned if isinstance(leaf, np.ndarray)), default=0))

    def not_below(self, measured: int, least: float) -> int:
        """The measurement. Fails if it is below half of the `least` that any right way takes: then some work was not
        measured."""
        if 2 * measured < least:
            raise unmeasured(measured, least, self.shown)
        return measured

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
    """A module made by calling a class. It can be called and asked for its parameters."""

    def __init__(self, implementation: Implementation, exchange: Exchange, outcome: Outcome, device: str) -> None:
        super().__init__(implementation, exchange, outcome)
        self.number: int = outcome.value.number
        self.device = device
        self._options = Options(device=device)

    def using(self, **how: Unpack[How]) -> Handle:
        """The same module with options for its call."""
        other = Handle(self._implementation, self.exchange, self.outcome, self.device)
        other._options = Options(device=self.device, **how)
        return other

    def method(self, name: str, *args: Any, **kwargs: Any) -> Answer:
        """Calls a method of the learner's own, by its name."""
        return self._ask(name, args, kwargs, self._options, own="method")

    def attribute(self, name: str) -> Answer:
        """Reads an attribute of the learner's own, by its name."""
        return self._ask(name, own="attribute")

    def __call__(self, *args: Any, **kwargs: Any) -> Answer:
        """Calls the module's forward, and returns its answer."""
        return self._ask("__call__", args, kwargs, self._options)

    def parameters(self) -> dict[str, Tensor]:
        """Every parameter by name; one with two names appears under both."""
        values = self._ask("parameters").value
        return {name: value.clone() for name, value in values.items()} if isinstance(values, dict) else {}

    def outline(self) -> dict[str, Tensor]:
        """A tensor in the shape of every parameter by name, for `Draw.parameters`: filled with one number, since a
        recording of the answers would keep the values that the module was made with."""
        values: dict[str, Tensor] = bare(self._ask("outline").outcome.value)  # it gives no answer away
        return values

    def load_parameters(self, values: dict[str, Tensor], *, evaluating: bool = False) -> None:
        """Copies the values into the parameters of the same names. Fails, saying which, when the names do not fit.

        It is deferred to the next call, like every operation on a module without an answer, and errors show there.
        """
        self._do("load_parameters", (dict(values), evaluating))

    def load_fitting(self, values: dict[str, Tensor]) -> None:
        """Copies the values into the parameters of the same names and shapes, and puts the module in evaluation mode:
        its other parameters stay as they are. Deferred to the next call."""
        self._do("load_fitting", (dict(values),))

    def train(self, path: str = "") -> Handle:
        """Puts the module in training mode, or the part of it at a path of attributes as in `encoder.layers.0`."""
        self._do("train", (path,) if path else ())
        return self

    def eval(self, path: str = "") -> Handle:
        """Puts the module in evaluation mode, or the part of it at a path of attributes."""
        self._do("eval", (path,) if path else ())
        return self

    def nested(self, mode: str) -> Handle:
        """Puts the module into a parent module, and calls the parent's `train()` or `eval()`."""
        self._do("nested", (mode,))
        return self

    def optimizer(self, rate: float = 1.0) -> Handle:
        """An ordinary optimizer of the module, if a check is about something else that takes one; at this learning
        rate if the check is not about setting it."""
        return self._ask("optimizer", (rate,), options=Options(device=self.device, keep=True))  # type: ignore[return-value]  # kept

    def noting_model(self, *sizes: int) -> Handle:
        """A model of ours in its place, with layers that note what they compute: see `calls.modules.NotingModel`."""
        return self._ask("noting_model", sizes, options=Options(device=self.device))  # type: ignore[return-value]  # a module

    def scaler(self, scale: float) -> Handle:
        """A scaler of torch's, made by us, for the device of the module."""
        return self._ask("scaler", (scale,), options=Options(device=self.device, keep=True))  # type: ignore[return-value]  # kept

    def step_by(self, learning_rate: float) -> None:
        """Takes a step of this optimizer, with the gradients of its model's last call."""
        self._ask("step_by", (learning_rate,))

    def to(self, device: str | None = None, dtype: torch.dtype | None = None) -> Handle:
        """Moves the module; the tensors of its later calls are moved to the same device."""
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
        """Whether two attribute paths lead to the same object."""
        return bool(self._ask("shares", (first, second)).value)

    def _do(self, name: str, args: tuple[Any, ...] = ()) -> None:
        """Queues an operation on the module for the next call."""
        call = Call(name, args, handle=self.number, options=Options(device=self.device))
        self._implementation._waiting.append(Exchange(call, self.exchange))

    def _ask(
        self,
        name: str,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        options: Options | None = None,
        own: Literal["", "method", "attribute"] = "",
    ) -> Answer:
        """The answer of this module to a call or an operation; `own` as in `calls.call.Call`."""
        options = options or Options(device=self.device)
        call = Call(name, args, kwargs or {}, handle=self.number, options=options, own=own)
        return self._implementation._ask(call, self.exchange)


def _not_done(exchange: Exchange, outcome: Outcome) -> CheckFailed:
    """The failure of an operation that was sent before a call, `exchange`, with what it came to."""
    if outcome.raised is not None:
        failure = learners_error(outcome.raised, exchange.shown, exchange.call.options.device)
        failure.by_code = False  # an expected error must be the call's own
        return failure
    if exchange.call.handle is None:
        return _no_module(outcome, exchange.shown)
    misfit = outcome.value if isinstance(outcome.value, dict) else {}
    wanted = exchange.call.args[0] if exchange.call.name == "load_parameters" else {}
    return CheckFailed(parameters_misfit(misfit, wanted), called=exchange.maker.shown if exchange.maker else "")


def _no_module(outcome: Outcome, shown: str) -> CheckFailed:
    """The failure of a call, `shown` as text, that gave a value and not a module."""
    return CheckFailed(_("expected  an nn.Module\ngot       {got}").format(got=show_value(outcome.value)), called=shown)


def _sendable(leaf: Any) -> Any:
    """A value as a call sends it: handles as ids, answers as their values, dtypes and devices by name."""
    match leaf:
        case Handle():
            return HandleId(leaf.number)
        case Answer():
            return leaf.value
        case torch.dtype() | torch.device():
            return str(leaf).removeprefix("torch.")
    return leaf
