"""Draws what the learner built in a step that passes, from their own answers."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import msgspec

from grader.base import paths
from grader.base.language import gettext as _
from grader.report import lesson_page
from grader.report import page as report_page
from grader.report.pictures import Picture
from grader.web.server import TEMPLATES

SECONDS = 20  # for a picture
MOST_WORDS, LONGEST = 9, 12  # of a picture that fits a column; letters of a word


class DrawnPicture(msgspec.Struct):
    """A step's picture, or the reason why nothing is shown. With neither, the process that draws has ended; `late`: it
    was ended."""

    picture: Picture | None = None
    says: str = ""
    failed: str = ""
    late: bool = False
    of_words: bool = False  # another sentence gives another picture


class PictureRequest(msgspec.Struct):
    """A picture that is asked for: of this step in this folder, over these words."""

    step: str
    folder: str
    words: list[str]


class PictureService:
    """The process that draws; started when it is first needed, and again if it has ended."""

    def __init__(self, folder: Path) -> None:
        """Draws with the step files in `folder`; starts nothing yet."""
        self.folder = folder.resolve()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def html(self, name: str, text: str = "") -> str:
        """The picture that the learner's code draws for a step, over a sentence that the learner typed (empty: our
        own), as HTML; empty if the step has no picture."""
        if not (paths.step_folder(name) / "built.py").is_file():
            return ""
        chosen = split(text)
        drawn = self._drawn(PictureRequest(name, str(self.folder), chosen))
        figure = lesson_page.figure(drawn.picture, _(drawn.says)) if drawn.picture else ""
        template = report_page.environment(TEMPLATES).get_template("step_built.html.j2")
        return template.render(
            figure=figure,
            failed=drawn.failed or _why_it_ended(drawn),
            sentence=(text or sentence()) if drawn.of_words else "",
            most=MOST_WORDS if len(text.split()) > MOST_WORDS else 0,
        )

    def close(self) -> None:
        """Ends the process, and the child that draws."""
        process, self._process = self._process, None
        if process is not None:
            if hasattr(os, "killpg"):
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.communicate()

    def _drawn(self, wanted: PictureRequest) -> DrawnPicture:
        """The picture, from the process, which is started if it does not run; or why there is no picture."""
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self.close()
            process = self._process
            if process is None:
                process = self._process = subprocess.Popen(
                    paths.program("grader.web.built_process"),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # ended as one, with the child that draws
                )
            assert process.stdin is not None and process.stdout is not None
            with contextlib.suppress(OSError, msgspec.DecodeError):
                process.stdin.write(msgspec.json.encode(wanted) + b"\n")
                process.stdin.flush()
                return msgspec.json.decode(process.stdout.readline(), type=DrawnPicture)
            self.close()
            return DrawnPicture()


def _why_it_ended(drawn: DrawnPicture) -> str:
    """Why there is no picture, where the code itself has not said it."""
    return _("no answer within {seconds} s", seconds=SECONDS) if drawn.late else _("its process has ended")


def sentence() -> str:
    """The sentence that a picture is about until the learner types another."""
    return _("the cat left the mat because it was cold")


def split(text: str) -> list[str]:
    """The first words of a text, as many as a picture shows, long ones cut with an ellipsis; those of `sentence()` for
    a text without words."""
    words = re.findall(r"\S+", text)[:MOST_WORDS]
    return [word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…" for word in words] or split(sentence())
