"""Grades in a background thread for watch mode, and defines the events that watch mode receives."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from grader.base.limits import Limits
from grader.base.results import StepResult
from grader.course import submissions
from grader.judge import grader
from grader.judge.launcher import GraderError
from grader.judge.messages import Asking

IDLE = 0.5  # seconds without a save, after which a step is prepared: none takes longer than that
LIMITS = Limits(call_seconds=5.0, step_seconds=15.0)


@dataclass(frozen=True)
class Key:
    """A key was pressed."""

    name: str


@dataclass(frozen=True)
class Look:
    """Something may have changed in the folder."""


@dataclass(frozen=True)
class StepDone:
    """A step was graded, or the grader failed."""

    name: str
    result: StepResult | None
    failure: str = ""


@dataclass(frozen=True)
class NothingGraded:
    """A required isolation layer is unavailable on this machine: nothing was graded, and nothing will be."""

    reason: str


@dataclass(frozen=True)
class Dropped:
    """The grading of a step was cancelled."""

    step: str


@dataclass(frozen=True)
class CheckAsked:
    """A check of a step is about to run; `failed` is what the first that failed says."""

    step: str
    title: str
    failed: str


Event = Key | Look | StepDone | NothingGraded | Dropped | CheckAsked


class BackgroundGrader:
    """Grades one step at a time in a background thread, with a warm grader."""

    def __init__(self, send: Callable[[Event], None], device: str, required: tuple[str, ...] = ()) -> None:
        self._send, self._device = send, device
        self._limits = msgspec.structs.replace(LIMITS, required=required)
        self._jobs: queue.SimpleQueue[tuple[submissions.Submission, str, int]] = queue.SimpleQueue()
        # The warm process dies with the thread that started it, so that this thread lives for the whole session.
        self._grader = grader.Grader(1, self._limits)
        self._closed, self._drop = False, threading.Event()
        self._ahead: list[tuple[str, int]] = []  # steps that may be next, with their seed
        self._prepared: set[tuple[str, int]] = set()
        self._thread = threading.Thread(target=contextvars.copy_context().run, args=(self._work,), daemon=True)
        self._thread.start()

    def grade(self, read: submissions.Submission, name: str, seed: int) -> None:
        """Queues a step of this submission to be graded. At its end StepDone, Dropped or NothingGraded is sent."""
        self._jobs.put((read, name, seed))

    def prepare(self, names: Sequence[str], seed: int) -> None:
        """Has workers made ready for these steps, one after another, while there is nothing to grade; replaces the
        steps of an earlier call."""
        self._ahead = [(name, seed) for name in names if (name, seed) not in self._prepared]

    def drop(self) -> None:
        """Cancels the step that was last asked for: Dropped is sent instead of StepDone, unless it is just done. Torch
        stays loaded."""
        self._drop.set()
        self._grader.cancel()

    def close(self) -> None:
        """Ends every process at once, whatever they are doing."""
        self._closed = True
        self._grader.close()

    def _announce(self, asking: Asking) -> None:
        """Sends the check that is about to run; cancels the grading if it was dropped before it started."""
        if self._drop.is_set():  # asked for right before the grading started
            self._grader.cancel()
        self._send(CheckAsked(asking.step, asking.title, asking.failed))

    def _finish(self, event: Dropped | StepDone) -> None:
        """Sends the event for a finished step, and forgets a cancellation, which was for that step and not for the
        next."""
        self._drop.clear()
        self._send(event)

    def _prepare_one(self) -> None:
        """Has a worker made ready for the first of the steps that may be next; a failure is left to the grading."""
        try:
            ahead = self._ahead.pop(0)
            self._prepared.add(ahead)
            self._grader.prepare(ahead[0], device=self._device, seed=ahead[1])
        except (IndexError, grader.NotIsolated, GraderError):
            pass
        except ValueError:  # a descriptor that was closed meanwhile
            if not self._closed:
                raise

    def _work(self) -> None:
        """The thread: grades the steps of the queue, and prepares others while it is empty."""
        while not self._closed:
            try:
                read, name, seed = self._jobs.get(timeout=IDLE if self._ahead else None)
            except queue.Empty:
                self._prepare_one()
                continue
            self._prepared.add((name, seed))
            if self._drop.is_set():  # before it has started
                self._finish(Dropped(name))
                continue
            try:
                report = self._grader.grade(read, [name], device=self._device, seed=seed, on_check=self._announce)
            except grader.Cancelled:
                self._finish(Dropped(name))
            except grader.NotIsolated as refused:
                self._send(NothingGraded(str(refused)))
                return
            except Exception as error:  # whatever it is, the session continues
                if self._closed:
                    return
                self._grader.close()
                self._grader = grader.Grader(1, self._limits)
                self._finish(StepDone(name, None, str(error) or type(error).__name__))
            else:
                self._finish(StepDone(name, report.steps[0]))
