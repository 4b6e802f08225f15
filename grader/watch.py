"""Watch mode: saves are graded as they happen, by a grader kept warm.

One thread decides everything, in the order in which events arrive: a key, a look at the folder, a verdict. Keys,
notifications and grading each have a thread that only sends events, so code that never ends holds up nothing.
"""

from __future__ import annotations

import contextlib
import contextvars
import queue
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console
from rich.control import Control

from grader import board as boards
from grader import grading, keys, lessons, saves, screen, submission
from grader.language import gettext as _
from grader.limits import Limits
from grader.report import plain
from grader.results import StepResult

LIMITS = Limits(call_seconds=5.0, step_seconds=15.0)
LONG = 1.0  # seconds after which a run that is outdated is not waited for: starting anew takes about as long
SLOW = 0.3  # seconds after which the screen says that a step is being checked
LEAVES = {"l", "b", keys.DRAW_AGAIN}  # keys that do not leave a lesson


@dataclass(frozen=True)
class Key:
    """A key was pressed."""

    name: str


@dataclass(frozen=True)
class Look:
    """Something may have changed in the folder."""


@dataclass(frozen=True)
class Verdict:
    """A step was graded, or the grader failed."""

    name: str
    result: StepResult | None
    failure: str = ""


@dataclass(frozen=True)
class Refused:
    """A layer of isolation that was asked for is not to be had here: nothing was graded, and nothing will be."""

    reason: str


@dataclass(frozen=True)
class Dropped:
    """The grading of a step was ended before its verdict."""

    step: str


Event = Key | Look | Verdict | Refused | Dropped


class Desk:
    """Grades one step at a time in a thread of its own, by a grader that stays warm."""

    def __init__(self, send: Callable[[Event], None], device: str, required: tuple[str, ...] = ()) -> None:
        self._send, self._device = send, device
        self._limits = msgspec.structs.replace(LIMITS, required=required)
        self._jobs: queue.SimpleQueue[tuple[submission.Submission, str, int]] = queue.SimpleQueue()
        # The warm process dies with the thread that started it: this one lasts.
        self._grader = grading.Grader(1, self._limits)
        self._closed = self._dropped = False
        self._thread = threading.Thread(target=contextvars.copy_context().run, args=(self._work,), daemon=True)
        self._thread.start()

    def grade(self, read: submission.Submission, name: str, seed: int) -> None:
        """Grades a step; its Verdict is sent, or Refused."""
        self._jobs.put((read, name, seed))

    def drop(self) -> None:
        """Ends the grading under way: Dropped is sent in place of its verdict."""
        self._dropped = True
        self._grader.stop()

    def close(self) -> None:
        """Ends every process at once, whatever they are doing."""
        self._closed = True
        self._grader.close()

    def _work(self) -> None:
        while not self._closed:
            read, name, seed = self._jobs.get()
            try:
                report = self._grader.grade(read, [name], device=self._device, seed=seed)
            except grading.NotIsolated as refused:
                self._send(Refused(str(refused)))
                return
            except Exception as error:  # whatever it is, the learner's session goes on
                if self._closed:
                    return
                self._grader.close()
                self._grader = grading.Grader(1, self._limits)
                dropped, self._dropped = self._dropped, False
                self._send(Dropped(name) if dropped else Verdict(name, None, str(error) or type(error).__name__))
            else:
                self._send(Verdict(name, report.steps[0]))


class Watch:
    """One session: what is waiting to be graded, what is shown, and what each event does."""

    def __init__(
        self, folder: Path, start: str | None, device: str, console: Console, required: tuple[str, ...] = ()
    ) -> None:
        names = grading.step_names()
        self.board = boards.Board(folder, names, current=start, seed=grading.new_seed())
        self.console, self.device, self.required = console, device, required
        self.redraws = console.is_terminal and not console.is_dumb_terminal
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.folder = saves.Folder(folder)
        self.waiting = [start] if start else []
        self.waiting += [name for name in names if name != start]
        self.asked = {start} if start else set[str]()
        self.grading: str | None = None
        self.since = 0.0
        self.resetting = self.dropped = False
        self.said = ""

    def run(self) -> None:
        """Until the learner ends it. Raises grading.NotIsolated where a required layer is missing."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(_ended_by_signals())
            desk = Desk(self.events.put, self.device, self.required)
            stack.callback(desk.close)
            told = saves.Notifications(self.folder.path, lambda: self.events.put(Look()))
            stack.enter_context(told)
            self.board.keys = stack.enter_context(keys.listening(lambda key: self.events.put(Key(key))))
            self.draw()
            while True:
                self.start_next(desk)
                event = self._event(told.pause)
                if isinstance(event, Key) and keys.meaning(event.name) == "q":
                    return
                self.take(event)

    def take(self, event: Event) -> None:
        """What an event does. Raises grading.NotIsolated when the grader has refused."""
        match event:
            case Key(name):
                self._press(keys.meaning(name))
            case Look():
                self._look()
            case Verdict(name, result, failure):
                self._hear(name, result, failure)
            case Refused(reason):
                raise grading.NotIsolated(reason)
            case Dropped(name):
                self.grading, self.board.busy = None, ""
                self._wait_for([name])  # it was just done, perhaps, and this is the one after it
        if self.redraws and self.grading and not self.board.busy and time.monotonic() - self.since > SLOW:
            self.board.busy = self.grading
            self.draw()

    def draw(self) -> None:
        """Shows the board: in place of what was there on a terminal, as further lines elsewhere."""
        if not self.redraws:
            self.console.print(boards.hints(self.board) if self.board.view == "hints" else boards.verdict(self.board))
            if self.board.notice:
                self.console.print(self.board.notice)
            self._say_progress()
            return
        with self.console:  # written at once
            self.console.control(Control.clear(), Control.home())
            self.console.print(boards.screen(self.board, self.console))

    # --- grading ---

    def start_next(self, desk: Desk) -> None:
        """Begins the next step that waits, with the files as they are now.

        A run that takes long and is outdated, as of an endless loop that was mended meanwhile, makes way for it. Not
        the first, for which torch has to load, and not two in a row: with an editor that saves all the time a slow
        machine would never come to an end.
        """
        outdated = self.grading in self.waiting and time.monotonic() - self.since > LONG
        if outdated and self.board.results and not self.dropped:
            self.dropped = True
            desk.drop()
        while self.grading is None and self.waiting:
            name = self.waiting.pop(0)
            try:
                read = submission.read(self.board.folder)
            except submission.NoSubmission:
                self.waiting.clear()
                self._answer(_("The folder {folder} is gone.").format(folder=self.board.folder))
                return
            if name == self.board.current:
                self.board.calm = half_written(read, name)
                if self.board.calm:
                    self.asked.discard(name)
                    self.draw()
                    continue
            self.grading, self.since = name, time.monotonic()
            desk.grade(read, name, self.board.seed)

    def _hear(self, name: str, result: StepResult | None, failure: str) -> None:
        self.grading, self.board.busy, self.dropped = None, "", False
        if result is None:
            self.waiting.clear()
            self._answer(_("The grader itself failed ({reason}). Press r or save again.").format(reason=failure))
            return
        before = self.board.results.get(name)
        self.board.results[name] = result
        if name == self.board.current and result.status == "pass":
            self.board.hints = None
        if before is not None and (before.status == "pass") != (result.status == "pass"):
            self._wait_for(self._that_may_use(name))
        asked = name in self.asked
        self.asked.discard(name)
        if self.board.current is None and (result.status not in ("pass", "error") or not self.waiting):
            self.board.current, asked = name, True
        if name == self.board.current:
            self.board.at = time.strftime("%H:%M:%S")
        if self.redraws or asked and name == self.board.current:
            self.draw()
            return
        if self.board.view == "all" and not self.waiting:
            self.board.view = "verdict"
            self.console.print(boards.all_steps(self.board))
        self._say_progress()

    def _that_may_use(self, name: str) -> list[str]:
        """The later steps with work in them: a step that came right or went wrong may have changed theirs."""
        later = self.board.names[self.board.names.index(name) + 1 :]
        return [step for step in later if step in self.board.results and self.board.results[step].status != "todo"]

    def _wait_for(self, names: list[str]) -> None:
        self.waiting += [name for name in names if name not in self.waiting]

    def _ask(self, name: str) -> None:
        """Grades a step before all others, and shows it."""
        self.waiting = [name] + [other for other in self.waiting if other != name]
        self.asked.add(name)

    # --- saves ---

    def _look(self) -> None:
        changed = self.folder.changed()
        if not changed:
            return
        steps = [name for name in changed if name in self.board.names]
        if self.board.current in steps:  # all files saved at once: the one that is looked at comes first
            steps = [self.board.current, *(name for name in steps if name != self.board.current)]
        if not steps and self.board.current:
            steps = [self.board.current]  # a module of the learner's own, which a step may import
        for name in reversed(steps):
            self._ask(name)
        if steps:
            self._turn_to(steps[0])

    def _turn_to(self, name: str) -> None:
        """Looks at a step; what was said about another goes."""
        if name != self.board.current:
            self.board.hints = None
            self.board.calm = ""
        self.board.current, self.board.view, self.board.notice, self.resetting = name, "verdict", "", False

    # --- keys ---

    def _press(self, key: str) -> None:
        board = self.board
        if key not in LEAVES and board.view == "lesson":
            board.view = "verdict"
        resetting, self.resetting, board.notice = self.resetting, False, ""
        if key == "a":
            self._all()
        elif key == "n" and board.current:
            self._next()
        elif key == "r" and board.current:
            board.view, board.seed = "verdict", grading.new_seed()
            self._ask(board.current)
            return
        elif key == "h" and board.current:
            self._hint(board.current)
        elif key in ("l", "b") and board.current:
            self._lesson(board.current, 1 if key == "l" else -1)
        elif key == "x" and board.current:
            self._reset(board.current, sure=resetting)
        elif not self.redraws:
            return
        self.draw()

    def _next(self) -> None:
        following = self.board.following()
        if following is None or following == self.board.current:
            self.board.notice = _("There is no other step left to do.")
            return
        self._turn_to(following)
        self._ask(following)

    def _all(self) -> None:
        self.board.view, self.board.seed = "all", grading.new_seed()
        self.asked.clear()
        self.waiting = list(self.board.names)

    def _hint(self, name: str) -> None:
        try:
            self.board.hints = lessons.next_hint(name, self.board.folder)
            self.board.view = "hints"
        except lessons.NoLesson:
            self.board.notice = _("There are no hints for {step}.").format(step=name)

    def _lesson(self, name: str, turn: int) -> None:
        try:
            last = len(boards.pages(self.board, self.console)) - 1
        except lessons.NoLesson:
            self.board.notice = _("There is no lesson for {step}.").format(step=name)
            return
        if not self.redraws:
            self.console.print(lessons.Lesson(lessons.lesson(name)))
        elif self.board.view != "lesson":
            self.board.view, self.board.page = "lesson", 0
        elif self.board.page + turn > last:
            self.board.view = "verdict"
        else:
            self.board.page = max(self.board.page + turn, 0)

    def _reset(self, name: str, *, sure: bool) -> None:
        if not sure:
            self.resetting = True
            self.board.notice = _("Press x again to put the stub back in {file}; your work is kept beside it.").format(
                file=self.board.file(name)
            )
            return
        try:
            self.board.notice = lessons.told(lessons.reset(name, self.board.folder))
            self.folder.changed()  # this save is known
            self._ask(name)
        except lessons.NoStub:
            self.board.notice = _("The stub of {step} is not in this copy of the kit.").format(step=name)
        except OSError as error:
            self.board.notice = _("Nothing was changed: {reason}.").format(reason=error.strerror or error)

    # --- what is said ---

    def _event(self, pause: float) -> Event:
        if self.grading is not None:
            pause = min(pause, SLOW)
        try:
            return self.events.get(timeout=pause)
        except queue.Empty:
            return Look()

    def _answer(self, notice: str) -> None:
        self.board.notice = notice
        if not self.redraws:
            self.console.print(notice)
            return
        self.draw()

    def _say_progress(self) -> None:
        """In a pipe: the progress, when nothing waits and it is another than was said last."""
        line = boards.progress(self.board).plain
        if not self.redraws and not self.waiting and self.grading is None and line != self.said:
            self.said = line
            self.console.print(line)


def half_written(read: submission.Submission, name: str) -> str:
    """One line that says where the file of a step does not parse yet; empty when it does, or is not there."""
    if name not in read.sources:
        return ""
    shown, source = read.sources[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, shown, "exec", dont_inherit=True)
    except SyntaxError as error:
        return _("{file}, line {line}: not Python yet ({reason}).").format(
            file=shown, line=error.lineno or 1, reason=plain(error.msg)
        )
    except (ValueError, RecursionError, MemoryError) as error:
        return _("{file}: not Python yet ({reason}).").format(file=shown, reason=error or type(error).__name__)
    return ""


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Turns the signals that ask a process to end into an exception, so that everything is put in order first."""

    def end(number: int, frame: object) -> None:
        sys.exit(128 + number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    previous = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def run(folder: Path, start: str | None, device: str = "cpu", required: tuple[str, ...] = ()) -> None:
    """Watches a folder of step files until `q`, Ctrl-C or a signal; every process is ended and the terminal put back.

    Raises submission.NoSubmission when there is no such folder, grading.NotIsolated where one of the `required` layers
    is missing: before a line of a submission has run.
    """
    if not folder.is_dir():
        raise submission.NoSubmission(str(folder))
    console = screen.console()
    session = Watch(folder, start, device, console, required)
    with contextlib.suppress(KeyboardInterrupt):
        session.run()
    console.print(_("To go on, type: make watch"))
