"""Files that a browser, an editor or a platform has renamed are read where they are the only answer, else named."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from grader.classes import class_list, roster
from grader.course import submissions, unread
from grader.course.renamed import step_meant

STEPS = ["step02_softmax", "step03_attention", "step06_causal_attention", "step11_gpt_block", "step12_gpt"]


@pytest.mark.parametrize(
    ("stem", "step"),
    [
        ("step02_softmax-1", "step02_softmax"),
        ("step03_attention (1)", "step03_attention"),
        ("Step12_GPT", "step12_gpt"),
        ("step12_gpt - Copy", "step12_gpt"),
        ("step12_gpt copy 2", "step12_gpt"),
        ("doejane_LATE_81_4711_step02_softmax-2", "step02_softmax"),
        ("홍길동_step02_softmax 복사본", "step02_softmax"),
        ("step11_gpt_block", "step11_gpt_block"),
        ("step12_gpt_block", None),
        ("step02_softmax_test", None),
        ("mystep02_softmax", None),
        ("softmax", None),
    ],
)
def test_which_step_is_meant(stem: str, step: str | None) -> None:
    assert step_meant(stem, STEPS) == step


def write(folder: Path, **files: str) -> submissions.Submission:
    for name, text in files.items():
        (folder / name.replace("__", " ")).write_text(text, encoding="utf-8")
    return submissions.read(folder)


def test_the_only_answer_is_read(tmp_path: Path) -> None:
    """Also beside an untouched stub of the right name."""
    stub = "def softmax(x):\n    raise NotImplementedError\n"
    read = write(tmp_path, **{"step02_softmax.py": stub, "step02_softmax-1.py": "x = 1\n"})
    assert read.files == {"step02_softmax.py": "an untouched stub", "step02_softmax-1.py": "graded as step02_softmax"}
    assert read.sources["step02_softmax"] == (f"{tmp_path.name}/step02_softmax-1.py", "x = 1\n")
    assert not read.problems
    assert not read.unread


def test_two_different_answers_are_a_problem_and_no_zero(tmp_path: Path) -> None:
    read = write(tmp_path, **{"step02_softmax-1.py": "x = 1\n", "step02_softmax (2).py": "x = 2\n"})
    assert "step02_softmax" not in read.sources
    assert "answered twice" in read.problems["step02_softmax"]


def test_what_is_not_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "step03_attention.py").write_text("")
    files = {"step02_softmax.py": "x = 1\n", "step02_softmax-1.py": "x = 2\n", "work.zip": "", "my answer.py": ""}
    read = write(tmp_path, **files)
    assert read.sources["step02_softmax"][1] == "x = 1\n"
    assert set(read.unread) == {"step02_softmax-1.py", "work.zip", "my answer.py", "more/"}


def test_many_are_named_in_short(tmp_path: Path) -> None:
    read = write(tmp_path, **{f"{number}.zip": "" for number in range(60)})
    assert len(read.unread) == unread.MAX_UNREAD + 1


def test_one_folder_is_nobody_elses_problem(tmp_path: Path) -> None:
    """A thousand nested folders, a link to itself: the others are graded."""
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "step02_softmax.py").write_text("x = 1\n")
    (tmp_path / "deep").mkdir()
    here = os.open(tmp_path / "deep", os.O_RDONLY)
    for _level in range(1200):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (tmp_path / "loop").symlink_to("loop")
    found = {one.name: one for one in roster.students(tmp_path, class_list.read(tmp_path), "attention")}
    assert not found["ada"].problem
    assert "step02_softmax" in found["ada"].submission.sources
    assert set(found) >= {"ada", "deep"}
    subprocess.run(["rm", "-r", tmp_path / "deep"], check=True)  # too deep for pytest to tidy up


def test_a_document_is_named(tmp_path: Path) -> None:
    """It may hold an answer, which nobody reads there."""
    read = write(tmp_path, **{"step02_softmax.py": "x = 1\n", "report.docx": "", "photo.png": ""})
    assert list(read.unread) == ["photo.png", "report.docx"]


LEFTOVERS = {
    "a clone": [".git/HEAD"],
    "checkpoints": [".ipynb_checkpoints/attention-checkpoint.ipynb", "__pycache__/step01_scores.pyc"],
    "an archive of macOS": ["__MACOSX/._step01_scores.py"],
    "what was put aside": [".backup/1/step01_scores.py"],
    "an empty folder": ["work/"],
    "files of macOS": ["._step01_scores.py", "._attention.ipynb"],
    "what nbgrader adds": ["timestamp.txt"],
}


@pytest.mark.parametrize("kind", LEFTOVERS)
def test_only_leftovers_are_not_nothing(kind: str, tmp_path: Path) -> None:
    """A person must look, and is told what was found; only an empty folder is nothing handed in."""
    assert unread.without_answer(submissions.read(tmp_path)) == ""
    for name in LEFTOVERS[kind]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).write_text("def softmax(): return 1\n")
    reason = unread.without_answer(submissions.read(tmp_path))
    assert "No answer was found" in reason
    assert LEFTOVERS[kind][0].partition("/")[0] in reason


def test_a_file_of_macos_answers_nothing(tmp_path: Path) -> None:
    """Whatever it contains, and even if it looks like Python."""
    written = "def dot_product_scores(query, key):\n    return query @ key.mT\n"
    read = write(tmp_path, **{"step01_scores.py": written, "._step01_scores.py": written + "x = 1\n"})
    assert (read.sources["step01_scores"][1], read.problems, read.unread) == (written, {}, {})
    assert read.files["._step01_scores.py"] == "made by a program"


def test_work_put_aside_is_the_students(tmp_path: Path) -> None:
    (tmp_path / ".backup").mkdir()
    read = write(tmp_path, **{"step01_scores.py": "def f():\n    return 1\n"})
    assert "student's own work" in read.files.get(".backup", read.files.get(".backup/", ""))
