"""From one submission to one report: the warm grader that the command line, watch mode and a class all call."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import selectors
from collections.abc import Callable

import msgspec

from grader import __version__
from grader.isolation import LAYERS as LAYERS
from grader.judge import Broken, Channel, Event, Finished, GradeRequest, Ready, StepGraded, Unmet
from grader.judges import GraderError as GraderError
from grader.judges import Judges, start
from grader.language import current
from grader.language import gettext as _
from grader.limits import Limits
from grader.places import ROOT as ROOT
from grader.places import TAPE, is_recorded, step_folders, tape_version
from grader.results import Report, StepResult
from grader.submission import Submission


class UnfitCopy(GraderError):
    """The copy of the kit is put together from two versions, or lacks a file. One line, with what to type next."""


class NotIsolated(GraderError):
    """A layer of isolation that was asked for is not to be had here. One line, with what to type next."""


class UnknownLayer(ValueError):
    """There is no layer of this name."""


def required_layers(text: str) -> tuple[str, ...]:
    """The layers in `landlock,seccomp`, for `Limits.required`: nothing is then run without them.

    Raises UnknownLayer. A `Grader` with such limits raises NotIsolated before a line of a learner's code has run.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in LAYERS:
            raise UnknownLayer(name)
    return names


def step_names() -> list[str]:
    """The names of all steps, in order, without importing any."""
    return [folder.name for folder in step_folders()]


def require_fitting_tapes() -> None:
    """Raises UnfitCopy when a step that needs its tape has none of this version of the kit."""
    for tape in (folder / TAPE for folder in step_folders() if is_recorded(folder)):
        name = tape.relative_to(ROOT)
        try:
            version = tape_version(tape)
        except OSError:
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


def match_step(wanted: str, names: list[str]) -> str | None:
    """The step meant by a name, a number (`4`, `step04`) or a part of one name; None when none or several are."""
    number = re.fullmatch(r"(?:step)?0*(\d{1,2})", wanted)
    if number:
        matches = [name for name in names if int(name[4:6]) == int(number[1])]
    else:
        matches = [name for name in names if name == wanted] or [name for name in names if wanted and wanted in name]
    return matches[0] if len(matches) == 1 else None


def new_seed() -> int:
    """A seed that nobody knows before."""
    return secrets.randbelow(2**31 - 1) + 1


class Grader:
    """Judges kept warm: torch imported once, checks collected once, any number of submissions graded.

    `judges` work at one submission side by side. They are new ones of a `source`, which other graders may share and
    whose owner closes it; by default the grader has one for itself, started as `judges.start` does. Use it as a context
    manager, or `close` it.
    """

    def __init__(
        self, judges: int | None = None, limits: Limits | None = None, *,
        source: Judges | None = None, fork: bool | None = None, many: bool = False,
    ) -> None:  # fmt: skip
        require_fitting_tapes()
        self.limits = limits or Limits()
        self._count = judges or max(1, min(2, os.cpu_count() or 1))
        self._source, self._shared = source or start(fork=fork, many=many), source is not None
        self._judges: list[Channel] = []

    def grade(
        self,
        submission: Submission,
        steps: list[str] | None = None,
        *,
        device: str = "all",
        seed: int | None = None,
        on_step: Callable[[StepResult], None] = lambda result: None,
    ) -> Report:
        """Grades the steps (all by default) and reports. `on_step` hears of each step as it is done.

        Raises GraderError when the grader itself fails, NotIsolated when a layer that the limits require is missing.
        """
        everything = step_names()
        wanted = steps or everything
        request = GradeRequest(
            submission.sources,
            submission.problems,
            [],
            device,
            new_seed() if seed is None else seed,
            current(),
            self.limits,
        )
        graded, finished = self._run(request, wanted, on_step)
        needed = _needed_but_not_graded(graded, everything)
        if needed:
            further, also = self._run(request, needed, lambda result: None)
            graded |= further
            finished = _both(finished, also)
        for name in wanted:
            _blame_earlier_step(graded[name], graded)
        results = [graded[name].result for name in everything if name in wanted]
        return Report(
            submission=submission.name,
            seed=request.seed,
            oracle=finished.oracle,
            isolation=finished.isolation,
            devices=finished.devices,
            score=round(sum(result.score for result in results), 6),
            max_score=round(sum(result.max_score for result in results), 6),
            steps=results,
        )

    def _run(
        self, request: GradeRequest, steps: list[str], on_step: Callable[[StepResult], None]
    ) -> tuple[dict[str, StepGraded], Finished]:
        while len(self._judges) < min(self._count, len(steps)):
            self._judges.append(self._source.new())
        judges = self._judges[: len(steps)]
        graded: dict[str, StepGraded] = {}
        finished: Finished | None = None
        # Later steps take longer: begun first, they end together.
        waiting = sorted(steps, reverse=True)
        at_once = 1 if len(judges) > 1 else len(waiting)  # a judge that is done gets the next step, one alone gets all
        with selectors.DefaultSelector() as selector:
            for judge in judges:
                judge.send(msgspec.structs.replace(request, steps=_taken(waiting, at_once)))
                selector.register(judge.stream, selectors.EVENT_READ, judge)
            while selector.get_map():
                for key, _events in selector.select():
                    event = self._event(key.data)
                    if isinstance(event, StepGraded):
                        graded[event.result.name] = event
                        on_step(event.result)
                        continue
                    finished = _both(finished, event) if finished else event
                    if waiting:
                        key.data.send(msgspec.structs.replace(request, steps=_taken(waiting, at_once)))
                    else:
                        selector.unregister(key.fileobj)
        assert finished is not None
        return graded, finished

    def _event(self, judge: Channel) -> StepGraded | Finished:
        event = judge.receive(Event)
        while isinstance(event, Ready):
            event = judge.receive(Event)
        if isinstance(event, StepGraded | Finished):
            return event
        self.close()
        if isinstance(event, Unmet):
            raise NotIsolated(_not_isolated(event))
        reason = event.reason if isinstance(event, Broken) else _("its process has ended")
        raise GraderError(_("The judge failed: {reason}").format(reason=reason.strip()))

    def stop(self) -> None:
        """From another thread: ends a grading that is under way, which raises GraderError there."""
        self._source.stop()

    def close(self) -> None:
        """Ends every process that it has started."""
        for judge in self._judges:
            with contextlib.suppress(OSError):
                judge.close()
        self._judges.clear()
        if not self._shared:
            self._source.close()

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _taken(waiting: list[str], count: int) -> list[str]:
    """Takes the first of those waiting."""
    taken = waiting[:count]
    del waiting[:count]
    return taken


def _both(one: Finished, other: Finished) -> Finished:
    """Two parts of a run as one: isolated by what isolated both."""
    isolation = [layer for layer in one.isolation if layer in other.isolation]
    return msgspec.structs.replace(other, isolation=isolation)


def _not_isolated(unmet: Unmet) -> str:
    layers = ", ".join(unmet.layers)
    if unmet.device == "cpu":
        return _(
            "Nothing was graded: this machine does not have what --require-isolation asks for ({layers}). "
            "Type: python -m grader doctor"
        ).format(layers=layers)
    return _(
        "Nothing was graded: on {device} there is not what --require-isolation asks for ({layers}). "
        "Type: python -m grader grade --device cpu"
    ).format(device=unmet.device, layers=layers)


def _needed_but_not_graded(graded: dict[str, StepGraded], everything: list[str]) -> list[str]:
    """Earlier steps that a failing step imported and that were not asked for: their verdict is needed to say why."""
    failing = [step for step in graded.values() if step.result.status in ("fail", "timeout", "todo")]
    needed = {name for step in failing for name in step.imported if name in everything}
    return sorted(needed - graded.keys())


def _blame_earlier_step(step: StepGraded, graded: dict[str, StepGraded]) -> None:
    """Marks the failing checks of a step as blocked by an earlier step that its file imports and that is wrong."""
    wrong = [graded[name].result for name in step.imported if name in graded and graded[name].result.status != "pass"]
    if not wrong or step.result.status not in ("fail", "timeout", "todo"):
        return
    earlier = wrong[0]
    broken = next(check for check in earlier.checks if check.status != "pass")
    step.result.status, step.result.blocked_by = "skipped", earlier.name
    step.result.message = _(
        "Blocked by {step}, which it imports: “{title}” ({check}) does not pass there. Mend that first."
    ).format(step=earlier.name, title=broken.title, check=broken.name)
    for check in step.result.checks:
        if check.status in ("fail", "timeout", "todo"):
            check.status = "skipped"
            check.message = f"{step.result.message}\n{check.message}".strip()
