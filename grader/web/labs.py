"""Labs on the page: a lab's question, a run of it in a separate process, and its result."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from grader.base import language, paths
from grader.base.language import gettext as _
from grader.labs import lab as labs
from grader.report import page as report_page

PROGRESS = re.compile(r"^(\d+)% · ([^·]*?)(?: · (.*))?$")
REFRESHES = re.compile(r'<meta http-equiv="refresh"[^<>]*>')
# A lab's page is one of ours, and what it shows was measured by a learner's code: nothing in it runs.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; sandbox"
MOST_WORDS = 400  # characters of a prediction
MOST_SECONDS = 3600.0


class LabRoutes:
    """The labs of a course, and the one that runs."""

    def __init__(self, folder: Path, tell: Callable[[dict[str, Any]], None], device: str = "cpu") -> None:
        """Labs run the step files in `folder`; `tell` is called with each change of a run's progress, as JSON."""
        self.folder, self._tell, self.device, self.language = folder, tell, device, language.current()
        self.out = out(folder)
        self.running: dict[str, Any] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def routes(self) -> list[Route]:
        """The routes by which the page lists, starts, stops and shows labs."""
        return [
            Route("/data/lab/{name}", self._lab),
            Route("/lab-result/{name}", self._result),
            Route("/do/lab/{name}", self._start, methods=["POST"]),
            Route("/do/lab-stop/{name}", self._stop, methods=["POST"]),
        ]

    def close(self) -> None:
        """Kills the lab that runs, if there is one."""
        if self._process:
            self._process.kill()
            self._process.wait()

    # --- what the page asks ---

    def _lab(self, request: Request) -> Response:
        """A lab's question, answers and needed steps, and what the learner said before, as JSON; 404 for an unknown
        name."""
        lab = _named(request)
        if lab is None:
            return JSONResponse({}, 404)
        lesson, module, said = lab.lesson, lab.module, self._record(lab.name)
        needs = list(dict.fromkeys(need.step for need in module.NEEDS if not need.optional))
        return JSONResponse({
            "name": lab.name, "title": lesson.title, "about": str(report_page.formatted(lesson.about)),
            "question": str(report_page.formatted(lesson.question)), "answers": lesson.answers, "needs": needs,
            "seconds": module.SECONDS, "running": self.running, "prediction": said.get("prediction", ""),
            "answer": said.get("answer", 0), "answered": said.get("answered", []),
            "result": _version(self._page(lab.name)),
        })  # fmt: skip

    def _result(self, request: Request) -> Response:
        """The HTML that the last run wrote, fit for a frame; 404 without one."""
        lab = _named(request)
        page = self._page(lab.name) if lab else None
        if page is None or not page.is_file():
            return JSONResponse({}, 404)
        text = REFRESHES.sub("", page.read_text(encoding="utf-8"))  # this page shows it again when there is more
        text = text.replace("<body>", '<body class="inside">', 1)  # the lab and its question are next to it
        return HTMLResponse(text, headers={"Content-Security-Policy": POLICY})

    async def _start(self, request: Request) -> Response:
        """Starts a run of the lab in a thread, with the prediction and the seconds of the request's body; 404 for an
        unknown name, 409 if a lab runs already."""
        lab, body = _named(request), await request.json()
        if lab is None:
            return JSONResponse({}, 404)
        seconds = min(max(float(body.get("seconds") or lab.module.SECONDS), 0.1), MOST_SECONDS)
        prediction = str(body.get("prediction", ""))[:MOST_WORDS]
        with self._lock:
            if self.running is not None:
                return JSONResponse({"running": self.running}, 409)
            self.running = {"name": lab.name, "done": None, "left": "", "what": _("Starting the lab …"), "failed": ""}
        threading.Thread(target=self._run, args=(lab.name, prediction, seconds), daemon=True).start()
        return JSONResponse({"running": self.running})

    async def _stop(self, request: Request) -> Response:
        """Interrupts the lab that runs, as Ctrl-C does: what was measured until then is kept."""
        if self._process:
            self._process.send_signal(signal.SIGINT)
        return JSONResponse({})

    # --- the run ---

    def _run(self, name: str, prediction: str, seconds: float) -> None:
        """Runs a lab in a process until it ends, and tells the page of its progress and of its end."""
        command = paths.program(
            "grader", "lab", name, "--predict", prediction, "--submission", str(self.folder), "--seconds",
            f"{seconds:g}", "--out", str(self.out), "--lang", self.language, "--device", self.device,
        )  # fmt: skip
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            encoding="utf-8", errors="replace", env=os.environ | {"KIT_PROGRESS": "0.3"},
        )  # fmt: skip
        assert self._process.stderr is not None
        last = ""
        for line in self._process.stderr:
            last = line.strip() or last
            self._hear(line.strip())
        status = self._process.wait()
        failed = last if status not in (0, 130) else ""
        over = (self.running or {}) | {"done": 100, "failed": failed}
        self.running, self._process = None, None
        self._tell(over | {"over": True, "result": _version(self._page(name))})

    def _hear(self, line: str) -> None:
        """Takes a line of the lab's standard error as progress, and tells the page."""
        if self.running is None:
            return
        found = PROGRESS.match(line)
        if found:
            self.running |= {"done": int(found[1]), "left": found[2].strip(), "what": found[3] or ""}
        else:
            self.running |= {"done": None, "left": "", "what": line}  # before it measures, it grades what it needs
        self._tell(self.running | {"result": _version(self._page(self.running["name"]))})

    def _page(self, name: str) -> Path:
        """The HTML file that a run of this lab writes."""
        return self.out / f"{name}.html"

    def _record(self, name: str) -> dict[str, Any]:
        """The JSON that the last run of a lab wrote next to its page; empty without one, or if it is in another
        language."""
        try:
            record = json.loads(self._page(name).with_suffix(".json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        # What was said in another language is left out: it would not be found among the answers either.
        return record if isinstance(record, dict) and record.get("language") == self.language else {}


def out(folder: Path) -> Path:
    """The folder that the pages of labs are written to, for a folder of exercises: `dist/lab` next to it."""
    return folder.resolve().parent / "dist" / "lab"


def _named(request: Request) -> labs.Lab | None:
    """The lab with the name in the request's path; None if it is unknown."""
    return {lab.name: lab for lab in labs.labs()}.get(request.path_params["name"])


def _version(page: Path) -> int:
    """The time when a file was written, in milliseconds; 0 without a file."""
    try:
        return page.stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0
