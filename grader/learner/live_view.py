"""What watch mode shows in the browser: pure functions from its board to HTML."""

from __future__ import annotations

import ast
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from grader.base import language
from grader.base.language import gettext as _
from grader.base.open_private import open_private
from grader.base.results import Report, StepResult, leading, total
from grader.base.syntax import parsed
from grader.course import lessons, submissions
from grader.learner.live_server import LiveServer
from grader.learner.watch_view import Board, headline, progress
from grader.report import page
from grader.report import terminal as reports


@dataclass(frozen=True)
class CodeLine:
    """A line of the learner's file; `about`: the leading check is about it."""

    number: int
    text: str
    about: bool


class LivePage:
    """A session's page: opened in the browser, and sent the board whenever that has changed."""

    def __init__(self, board: Board, press: Callable[[str], None]) -> None:
        self.board = board
        self.shown: tuple[object, ...] = ()
        self.server = LiveServer(shell, press)
        board.address = self.server.address
        self.update()
        self.opened = open_private(board.address)

    def update(self) -> None:
        """Sends the board, if it has changed."""
        board = self.board
        now = (
            board.current, board.view, board.calm, board.notice, board.busy, board.at, board.hints, len(board.results),
            id(board.results.get(board.current or "")),
        )  # fmt: skip
        if now == self.shown:
            return
        self.shown = now
        sources = submissions.read(board.folder).sources if board.folder.is_dir() else {}
        self.server.show(state(board, sources.get(board.current or "", ("", ""))[1]))

    def close(self) -> None:
        """Ends the server."""
        self.server.close()
        if self.opened:
            self.opened.unlink(missing_ok=True)


def shell() -> tuple[str, str]:
    """The page without content, and the policy that lets its own script run and nothing else."""
    nonce = secrets.token_urlsafe(16)
    keys = [("n", _("next step")), ("h", _("hint")), ("l", _("lesson")), ("r", _("run again")), ("a", _("all"))]
    text = page.environment().get_template("live.html.j2").render(language=language.current(), keys=keys, nonce=nonce)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; connect-src 'self'"
    return text, f"{policy}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def state(board: Board, source: str) -> dict[str, str]:
    """The title and the content of the page; `source` is the current step's file."""
    name = board.current
    result = board.results.get(name or "")
    shows_verdict = board.view in ("verdict", "hints") and result is not None
    everything = [board.results[one] for one in board.names if one in board.results] if board.view == "all" else []
    html = page.environment().get_template("live_state.html.j2").render(
        marks={status: mark for status, (mark, _style) in reports.MARKS.items()}, status_word=reports.status_word,
        progress=progress(board).plain.strip("█░ "), notice=board.notice,
        busy=_("checking {step} …").format(step=board.busy) if board.busy else "",
        listing=_listing(source, result) if name and board.view != "all" else [], file=board.file(name) if name else "",
        calm=board.calm or ("" if result else _("Loading torch, once …")),
        headline=headline(result, board.at).plain if result else "",
        said=_verdict(board, result) if result and shows_verdict and not board.calm else "",
        hints=_hints(board) if board.view == "hints" else [], lesson=_lesson(name) if board.view == "lesson" else "",
        steps=everything,
    )  # fmt: skip
    mark = reports.MARKS[result.status][0] if result else "…"
    return {"title": f"{mark} {name or ''}", "html": html}


def _verdict(board: Board, result: StepResult) -> Markup:
    score, most = total([result])
    report = Report(
        submission=str(board.folder), seed=board.seed, isolation=[], devices={}, score=score, max_score=most,
        steps=[result],
    )  # fmt: skip
    return Markup(page.fragment(report, as_images=False))


def _listing(source: str, result: StepResult | None) -> list[CodeLine]:
    """The file, with the lines that the leading check is about."""
    check = leading(result.checks) if result else None
    first, last = _place(source, check.about) if check else (0, -1)
    return [CodeLine(number, text, first <= number <= last) for number, text in enumerate(source.splitlines(), 1)]


def _place(source: str, name: str) -> tuple[int, int]:
    """The first and the last line of a public name's definition."""
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0, -1
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node.lineno, node.end_lineno or node.lineno
    return 0, -1


def _hints(board: Board) -> list[dict[str, object]]:
    if board.hints is None:
        return []
    title = _("Hint {number} of {total}")
    return [
        {"title": title.format(number=number, total=board.hints.total), "text": page.formatted(hint)}
        for number, hint in enumerate(board.hints.given, 1)
    ]


def _lesson(name: str | None) -> Markup:
    try:
        return page.formatted(lessons.reading(name)) if name else Markup()
    except lessons.NoLesson:
        return Markup()
