"""Between an answer and the next call a worker without a file system of its own stands still: it writes nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from grader.base.limits import Limits
from grader.calls.call import Call, Load
from grader.judge.grader import Grader
from grader.judge.launcher import ForkingLauncher
from grader.judge.worker_backend import WorkerBackend
from grader.sandbox.forked import ForkedProcess
from grader.sandbox.process import Launcher
from grader.sandbox.spawned import SpawnLauncher
from tests.hostile import GOOD, PATIENT, ROOT, STEP, eventually, left_behind, one_file

# A timer goes off a thousand times a second, also while no call is made, and each time a file grows.
GOES_ON = """
import signal, time
files = open("growing", "ab", buffering=0)
ticks = []

def tick(number, frame):
    ticks.append(time.monotonic())
    files.write(bytes(4096))

def count():
    if not ticks:  # a timer that is set while the file is run ends with it
        signal.signal(signal.SIGALRM, tick)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        pass
    return len(ticks)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a warm process is forked from on Linux only")


def stands_still(launcher: Launcher) -> None:
    """Fails if a worker goes on while no call is made, or does not once one is."""
    on_disk = msgspec.structs.replace(PATIENT, without=("namespaces",))
    backend = WorkerBackend(launcher, Load("step", {"step": ("step.py", GOES_ON)}, {}), on_disk)
    try:
        first = backend.ask(Call("count")).value
        process = backend._worker and backend._worker.process
        pid = process._pid if isinstance(process, ForkedProcess) else process._popen.pid  # type: ignore[union-attr]
        assert eventually(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "T")
        time.sleep(1.0)
        second = backend.ask(Call("count")).value
        assert 10 < first < second < first + 400  # some hundred of a call, and none of the second between them
    finally:
        backend.close()


@pytest.mark.thorough
def test_a_forked_worker_stands_still() -> None:
    """It is stopped by the judge, for which it is none of its children."""
    source = ForkingLauncher()
    try:
        source.launcher.await_reply("ready", seconds=120.0)
        stands_still(source.launcher)
    finally:
        source.close()


@pytest.mark.thorough
def test_a_spawned_worker_stands_still() -> None:
    """Where nothing can be forked."""
    stands_still(SpawnLauncher(str(ROOT)))


@pytest.mark.thorough
@pytest.mark.parametrize("without", [(), ("namespaces",)], ids=["all layers", "no file system of its own"])
def test_the_folder_is_full_while_the_judge_is_busy(without: tuple[str, ...]) -> None:
    """One that fills its folder between its answers is ended; it has no points for it, and the next has all of its."""
    fills = GOES_ON.replace("bytes(4096)", "bytes(1 << 20)") + (
        "\nimport torch\n\ndef softmax(x, dim=-1):\n    count()\n    return torch.full_like(x, 1 / x.shape[dim])\n"
    )
    limits = Limits(call_seconds=20.0, step_seconds=40.0, disk=32 << 20, without=without)
    with Grader(1, limits) as grader:
        (bad,) = grader.grade(one_file(STEP, fills), [STEP], device="cpu", seed=3).steps
        (good,) = grader.grade(one_file(STEP, GOOD), [STEP], device="cpu", seed=3).steps
        assert left_behind(grader) == []
    assert (bad.status, bad.score) == ("fail", 0.0)
    assert "error" not in {check.status for check in [*bad.checks, *good.checks]}
    assert (good.status, good.score) == ("pass", good.max_score)


def test_stopping_wakes_nobody() -> None:
    """The warm process hears of children that end, and not of each that stands still or goes on."""
    code = """
import os, signal, time
from grader.sandbox import kernel
heard = []
signal.signal(signal.SIGCHLD, lambda number, frame: heard.append(number))
kernel.ignore_stopped_children()
pid = os.fork()
if pid == 0:
    time.sleep(20)
    os._exit(0)
for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGSTOP):
    os.kill(pid, number)
    time.sleep(0.1)
assert heard == [], heard
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
time.sleep(0.1)
assert heard == [signal.SIGCHLD], heard
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
