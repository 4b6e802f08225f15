"""The submissions of `attacks/`, how one is graded, and what must hold afterwards: for the tests and the soak.

An attack's header names its step, the outcomes that a perfect judge may give, the layers that they rest on, and what
such a judge does; the same in Korean for docs/security.ko.md.

`# rests on: seccomp, and namespaces or landlock` says that seccomp must be in force, and one of the other two as well.
`# rests on: process and limits` says that no layer of the kernel's is needed. After `; as root: ` stands what it rests
on for root, where that is something else: every file is root's, and few are an ordinary user's.

A line `#: honest` stands for `attacks/parts/honest.py`, which many of them need.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from grader.base.limits import Limits
from grader.base.results import Report, as_json
from grader.course.submissions import Submission
from grader.judge.grader import ROOT, Grader
from grader.report.terminal import plain
from grader.sandbox.forked import GRACE
from grader.sandbox.scratch import BASE

STEP = "step02_softmax"
SEED = 3  # of every attack
GOOD = """
def softmax(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)
"""
HEADER = re.compile(
    r"# step: (\w+)\n# expect: ([\w ]+)\n# rests on: ([\w, ]+)(?:; as root: ([\w, ]+))?\n"
    r"# A perfect judge: (.+)\n# 완벽한 심판: (.+)\n"
)
PARTS = Path(__file__).parent / "attacks" / "parts"
PART = re.compile(r"^#: (\w+)\n", re.MULTILINE)
KERNELS = ("namespaces", "landlock", "seccomp")  # the layers that the kernel lends; the others are always there
ALONE = "process and limits"
LIMITS = Limits(call_seconds=2.0, step_seconds=8.0, memory=512 << 20, disk=32 << 20)
PATIENT = Limits(call_seconds=20.0, step_seconds=40.0)  # parts of torch that few use are imported when they are used
SLACK = 6.0  # seconds: ending a process, removing its files, a busy machine


@dataclass(frozen=True)
class Attack:
    """One file of `attacks/`."""

    path: Path

    @property
    def name(self) -> str:
        """The name of its file."""
        return self.path.stem

    @cached_property
    def source(self) -> str:
        """The submission."""
        return PART.sub(lambda part: (PARTS / f"{part[1]}.py").read_text("utf-8"), self.path.read_text("utf-8"))

    @property
    def step(self) -> str:
        """The step that it is a submission of."""
        return self._header[1]

    @property
    def expected(self) -> list[str]:
        """The statuses of the step that a perfect judge may give."""
        return self._header[2].split(" or ")

    def rests_on(self, user: str = "ordinary") -> list[tuple[str, ...]]:
        """The layers of the kernel's that the outcome rests on, for an `ordinary` user or `root`: one of each group."""
        said = (self._header[4] if user == "root" else None) or self._header[3]
        groups = [] if said == ALONE else [tuple(group.split(" or ")) for group in said.split(", and ")]
        unknown = {layer for group in groups for layer in group}.difference(KERNELS)
        assert not unknown, f"the header of {self.path} rests on what is no layer: {unknown}"
        return groups

    def holds(self, without: Collection[str], user: str = "ordinary") -> bool:
        """Whether its header promises the outcome without these layers."""
        return all(any(layer not in without for layer in group) for group in self.rests_on(user))

    @property
    def digest(self) -> str:
        """16 hexadecimal digits of everything that a run of it depends on: its step, its outcomes and its code."""
        code = self.source[self._header.end() :]
        return hashlib.sha256(f"{self.step}\n{self.expected}\n{code}".encode()).hexdigest()[:16]

    @property
    def perfect(self) -> str:
        """What a perfect judge does."""
        return self._header[5]

    @property
    def korean(self) -> str:
        """The same in Korean."""
        return self._header[6]

    @property
    def is_honest(self) -> bool:
        """Whether nothing is tried, and what it uses must work."""
        return self.name.startswith("honest")

    @cached_property
    def _header(self) -> re.Match[str]:
        header = HEADER.match(self.source)
        assert header, f"the header of {self.path} names step, outcome, layers and what a perfect judge does"
        return header


def attacks() -> list[Attack]:
    """All of them, by name."""
    return [Attack(path) for path in sorted((Path(__file__).parent / "attacks").glob("*.py"))]


def one_file(step: str, source: str) -> Submission:
    """A submission of one step."""
    return Submission("attack", {step: (f"attack/{step}.py", source)})


def tried(attack: Attack, grader: Grader, limits: Limits = LIMITS) -> list[str]:
    """Grades an attack; every way in which what came is not what a perfect judge gives."""
    grader.limits = limits
    begin = time.monotonic()
    report = grader.grade(one_file(attack.step, attack.source), [attack.step], device="cpu", seed=SEED)
    took = time.monotonic() - begin
    return [*_wrong_verdict(attack, report, took, limits), *left_behind(grader)]


def tried_in_short(attack: Attack, grader: Grader, limits: Limits) -> list[str]:
    """The same under short deadlines. What was late though it should not be is tried once more under long ones: the
    machine may have been busy."""
    wrong = tried(attack, grader, limits)
    if any(what.startswith("timeout, not") for what in wrong):
        return tried(attack, grader, msgspec.structs.replace(PATIENT, without=limits.without))
    return wrong


def _wrong_verdict(attack: Attack, report: Report, took: float, limits: Limits) -> list[str]:
    (result,) = report.steps
    said = "\n".join(f"{check.name}: {check.status}: {check.message}" for check in result.checks)
    wrong = {
        f"{result.status}, not {' or '.join(attack.expected)}:\n{said}": result.status not in attack.expected,
        f"a fault of ours:\n{said}": "error" in {check.status for check in result.checks},
        "the score is not the status's": (result.score == result.max_score) != (result.status == "pass"),
        f"{took:.1f} s": took > limits.step_seconds + GRACE * limits.call_seconds + SLACK,
        "the report is vast": len(as_json(report)) > 1 << 20,
        "an escape reaches the terminal": "\x1b" in plain(said + result.output),
    }
    return [what for what, is_so in wrong.items() if is_so]


def left_behind(grader: Grader) -> list[str]:
    """What is still there of a submission that was graded, but for the judge, after some time for it to go."""
    wrong = []
    if not eventually(lambda: len(descendants(zygote_pid(grader))) == len(grader._judges)):
        wrong.append("a process lives on")
    if not eventually(lambda: workers_files(grader) == []):
        wrong.append("files are left")
    return wrong


def alive(pids: list[int]) -> list[int]:
    """Those of these processes that still run."""
    running = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        except OSError:
            continue
        running += [] if state in "ZX" else [pid]
    return running


def eventually(true: Callable[[], bool], seconds: float = 120.0) -> bool:
    """Whether it becomes true in time."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def zygote_pid(grader: Grader) -> int:
    """The process that everything is forked from."""
    return int(grader._source.process.pid)  # type: ignore[attr-defined]


def descendants(pid: int) -> list[int]:
    """Every process below `pid`."""
    found, waiting = [], [pid]
    while waiting:
        parent = waiting.pop()
        tasks: list[str] = []
        with suppress(OSError):  # it has ended meanwhile
            tasks = os.listdir(f"/proc/{parent}/task")
        for task in tasks:
            with suppress(OSError):  # this thread of it has
                children = [int(child) for child in Path(f"/proc/{parent}/task/{task}/children").read_text().split()]
                waiting += children
                found += children
    return found


def workers_files(grader: Grader) -> list[str]:
    """What is left in the folders of workers."""
    return [
        str(path)
        for base in Path(tempfile.gettempdir()).glob(f"{BASE}{zygote_pid(grader)}-*")
        for path in base.iterdir()
    ]


# --- as another user -------------------------------------------------------------------------------------------------


class NoOtherUser(RuntimeError):
    """Nothing can be run as another user here."""


def as_an_ordinary_user(command: list[str]) -> list[str]:
    """The command as user 65534, without a capability and without a group, called by root. Raises NoOtherUser.

    Python may be installed where only root may go (below /root). The command then runs in a mount namespace of its own
    in which an empty folder lies over each folder that is closed, and in it only what leads to Python and the kit.
    Nothing on the machine is copied and no permission is changed.
    """
    if not (setpriv := shutil.which("setpriv")) or not (unshare := shutil.which("unshare")):
        raise NoOtherUser("setpriv and unshare are not installed")
    user = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--no-new-privs"]
    needed = {str(Path(path).resolve()) for path in (sys.base_prefix, sys.prefix, ROOT)}
    closed = sorted({str(parent) for path in needed for parent in Path(path).parents if not _others_may_pass(parent)})
    outermost = [path for path in closed if not any(Path(path).is_relative_to(o) for o in closed if o != path)]
    mounts = []
    for folder in outermost:
        inside = sorted(path for path in needed if Path(path).is_relative_to(folder))
        kept = [path for path in inside if not any(Path(path).is_relative_to(o) for o in inside if o != path)]
        for number, path in enumerate(kept):
            mounts.append(f'mkdir /mnt/{number} && mount --rbind "{path}" /mnt/{number}')
        mounts.append(f'mount -t tmpfs -o mode=755 kit "{folder}"')
        for number, path in enumerate(kept):
            mounts.append(f'mkdir -p "{path}" && mount --rbind /mnt/{number} "{path}"')
    if not mounts:
        return [*user, *command]
    script = " && ".join(["mount -t tmpfs kit /mnt", *mounts, 'exec "$@"'])
    return [unshare, "--mount", "--propagation", "private", "sh", "-c", script, "sh", *user, *command]


def require_ordinary_user() -> None:
    """Raises NoOtherUser when root can't start Python with torch as one here; whoever is not root is one."""
    if os.geteuid() != 0:
        return
    starts = "import subprocess, sys, torch; subprocess.run([sys.executable, '-c', ''], check=True)"
    try:
        command = as_an_ordinary_user([sys.executable, "-c", starts])
        tried = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    except OSError as error:
        raise NoOtherUser(str(error)) from error
    if tried.returncode != 0:
        raise NoOtherUser(f"an ordinary user can't start Python here: {tried.stderr[-300:]}")


def _others_may_pass(folder: Path) -> bool:
    return bool(folder.stat().st_mode & 0o001)
