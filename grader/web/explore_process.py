"""The process in which a learner's GPT runs while one looks inside it: started when it is first asked, ended when it
takes too long, and started again when a step that it is made of has changed."""

from __future__ import annotations

import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grader.base import language, paths
from grader.base.language import gettext as _

MODULE = f"{paths.SOLUTIONS.name}.capstone.lab_explore.serve"
SECONDS = 60.0  # for an answer: GPT-2 reads 512 tokens in a few
MOST_LINE = 32 << 20  # bytes of an answer's header
READ = 1 << 20


class GPTSilent(Exception):
    """The process did not answer: one sentence."""


class GPTProcess:
    """Asks the process one question at a time. `right` tells which steps of the learner's are right; `device` is as
    torch names it, or `all`: the accelerator that is there, else the CPU."""

    def __init__(
        self, folder: Path, right: Callable[[], frozenset[str]], device: str = "cpu", seconds: float = SECONDS
    ) -> None:
        """Takes the steps that are right from `folder`, and lets an answer take `seconds`; starts nothing yet."""
        self.folder, self._right, self.device, self.seconds = folder, right, device, seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._made_of: object = None
        self.starts = 0
        self.stage, self.done = "", 0.0  # what is being done for the answer, and which part of it is done

    def ask(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """The answer to a question: its header, with the number of `start`s so far, and the numbers as bytes. Starts
        the process if it does not run or a step has changed. Raises GPTSilent if the process takes too long or ends."""
        with self._lock:
            self.stage, self.done = "", 0.0
            process = self._current()
            try:
                assert process.stdin is not None
                process.stdin.write(json.dumps(question).encode() + b"\n")
                process.stdin.flush()
                header, body = self._answer(process)
            except TimeoutError:
                self._end()
                sentence = _("Your GPT didn't answer within {seconds:.0f} s and was stopped.")
                raise GPTSilent(sentence.format(seconds=self.seconds)) from None
            except (OSError, EOFError):
                self._end()
                raise GPTSilent(
                    _("The process in which your GPT runs has ended. Change the text to try again.")
                ) from None
        return header | {"start": self.starts}, body

    def close(self) -> None:
        """Ends the process, and with it an answer that is awaited."""
        if process := self._process:
            process.kill()
        with self._lock:
            self._end()

    def _current(self) -> subprocess.Popen[bytes]:
        """The running process; a new one if it has ended, or if a file of a right step has changed, or one that steps
        may import."""
        right = self._right()
        files = [file for file in sorted(self.folder.glob("*.py")) if file.stem in right or file.stem[:4] != "step"]
        made_of = tuple((file.name, file.stat().st_mtime_ns) for file in files if file.is_file())
        if self._process is None or self._process.poll() is not None or made_of != self._made_of:
            self._end()
            self.stage = "start"
            command = paths.program(
                MODULE, str(self.folder.resolve()), ",".join(right), language.current(), self.device
            )
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            self._made_of = made_of
            self.starts += 1
        return self._process

    def _answer(self, process: subprocess.Popen[bytes]) -> tuple[dict[str, Any], bytes]:
        """Reads an answer: a line of JSON, which is the header, and as many bytes as it says; lines before it only tell
        how much is done. Raises TimeoutError, EOFError."""
        header: dict[str, Any] = {}
        body = bytearray()
        while "bytes" not in header:
            deadline = time.monotonic() + self.seconds
            while (end := body.find(b"\n")) < 0 and len(body) < MOST_LINE:
                body += self._read(process, deadline)
            header = json.loads(body[:end])
            del body[: end + 1]
            self.stage, self.done = header.get("stage", self.stage), header.get("done", 1.0)
        while len(body) < header["bytes"]:
            body += self._read(process, deadline)
        return header, bytes(body)

    def _read(self, process: subprocess.Popen[bytes], deadline: float) -> bytes:
        """Reads what has arrived. Raises TimeoutError at the deadline, EOFError once the process has ended."""
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        data = os.read(process.stdout.fileno(), READ)
        if not data:
            raise EOFError
        return data

    def _end(self) -> None:
        """Kills the process, if there is one, and closes its pipes."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None
