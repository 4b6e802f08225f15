"""The course's page: a session of watch mode that is shown in the browser, and the routes that the page asks."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from grader.base import language
from grader.course import lessons, submissions
from grader.learner import watch
from grader.learner.background import Key
from grader.learner.watch import Watch
from grader.report import page as report_page
from grader.web import explore, overview, verdict
from grader.web.explore_process import GPTProcess
from grader.web.server import TEMPLATES, PageServer
from grader.web.texts import texts

PLACES = ("/", "/step/{number:int}", "/lab/{name}", "/explore")


class CoursePage:
    """What watch mode's session is shown on: a server, and the last state that was sent."""

    def __init__(self, session: Watch, place: str = "", *, opens: bool = True) -> None:
        self.session, self.board = session, session.board
        self.shown = overview.Shown(self.board)
        self.gpt = GPTProcess(self.board.folder, self._right)
        routes = [Route(place, self._shell) for place in PLACES]
        routes += [
            Route("/data/lesson/{step}", self._lesson),
            Route("/data/verdict/{step}", self._verdict),
            Route("/do/{what}/{step}", self._do, methods=["POST"]),
            *explore.routes(self.gpt),
        ]
        self.server = PageServer(routes)
        self.board.address = self.server.address(place or self._first())
        self.update()
        if opens:
            self.server.open(place or self._first())

    def update(self) -> None:
        """Sends the state of the course, if it has changed."""
        state = self.shown.state()
        if state is not None:
            self.server.events.state(state)

    def close(self) -> None:
        """Ends the server."""
        self.server.close()
        self.gpt.close()

    def _right(self) -> frozenset[str]:
        """The steps that passed when they were last graded."""
        return frozenset(name for name in self.board.names if self.board.passes(name))

    def _first(self) -> str:
        return f"/step/{int((self.board.current or self.board.names[0])[4:6])}"

    # --- what the page asks ---

    def _shell(self, request: Request) -> Response:
        given = {"language": language.current(), "texts": texts(explore.TEXTS)}
        data = json.dumps(given, ensure_ascii=False).replace("<", "\\u003c")
        template = report_page.environment(TEMPLATES).get_template("shell.html.j2")
        return HTMLResponse(template.render(language=language.current(), data=data))

    def _lesson(self, request: Request) -> Response:
        name = self._step(request)
        try:
            text = lessons.reading(name) if name else ""
        except lessons.NoLesson:
            text = ""
        return JSONResponse({"html": str(report_page.formatted(text))})

    def _verdict(self, request: Request) -> Response:
        name = self._step(request)
        result = self.board.results.get(name or "")
        sources = submissions.read(self.board.folder).sources if self.board.folder.is_dir() else {}
        html = verdict.html(name, result, sources.get(name, ("", ""))[1]) if name else ""
        return JSONResponse({"html": html})

    def _do(self, request: Request) -> Response:
        name, what = self._step(request), request.path_params["what"]
        if name is None:
            return JSONResponse({}, 404)
        if what == "again":
            self.session.events.put(Key(name))
            self.session.events.put(Key("r"))
        return JSONResponse({})

    def _step(self, request: Request) -> str | None:
        """The step that a path names; None where there is none."""
        asked = request.path_params["step"]
        known = overview.step_titles()
        return asked if asked in known else None


def run(
    folder: Path, start: str | None, device: str = "cpu", required: tuple[str, ...] = (), names: Sequence[str] = (),
    *, place: str = "",
) -> None:  # fmt: skip
    """Watches a folder of step files, shown as a page in the browser, until `q`, Ctrl-C or a signal.

    Raises what `watch.run` raises.
    """
    if not re.fullmatch(r"(?:/[a-z0-9_]+)*", place):
        raise ValueError(place)
    watch.run(folder, start, device, required, names, page=lambda session: CoursePage(session, place))
