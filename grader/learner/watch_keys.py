"""The steps that a watch session shows and waits for, and its keys, which are the page's shortcuts too."""

from __future__ import annotations

import time

from rich.console import Console
from rich.control import Control

from grader.base.language import gettext as _
from grader.course import lessons
from grader.judge import grader
from grader.learner import keyboard, saves
from grader.learner import watch_view as boards

TURNS = {"l": 1, keyboard.PAGE_DOWN: 1, keyboard.PAGE_UP: -1}  # keys that turn the pages of a lesson, and by how many
LEAVES = {*TURNS, keyboard.DRAW_AGAIN}  # keys that do not leave a lesson
DIGITS_SECONDS = 1.0  # after which a number is complete: 1 may be the first digit of 12
ENTER = ("\n", "\r")


class WatchSession:
    """The steps of a session that wait to be graded, and the board that shows them."""

    def __init__(self, board: boards.Board, console: Console, asked: set[str]) -> None:
        self.board, self.console, self.asked = board, console, asked
        self.waiting: list[str] = []
        self.redraws = console.is_terminal and not console.is_dumb_terminal
        self.folder = saves.Folder(board.folder)
        self.latest = 0.0  # when a step was last asked for: what was asked before a grading began does not end it
        self.grading: str | None = None
        self.stopping = False
        self.said = ""
        self.keys = Keys(self)

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

    def ask(self, name: str) -> None:
        """Puts a step first in the queue; its verdict is shown as soon as it is there."""
        self.waiting = [name] + [other for other in self.waiting if other != name]
        self.asked.add(name)
        self.latest = time.monotonic()

    def turn_to(self, name: str) -> None:
        """Makes a step the one that is shown, and clears the messages about another; draws nothing yet."""
        if name != self.board.current:
            self.board.hints = None
            self.board.calm = ""
        self.board.current, self.board.view, self.board.notice, self.keys.resetting = name, "verdict", "", False

    def answer(self, notice: str) -> None:
        """Shows a sentence below the verdict."""
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


class Keys:
    """The keys of one session, with the digits typed so far and whether `x` was pressed once."""

    def __init__(self, session: WatchSession) -> None:
        self.session, self.board = session, session.board
        self.digits, self.typed_at, self.resetting = "", 0.0, False

    def look(self) -> None:
        """Shows the step with the number that was typed, if DIGITS_SECONDS have passed since its last digit."""
        if self.digits and time.monotonic() - self.typed_at > DIGITS_SECONDS:
            self._go()

    def press(self, key: str) -> None:
        """Does what a key means; the name of a step, from the page, shows and grades it."""
        board = self.board
        if key in board.names:  # from the page
            self.session.turn_to(key)
            self.session.ask(key)
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
            self.session.ask(board.current)
            return
        elif key == "h" and board.current:
            self._hint(board.current)
        elif board.current and (key == "l" or key in TURNS and board.view == "lesson"):
            self._lesson(board.current, TURNS[key])
        elif key == "s" and self.session.grading:
            self.session.stopping, board.notice = True, _("Stopping …")
        elif key == "x" and board.current:
            self._reset(board.current, sure=resetting)
        elif not self.session.redraws:
            return
        self.session.draw()

    def _digit(self, digit: str) -> None:
        """Takes one more digit of a step's number, and shows the step as soon as no other number starts so."""
        self.digits, self.typed_at = (self.digits + digit).lstrip("0"), time.monotonic()
        longer = [name for name in self.board.names if str(int(name[4:6])).startswith(self.digits)]
        if self.digits and len(longer) <= 1:
            self._go()
            return
        self.board.notice = _("Step {digits}…").format(digits=self.digits)
        self.session.draw()

    def _go(self) -> None:
        """Shows the step with the number that was typed and has it graded, or says that no step has it."""
        number, self.digits = self.digits, ""
        name = next((name for name in self.board.names if name[4:6] == number.zfill(2)), None)
        if name is None:
            self.session.answer(
                _("No step {number} here. To start a track, type: make begin TRACK=…").format(number=number)
            )
            return
        self.session.turn_to(name)
        self.session.ask(name)
        self.session.draw()

    def _next(self) -> None:
        """Turns to the next step to do and has it graded, or notes that nothing is left."""
        following = self.board.following()
        if following is None and self.board.progress.ungraded:
            self.board.notice = _("Looking at every step …")
            return
        if following is None or following == self.board.current:
            self.board.notice = _("There are no other steps left to do.")
            return
        self.session.turn_to(following)
        self.session.ask(following)

    def _all(self) -> None:
        """Queues every step, under a new seed, and shows them in a table."""
        self.board.view, self.board.seed = "all", grader.new_seed()
        self.session.asked.clear()
        self.session.waiting = list(self.board.names)

    def _hint(self, name: str) -> None:
        """Shows one more hint of a step, or a notice if it has none."""
        try:
            self.board.hints = lessons.next_hint(name, self.board.folder)
            self.board.view = "hints"
        except lessons.NoLesson:
            self.board.notice = _("There are no hints for {step}.").format(step=name)

    def _lesson(self, name: str, turn: int) -> None:
        """Shows the step's lesson, or turns its pages by `turn`, 1 or -1; after the last page, the verdict."""
        try:
            last = len(boards.pages(self.board, self.session.console)) - 1
        except lessons.NoLesson:
            self.board.notice = _("There is no lesson for {step}.").format(step=name)
            return
        if not self.session.redraws:
            self.session.console.print(lessons.Lesson(lessons.reading(name)))
        elif self.board.view != "lesson":
            self.board.view, self.board.page = "lesson", 0
        elif self.board.page + turn > last:
            self.board.view = "verdict"
        else:
            self.board.page = max(self.board.page + turn, 0)

    def _reset(self, name: str, *, sure: bool) -> None:
        """Puts the stub back if the user is `sure`, else asks for a second press; notes the result."""
        if not sure:
            self.resetting = True
            self.board.notice = _("Press x again to put the stub back in {file}; your work is kept next to it.").format(
                file=self.board.file(name)
            )
            return
        try:
            self.board.notice = lessons.as_sentence(lessons.reset(name, self.board.folder))
            self.session.folder.changed()  # this save is not news
            self.session.ask(name)
        except lessons.NoStub:
            self.board.notice = _("The stub of {step} is not in this copy of the kit.").format(step=name)
        except OSError as error:
            self.board.notice = _("Nothing was changed: {reason}.").format(reason=error.strerror or error)
