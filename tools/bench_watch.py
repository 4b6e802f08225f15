"""`make bench-watch`: from a save to its verdict in watch mode, as a ratio to a cold `import torch` of the same run.

Each round times the import and a save in turn, so that a slow minute of the machine slows both. Every save changes
sides, so that a verdict can't be that of the save before.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from grader.base import paths
from grader.course import stubs

ROUNDS = 11
BOUND = 0.15
STEP = "step04_causal_mask"


class Session:
    """Watch mode in a pipe."""

    def __init__(self, folder: Path) -> None:
        environment = os.environ | {"KIT_LANG": "en"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "grader", "watch", STEP, "--submission", str(folder)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=environment, cwd=paths.ROOT,
        )  # fmt: skip

    def until(self, words: str) -> None:
        """Reads until a line holds the words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if words in line:
                return
        raise SystemExit("watch mode has ended")


def measure() -> tuple[list[float], list[float]]:
    """(seconds from save to verdict, seconds of a cold import) of each round."""
    saves, imports = [], []
    reference = (paths.ROOT / "solutions" / "core" / STEP / "reference.py").read_text(encoding="utf-8")
    right = stubs.solved_of(reference)
    sides = {"pass": right, "fail": right.replace(".tril()", ".triu()")}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{STEP}.py"
        file.write_text(stubs.stub_of(reference), encoding="utf-8")
        session = Session(Path(folder))
        try:
            session.until("to do")
            for number in range(ROUNDS):
                verdict = ("pass", "fail")[number % 2]
                start = time.perf_counter()
                subprocess.run([sys.executable, "-c", "import torch"], check=True)
                imports.append(time.perf_counter() - start)
                start = time.perf_counter()
                file.write_text(sides[verdict], encoding="utf-8")
                session.until(f"{verdict}  {STEP}")
                saves.append(time.perf_counter() - start)
        finally:
            session.process.terminate()
            session.process.wait()
    return saves, imports


def main() -> int:
    """Measures and prints; 1 when the median is over the bound."""
    saves, imports = measure()
    ratios = [save / cold for save, cold in zip(saves, imports, strict=True)]
    median = statistics.median(ratios)
    print(f"{'save to verdict':15} {'median':>7} {'best':>7} {'worst':>7} {'bound':>6}   {'seconds':>7} {'import':>7}")
    print(
        f"{'':15} {median:7.3f} {min(ratios):7.3f} {max(ratios):7.3f} {BOUND:6.2f}   "
        f"{statistics.median(saves):7.3f} {statistics.median(imports):7.3f}"
    )
    return 1 if median > BOUND else 0


if __name__ == "__main__":
    sys.exit(main())
