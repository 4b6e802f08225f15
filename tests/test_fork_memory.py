"""Arranging the zygote's memory so that forking it is cheap."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from grader.judge.grader import ROOT, Grader
from tests.hostile import descendants, eventually, zygote_pid

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has these pages")

DATA = """
import mmap
kept = mmap.mmap(-1, 16 << 20, mmap.MAP_PRIVATE)  # no page of it there yet
empty = len(list(fork_memory.collapse_into_huge_pages()))
kept[:] = b"x" * len(kept)
full = len(list(fork_memory.collapse_into_huge_pages()))
assert kept[:] == b"x" * len(kept)
print(full - empty)
"""


def alone(source: str) -> int:
    """What a process of its own prints: it is its own memory that is arranged."""
    start = f"import re, sys; sys.path.insert(0, {str(ROOT)!r})\nfrom grader.judge import fork_memory\n"
    done = subprocess.run([sys.executable, "-I", "-c", start + source], check=False, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return int(done.stdout)


def huge_memory(pid: int) -> int:
    """KiB of a process's memory in huge pages."""
    listing = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(map(int, re.findall(r"^AnonHugePages: +(\d+)", listing, re.MULTILINE)))


@linux
def test_only_what_is_there_goes_into_huge_pages() -> None:
    require_huge_pages()
    assert alone(DATA) >= 6  # of 8, less what lies across the edges


@pytest.mark.thorough
@linux
@pytest.mark.parametrize("many", [False, True])
def test_zygote_collapses_its_memory_at_once_or_when_idle(many: bool) -> None:
    require_huge_pages()
    with Grader(1, many=many) as grader:
        grader._judges.append(grader._source.new())
        zygote = zygote_pid(grader)
        before = huge_memory(zygote)
        if not many:
            assert eventually(lambda: huge_memory(zygote) > before + (4 << 10), 30)
        assert huge_memory(zygote) > 4 << 10
        assert len(descendants(zygote)) == 1, "the judge is still there"


def require_huge_pages() -> None:
    """Skips where this system does not put memory into huge pages when it is asked to."""
    ask = "import ctypes, mmap\nmemory = mmap.mmap(-1, 4 << 20, mmap.MAP_PRIVATE); memory.write(bytes(4 << 20))\n"
    ask += "place = ctypes.addressof(ctypes.c_char.from_buffer(memory)); place += -place % (2 << 20)\n"
    ask += "exit(ctypes.CDLL(None).madvise(ctypes.c_size_t(place), ctypes.c_size_t(2 << 20), 25) != 0)"
    if subprocess.run([sys.executable, "-c", ask], check=False).returncode:
        pytest.skip("this system does not put memory into huge pages when asked")
