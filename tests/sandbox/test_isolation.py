"""Each layer by itself, on kernels of several ages, in a process of its own."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grader.base.limits import Limits
from grader.cli import common, main
from grader.judge.grader import ROOT, Grader, NotIsolated, UnknownLayer, required_layers
from grader.judge.messages import Channel, Unmet
from grader.judge.session import Session
from grader.learner import background
from grader.sandbox import kernel
from grader.sandbox.environment import clean_environment
from grader.sandbox.forked import ForkLauncher
from tests.hostile import STEP, one_file

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the layers are Linux's")

START = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    "from grader.sandbox import kernel as isolation\nimport json, os, socket\n"
)
TRIES = """
def held(attempt):
    try:
        attempt()
    except OSError as error:
        return type(error).__name__
    return "allowed"

print(json.dumps({
    "outside": held(lambda: os.listdir("/etc")),
    "write_outside": held(lambda: open("../outside", "w")),
    "own": held(lambda: open("own", "w").write("mine")),
    "library": held(lambda: open(json.__file__).read()),
    "rename": held(lambda: (os.mkdir("folder"), os.rename("own", "folder/own"))),
    "socket": held(lambda: socket.socket()),
    "fork": held(lambda: os.fork() or os._exit(0)),
}))
"""


def tried(bound: str, folder: Path) -> dict[str, str]:
    """What a process is refused after the line `bound`."""
    source = f"{START}isolation.prctl(isolation.PR_SET_NO_NEW_PRIVS, 1)\n{bound}\n{TRIES}"
    ran = subprocess.run([sys.executable, "-I", "-c", source], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout.splitlines()[-1]))


@pytest.mark.parametrize("abi", range(1, 8))
def test_landlock_of_every_version(abi: int, tmp_path: Path) -> None:
    """An older kernel's Landlock still hides files; only what came later is missing."""
    if kernel.landlock_abi() < abi:
        pytest.skip("this kernel's Landlock is older")
    paths = f"isolation.readable_paths({str(ROOT)!r})"
    got = tried(f"assert isolation.restrict_files({str(tmp_path)!r}, {paths}, abi={abi})", tmp_path)
    assert got["outside"] == got["write_outside"] == "PermissionError"
    assert got["own"] == got["library"] == "allowed"
    # The first version knows no way to allow a move between folders.
    assert got["rename"] == ("allowed" if abi > 1 else "OSError")


def test_filter_alone(tmp_path: Path) -> None:
    """What is refused is refused with PermissionError, and files are as before."""
    if not kernel.can_filter():
        pytest.skip("no filter on this system")
    got = tried("assert isolation.filter_calls()", tmp_path)
    assert got["socket"] == got["fork"] == "PermissionError"
    assert got["own"] == got["library"] == got["outside"] == "allowed"


def test_nothing_where_the_kernel_has_none(tmp_path: Path) -> None:
    """A missing layer is said to be missing."""
    assert kernel.restrict_files(str(tmp_path), [], abi=0) is False


def test_course_is_not_readable() -> None:
    """No path that is opened leads to the solutions, wherever packages are installed."""
    solutions = ROOT / "solutions"
    for path in kernel.readable_paths(str(ROOT)):
        assert not solutions.is_relative_to(path), path


@pytest.mark.parametrize("column", [1, 2], ids=["x86-64", "aarch64"])
def test_tables(column: int) -> None:
    """No call stands twice, and none that harms is among them."""
    numbers = [entry[column] for entry in kernel.ALLOWED if entry[column] is not None]
    assert len(numbers) == len(set(numbers))
    assert max(number for number in numbers if isinstance(number, int)) < kernel.FIRST_UNKNOWN
    harmful = {
        "socket",
        "ptrace",
        "execve",
        "clone",
        "fork",
        "vfork",
        "kill",
        "bpf",
        "mount",
        "chmod",
        "io_uring_setup",
    }
    assert not harmful & {entry[0] for entry in kernel.ALLOWED}


# --- namespaces ------------------------------------------------------------------------------------------------------

JOINED = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
from grader.sandbox import kernel
from grader.sandbox import namespaces
import json, os, socket
base = os.getcwd()
spaces = namespaces.make(base, kernel.readable_paths({str(ROOT)!r}), kernel.library_places())
os.mkdir("own"), os.mkdir("other")
if spaces is None:
    print("null")
else:
    spaces.join(1 << 20)
    open("mine", "w").close()
    try:
        full = open("large", "wb").write(bytes(2 << 20))
    except OSError as error:
        full = error.errno
    os.unlink("large")
    kernel.drop_privileges()
    print(json.dumps({{
        "interfaces": [name for _number, name in socket.if_nameindex()],
        "there": [place for place in ({str(ROOT / "grader")!r}, "/etc/passwd", "/proc/self", base + "/other")
                  if os.path.exists(place)],
        "libraries": os.path.exists(json.__file__) and os.path.exists(os.path.join(sys.prefix)),
        "uid": os.getuid(),
        "again": [kernel.libc().unshare(namespaces.NEW_USER), namespaces.make(os.getcwd(), [], [])],
        "left": os.listdir("."),
        "full": full,
        "root is for reading": not os.access("/", os.W_OK),
        "descriptors": len(os.listdir("/dev")) > 0 and spaces.descriptors != () and not any(
            os.path.exists(f"/proc/self/fd/{{number}}") for number in spaces.descriptors),
    }}))
"""


def test_namespaces(tmp_path: Path) -> None:
    """What has joined sees Python's files and its own folder, no network, and can make no namespaces of its own."""
    ran = subprocess.run([sys.executable, "-I", "-c", JOINED], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    got = json.loads(ran.stdout)
    if got is None:
        pytest.skip("no namespaces for this user on this system")
    assert got["interfaces"] in ([], ["lo"])
    assert got["there"] == []
    assert got["libraries"] and got["root is for reading"] and got["descriptors"]
    assert (got["uid"], got["again"], got["left"]) == (os.getuid(), [-1, None], ["mine"])
    assert got["full"] == errno.ENOSPC
    assert not (tmp_path / "own" / "mine").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "own"]


# --- what is required ------------------------------------------------------------------------------------------------

LOOP = "def softmax(x, dim=-1):\n    return x\nwhile True:\n    pass\n"


@pytest.mark.thorough
@pytest.mark.parametrize("fork", [True, False], ids=["forked", "spawned"])
def test_nothing_runs_without_what_is_required(fork: bool) -> None:
    """Refused before a line of the learner's code has run: this one would not end."""
    begin = time.monotonic()
    limits = Limits(call_seconds=600.0, required=("limits", "seccomp"), without=("seccomp",))
    with Grader(1, limits, fork=fork) as grader, pytest.raises(NotIsolated, match=r"\(seccomp\).*Type: python -m"):
        grader.grade(one_file(STEP, LOOP), [STEP], device="cpu")
    assert time.monotonic() - begin < 300.0


def test_an_accelerator_has_what_holds_everywhere() -> None:
    """What is required is looked for on each device, and a run on one says nothing of the next."""
    ours, theirs = socket.socketpair()
    launcher = ForkLauncher(ours, ("namespaces", "landlock", "seccomp"))
    cpu, cuda = Limits(required=("landlock",)), Limits(required=("landlock",), accelerator=True)
    with ours, theirs:
        session = Session(Channel(theirs), launcher)
        assert session._unmet(["cpu"], cpu) is None
        assert session._unmet(["cpu", "cuda"], cpu) == Unmet("cuda", ["landlock"])
    launcher.begin_run()
    launcher._had += [launcher.promised(cpu), launcher.promised(cuda)]
    assert launcher.in_force(cpu) == ("process", "limits")
    launcher.begin_run()
    assert launcher.in_force(cpu) == ("process", "limits", "namespaces", "landlock", "seccomp")


def test_a_worker_refuses_to_go_on_without(tmp_path: Path) -> None:
    """The last to look is the process that the code would run in."""
    bound = (
        "from grader.sandbox import bounds; from grader.base.limits import Limits\n"
        f"bounds.restrict(Limits(accelerator=True, required=('landlock',)), {str(tmp_path)!r})"
    )
    source = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{bound}"
    ran = subprocess.run([sys.executable, "-I", "-c", source], capture_output=True, text=True)
    assert ran.returncode != 0
    assert ran.stderr.splitlines()[-1] == "grader.sandbox.kernel.LayerNotInForce: landlock"


@pytest.mark.parametrize("text", ["landlok", "landlock,", "seccomp;landlock"])
def test_unknown_layers_are_refused(text: str) -> None:
    """A misspelt layer is not one that is met."""
    with pytest.raises(UnknownLayer):
        required_layers(text)


@pytest.mark.thorough
def test_the_command_refuses_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and the command to type next."""
    monkeypatch.chdir(ROOT)  # whose exercises are graded
    monkeypatch.setattr(sys, "argv", ["grader", "grade", "--step", "2", "--require-isolation", "landlock"])
    monkeypatch.setattr(common, "limits", lambda *asked: Limits(required=("landlock",), without=("landlock",)))
    assert main.main() == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
    assert said.err.strip().endswith("Type: python -m grader doctor")


@pytest.mark.parametrize(
    ("spoken", "words"), [("en", "Nothing was graded"), ("ko", "채점하지 않았습니다")], ids=["en", "ko"]
)
def test_watch_refuses_in_one_line(
    spoken: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends before a line of the learner's code has run, with the exit code and the words of `grade`."""
    (tmp_path / f"{STEP}.py").write_text(LOOP, encoding="utf-8")
    monkeypatch.setattr(background, "LIMITS", Limits(call_seconds=600.0, without=("landlock",)))
    asked = ["watch", "2", "--submission", str(tmp_path), "--require-isolation", "limits,landlock", "--lang", spoken]
    monkeypatch.setattr(sys, "argv", ["grader", *asked])
    begin = time.monotonic()
    assert main.main() == 2
    assert time.monotonic() - begin < 300.0
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    assert words in said and "(landlock)" in said
    assert said.endswith("python -m grader doctor")


def test_watch_names_the_layers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt layer is refused with the command to type in its place."""
    monkeypatch.chdir(ROOT)  # whose exercises are graded
    monkeypatch.setattr(sys, "argv", ["grader", "watch", "--require-isolation", "landlok", "--lang", "en"])
    assert main.main() == 2
    assert capsys.readouterr().err.strip().endswith("python -m grader watch --require-isolation landlock,seccomp")


@pytest.mark.thorough
def test_no_amx() -> None:
    """Where a virtual machine lists AMX and does not run it, a product in bfloat16 does not end the process."""
    source = (
        "import grader, torch; layer = torch.nn.Linear(16, 48).to(torch.bfloat16).requires_grad_(False);"
        "print(layer(torch.randn(2, 6, 16, dtype=torch.bfloat16)).shape)"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ONEDNN_")}
    ran = subprocess.run([sys.executable, "-c", source], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "ONEDNN_MAX_CPU_ISA" in clean_environment()
