"""How the memory lies that processes are forked from."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from grader.grading import ROOT, Grader
from tests.hostile import descendants, eventually, zygote_pid

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has these pages")

DATA = """
import mmap
kept = mmap.mmap(-1, 16 << 20, mmap.MAP_PRIVATE)  # no page of it there yet
empty = len(list(layout.HugePages().steps()))
kept[:] = b"x" * len(kept)
full = len(list(layout.HugePages().steps()))
assert kept[:] == b"x" * len(kept)
print(full - empty)
"""
CODE = """
import ctypes, zlib
import torch
torch.set_num_threads(1)

def huge():
    listing = open("/proc/self/smaps").read()
    return sum(map(int, re.findall(r" r-xp .*\\n(?:\\w+: .*\\n)*?AnonHugePages: +(\\d+)", listing)))

def of_files(before=None):
    found = layout._code() if before is None else [place for place, _sum in before]
    return [((start, end), zlib.crc32(ctypes.string_at(start, end - start))) for start, end in found]

def work():
    x = torch.ones(8, 8, requires_grad=True)
    torch.softmax(x @ x.T, -1).sum().backward()
    return torch.nn.MultiheadAttention(8, 2)(x, x, x)[0].shape

pages = layout.HugePages()
pages.forget_code()
work()
pages.note_code()
noted, before = len(pages._code), of_files()
assert not huge()
list(pages.steps())
assert huge() == noted * 2048, (huge(), noted)
assert of_files(before) == before, "the code has changed"
assert work() == (8, 8)
assert not pages._code and layout.HugePages()._code == []
print(noted)
"""


def alone(source: str) -> int:
    """What a process of its own prints: its memory is what is laid out."""
    start = f"import re, sys; sys.path.insert(0, {str(ROOT)!r})\nfrom grader import layout\n"
    done = subprocess.run([sys.executable, "-I", "-c", start + source], check=False, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return int(done.stdout)


def huge_code(pid: int) -> int:
    """KiB of a process's code in huge pages."""
    listing = Path(f"/proc/{pid}/smaps").read_text()
    return sum(map(int, re.findall(r" r-xp .*\n(?:\w+: .*\n)*?AnonHugePages: +(\d+)", listing)))


@linux
def test_only_what_is_there_goes_into_huge_pages() -> None:
    require_huge_pages()
    assert alone(DATA) >= 6  # of 8, less what lies across the edges


@linux
def test_code_that_is_run_goes_into_huge_pages_and_stays_the_same() -> None:
    require_huge_pages()
    assert alone(CODE) >= 3


@linux
@pytest.mark.parametrize("many", [False, True])
def test_zygote_lays_out_its_memory_at_once_or_when_idle(many: bool) -> None:
    require_huge_pages()
    with Grader(1, many=many) as grader:
        grader._judges.append(grader._source.new())
        zygote = zygote_pid(grader)
        assert bool(huge_code(zygote)) == many
        assert eventually(lambda: huge_code(zygote) > 16 << 10, 30)
        assert len(descendants(zygote)) == 1, "the judge is still there"


def require_huge_pages() -> None:
    """Skips where this system does not put memory into huge pages when it is asked to."""
    if platform.machine() != "x86_64":
        pytest.skip("code is laid out on x86-64 alone")
    ask = "import ctypes, mmap\nmemory = mmap.mmap(-1, 4 << 20, mmap.MAP_PRIVATE); memory.write(bytes(4 << 20))\n"
    ask += "place = ctypes.addressof(ctypes.c_char.from_buffer(memory)); place += -place % (2 << 20)\n"
    ask += "exit(ctypes.CDLL(None).madvise(ctypes.c_size_t(place), ctypes.c_size_t(2 << 20), 25) != 0)"
    if subprocess.run([sys.executable, "-c", ask], check=False).returncode:
        pytest.skip("this system does not put memory into huge pages when asked")
