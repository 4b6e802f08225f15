"""Caches the oracle's answers: a class, and every save in watch mode, are graded under one seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from grader.calls.call import Call, Outcome
from grader.checks.backends import Backend, Oracle
from grader.checks.draws import Draw, Drawn


class CachedOracle:
    """Caches an oracle's answers by check, seed, device and the position of the call in the check.

    A check makes the same calls to its reference in the same order whatever the student answers. If it gets further
    than before, the earlier calls are repeated on the oracle: later ones may need its modules.
    """

    def __init__(self, oracle: Oracle) -> None:
        """Caches the answers of this oracle."""
        self._oracle = oracle
        self._known: dict[tuple[int, str], list[Outcome]] = {}
        self._drawn: dict[tuple[str, int, str], list[Tensor | int]] = {}
        self._outcomes: list[Outcome] = []
        self._asked: list[Call] = []
        self._put = 0  # how many of the calls so far reached the oracle
        self._seed = 0
        self._device = "cpu"

    def draws(self, check: str, seed: int, device: str) -> Draw:
        """The draws of a check under a seed, each made once by the oracle and cached. The calls that follow are on this
        device."""
        self._device = device
        drawn = self._drawn.setdefault((check, seed, device), [])
        return _RememberedDraw(seed, check, self._oracle.draws(check, seed, device), drawn)

    def again(self) -> Backend | None:
        """The oracle's second backend, which is not cached; None if it has none (see `Oracle.again`)."""
        return self._oracle.again()

    def begin_check(self, seed: int) -> None:
        """Starts a check under this seed: the next call is its first."""
        self._outcomes = self._known.setdefault((seed, self._device), [])
        self._asked, self._put, self._seed = [], 0, seed

    def ask(self, call: Call) -> Outcome:
        """The cached outcome of a call in this position, else that of the oracle, which is then cached."""
        self._asked.append(call)
        if len(self._asked) <= len(self._outcomes):
            return self._outcomes[len(self._asked) - 1]
        if self._put == 0:
            self._oracle.begin_check(self._seed)
        for waiting in self._asked[self._put :]:
            outcome = self._oracle.ask(waiting)
        self._put = len(self._asked)
        self._outcomes.append(outcome.copied())  # an answer about parameters changes with them
        return outcome


class _RememberedDraw(Draw):
    """Returns the cached draws in order. If a check gets further than before, everything is drawn again."""

    def __init__(self, seed: int, check: str, draw: Draw, drawn: list[Tensor | int]) -> None:
        """`drawn` is the cache, which new draws by `draw` are added to."""
        super().__init__(seed, check)
        self._draw, self._drawn = draw, drawn
        self._wanted: list[Callable[[], Any]] = []
        self._made_so_far = 0

    def _made(self, make: Callable[[], Drawn]) -> Drawn:
        """The cached draw in this position, a tensor copied; else a new one, which is cached."""
        self._wanted.append(make)
        if len(self._wanted) > len(self._drawn):
            for waiting in self._wanted[self._made_so_far :]:
                value = self._draw._made(waiting)
            self._made_so_far = len(self._wanted)
            self._drawn.append(value)
        earlier: Drawn = self._drawn[len(self._wanted) - 1]  # type: ignore[assignment]  # the same draw made it
        return earlier.clone() if isinstance(earlier, Tensor) else earlier
