"""Backends, which answer the calls of a check: the protocol, the one that answers in this process, and an exchange with
one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from grader.calls.call import Call, Measure, Outcome
from grader.calls.responder import Responder
from grader.calls.values import leaves
from grader.checks.bounded import bounded
from grader.checks.draws import Draw
from grader.checks.value_text import show_call


@dataclass
class Exchange:
    """One call and its outcome, kept for diagnosis. `maker` is the call that made the called module, if any.

    `measured`: the measure of the call that the check looked at last, if any. `due_error`: it returned a value, and the
    check asks for an error. `right`: the check has compared all of it, and went on.
    """

    call: Call
    maker: Exchange | None = None
    outcome: Outcome | None = None
    measured: Measure | None = None
    due_error: bool = False
    right: bool = False
    fingerprint: Any = None  # of the outcome, once a diagnosis has taken it

    @property
    def shown(self) -> str:
        """The call as the learner would type it."""
        return show_call(self.call, self.maker.shown if self.maker else "")

    @property
    def is_asked(self) -> bool:
        """Whether the learner's code is called, and not a module looked at or changed from outside."""
        return self.call.is_authors

    @property
    def name(self) -> str:
        """The public name that is called, or that made the called module."""
        return self.maker.name if self.maker else self.call.name


class Backend(Protocol):
    """Answers calls."""

    def ask(self, call: Call) -> Outcome:
        """The outcome of one call. Raises CheckFailed without a valid answer: killed, timed out, or not an outcome."""

    def begin_check(self, seed: int) -> None:
        """Drops the modules made so far and seeds the random stream."""


class Oracle(Backend, Protocol):
    """A backend that knows the right answers, and the inputs that belong to them."""

    def draws(self, check: str, seed: int, device: str) -> Draw:
        """The inputs of a check under a seed, on a device; the next calls of `ask` belong to this check."""

    def again(self) -> Backend | None:
        """A second backend with the same answers; None if every check is known to pass on them."""


class LocalBackend:
    """Answers in this process: a reference, a misconception or a variant. Never a learner's code.

    It has its own random stream, as a learner's process does: draws on one side do not advance the other.
    """

    def __init__(self, responder: Responder, *, is_right: bool = False) -> None:
        """Answers by `responder`; of code that `is_right`, modified arguments need not be noted."""
        self.responder, self._is_right = responder, is_right
        responder.notes_modified = not is_right  # of a right answer some things need not be noted
        self.drew = False  # whether the last call itself used random numbers, without the operations before it
        self._stream: Tensor | None = None

    def ask(self, call: Call) -> Outcome:
        """The outcome of the call, computed here."""
        if self._stream is not None:
            torch.set_rng_state(self._stream)
        with bounded([*leaves(call.args), *leaves(call.kwargs)]):
            outcome = self.responder.respond(call) if self._is_right else self._noted(call)
        self._stream = torch.get_rng_state()
        return outcome

    def _noted(self, call: Call) -> Outcome:
        """The outcome of the call. Sets `drew` to whether the call itself used random numbers."""
        before = [torch.get_rng_state()]
        outcome = self.responder.respond(call, lambda: before.append(torch.get_rng_state()))
        self.drew = not torch.equal(before[-1], torch.get_rng_state())
        return outcome

    def begin_check(self, seed: int) -> None:
        """Drops the modules made so far and seeds the random stream."""
        self.responder.begin_check(seed)
        self._stream = torch.get_rng_state()

    def draws(self, check: str, seed: int, device: str) -> Draw:
        """Fresh inputs for the seed."""
        return Draw(seed, check)

    def again(self) -> Backend:
        """A second backend of the same names: each side of a check numbers its own modules."""
        return LocalBackend(Responder(self.responder.names))
