"""Watch mode: saves are graded as they happen, by a grader kept warm.

One thread handles all events in order: a key, a poll of the folder, a verdict. Keys and grading each have a thread that
only sends events, so code that never ends blocks nothing.
"""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console

from grader.base.language import gettext as _
from grader.base.results import StepResult
from grader.course import choice, submissions
from grader.judge import grader
from grader.learner import keyboard, saves, syntax, verdicts
from grader.learner import watch_view as boards
from grader.learner.background import BackgroundGrader, CheckAsked, Dropped, Event, Key, Look, NothingGraded, StepDone
from grader.learner.watch_keys import WatchSession
from grader.report import console as screen

LONG = (
    1.0  # seconds after which a run is ended for a newer save even if the one before was: saves may come all the time
)
SLOW = 0.3  # seconds after which the screen shows which step is being graded


class Page(Protocol):
    """A page in the browser that shows a session next to the terminal."""

    def update(self) -> None:
        """Shows what has changed."""

    def close(self) -> None:
        """Ends the page's server."""


class Watch(WatchSession):
    """One session: the steps it covers, and what each event does."""

    def __init__(
        self, folder: Path, start: str | None, device: str, console: Console, required: tuple[str, ...] = (),
        names: Sequence[str] = (), *, page: Callable[[Watch], Page] | None = None,
    ) -> None:  # fmt: skip
        """Reads the folder and its last verdicts, and queues the steps without one, `start` first. `required`:
        isolation layers; `names`: the steps to watch, by default the learner's; `page` makes the page that shows the
        session."""
        # Steps of other tracks: one that is started meanwhile joins, unless steps were chosen.
        self.chosen = list(names)
        read = submissions.read(folder)
        board = boards.Board(folder, self._watched(read, start), current=start, seed=grader.new_seed(), read=read)
        super().__init__(board, console, {start} if start else set())
        self.device, self.required, self.opens = device, required, page
        self.page: Page | None = None
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        for name, saved in verdicts.read(folder, read).items():
            if name in self.board.names:
                self.board.results[name], self.board.at_of[name] = saved.result, saved.at
        self.waiting = [name for name in self.board.names if name not in self.board.results and name != start]
        self.waiting = [start, *self.waiting] if start else self.waiting
        self.saved: tuple[str, int] | None = None  # the step that was last saved, and a count of such saves
        self.broken = set[str]()  # steps that were not graded since they were no valid Python
        self.graded = read  # what the grading in progress is about
        self.since = 0.0
        self.dropped = self.dropped_before = False
        self.waited = ""
        self.typed = False  # keys come in lines, as in an editor's console

    def run(self) -> None:
        """Runs until the learner ends it. Raises NotIsolated if a required layer is missing."""
        with contextlib.ExitStack() as stack:
            background = BackgroundGrader(self.events.put, self.device, self.required)
            stack.callback(background.close)
            if self.opens:
                self.page = self.opens(self)
                stack.callback(self.page.close)
                if not self.redraws:
                    self.console.print(_("The page is open at {address}", address=self.board.address), soft_wrap=True)
            self.board.keys = stack.enter_context(keyboard.listening(lambda key: self.events.put(Key(key))))
            self.typed = not self.board.keys and stack.enter_context(
                keyboard.lines(lambda key: self.events.put(Key(key)))
            )
            self.draw()
            while True:
                self.start_next(background)
                event = self._event()
                if isinstance(event, Key) and self._ends(event.name):
                    return
                self.take(event)
                if self.page:
                    self.page.update()

    def _ends(self, key: str) -> bool:
        """Whether this key ends the session; in a lesson `q` only closes that."""
        return key in keyboard.END or keyboard.meaning(key) == "q" and self.board.view != "lesson"

    def take(self, event: Event) -> None:
        """Handles an event: changes the state and the screen. Raises NotIsolated if the grader has refused to grade."""
        match event:
            case Key(name):
                self.keys.press(keyboard.meaning(name))
            case Look():
                self.keys.look()
                self._poll()
            case StepDone(name, result, failure):
                self._take_verdict(name, result, failure)
            case NothingGraded(reason):
                raise grader.NotIsolated(reason)
            case CheckAsked(name, title, failed):
                if self.board.grading and name == self.grading:
                    # What was said stays while the checks are asked again, call by call.
                    self.board.grading.failed = failed or self.board.grading.failed or self.board.grading.says
                    self.board.grading.check, self.board.grading.asked = title, time.monotonic()
            case Dropped(name):
                self._forget_grading()
                if self.stopping:
                    self.stopping, self.board.stopped, self.board.notice = False, name, ""
                    self.asked.discard(name)
                    self.draw()
                else:
                    self._queue([name])
        self._show_waiting()

    def _show_waiting(self) -> None:
        """Shows that the current grading takes longer than SLOW seconds, if that would change the screen: a terminal
        shows the seconds, a pipe one line. Called after each event."""
        grading = self.board.grading
        if grading is None or time.monotonic() - grading.since < SLOW:
            return
        self.board.busy = grading.step
        shown = f"{grading.step} {grading.since}" + (f"{grading}{grading.says}" if self.redraws else grading.says)
        if shown == self.waited:
            return
        self.waited = shown
        if self.redraws:
            self.draw()
        elif grading.step in self.asked:
            self.console.print(grading.says or str(grading))
            if self.typed:
                self.console.print(_("To stop it, type s and Enter."))

    def _forget_grading(self) -> None:
        """Notes that nothing is being graded."""
        self.grading, self.board.grading, self.board.busy, self.dropped = None, None, "", False

    # --- grading ---

    def start_next(self, background: BackgroundGrader) -> None:
        """Starts to grade the next step of the queue, with the files as they are now; one that is no valid Python is
        only noted.

        A newer save ends the grading of what it replaces, and that of another step. Two in a row only after a while: an
        editor may save all the time.
        """
        if self.grading and not self.dropped and (self.stopping or self._has_newer()):
            self.dropped = self.dropped_before = True
            background.drop()
        while self.grading is None and self.waiting:
            name = self.waiting.pop(0)
            try:
                self.board.read = read = submissions.read(self.board.folder)
            except submissions.NoSubmission:
                self.waiting.clear()
                self.answer(_("The folder {folder} is gone.").format(folder=self.board.folder))
                return
            if name == self.board.current:
                self.board.calm = syntax.half_written(read, name)
                if self.board.calm:
                    self._note_broken(name)
                    continue
            self.grading, self.since, self.graded = name, time.monotonic(), read
            self.board.grading, self.board.stopped = boards.InProgress(name, self.since), ""
            background.grade(read, name, self.board.seed)
        if self.grading is None:
            following = self.board.following()
            background.prepare([following] if following else [], self.board.seed)

    def _note_broken(self, name: str) -> None:
        """Notes a file that is not valid Python yet: it is not graded, but steps that import it are, if they passed."""
        self.asked.discard(name)
        self.broken.add(name)
        if self.board.passes(name):
            del self.board.results[name]
            self._queue(self._that_may_use(name))
        self.draw()

    def _has_newer(self) -> bool:
        """Whether a newer save is queued for which the grading in progress is to be ended."""
        newer = bool(self.waiting) and self.waiting[0] in self.asked and self.latest > self.since
        return newer and (not self.dropped_before or time.monotonic() - self.since > LONG)

    def _take_verdict(self, name: str, result: StepResult | None, failure: str) -> None:
        """Saves and shows the verdict on a step, and queues the steps that depend on it. Without a `result` the grader
        failed: shows the reason `failure`, and empties the queue."""
        self._forget_grading()
        self.stopping = self.dropped_before = False
        if result is None:
            self.waiting.clear()
            self.asked.clear()
            self.answer(_("The grader itself failed ({reason}). Press r or save again.").format(reason=failure))
            return
        before = self.board.results.get(name)
        self.board.results[name] = result
        self.board.at_of[name] = time.strftime("%H:%M:%S")
        verdicts.write(self.board.folder, self.graded, [result])
        if name == self.board.current and result.status == "pass":
            self.board.hints = None
        changes_sides = before is not None and (before.status == "pass") != (result.status == "pass")
        if changes_sides or name in self.broken:
            self._queue(self._that_may_use(name))
        self.broken.discard(name)
        was_asked = name in self.asked
        self.asked.discard(name)
        if self.board.current is None and (not result.is_settled or not self.waiting):
            self.board.current, was_asked = name, True
        if name == self.board.current:
            self.board.at = time.strftime("%H:%M:%S")
        if self.redraws or was_asked and name == self.board.current:
            self.draw()
            return
        if self.board.view == "all" and not self.waiting:
            self.board.view = "verdict"
            self.console.print(boards.all_steps(self.board))
        self._say_progress()

    def _that_may_use(self, name: str) -> list[str]:
        """The graded steps with work that import this one, directly or not: their verdicts may change with it."""
        graded = [step for step in self.board.names if step != name and step in self.board.results]
        return [
            step
            for step in graded
            if self.board.results[step].status != "todo" and name in verdicts.uses(self.board.read, step)
        ]

    def _queue(self, names: list[str]) -> None:
        """Adds these steps to the end of the queue, except those that are in it."""
        self.waiting += [name for name in names if name not in self.waiting]

    # --- saves ---

    def _poll(self) -> None:
        """Polls the folder, and queues the steps with files that have changed."""
        changed = self.folder.changed()
        if not changed:
            return
        before = set(self.board.names)
        if self.board.folder.is_dir():
            self._read_again()
        self._queue([name for name in self.board.names if name not in before])  # the stubs of a track just started
        steps = [name for name in changed if name in before & set(self.board.names)]
        if self.board.current in steps:  # several files saved at once: the step that is shown comes first
            steps = [self.board.current, *(name for name in steps if name != self.board.current)]
        if not steps and self.board.current:
            steps = [self.board.current]  # a learner's own module, which a step may import
        for name in reversed(steps):
            self.ask(name)
        if steps:
            self.turn_to(steps[0])
        written = [name for name in steps if self.board.progress.steps[name].is_written]
        if written:
            self.saved = (written[0], self.saved[1] + 1 if self.saved else 1)

    def _read_again(self) -> None:
        """Reads the files and updates which steps are watched: those that were chosen, else the core and those with a
        file."""
        self.board.read = submissions.read(self.board.folder)
        self.board.names = self._watched(self.board.read, None)
        for name in self.board.results.keys() - set(self.board.names):
            del self.board.results[name]
        self.waiting = [name for name in self.waiting if name in self.board.names]
        if self.board.current not in self.board.names:
            self.board.current = self.board.following() or self.board.names[0]

    def _watched(self, read: submissions.Submission, start: str | None) -> list[str]:
        """The steps of the session, in order: those that were chosen, else the core and every step with a file; and the
        step `start`."""
        names = self.chosen or choice.started(read.sources, read.problems)
        return sorted({*names, start} if start else names)

    # --- messages ---

    def _event(self) -> Event:
        """The next event, or Look after LOOK_EVERY seconds without one."""
        try:
            return self.events.get(timeout=saves.LOOK_EVERY)
        except queue.Empty:
            return Look()


def run(
    folder: Path, start: str | None, device: str = "cpu", required: tuple[str, ...] = (), names: Sequence[str] = (),
    *, page: Callable[[Watch], Page] | None = None,
) -> None:  # fmt: skip
    """Watches a folder of step files until `q`, Ctrl-C or a signal; then ends every process and restores the terminal.

    The session covers the steps in `names`, by default the core and every step with a file; `page` makes the page
    that shows it, too.

    Raises submissions.NoSubmission if there is no such folder, and NotIsolated if one of the `required` layers is
    missing, before any code of a submission runs.
    """
    if not folder.is_dir():
        raise submissions.NoSubmission(str(folder))
    console = screen.console()
    session = Watch(folder, start, device, console, required, names, page=page)
    try:
        session.run()
    except KeyboardInterrupt as stopped:
        if stopped.args:  # by a signal, which is said further up
            raise
    console.print(_("To continue, type: make course") if page else _("To continue, type: make watch"))
