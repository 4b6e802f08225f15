"""The command lines: what is refused is one line in the language in use, whichever Python it is typed to."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from grader.base import paths
from grader.cli import common, main
from grader.cli.parser import BadInput

ROOT = paths.ROOT
# What runs before any package is needed.
BARE = ("__init__.py", "__main__.py", *(f"base/{name}.py" for name in ("__init__", "files", "language", "paths")),
        "judge/__init__.py", "judge/zygote_process.py", "sandbox/__init__.py", "sandbox/environment.py")  # fmt: skip


def run(*command: str, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A Python of the kit's in a process of its own, 80 columns wide."""
    given = {"PATH": "/usr/bin:/bin", "COLUMNS": "80", "NO_COLOR": "1", "LANG": "C.UTF-8"} | environment
    return subprocess.run([sys.executable, *command], capture_output=True, cwd=folder, timeout=600, env=given)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("grader grade --what", "그런 옵션이 없습니다: --what. 입력할 명령: python -m grader grade HELP=1"),
        ("grader hint 1 2", "받지 않는 인자입니다: 2. 입력할 명령: python -m grader hint HELP=1"),
        ("grader abacus", "그런 명령이 없습니다: abacus. 입력할 명령: python -m grader grade HELP=1"),
        ("grader wtch", "그런 명령이 없습니다: wtch. 혹시 watch인가요? 입력할 명령: python -m grader grade HELP=1"),
        ("grader grade --step", "옵션에 값이 필요합니다: --step. 입력할 명령: python -m grader grade HELP=1"),
        ("grader class", "인자가 빠졌습니다: SUBMISSIONS. 입력할 명령: python -m grader class HELP=1"),
        ("grader grade --seed many", "--seed 값이 맞지 않습니다: 정수가 아닙니다."),
        ("grader grade --seed -1", "--seed 값이 맞지 않습니다: 0 이상이어야 합니다."),
        ("grader grade --step=1-99", "그런 단계가 없습니다: 99. step01_scores부터 "),
        ("grader grade --step 6-1", "범위의 순서가 거꾸로입니다: 6-1. 입력할 명령: python -m grader grade --step 1-6"),
        ("grader lesson 1-3", "여기에는 단계를 하나만 쓸 수 있는데 3개가 골라졌습니다: 1-3."),
        ("grader grade --track none", "그런 트랙이 없습니다: none. 있는 트랙: core"),
        ("grader grade --patience 101", "--patience 값이 맞지 않습니다: 100 이하여야 합니다."),
        ("grader grade --patience much", "--patience 값이 맞지 않습니다: 숫자가 아닙니다."),
        (
            "grader grade --device tpu!",
            "--device 값이 맞지 않습니다: 장치는 torch가 부르는 이름으로 씁니다: cpu, cuda, mps, xpu 또는 all.",
        ),
        ("grader grade --open=3", "값을 받지 않는 옵션입니다: --open. 입력할 명령: python -m grader grade HELP=1"),
        ("grader lesson 1 --lang xx", "지원하지 않는 언어입니다: xx. 쓸 수 있는 언어는 en, ko입니다. 입력할 명령: "),
        ("grader exercises --folder README.md", "README.md: 쓸 수 없습니다"),
        ("grader kit --folder README.md", "README.md: 쓸 수 없습니다"),
        ("grader grade --step 1 --json .", ".: 쓸 수 없습니다"),
        ("grader release --assignment a/b", "--assignment 값이 맞지 않습니다: 글자, 숫자, -, _만 쓸 수 있습니다."),
        ("grader lab --model theirs", "--model 값이 맞지 않습니다: 쓸 수 있는 값은 mine, kit입니다."),
        (
            "grader lab --what",
            "그런 옵션이 없습니다: --what. 입력할 명령: python -m grader lab HELP=1",
        ),
    ],
)
def test_what_is_refused_is_one_korean_line(line: str, said: str) -> None:
    """Exit code 2, nothing on standard output, one line that ends in a command."""
    done = run("-m", *line.split(" "), KIT_LANG="ko")
    error = done.stderr.decode()
    assert done.returncode == 2, error
    assert done.stdout == b""
    assert len(error.strip().splitlines()) == 1
    assert said in error
    assert "입력할 명령: python -m grader" in error


def test_help_is_in_the_language_in_use() -> None:
    """Of the commands and of their options."""
    assert (
        "제출물을 채점하고 다음에 할 일을 알려 줍니다." in run("-m", "grader", "--help", KIT_LANG="ko").stdout.decode()
    )
    assert "여러분의 글." in run("-m", "grader", "lab", "--help", "--lang", "ko").stdout.decode()
    assert "Give one more hint for a step." in run("-m", "grader", "hint", "--help").stdout.decode()


def test_the_help_of_grade_says_what_its_exit_code_means() -> None:
    """0 with a failing submission as well."""
    said = " ".join(run("-m", "grader", "grade", "--help").stdout.decode().split())
    assert "The exit code is 0 whether the submission passes or not" in said


@pytest.mark.thorough
def test_korean_help_is_korean_throughout() -> None:
    """Every command's, its headings too; and no line is wider than the terminal."""
    for command in [one.name for group in main.GROUPS for one in main.commands(group)]:
        said = run("-m", "grader", command, "--help", KIT_LANG="ko").stdout.decode()
        for english in ("Usage:", "Options:", "Arguments:", "default:", "required", "Show this"):
            assert english not in said
        assert f"사용법: python -m grader {command}" in said
        assert "옵션:" in said
        assert max(cell_len(line) for line in said.splitlines()) <= 80


@pytest.mark.parametrize(
    "line", ["lesson 1 --lang en", "lesson --lang en 1", "lesson --lang=en -- 1", "lesson --step 1"]
)
def test_options_and_arguments_stand_in_any_order(line: str) -> None:
    assert "dot product" in run("-m", "grader", *line.split(" ")).stdout.decode()


def test_a_value_is_not_an_option() -> None:
    """A negative number, a dash, what follows an equals sign: values; what looks like an option is none."""
    said = run("-m", "grader", "grade", "--seed", "-1").stderr.decode()
    assert "--seed: must be at least 0" in said
    assert "The option --step needs a value." in run("-m", "grader", "grade", "--step", "--seed", "1").stderr.decode()
    assert "There is no step ''." in run("-m", "grader", "grade", "--step=").stderr.decode()
    for wanted in ("-1", "3-"):  # half a range is shown as it was typed
        assert f"There is no step {wanted}." in run("-m", "grader", "grade", f"--step={wanted}").stderr.decode()


@pytest.mark.parametrize("line", ["grade --help", "grade --what", "--help"])
def test_the_command_line_starts_light(line: str) -> None:
    """Before torch starts to load, nothing is imported that takes long: its own start would come on top of it."""
    heavy = {"torch", "numpy", "rich", "jinja2", "msgspec", "inspect", "dataclasses", "json", "zipfile"}
    looked = "import sys, runpy\n"
    looked += f"sys.argv = ['grader', *{line.split()!r}]\n"
    looked += "try: runpy.run_module('grader', run_name='__main__')\n"
    looked += f"except SystemExit: print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    assert run("-c", looked).stderr.decode().splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "line",
    ["tracks", "begin --track nosuch", "class README.md", "project nowhere", "items nowhere", "feedback nowhere"],
)
def test_what_needs_no_torch_loads_none(line: str) -> None:
    """It takes seconds: bad input is answered before."""
    looked = f"import sys, runpy\nsys.argv = ['grader', *{line.split()!r}]\n"
    looked += "try: runpy.run_module('grader', run_name='__main__')\n"
    looked += "except SystemExit: print('torch' in sys.modules, file=sys.stderr)"
    assert run("-c", looked).stderr.decode().splitlines()[-1] == "False"


MAIN = (ROOT / "grader" / "__main__.py").read_text(encoding="utf-8")  # read, since runpy imports much by itself


def test_torch_starts_to_load_before_the_rest_is_imported() -> None:
    """What `grade` has imported by the time its judges are started."""
    heavy = {"torch", "rich", "jinja2", "msgspec", "typing", "inspect", "dataclasses", "json", "zipfile"}
    looked = f"""
import os, runpy, sys
def started(*_arguments, **_options):
    print(sorted({heavy!r} & set(sys.modules)), flush=True)
    os._exit(0)
os.posix_spawn = started
sys.argv = ["grader", "grade", "--step", "1-3"]
__file__ = {str(ROOT / "grader" / "__main__.py")!r}
{MAIN}
"""
    assert run("-c", looked).stdout.decode() == "[]\n"


def test_a_reader_that_stops_reading() -> None:
    """`--help | head -1` leaves no traceback."""
    command = f"{sys.executable} -m grader --help | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, cwd=ROOT, timeout=600)
    assert done.stderr == b""


@pytest.mark.thorough
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "euc-kr"])
def test_a_terminal_that_lacks_letters_gets_a_report(encoding: str, tmp_path: Path) -> None:
    """With a question mark for each letter that can't be written; JSON is UTF-8 whatever the terminal is."""
    # Not the checkout's own exercises: `--lang` would write them in this language.
    shutil.copy(ROOT / "exercises" / "step01_scores.py", tmp_path)
    grade = ("-m", "grader", "grade", "--submission", str(tmp_path), "--step", "1", "--lang", "ko")
    done = run(*grade, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert b"step01_scores" in done.stdout
    report = json.loads(run(*grade, "--json", "-", PYTHONIOENCODING=encoding).stdout.decode("utf-8"))
    assert report["steps"][0]["title"] == "스케일드 닷 프로덕트 스코어"


def test_a_disk_that_can_not_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing can be removed from it either: still the one line."""

    def refuse(*arguments: object, **more: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(BadInput, match="Read-only file system"):
        common.write(tmp_path / "report.json", "{}", "--json report.json")


def test_a_folder_whose_name_has_spaces(tmp_path: Path) -> None:
    """The kit lies wherever a learner has put it."""
    home = tmp_path / "내 키트 (1)"
    shutil.copytree(ROOT / "grader", home / "grader", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "solutions" / "core" / "step01_scores", home / "solutions" / "core" / "step01_scores")
    (home / "exercises").mkdir()
    done = run("-m", "grader", "grade", folder=home)
    assert done.returncode == 0, done.stderr.decode()
    assert "0 of 6: start with step01_scores" in done.stdout.decode()


@pytest.mark.thorough
def test_the_command_for_a_course_can_be_typed(tmp_path: Path) -> None:
    """Also where its folder has a space in its name."""
    pytest.importorskip("nbformat", reason="what instructors need is not installed: make test installs it")
    done = run("-m", "grader", "release", "--folder", str(tmp_path / "내 강좌"), KIT_LANG="ko")
    assert f"cd '{tmp_path / '내 강좌'}' && nbgrader generate_assignment attention" in done.stdout.decode()


def test_a_python_without_the_packages_hands_over(tmp_path: Path) -> None:
    """To that of `.venv` where there is one; else it says what to type."""
    (tmp_path / "grader" / "base").mkdir(parents=True)
    for name in BARE:
        (tmp_path / "grader" / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / "grader" / name, tmp_path / "grader" / name)
    bare = ("-S", "-m", "grader", "hint", "4")
    done = run(*bare, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == "The packages of the kit are not installed for this Python. Type: make grade\n"
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho handed "$@"\n')
    python.chmod(0o755)
    handed = f"handed -P {tmp_path / 'grader' / '__main__.py'} hint 4\n"
    assert run(*bare, folder=tmp_path).stdout.decode() == handed
