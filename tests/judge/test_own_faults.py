"""What goes wrong on our side: it is said plainly, costs no points, and leaves no process and no file."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grader.base.limits import Limits
from grader.judge.grader import ROOT, Grader
from grader.judge.launcher import GraderError
from grader.judge.process import MEMORY
from grader.sandbox.scratch import BASE, SLICE, Scratch, remove, size
from tests.hostile import (
    GOOD,
    PATIENT,
    STEP,
    Attack,
    alive,
    descendants,
    eventually,
    one_file,
    workers_files,
    zygote_pid,
)
from tests.whole import WHOLE

NOT_REAPED = os.WEXITED | os.WNOWAIT
LOOP = "def softmax(x, dim=-1):\n    open('left', 'w').write('behind')\n    while True:\n        pass\n"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a warm process is forked from on Linux only")


def worked(pid: int) -> float:
    """The processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def folders_of(zygote: int) -> list[Path]:
    """The folder of a zygote's workers."""
    return list(Path(tempfile.gettempdir()).glob(f"{BASE}{zygote}-*"))


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_stopped_half_way(number: signal.Signals, tmp_path: Path) -> None:
    """The command is interrupted, ended or killed: its processes end, their files go, and no half report is there."""
    (tmp_path / f"{STEP}.py").write_text(LOOP)
    written = tmp_path / "report.json"
    command = [
        sys.executable,
        "-m",
        "grader",
        "grade",
        "--submission",
        str(tmp_path),
        "--step",
        "2",
        "--json",
        str(written),
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, text=True
    )
    try:
        assert eventually(lambda: len(descendants(process.pid)) >= 3), "zygote, judge and worker"
        (zygote,) = descendants(process.pid)[:1]
        # Its own folder may be one that nobody else sees: that it has worked for so long shows that it is in the loop.
        assert eventually(lambda: worked(descendants(zygote)[-1]) >= 1.0)
        below = descendants(process.pid)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does: to all that have not left its group
        else:
            process.send_signal(number)
        _out, said = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    if number != signal.SIGKILL:
        assert (process.returncode, said) == (128 + number, "Stopped. Nothing was graded. Type: make grade\n")
    assert eventually(lambda: not alive(below))
    assert eventually(lambda: not folders_of(zygote))
    assert list(tmp_path.iterdir()) == [tmp_path / f"{STEP}.py"]


@pytest.mark.thorough
def test_a_killed_judge_is_told_at_once(tmp_path: Path) -> None:
    """In the seconds in which nothing has to be imported: what the steps hold has nothing to do with it."""
    (tmp_path / f"{STEP}.py").write_text(LOOP)
    command = [sys.executable, "-m", "grader", "grade", "--submission", str(tmp_path), "--step", "2"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, text=True
    )
    try:
        assert eventually(lambda: len(descendants(process.pid)) >= 3), "zygote, judge and worker"
        judge = descendants(process.pid)[1]
        before = worked(process.pid)
        os.kill(judge, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, NOT_REAPED)  # it has ended, and what it worked can still be read
        assert worked(process.pid) - before < 2.0, "torch takes longer to import than that"
        assert "The judge failed: its process has ended" in process.communicate(timeout=300)[1]
        assert process.returncode == 2
    finally:
        process.kill()
        process.wait()


@pytest.mark.thorough
def test_warm_process_dies() -> None:
    """It is a fault of the grader's and is raised as one; the next grader tidies up after it."""
    with Grader(1, PATIENT) as grader:
        assert grader.grade(one_file(STEP, GOOD), [STEP], device="cpu").score > 0
        zygote = zygote_pid(grader)
        below = descendants(zygote)
        os.kill(zygote, signal.SIGKILL)
        try:  # the judge goes with it, or has just the time to say that it can't start a process
            (result,) = grader.grade(one_file(STEP, GOOD), [STEP], device="cpu").steps
            assert {check.status for check in result.checks} == {"error"}
        except GraderError as error:
            assert "judge" in str(error)
        assert eventually(lambda: not alive(below))
    with Grader(1, PATIENT) as grader:
        assert grader.grade(one_file(STEP, GOOD), [STEP], device="cpu").score > 0
        assert not folders_of(zygote)


def test_workers_die_with_the_warm_process() -> None:
    """Killed in the midst of a submission that never ends, it takes everything along."""
    with Grader(1, Limits(call_seconds=120.0)) as grader:
        failed: list[GraderError] = []

        def grade() -> None:
            try:
                grader.grade(one_file(STEP, LOOP), [STEP], device="cpu")
            except GraderError as error:
                failed.append(error)

        grading = threading.Thread(target=grade)
        grading.start()
        assert eventually(lambda: len(descendants(zygote_pid(grader))) == 2), "judge and worker"
        below = descendants(zygote_pid(grader))
        os.kill(zygote_pid(grader), signal.SIGKILL)
        assert eventually(lambda: not alive(below))
        grading.join(20)
        assert len(failed) == 1


@pytest.mark.thorough
def test_temporary_folder_vanishes() -> None:
    """Where workers need a folder on disk none can be started: every check is an error, and there is no score."""
    on_disk = msgspec.structs.replace(PATIENT, without=("namespaces",))
    with Grader(1, on_disk) as grader:
        (first,) = grader.grade(one_file(STEP, GOOD), [STEP], device="cpu").steps
        (folder,) = folders_of(zygote_pid(grader))
        gone = folder.rename(folder.with_name(f"gone-{folder.name}"))  # at once, while the zygote may be tidying in it
        shutil.rmtree(gone, ignore_errors=True)
        (second,) = grader.grade(one_file(STEP, GOOD), [STEP], device="cpu").steps
    assert first.status == "pass"
    assert {check.status for check in second.checks} == {"error"}
    assert "could not start a process" in second.checks[0].message
    assert second.score is None


CACHES = """
import os
for name in ("TRITON_CACHE_DIR", "TRITON_HOME", "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME"):
    assert name not in os.environ, name
CACHE = os.path.expanduser("~/.triton/cache")
os.makedirs(CACHE)  # it is not there yet: nobody's before
open(os.path.join(CACHE, "kernel.so"), "w").write("poison")
"""


@pytest.mark.thorough
@pytest.mark.parametrize("without", [(), ("namespaces",)])
def test_what_triton_compiles_is_nobody_elses(without: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cache lies below HOME, which each process has to itself; no variable of ours leads elsewhere."""
    monkeypatch.setenv("TRITON_CACHE_DIR", tempfile.gettempdir())
    monkeypatch.setenv("XDG_CACHE_HOME", tempfile.gettempdir())
    with Grader(1, msgspec.structs.replace(PATIENT, without=without)) as grader:
        for _student in ("ada", "bob"):
            (step,) = grader.grade(one_file(STEP, CACHES + GOOD), [STEP], device="cpu").steps
            assert step.status == "pass", step.checks[0].message


@pytest.mark.thorough
def test_two_at_once() -> None:
    """Two graders side by side do not disturb each other."""
    with Grader(1, PATIENT) as one, Grader(1, PATIENT) as other:
        for grader in (one, other, one, other):
            assert grader.grade(one_file(STEP, GOOD), [STEP], device="cpu").steps[0].status == "pass"


@pytest.mark.thorough
@pytest.mark.skipif(not WHOLE, reason="test_soak.py looks at the same in short; make check plays it at length")
def test_many_in_a_row_leave_nothing() -> None:
    """Good and bad ones through one grader: no descriptor, process or file stays, and memory does not grow."""
    bad = [
        "import os\ndef softmax(x, dim=-1):\n    os._exit(3)\n",
        "def softmax(x, dim=-1):\n    return [x] * 1000\n",
        "def softmax(x, dim=-1):\n    raise ValueError('x' * 10**6)\n",
        "def softmax(x, dim=-1):\n    open('file', 'w').write('x' * 10**6)\n    return x\n",
    ]

    def held(pid: int) -> tuple[int, int]:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return len(os.listdir(f"/proc/{pid}/fd")) if os.access(f"/proc/{pid}/fd", os.R_OK) else 0, pages * 4096

    def quiet(grader: Grader) -> bool:
        return len(descendants(zygote_pid(grader))) == 1 and not workers_files(grader)

    def round_trip(grader: Grader) -> None:
        for source in (GOOD, *bad):
            (result,) = grader.grade(one_file(STEP, source), [STEP], device="cpu").steps
            assert result.status == ("pass" if source == GOOD else "fail")

    with Grader(1, Limits(call_seconds=20.0)) as grader:
        round_trip(grader)
        round_trip(grader)
        assert eventually(lambda: quiet(grader))
        (judge,) = descendants(zygote_pid(grader))
        before = held(judge), held(zygote_pid(grader))
        for _ in range(10):
            round_trip(grader)
        assert eventually(lambda: quiet(grader))
        after = held(judge), held(zygote_pid(grader))
    for (descriptors, memory), (more_descriptors, more_memory) in zip(before, after, strict=True):
        assert more_descriptors <= descriptors
        assert more_memory < memory + (24 << 20)


@pytest.mark.thorough
def test_fresh_workers_give_the_same() -> None:
    """Where nothing can be forked a worker is started anew, and bounded by the same layers."""
    with Grader(1, PATIENT, fork=False) as grader:
        report = grader.grade(one_file(STEP, GOOD), [STEP], device="cpu")
        hostile = grader.grade(one_file(STEP, "import os\nos.listdir('/')\n"), [STEP], device="cpu")
    assert (report.steps[0].status, hostile.steps[0].status) == ("pass", "fail")
    if "landlock" in report.isolation:
        assert "PermissionError" in " ".join(hostile.notes)


def test_folders_of_any_shape_are_removed(tmp_path: Path) -> None:
    """Deep, locked or linked: nothing stops the removal, and nothing outside is touched."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    folder = tmp_path / "folder"
    (folder / "locked" / "inner").mkdir(parents=True)
    (folder / "locked" / "inner" / "file").write_text("text")
    (folder / "link").symlink_to(outside)
    (folder / "locked" / "link").symlink_to(outside)
    deep = os.open(folder, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("d" * 20, dir_fd=deep)
        inner = os.open("d" * 20, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = inner
    os.close(deep)
    (folder / "locked" / "inner").chmod(0)
    (folder / "locked").chmod(0)
    assert size(str(folder), 1000) > 1000
    remove(str(folder))
    assert not folder.exists()
    assert (outside / "kept").read_text() == "kept"


def test_a_folder_of_many_files_holds_nobody_up() -> None:
    """It goes slice by slice, with time for others in between, and an empty one goes at once."""
    scratch = Scratch()
    try:
        many, empty = Path(scratch.folder()), Path(scratch.folder())
        for number in range(100):
            (many / f"folder{number}").mkdir()
            for inner in range(30):
                (many / f"folder{number}" / str(inner)).touch()
                (many / f"{number}-{inner}").touch()
        scratch.discard(str(empty))
        assert not empty.exists()
        scratch.discard(str(many))
        slices = 0
        while scratch.tidy():
            slices += 1
        assert not many.exists()
        assert slices >= 6100 // SLICE
    finally:
        scratch.remove()


def test_a_full_disk_is_emptied_before_a_worker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that could not be started costs nobody a point: so what the last one left must not be why."""
    scratch = Scratch()
    try:
        full = Path(scratch.folder())
        for number in range(5 * SLICE):
            (full / str(number)).touch()
        scratch.discard(str(full))
        make = tempfile.mkdtemp

        def where_there_is_room(*args: Any, **kwargs: Any) -> str:
            if full.exists():
                raise OSError(errno.ENOSPC, "No space left on device")
            return make(*args, **kwargs)

        monkeypatch.setattr(tempfile, "mkdtemp", where_there_is_room)
        assert Path(scratch.folder()).is_dir()
    finally:
        scratch.remove()


@pytest.mark.thorough
def test_a_judge_has_bounded_memory() -> None:
    """What a check makes of an answer is not foreseen: a small one may be spread over another to any size."""
    attack = Attack(ROOT / "tests" / "attacks" / "forge_gradient_that_spreads.py")
    with Grader(1, PATIENT) as grader:
        step = "step05_dropout"
        (result,) = grader.grade(one_file(step, attack.source), [step], device="cpu").steps
        assert eventually(lambda: len(descendants(zygote_pid(grader))) == 1), "the worker is gone"
        (judge,) = descendants(zygote_pid(grader))
        status = Path(f"/proc/{judge}/status").read_text()
    assert [check.name for check in result.checks if check.status != "pass"] == ["test_gradients"]
    (peak,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
    assert peak << 10 < MEMORY + (1 << 30)


@pytest.mark.thorough
def test_a_judge_holds_no_pytest() -> None:
    """Checks are functions that it calls; plug-ins that happen to be installed have no say in a mark."""
    code = """
import socket, sys, threading
from grader.base.limits import Limits
from grader.judge import process as judge
from grader.judge.messages import Event, GradeRequest, Unmet

def look():
    channel.send(GradeRequest({}, {}, [], "no-device", 1, "en", Limits()))
    assert isinstance(channel.receive(Event), Unmet)  # it has loaded all that it needs
    print([name for name in ("pytest", "_pytest", "xdist") if name in sys.modules])
    channel.close()

ours, theirs = socket.socketpair()
channel = judge.Channel(ours)
threading.Thread(target=look).start()
judge.main(theirs, None)
"""
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"
