"""Watch mode: saves are graded as they happen, by a grader kept warm.

One thread handles all events in order: a key, a poll of the folder, a verdict. Keys and grading each have a thread that
only sends events, so code that never ends blocks nothing.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.control import Control

from grader.base.language import gettext as _
from grader.base.results import StepResult
from grader.course import choice, lessons, submissions
from grader.judge import grader
from grader.learner import keyboard, saves, syntax
from grader.learner import watch_view as boards
from grader.learner.background import BackgroundGrader, Dropped, Event, Key, Look, NothingGraded, StepDone
from grader.report import console as screen

LONG = 1.0  # seconds after which an outdated run is cancelled: a restart takes about as long
SLOW = 0.3  # seconds after which the screen shows which step is being checked
TURNS = {"l": 1, keyboard.PAGE_DOWN: 1, keyboard.PAGE_UP: -1}  # keys that turn the pages of a lesson, and by how many
LEAVES = {*TURNS, keyboard.DRAW_AGAIN}  # keys that do not leave a lesson
DIGITS_SECONDS = 1.0  # after which a number is complete: 1 may be the first digit of 12
ENTER = ("\n", "\r")


class Page(Protocol):
    """A page in the browser that shows a session beside the terminal."""

    def update(self) -> None:
        """Shows what has changed."""

    def close(self) -> None:
        """Ends it."""


class Watch:
    """One session: the queue of steps, what is shown, and what each event does."""

    def __init__(
        self, folder: Path, start: str | None, device: str, console: Console, required: tuple[str, ...] = (),
        names: Sequence[str] = (), *, page: Callable[[Watch], Page] | None = None,
    ) -> None:  # fmt: skip
        # Steps of other tracks: one that is begun meanwhile joins, unless steps were chosen.
        self.elsewhere = [] if names else choice.step_names()
        names = _watched(folder, start, names)
        self.board = boards.Board(folder, list(names), current=start, seed=grader.new_seed())
        self.console, self.device, self.required, self.opens = console, device, required, page
        self.page: Page | None = None
        self.redraws = console.is_terminal and not console.is_dumb_terminal
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.folder = saves.Folder(folder)
        self.waiting = [start] if start else []
        self.waiting += [name for name in names if name != start]
        self.asked = {start} if start else set[str]()
        self.grading: str | None = None
        self.since = 0.0
        self.resetting = self.dropped = False
        self.said = self.digits = ""
        self.typed_at = 0.0

    def run(self) -> None:
        """Runs until the learner ends it. Raises NotIsolated where a required layer is missing."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(_ended_by_signals())
            background = BackgroundGrader(self.events.put, self.device, self.required)
            stack.callback(background.close)
            if self.opens:
                self.page = self.opens(self)
                stack.callback(self.page.close)
                if not self.redraws:
                    self.console.print(_("The page is {file}").format(file=self.board.address), soft_wrap=True)
            self.board.keys = stack.enter_context(keyboard.listening(lambda key: self.events.put(Key(key))))
            self.draw()
            while True:
                self.start_next(background)
                event = self._event()
                if isinstance(event, Key) and keyboard.meaning(event.name) == "q":
                    return
                self.take(event)
                if self.page:
                    self.page.update()

    def take(self, event: Event) -> None:
        """Handles an event. Raises NotIsolated when the grader has refused."""
        match event:
            case Key(name):
                self._press(keyboard.meaning(name))
            case Look():
                if self.digits and time.monotonic() - self.typed_at > DIGITS_SECONDS:
                    self._go()
                self._look()
            case StepDone(name, result, failure):
                self._hear(name, result, failure)
            case NothingGraded(reason):
                raise grader.NotIsolated(reason)
            case Dropped(name):
                self.grading, self.board.busy = None, ""
                self._wait_for([name])  # perhaps it is just done, and this is the next one
        if self.redraws and self.grading and not self.board.busy and time.monotonic() - self.since > SLOW:
            self.board.busy = self.grading
            self.draw()

    def draw(self) -> None:
        """Shows the board: redraws a terminal, appends lines elsewhere."""
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

    def start_next(self, background: BackgroundGrader) -> None:
        """Starts the next step of the queue, with the files as they are now.

        Cancels a long, outdated run for it, as of an endless loop that has been fixed meanwhile. Never the first run,
        for which torch has to load, and never two in a row: with an editor that saves all the time, a slow machine
        would never finish.
        """
        outdated = self.grading in self.waiting and time.monotonic() - self.since > LONG
        if outdated and self.board.results and not self.dropped:
            self.dropped = True
            background.drop()
        while self.grading is None and self.waiting:
            name = self.waiting.pop(0)
            try:
                read = submissions.read(self.board.folder)
            except submissions.NoSubmission:
                self.waiting.clear()
                self.answer(_("The folder {folder} is gone.").format(folder=self.board.folder))
                return
            if name == self.board.current:
                self.board.calm = syntax.half_written(read, name)
                if self.board.calm:
                    self.asked.discard(name)
                    self.draw()
                    continue
            self.grading, self.since = name, time.monotonic()
            background.grade(read, name, self.board.seed)
        if self.grading is None:
            following = self.board.following()
            background.prepare([following] if following else [], self.board.seed)

    def _hear(self, name: str, result: StepResult | None, failure: str) -> None:
        self.grading, self.board.busy, self.dropped = None, "", False
        if result is None:
            self.waiting.clear()
            self.answer(_("The grader itself failed ({reason}). Press r or save again.").format(reason=failure))
            return
        before = self.board.results.get(name)
        self.board.results[name] = result
        if name == self.board.current and result.status == "pass":
            self.board.hints = None
        if before is not None and (before.status == "pass") != (result.status == "pass"):
            self._wait_for(self._that_may_use(name))
        asked = name in self.asked
        self.asked.discard(name)
        if self.board.current is None and (not result.is_settled or not self.waiting):
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
        """The later steps that were begun: their verdicts may change with this one."""
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
        self.board.names = sorted({*self.board.names, *(name for name in changed if name in self.elsewhere)})
        steps = [name for name in changed if name in self.board.names]
        if self.board.current in steps:  # several files saved at once: the step that is shown comes first
            steps = [self.board.current, *(name for name in steps if name != self.board.current)]
        if not steps and self.board.current:
            steps = [self.board.current]  # a learner's own module, which a step may import
        for name in reversed(steps):
            self._ask(name)
        if steps:
            self._turn_to(steps[0])

    def _turn_to(self, name: str) -> None:
        """Shows a step; clears the messages about another."""
        if name != self.board.current:
            self.board.hints = None
            self.board.calm = ""
        self.board.current, self.board.view, self.board.notice, self.resetting = name, "verdict", "", False

    # --- keys ---

    def _press(self, key: str) -> None:
        board = self.board
        if key in board.names:  # from the page
            self._turn_to(key)
            self._ask(key)
        if key.isdecimal() and key.isascii():
            self._digit(key)
            return
        if self.digits and key in ENTER:
            self._go()
            return
        self.digits = ""
        if key not in LEAVES and board.view == "lesson":
            board.view = "verdict"
        resetting, self.resetting, board.notice = self.resetting, False, ""
        if key == "a":
            self._all()
        elif key == "n" and board.current:
            self._next()
        elif key == "r" and board.current:
            board.view, board.seed = "verdict", grader.new_seed()
            self._ask(board.current)
            return
        elif key == "h" and board.current:
            self._hint(board.current)
        elif board.current and (key == "l" or key in TURNS and board.view == "lesson"):
            self._lesson(board.current, TURNS[key])
        elif key == "x" and board.current:
            self._reset(board.current, sure=resetting)
        elif not self.redraws:
            return
        self.draw()

    def _digit(self, digit: str) -> None:
        """One more digit of a step's number; the step is shown as soon as no other number begins so."""
        self.digits, self.typed_at = (self.digits + digit).lstrip("0"), time.monotonic()
        longer = [name for name in self.board.names if str(int(name[4:6])).startswith(self.digits)]
        if self.digits and len(longer) <= 1:
            self._go()
            return
        self.board.notice = _("Step {digits}…").format(digits=self.digits)
        self.draw()

    def _go(self) -> None:
        """Shows the step whose number was typed."""
        number, self.digits = self.digits, ""
        name = next((name for name in self.board.names if name[4:6] == number.zfill(2)), None)
        if name is None:
            self.answer(_("No step {number} here. To begin a track, type: make begin TRACK=…").format(number=number))
            return
        self._turn_to(name)
        self._ask(name)
        self.draw()

    def _next(self) -> None:
        following = self.board.following()
        if following is None or following == self.board.current:
            self.board.notice = _("There are no other steps left to do.")
            return
        self._turn_to(following)
        self._ask(following)

    def _all(self) -> None:
        self.board.view, self.board.seed = "all", grader.new_seed()
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
            self.console.print(lessons.Lesson(lessons.reading(name)))
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
            self.folder.changed()  # this save is not news
            self._ask(name)
        except lessons.NoStub:
            self.board.notice = _("The stub of {step} is not in this copy of the kit.").format(step=name)
        except OSError as error:
            self.board.notice = _("Nothing was changed: {reason}.").format(reason=error.strerror or error)

    # --- messages ---

    def _event(self) -> Event:
        try:
            return self.events.get(timeout=saves.LOOK_EVERY)
        except queue.Empty:
            return Look()

    def answer(self, notice: str) -> None:
        """Says a sentence below the verdict."""
        self.board.notice = notice
        if not self.redraws:
            self.console.print(notice)
            return
        self.draw()

    def _say_progress(self) -> None:
        """In a pipe: prints the progress, when the queue is empty and it has changed."""
        line = boards.progress(self.board).plain
        if not self.redraws and not self.waiting and self.grading is None and line != self.said:
            self.said = line
            self.console.print(line)


def _watched(folder: Path, start: str | None, asked: Sequence[str]) -> list[str]:
    """The steps of a session: the requested ones, else the core and what was begun; and the first to show."""
    read = submissions.read(folder)
    names = list(asked) or choice.by_default(read.sources, read.problems)
    return sorted({*names, start} if start else names)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Turns termination signals into an exception, so that everything is cleaned up first."""

    def end(number: int, frame: object) -> None:
        sys.exit(128 + number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    previous = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def run(
    folder: Path, start: str | None, device: str = "cpu", required: tuple[str, ...] = (), names: Sequence[str] = (),
    *, page: Callable[[Watch], Page] | None = None,
) -> None:  # fmt: skip
    """Watches a folder of step files until `q`, Ctrl-C or a signal; then ends every process and restores the terminal.

    The session covers the steps in `names`, by default the core and whatever else was begun; `page` makes the page
    that shows it, too.

    Raises submissions.NoSubmission when there is no such folder, and NotIsolated where one of the `required` layers is
    missing, before any code of a submission runs.
    """
    if not folder.is_dir():
        raise submissions.NoSubmission(str(folder))
    console = screen.console()
    session = Watch(folder, start, device, console, required, names, page=page)
    with contextlib.suppress(KeyboardInterrupt):
        session.run()
    console.print(_("To continue, type: make course") if page else _("To continue, type: make watch"))
