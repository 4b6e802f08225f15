"""Runs the learner's steps that pass and draws what they answer, in a process of its own: it loads torch once and forks
for each picture, so that a step is imported as it is now, and one that never ends can be ended.

As in a lab, the code runs outside the sandbox, and only once its step passes. Requests and answers are lines of JSON.
"""

from __future__ import annotations

import importlib
import inspect
import os
import signal
import sys
import threading
from pathlib import Path
from types import ModuleType

import msgspec
import torch

from grader.base.paths import step_folder
from grader.course.steps import Step
from grader.labs import parts
from grader.report.pictures import Matrices
from grader.web.built import SECONDS, DrawnPicture, PictureRequest


def drawn(wanted: PictureRequest) -> DrawnPicture:
    """A step's picture, drawn by the learner's code, which runs here; its errors are raised."""
    module = importlib.import_module(f"{Step(step_folder(wanted.step)).package}.built")
    torch.manual_seed(1)
    with torch.no_grad(), parts.blamed_on(Path(wanted.folder)):
        learners = parts.learners(Path(wanted.folder), wanted.step)
        return draw(module, learners, wanted.words)


def draw(module: ModuleType, learners: ModuleType, words: list[str]) -> DrawnPicture:
    """The picture that a step's `built.py`, the module, draws with the learner's module of that step: of
    `built(learners, words)`, or of `built(learners)` if it is not about words."""
    of_words = len(inspect.signature(module.built).parameters) > 1
    picture = module.built(learners, words) if of_words else module.built(learners)
    if isinstance(picture, Matrices):
        picture.panels = [(title, [[_short(one) for one in row] for row in panel]) for title, panel in picture.panels]
    return DrawnPicture(picture, module.SAYS, of_words=of_words)


def _short(number: float | bool | None) -> float | bool | None:
    """A number rounded to hundredths, as many digits as a small cell can show."""
    return round(number, 2) + 0.0 if isinstance(number, float) else number


def main() -> None:
    """Reads requests, one per line of standard input, until its end, and writes a line to standard output for each: a
    picture, drawn in a forked child, or why it failed. A child that takes longer than SECONDS is killed from here: an
    alarm of its own could be put off by the code that it runs."""
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what the learner's code prints is no answer
    for line in sys.stdin.buffer:
        wanted = msgspec.json.decode(line, type=PictureRequest)
        if not hasattr(os, "fork"):
            answers.write(_answer(wanted))
            return
        child = os.fork()
        if not child:
            answers.write(_answer(wanted))
            os._exit(0)
        killing = threading.Timer(SECONDS, os.kill, (child, signal.SIGKILL))
        killing.start()
        _pid, status = os.waitpid(child, 0)
        killing.cancel()
        killing.join()  # no thread is left when the next child is forked
        if status:
            answers.write(msgspec.json.encode(DrawnPicture(late=status == signal.SIGKILL)) + b"\n")


def _answer(wanted: PictureRequest) -> bytes:
    """A line of JSON: the picture, or the error that the learner's code raised."""
    try:
        return msgspec.json.encode(drawn(wanted)) + b"\n"
    except (Exception, SystemExit) as error:
        return msgspec.json.encode(DrawnPicture(failed=f"{type(error).__name__}: {error}")) + b"\n"


if __name__ == "__main__":
    main()
