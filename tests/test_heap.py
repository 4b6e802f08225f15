"""The memory that processes are forked from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grader.grading import ROOT, Grader
from tests.hostile import descendants, eventually, zygote_pid

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has these pages")

ALONE = """
import sys; sys.path.insert(0, sys.argv[1])
import mmap
from grader import heap
kept = mmap.mmap(-1, 16 << 20, mmap.MAP_PRIVATE)  # no page of it there yet
empty = len(list(heap.huge_pages()))
kept[:] = b"x" * len(kept)
full = len(list(heap.huge_pages()))
assert kept[:] == b"x" * len(kept)
print(full - empty)
"""


def huge(pid: int) -> int:
    """KiB of a process in huge pages."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages"))


@linux
def test_only_what_is_there_goes_into_huge_pages() -> None:
    if not can():
        pytest.skip("this system does not put memory into huge pages when asked")
    printed = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, str(ROOT)], check=True, capture_output=True, text=True
    ).stdout
    assert int(printed) >= 6  # of 8, less what lies across the edges


@linux
@pytest.mark.parametrize("many", [False, True])
def test_zygote_lays_out_its_memory_at_once_or_when_idle(many: bool) -> None:
    if not can():
        pytest.skip("this system does not put memory into huge pages when asked")
    with Grader(1, many=many) as grader:
        grader._judges.append(grader._source.new())
        zygote = zygote_pid(grader)
        assert bool(huge(zygote)) == many
        assert eventually(lambda: huge(zygote) > 64 << 10, 30)
        assert len(descendants(zygote)) == 1, "the judge is still there"


def can() -> bool:
    """Whether this system puts memory into huge pages when it is asked to."""
    ask = "import ctypes, mmap\nmemory = mmap.mmap(-1, 4 << 20, mmap.MAP_PRIVATE); memory.write(bytes(4 << 20))\n"
    ask += "place = ctypes.addressof(ctypes.c_char.from_buffer(memory)); place += -place % (2 << 20)\n"
    ask += "exit(ctypes.CDLL(None).madvise(ctypes.c_size_t(place), ctypes.c_size_t(2 << 20), 25) != 0)"
    return subprocess.run([sys.executable, "-c", ask], check=False).returncode == 0
