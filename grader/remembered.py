"""An oracle that answers each question once: a class is graded on the same draws, and save after save in watch too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from grader.draws import Draw, Drawn
from grader.implementation import Backend, Oracle
from grader.messages import Call, Outcome
from grader.tape import copied


class Remembered:
    """An oracle whose answers are kept, by check, seed, device and the order in which a check asks.

    A check asks its reference the same things in the same order whatever the student answers. Where it goes further
    than it did before, the earlier questions are put to the oracle after all: the later ones may need its modules.
    """

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._known: dict[tuple[int, str], list[Outcome]] = {}
        self._drawn: dict[tuple[str, int, str], list[Tensor | int]] = {}
        self._outcomes: list[Outcome] = []
        self._asked: list[Call] = []
        self._put = 0  # how many of the questions asked were put to the oracle
        self._seed = 0
        self._device = "cpu"

    def draws(self, check: str, seed: int, device: str) -> Draw:
        """The oracle's, each drawn once."""
        self._device = device
        drawn = self._drawn.setdefault((check, seed, device), [])
        return _RememberedDraw(seed, check, self._oracle.draws(check, seed, device), drawn)

    def again(self) -> Backend | None:
        """The oracle's."""
        return self._oracle.again()

    def begin_check(self, seed: int) -> None:
        """A check begins, from its first question."""
        self._outcomes = self._known.setdefault((seed, self._device), [])
        self._asked, self._put, self._seed = [], 0, seed

    def ask(self, call: Call) -> Outcome:
        """The answer as it was given before, else the oracle's."""
        self._asked.append(call)
        if len(self._asked) <= len(self._outcomes):
            return self._outcomes[len(self._asked) - 1]
        if self._put == 0:
            self._oracle.begin_check(self._seed)
        for waiting in self._asked[self._put :]:
            outcome = self._oracle.ask(waiting)
        self._put = len(self._asked)
        self._outcomes.append(copied(outcome))  # what a module says of its parameters changes with them
        return outcome


class _RememberedDraw(Draw):
    """Gives back what was drawn before, in order. Where a check goes further than it did, all is drawn after all."""

    def __init__(self, seed: int, check: str, draw: Draw, drawn: list[Tensor | int]) -> None:
        super().__init__(seed, check)
        self._draw, self._drawn = draw, drawn
        self._wanted: list[Callable[[], Any]] = []
        self._made_so_far = 0

    def _made(self, make: Callable[[], Drawn]) -> Drawn:
        self._wanted.append(make)
        if len(self._wanted) > len(self._drawn):
            for waiting in self._wanted[self._made_so_far :]:
                value = self._draw._made(waiting)
            self._made_so_far = len(self._wanted)
            self._drawn.append(value)
        kept: Drawn = self._drawn[len(self._wanted) - 1]  # type: ignore[assignment]  # the same draw made it
        return kept.clone() if isinstance(kept, Tensor) else kept
