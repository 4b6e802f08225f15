"""Each layer by itself, on kernels of several ages, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from grader import isolation
from grader.grading import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the layers are Linux's")

START = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom grader import isolation\nimport json, os, socket\n"
TRIES = """
def held(attempt):
    try:
        attempt()
    except OSError as error:
        return type(error).__name__
    return "allowed"

print(json.dumps({
    "outside": held(lambda: os.listdir("/etc")),
    "write_outside": held(lambda: open("/tmp/isolation-of-the-kit", "w")),
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
    if isolation.landlock_abi() < abi:
        pytest.skip("this kernel's Landlock is older")
    paths = f"isolation.readable_paths({str(ROOT)!r})"
    came = tried(f"assert isolation.restrict_files({str(tmp_path)!r}, {paths}, abi={abi})", tmp_path)
    assert came["outside"] == came["write_outside"] == "PermissionError"
    assert came["own"] == came["library"] == "allowed"
    # The first version knows no way to allow a move between folders.
    assert came["rename"] == ("allowed" if abi > 1 else "OSError")


def test_filter_alone(tmp_path: Path) -> None:
    """What is refused is refused with PermissionError, and files are as before."""
    if not isolation.can_filter():
        pytest.skip("no filter on this system")
    came = tried("assert isolation.filter_calls()", tmp_path)
    assert came["socket"] == came["fork"] == "PermissionError"
    assert came["own"] == came["library"] == came["outside"] == "allowed"


def test_nothing_where_the_kernel_has_none(tmp_path: Path) -> None:
    """A missing layer is said to be missing."""
    assert isolation.restrict_files(str(tmp_path), [], abi=0) is False


def test_course_is_not_readable() -> None:
    """No path that is opened leads to the solutions, wherever packages are installed."""
    solutions = ROOT / "solutions"
    for path in isolation.readable_paths(str(ROOT)):
        assert not solutions.is_relative_to(path), path


@pytest.mark.parametrize("column", [1, 2], ids=["x86-64", "aarch64"])
def test_tables(column: int) -> None:
    """No call stands twice, and none that harms is among them."""
    numbers = [entry[column] for entry in isolation.ALLOWED if entry[column] is not None]
    assert len(numbers) == len(set(numbers))
    assert max(number for number in numbers if isinstance(number, int)) < isolation.FIRST_UNKNOWN
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
    assert not harmful & {entry[0] for entry in isolation.ALLOWED}
