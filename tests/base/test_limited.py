"""What one person handed in takes the kit so much time and memory, and no more; then their row says so."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.base import syntax
from grader.base.files import holds_any
from grader.base.limited import LimitedProcess, OverBudget
from grader.classes import class_list, roster
from grader.course import submissions
from grader.course.renamed import imported, own_stem


@pytest.fixture(scope="module")
def reader() -> Iterator[LimitedProcess]:
    limited = LimitedProcess(seconds=1, memory=256 << 20)
    yield limited
    limited.close()


def test_a_call_is_made_elsewhere(reader: LimitedProcess) -> None:
    assert reader.call(os.getpid) == reader.call(os.getpid) != os.getpid()
    assert reader.call(sum, [1, 2]) == 3
    with pytest.raises(FileNotFoundError):
        reader.call(os.listdir, "/nowhere")


def test_a_call_that_takes_too_long_is_ended(reader: LimitedProcess) -> None:
    with pytest.raises(OverBudget, match="more than 1 s of the processor"):
        reader.call(sum, range(10**12))
    assert reader.call(sum, [1, 2]) == 3  # another process


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="memory is limited on Linux")
def test_a_call_that_takes_too_much_memory_is_ended(reader: LimitedProcess) -> None:
    with pytest.raises(OverBudget, match="GiB of memory"):
        reader.call(bytes, 1 << 30)
    assert reader.call(sum, [1, 2]) == 3


def test_the_time_of_one_call_is_not_that_of_the_next(reader: LimitedProcess) -> None:
    for _time in range(3):
        assert reader.call(sum, range(10**7)) > 0


def test_a_class_goes_on_past_one_person(tmp_path: Path, reader: LimitedProcess) -> None:
    for name in ("ada", "eve", "zoe"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "step01_scores.py").write_text("def dot_product_scores(q, k): return q\n")
    for number in range(150):
        (tmp_path / "eve" / f"h{number}.py").write_text(f"#{number}\n" + "import a, b, c\n" * 17_000)
    listed = class_list.read(tmp_path)
    students = {student.name: student for student in roster.students(tmp_path, listed, "a", reader=reader)}
    assert list(students) == [person.name for person in listed]
    assert students["eve"].problem.startswith("eve can't be read (Reading it took more than 1 s")
    for name in ("ada", "zoe"):
        assert not students[name].problem and "step01_scores" in students[name].submission.sources


# Each of these took a time that grew with the square of its length, or faster.


def test_a_name_of_many_separators() -> None:
    for letter in "_ -":
        assert own_stem(f"my {letter * 200}notes.py") == f"my {letter * 200}notes"


def test_imports_that_are_never_closed() -> None:
    assert imported("from a import (\n" * 16_000) == {"a"}
    assert imported("from . import (b,\n  c)\nfrom a import (\nimport d, e.f as g\n") == {"b", "c", "a", "d", "f"}


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder of which nothing is left: pytest's own removal of old ones goes no deeper than Python's stack."""
    yield tmp_path
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_a_folder_as_deep_as_a_path_may_be(deep: Path) -> None:
    tmp_path = deep
    (tmp_path / "step01_scores.py").write_text("def dot_product_scores(q, k): return q\n")
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        for _level in range(1500):
            os.mkdir("d", dir_fd=here)
            here, above = os.open("d", os.O_RDONLY, dir_fd=here), here
            os.close(above)
    finally:
        os.close(here)
    read = submissions.read(tmp_path)
    assert "step01_scores" in read.sources and not read.problems
    assert not holds_any(tmp_path / "d")
    Path(tmp_path, *["d"] * 1200, "there").touch()
    assert holds_any(tmp_path / "d")


def test_parsing_has_a_budget_of_one_person() -> None:
    slow = "x = f'" + "{a}" * 4_000 + "'\n"
    with syntax.budget(0.2), pytest.raises(OverBudget, match="Parsing it took more than"):
        for number in range(100_000):
            syntax.tree_of(f"{slow}{number}\n", 1 << 20)
    assert syntax.tree_of(slow, 1 << 20)
