"""From one submission to one report: the warm grader behind the command line, watch mode and class runs."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import secrets
import selectors
import threading
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from grader import __version__
from grader.base.language import current
from grader.base.language import gettext as _
from grader.base.limits import USUAL, Limits
from grader.base.paths import ROOT, TAPE, is_recorded, step_folders, tape_version
from grader.base.results import Report, Reproduction, StepResult, total
from grader.course import choice, tracks
from grader.course.submissions import Submission
from grader.course.unread import notes
from grader.judge import follow_through, routes
from grader.judge.launcher import GraderError, Judges, start
from grader.judge.messages import Asking, Broken, Channel, Event, Finished, GradeRequest, StepGraded, Unmet
from grader.sandbox.kernel import LAYERS


class UnfitCopy(GraderError):
    """This copy of the kit mixes two versions, or lacks a file. One line, with the command to type next."""


class BrokenJudge(GraderError):
    """The judge met an error of its own: perhaps a mistake in a step."""


class NotIsolated(GraderError):
    """Something required is missing: an isolation layer, or a device. One line, with the command to type next."""


class Cancelled(GraderError):
    """The grading was ended by `Grader.cancel`."""


class UnknownLayer(ValueError):
    """There is no layer of this name."""


def required_layers(text: str) -> tuple[str, ...]:
    """The layers in `landlock,seccomp`, for `Limits.required`: no code is run without them.

    Raises UnknownLayer. A `Grader` with such limits raises NotIsolated before a line of a learner's code has run.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in LAYERS:
            raise UnknownLayer(name)
    return names


def require_fitting_tapes(steps: Collection[str] = ()) -> None:
    """Raises UnfitCopy if a tape was made by another version of the kit, or one of these steps needs a tape and has
    none: while a kit is being built, it has those of the first steps."""
    for tape in (folder / TAPE for folder in step_folders() if is_recorded(folder)):
        name = tape.relative_to(ROOT)
        try:
            version = tape_version(tape)
        except OSError:
            if tape.parent.name not in steps:
                continue
            raise UnfitCopy(
                _("{file} is missing. Unpack the kit again over this folder, then type: make grade").format(file=name)
            ) from None
        if version != __version__:
            raise UnfitCopy(
                _(
                    "{file} was recorded by version {version} of the kit, and this is version {own}. Unpack one "
                    "version over this folder, then type: make grade"
                ).format(file=name, version=version or "?", own=__version__)
            )


def new_seed() -> int:
    """A seed that is hard to guess: 48 random bits, too many for a worker to try within its deadline."""
    return secrets.randbelow(2**48 - 1) + 1


class Grader:
    """Judges kept warm: torch imported once, checks collected once, any number of submissions graded.

    `judges` work on one submission in parallel. They come from a `source`, which other graders may share and its owner
    closes; by default the grader starts its own, as `launcher.start` does. `plain`: nothing is done to be fast, with
    the same verdicts: each step gets a process of its own. Use it as a context manager, or `close` it.
    """

    def __init__(
        self, judges: int | None = None, limits: Limits = USUAL, *,
        source: Judges | None = None, fork: bool | None = None, plain: bool = False,
    ) -> None:  # fmt: skip
        require_fitting_tapes()
        self._plain, self._runs = plain, itertools.count(1)
        self.limits = limits
        self._count = judges or max(1, min(2, os.cpu_count() or 1))
        self._source, self._shared = source or start(fork=fork), source is not None
        self._judges: list[Channel] = []
        self._on_check: Callable[[Asking], None] | None = None
        self._state, self._cancelled, self._is_grading = threading.Lock(), threading.Event(), False

    def grade(
        self,
        submission: Submission,
        wanted: list[str],
        *,
        device: str = "all",
        seed: int | None = None,
        on_step: Callable[[StepResult], None] = lambda result: None,
        on_check: Callable[[Asking], None] | None = None,
    ) -> Report:
        """The report on the wanted steps (`choice.by_default` says which, if none are chosen), under a new seed if
        `seed` is None; `on_step` is called with each result, `on_check` before each check.

        Raises GraderError if the grader itself fails, NotIsolated when a layer that the limits require is missing, and
        Cancelled."""
        require_fitting_tapes(wanted)
        self._on_check = on_check
        with self._state:
            self._cancelled.clear()
            self._is_grading = True
        everything = choice.step_names()
        sources, earlier = follow_through.with_earlier(submission, wanted)
        request = msgspec.structs.replace(
            self._request(submission, device, seed), sources=sources, repeats=seed is not None,
            run=0 if self._plain else next(self._runs),
        )  # fmt: skip
        try:
            graded, finished = self._graded(request, wanted, everything, on_step)
        finally:
            self._end_run(request)
        results = [
            follow_through.note_earlier(graded[name].result, sources, earlier) for name in everything if name in wanted
        ]
        score, max_score = total(results)
        return Report(
            submission=submission.name, seed=request.seed, oracle=finished.oracle, isolation=finished.isolation,
            devices=finished.devices, score=score, max_score=max_score, tracks=tracks.totals(results), steps=results,
            unread=dict(submission.unread), notes=notes(submission, results),
        )  # fmt: skip

    def _graded(
        self, request: GradeRequest, wanted: list[str], everything: list[str], on_step: Callable[[StepResult], None]
    ) -> tuple[dict[str, StepGraded], Finished]:
        """The wanted steps' results by name, and what holds for the run: runs the steps, and again those that ended in
        an error or rest on wrong or absent ones.

        Blocked steps are diagnosed with references in place of the steps that block them, the others once nothing is
        known to block them: a search in a file that rests on a wrong one takes longest, and finds nothing."""
        first = msgspec.structs.replace(request, in_order=routes.in_order(everything))
        graded, finished = self._run(first, wanted, on_step)
        for name in routes.to_repeat(graded, wanted):
            alone, also = self._run(first, [name], on_step)
            graded |= alone
            finished = _merged(finished, also)
        self._follow_through(first, graded, wanted)
        rest = routes.to_diagnose(graded, wanted)
        again = self._run(request, rest, on_step)[0] if rest else {}
        return graded | {name: each for name, each in again.items() if each.result.status != "error"}, finished

    def _end_run(self, request: GradeRequest) -> None:
        """Ends a grading: the judges end the workers that wait for another step of this submission."""
        self._is_grading = False
        for judge in self._judges if request.run else ():
            with contextlib.suppress(OSError):  # it has died
                judge.send(msgspec.structs.replace(request, sources={}, is_over=True))

    def _follow_through(self, request: GradeRequest, graded: dict[str, StepGraded], wanted: list[str]) -> None:
        """Grades each step again that imports a wrong or absent one, with references in place of those, and replaces
        its result in `graded`."""
        quietly = functools.partial(self._run, on_step=lambda result: None)
        through = follow_through.FollowThrough(request, graded, wanted, lambda *asked: quietly(*asked)[0])
        for name in sorted(graded):
            through.settle(name)

    def prepare(self, step: str, *, device: str, seed: int) -> None:
        """Prepares a grading of the step under this seed: draws its inputs and caches the reference's answers, so that
        it takes no longer than under a seed seen before. Raises what `grade` raises."""
        request = GradeRequest({}, {}, [step], device, seed, current(), self.limits, prepare=True)
        self._run(request, [step], lambda result: None)

    def reproduce(
        self, submission: Submission, step: str, *, device: str = "cpu", seed: int | None = None
    ) -> tuple[StepResult, Reproduction | None]:
        """Grades one step, and makes a program of the first call that fails; None if no call does.

        Raises what `grade` raises.
        """
        request = msgspec.structs.replace(self._request(submission, device, seed), reproduce=True)
        graded, _finished = self._run(request, [step], lambda result: None)
        reproduction = graded[step].reproduction
        self._follow_through(request, graded, [step])
        return graded[step].result, reproduction

    def _request(self, submission: Submission, device: str, seed: int | None) -> GradeRequest:
        """The request for a submission, with no steps yet; a new seed if `seed` is None."""
        seed = new_seed() if seed is None else seed
        return GradeRequest(
            submission.sources, submission.problems, [], device, seed, current(), self.limits,
            tells=self._on_check is not None,
        )  # fmt: skip

    def _run(
        self, request: GradeRequest, steps: list[str], on_step: Callable[[StepResult], None]
    ) -> tuple[dict[str, StepGraded], Finished]:
        """Grades the steps on as many judges as there are. Returns each step's result by name, and what holds for the
        run. Raises GraderError."""
        while len(self._judges) < min(self._count, len(steps)):
            self._judges.append(self._source.new())
        if self._is_grading and self._cancelled.is_set():
            raise self._ended()
        judges = self._judges[: len(steps)]
        graded: dict[str, StepGraded] = {}
        finished: Finished | None = None
        # Later steps take longer: start with them, so that all judges finish together.
        waiting = sorted(steps, reverse=True)
        at_once = 1 if len(judges) > 1 else len(waiting)  # several judges get one step at a time, one judge all

        def ask(judge: Channel) -> None:
            """Sends the next steps to a judge."""
            taken, waiting[:at_once] = waiting[:at_once], []
            with contextlib.suppress(ConnectionError):  # that it has died is heard below
                judge.send(msgspec.structs.replace(request, steps=taken))

        with selectors.DefaultSelector() as selector:
            for judge in judges:
                ask(judge)
                selector.register(judge.stream, selectors.EVENT_READ, judge)
            while selector.get_map():
                for key, _events in selector.select():
                    event = self._event(key.data)
                    if isinstance(event, StepGraded):
                        graded[event.result.name] = event
                        on_step(event.result)
                        continue
                    finished = _merged(finished, event) if finished else event
                    if waiting:
                        ask(key.data)
                    else:
                        selector.unregister(key.fileobj)
        assert finished is not None
        return graded, finished

    def _event(self, judge: Channel) -> StepGraded | Finished:
        """The next graded step or end from a judge; tells `on_check` which check runs until then. Raises NotIsolated,
        Cancelled or GraderError."""
        event = judge.receive(Event)
        while isinstance(event, Asking):
            if self._on_check is not None:
                self._on_check(event)
            event = judge.receive(Event)
        if isinstance(event, StepGraded | Finished):
            return event
        if self._is_grading and self._cancelled.is_set():
            raise self._ended()
        self.close()
        if isinstance(event, Unmet):
            raise NotIsolated(_not_isolated(event))
        kind, reason = GraderError, _("its process has ended")
        if isinstance(event, Broken):
            kind, reason = BrokenJudge, event.reason
        raise kind(_("The judge failed: {reason}").format(reason=reason.strip()))

    def cancel(self) -> None:
        """Ends the judges, from another thread: a grading in progress raises Cancelled there. The warm process stays,
        and the next grading has new judges."""
        with self._state:
            if self._is_grading:
                self._cancelled.set()
                for judge in list(self._judges):
                    self._source.end(judge)

    def _ended(self) -> Cancelled:
        """Forgets the judges that `cancel` has ended, and returns the error to raise."""
        self._close_judges()
        return Cancelled("cancelled")

    def _close_judges(self) -> None:
        """Closes the channels of all judges, which ends them."""
        for judge in self._judges:
            with contextlib.suppress(OSError):
                judge.close()
        self._judges.clear()

    def stop(self) -> None:
        """Ends a grading in progress, from another thread: its `grade` raises GraderError."""
        self._source.stop()

    def close(self) -> None:
        """Ends every process that this grader has started."""
        self._close_judges()
        if not self._shared:
            self._source.close()

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class LazyGrader:
    """A `Grader` with these arguments that starts at its first use, and again after a failure."""

    def __init__(self, judges: int | None = None, **how: Any) -> None:
        self._begin = functools.partial(Grader, judges, **how)
        self._grader: Grader | None = None

    def grade(self, submission: Submission, steps: list[str], *, device: str, seed: int | None) -> Report:
        """As `Grader.grade`. Raises GraderError, OSError."""
        try:
            self._grader = self._grader or self._begin()
            return self._grader.grade(submission, steps, device=device, seed=seed)
        except (GraderError, OSError):
            self.close()
            raise

    def close(self) -> None:
        """Ends the grader's processes; the next use starts it again."""
        if self._grader is not None:
            self._grader.close()
            self._grader = None


def _merged(first: Finished, second: Finished) -> Finished:
    """The end of a run with these two parts: the isolation is the layers that both had, the rest that of the second."""
    isolation = [layer for layer in first.isolation if layer in second.isolation]
    return msgspec.structs.replace(second, isolation=isolation)


def _not_isolated(unmet: Unmet) -> str:
    """The sentence for a missing device or isolation layer, with the command to type."""
    if not unmet.layers:
        return _(
            "Nothing was graded: torch knows no device {device}. Type: python -m grader grade --device cpu"
        ).format(device=unmet.device)
    layers = ", ".join(unmet.layers)
    if unmet.device == "cpu":
        return _(
            "Nothing was graded: a required isolation layer is unavailable on this machine ({layers}). Type: "
            "python -m grader doctor"
        ).format(layers=layers)
    return _(
        "Nothing was graded: a required isolation layer is unavailable on {device} ({layers}). Type: python -m "
        "grader grade --device cpu"
    ).format(device=unmet.device, layers=layers)
