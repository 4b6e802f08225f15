"""The course's page: a session of watch mode that is shown in the browser, and the routes that the page asks."""

from __future__ import annotations

import functools
import json
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from grader.base import language, user_key
from grader.course import exercises, lessons, submissions, tracks
from grader.course.steps import step_titles
from grader.learner import watch
from grader.learner.background import Key
from grader.learner.watch import Watch
from grader.report import page as report_page
from grader.web import built, editor, explore, lesson, overview, verdict
from grader.web.explore_process import GPTProcess
from grader.web.labs import LabRoutes
from grader.web.server import TEMPLATES, PageServer, port_of
from grader.web.texts import texts

PLACES = ("/", "/step/{number:int}", "/lab/{name}", "/explore")


class CoursePage:
    """The page of watch mode's session: a server, and the last state that was sent."""

    def __init__(self, session: Watch, place: str = "/", *, opens: bool = True) -> None:
        """Starts to serve the page, and opens it in a browser if `opens`."""
        self.session, self.board = session, session.board
        if self.board.current is None:
            self.board.current = self.board.progress.next_step() or self.board.names[0]
        self.shown = overview.PageState(session)
        self.lessons = functools.cache(self._with_language(lesson.text))
        self.built = built.PictureService(self.board.folder)
        self.labs = LabRoutes(self.board.folder, self._tell, session.device)
        self.gpt = GPTProcess(self.board.folder, self._right, session.device)
        self.editor = editor.scheme()
        self.faults: queue.SimpleQueue[str] = queue.SimpleQueue()
        token = user_key.signed("page", str(self.board.folder.resolve()).encode()) or ""
        port = port_of(self.board.folder)
        self.server = PageServer(self._routes(), port, report=self.faults.put, token=token)
        self.board.address = self.server.address(place)
        self.update()
        threading.Thread(target=self._load, daemon=True).start()
        if opens:
            self.server.open(place)

    def update(self) -> None:
        """Sends the state of the course to the page, if it has changed, and prints the server's faults on the
        terminal."""
        while not self.faults.empty():
            self.session.answer(self.faults.get())
        state = self.shown.state()
        if state is not None:
            self.server.events.tell("state", state, stays=True)

    def close(self) -> None:
        """Ends the server, and the processes that run for it."""
        self.labs.close()
        self.gpt.close()
        self.built.close()
        self.server.close()

    # --- what the page asks ---

    def _routes(self) -> list[Route]:
        """The addresses of the page, each with the method that answers it."""
        asked: dict[str, Callable[[str, Request], dict[str, Any]]] = {
            "lesson": self._lesson,
            "verdict": self._verdict,
            "solution": self._solution,
            "built": self._built,
        }
        done: dict[str, Callable[[str], dict[str, Any]]] = {
            "again": self._again, "hint": self._hint, "reset": self._reset, "begin": self._begin, "stop": self._stop,
        }  # fmt: skip

        def get(request: Request) -> Response:
            """Answers a question about a step, as JSON; 404 for an unknown step or question."""
            name = request.path_params["step"]
            answer = asked.get(request.path_params["what"])
            is_known = answer is not None and name in step_titles()
            return JSONResponse(answer(name, request) if answer and is_known else {}, 200 if is_known else 404)

        def do(request: Request) -> Response:
            """Does something for a step, and answers with JSON; 404 for an unknown step or action."""
            name = request.path_params["step"]
            act = done.get(request.path_params["what"])
            is_known = act is not None and name in step_titles()
            return JSONResponse(act(name) if act and is_known else {}, 200 if is_known else 404)

        return [
            *(Route(place, self._shell) for place in PLACES),
            *self.labs.routes(),
            *explore.routes(self.gpt),
            Route("/search", self._search),
            Route("/data/{what}/{step}", get),
            Route("/do/{what}/{step}", do, methods=["POST"]),
        ]

    def _search(self, request: Request) -> Response:
        """The lessons that have the words of the query, as JSON."""
        return JSONResponse({"results": lesson.found(request.query_params.get("q", "")[:200])})

    def _shell(self, request: Request) -> Response:
        """The page's HTML without content, which its scripts fetch."""
        files = {
            int(name[4:6]): editor.opens(self.board.folder / f"{name}.py", 1, self.editor) for name in step_titles()
        }
        values = {"language": language.current(), "texts": texts(explore.TEXTS), "files": files}
        data = json.dumps(values, ensure_ascii=False).replace("<", "\\u003c")
        template = report_page.environment(TEMPLATES).get_template("shell.html.j2")
        return HTMLResponse(template.render(language=language.current(), data=data))

    def _lesson(self, name: str, request: Request) -> dict[str, Any]:
        """The lesson, its hints and its effort, as JSON."""
        effort = lessons.effort(name)
        return {
            "html": self.lessons(name),
            "hints": lesson.hints(name, self.board.folder),
            "effort": str(effort),
            "difficulty": effort.difficulty,
        }

    def _verdict(self, name: str, request: Request) -> dict[str, Any]:
        """A step's column as HTML, under `html`: the file as it is on disk now, with the last result, or the reason why
        it is not graded yet."""
        result, file = self.board.results.get(name), self.board.folder / f"{name}.py"
        sources = submissions.read(self.board.folder).sources if self.board.folder.is_dir() else {}
        source = sources[name][1] if name in sources else None
        calm = self.shown.calm.get(name, "")
        title, notes = step_titles()[name], self.board.notes(name)
        shown = verdict.html(name, title, file, source, result, calm, self.editor, notes=notes)
        return {"html": shown}

    def _solution(self, name: str, request: Request) -> dict[str, Any]:
        """The reference and other ways as HTML, under `html`; empty until the step passes."""
        own = self.board.read.sources.get(name, ("", ""))[1]
        return {"html": lesson.solution(name, own) if self.board.passes(name) else ""}

    def _built(self, name: str, request: Request) -> dict[str, Any]:
        """The picture that the learner's code draws, as HTML, under `html`; empty until the step passes."""
        return {
            "html": self.built.html(name, request.query_params.get("text", "")[:200]) if self.board.passes(name) else ""
        }

    def _again(self, name: str) -> dict[str, Any]:
        """Has the session grade a step again; an empty answer."""
        self.session.events.put(Key(name))
        self.session.events.put(Key("r"))
        return {}

    def _stop(self, name: str) -> dict[str, Any]:
        """Has the session stop grading; an empty answer."""
        self.session.events.put(Key("s"))
        return {}

    def _hint(self, name: str) -> dict[str, Any]:
        """The step's hints as JSON, one more than were seen."""
        return lesson.hints(name, self.board.folder, one_more=True)

    def _reset(self, name: str) -> dict[str, Any]:
        """Puts the stub back in the step's file; the answer's `said` is a sentence that says what was done, or why
        not."""
        try:
            return {"said": lessons.as_sentence(lessons.reset(name, self.board.folder))}
        except (lessons.NoStub, OSError) as error:
            return {"said": str(error)}

    def _begin(self, name: str) -> dict[str, Any]:
        """Writes the stubs of a step's track, which the session then finds; an empty answer."""
        own = next(track.steps for track in tracks.tracks() if name in track.steps)
        exercises.begin(own, self.board.folder)
        return {}

    def _load(self) -> None:
        """Loads torch ahead of the first lesson that the page asks for; only then does the state say which steps labs
        need."""
        self.lessons(self._first())
        self.shown.has_torch = True

    def _right(self) -> frozenset[str]:
        """The steps that passed when they were last graded."""
        so_far = self.board.progress
        return frozenset(name for name in so_far.names if so_far.steps[name].passes)

    def _tell(self, what: dict[str, Any]) -> None:
        """Sends a lab's progress to the open pages."""
        self.server.events.tell("lab", what)

    def _first(self) -> str:
        """The name of the step that the session is at, else of the first one."""
        return self.board.current or self.board.names[0]

    def _with_language(self, function: Callable[[str], str]) -> Callable[[str], str]:
        """A function that calls `function` in this session's language: the server's thread has another."""
        spoken = language.current()

        def make(name: str) -> str:
            with language.use(spoken):
                return function(name)

        return make


def run(
    folder: Path, start: str | None, device: str = "cpu", required: tuple[str, ...] = (), names: Sequence[str] = (),
    *, place: str = "/",
) -> None:  # fmt: skip
    """Watches a folder of step files, shown as a page in the browser, until `q`, Ctrl-C or a signal. It starts at the
    step `start` (None: the next to do), and the browser at `place`, a path of the page; `names` are the steps watched
    (none: all). Raises what `watch.run` raises."""
    watch.run(folder, start, device, required, names, page=lambda session: CoursePage(session, place))
