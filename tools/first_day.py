"""`make first-day`: the wheel as a learner gets it. Installed with pip into a clean environment, a course begun, a
wrong answer and the right one graded; each with its time.

A wheel of `make release-kit` may be given (WHEEL=file); else one with the first step alone is built.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from grader.author import kit
from grader.oracle.live import solutions
from grader.publish import wheel

STEP = "step01_scores"
WRONG = (
    "def dot_product_scores(query, key):\n    return query @ key.mT\n\n"
    "def scaled_scores(query, key):\n    return query @ key.mT\n"
)
NAMED = "not divided by anything"
Done = TypeVar("Done")


def timed(what: str, do: Callable[[], Done]) -> Done:
    """Does it and prints how long it took."""
    begun = time.monotonic()
    done = do()
    print(f"{time.monotonic() - begun:6.1f} s  {what}", flush=True)
    return done


class Course:
    """A course that `attention start` has made, with the clean environment's own commands."""

    def __init__(self, folder: Path, file: Path) -> None:
        self.here = folder
        self.programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        timed("clean environment", lambda: subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True))
        timed("pip install", lambda: self.typed("pip", "install", "--quiet", "--disable-pip-version-check", str(file)))
        timed("attention start my-course", lambda: self.typed("attention", "start", "my-course"))
        self.here = folder / "my-course"

    def typed(self, *words: str) -> str:
        """What a command prints, typed in this folder; nothing of this checkout's environment is seen by it."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KIT_", "PYTHON", "VIRTUAL"))}
        line = [str(self.programs / words[0]), *words[1:]]
        ended = subprocess.run(line, cwd=self.here, env=kept | {"KIT_LANG": "en"}, capture_output=True, text=True)
        if ended.returncode or "Traceback" in ended.stdout + ended.stderr:
            raise SystemExit(f"{' '.join(words)}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return ended.stdout

    def graded(self, answer: str | None = None) -> tuple[str, float]:
        """What `attention grade STEP=1` prints of an answer, or of the stub, and the points that it has earned."""
        if answer is not None:
            (self.here / "exercises" / f"{STEP}.py").write_text(answer, encoding="utf-8")
        shown = self.typed("attention", "grade", "STEP=1", "--json", "report.json")
        (step,) = json.loads((self.here / "report.json").read_text(encoding="utf-8"))["steps"]
        return shown, step["score"] / step["max_score"]


def main(given: str) -> None:
    """Raises where something is not as a learner was promised."""
    right = next(step for step in solutions() if step.name == STEP).solved()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if given:
            file = Path(given).resolve()
        else:
            file = timed("wheel of one step", lambda: wheel.wheel(kit.build(folder / "kit", (STEP,)), folder))
        course = Course(folder, file)
        shown, share = timed("attention grade, first verdict", course.graded)
        assert share == 0 and "to do" in shown, shown
        shown, share = timed("attention grade, a wrong answer", lambda: course.graded(WRONG))
        assert 0 < share < 1 and NAMED in shown, shown
        shown, share = timed("attention grade, the right answer", lambda: course.graded(right))
        assert share == 1, shown


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
