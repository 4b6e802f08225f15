"""A copy of the kit is run by itself, also by a Python that knows another copy; files next to it are nothing to it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import grader
from grader.base.paths import ROOT, program

STEP = "step02_softmax"
PYTHONS = (
    "types",
    "random",
    "torch",
    "numpy",
    "json",
    "warnings",
    "functools",
    "collections",
    "enum",
    "re",
    "operator",
)
SAID = re.compile(r'""".+?"""')


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kit of one step in which each check is called otherwise, with files that are named as Python's own."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "grader", folder / "grader", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "solutions" / "core" / STEP, folder / "solutions" / "core" / STEP)
    (checks,) = (folder / "solutions" / "core" / STEP).glob("test_*.py")
    head, body = checks.read_text(encoding="utf-8").split("\ndef ", 1)
    checks.write_text(head + "\ndef " + SAID.sub('"""Of the copy."""', body), encoding="utf-8")
    (folder / "exercises").mkdir()
    shutil.copy(ROOT / "solutions" / "core" / STEP / "reference.py", folder / "exercises" / f"{STEP}.py")
    for name in PYTHONS:
        (folder / f"{name}.py").write_text("raise SystemExit('the file of a learner ran')\n", encoding="utf-8")
    return folder


def python(folder: Path, *, knows: Path | None) -> str:
    """A Python of its own that has the packages, and what `make grade` writes for it; and that knows another copy."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    found = re.search(r"write_text\((.+?)\)'", (ROOT / "Makefile").read_text(encoding="utf-8"), re.DOTALL)
    assert found
    _relative, _newline, line = eval(found[1]).partition("\n")
    (site / "packages.pth").write_text(f"{sysconfig.get_path('purelib')}\n{line}{knows or ''}\n", encoding="utf-8")
    return str(folder / Path(sys.executable).relative_to(sys.prefix))


def told(folder: Path, *command: str) -> set[str]:
    """What the checks of a report are called."""
    words = ["grade", "--step", "2", "--seed", "3", "--json", "-", "--lang", "en"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=300, cwd=folder, env=environment)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    (step,) = json.loads(done.stdout)["steps"]
    assert step["status"] == "pass"
    return {check["title"] for check in step["checks"]}


@pytest.mark.thorough
@pytest.mark.parametrize("forks", [True, False])
def test_a_copy_is_judged_by_itself(copy: Path, forks: bool, tmp_path: Path) -> None:
    """By a Python whose `.pth` names this checkout: the process that grades, its judge and its worker."""
    if not forks:
        launcher = copy / "grader" / "judge" / "launcher.py"
        text = launcher.read_text(encoding="utf-8")
        launcher.write_text(text.replace("return ForkingLauncher(early) if fork else ", "return "))
        assert launcher.read_text() != text
    assert told(copy, python(tmp_path / "python", knows=ROOT), "-P", "grader/__main__.py") == {"Of the copy."}


@pytest.mark.thorough
def test_typed_by_hand_next_to_files_named_as_pythons_own(copy: Path, tmp_path: Path) -> None:
    """`python -m grader`, which looks into the current folder first."""
    assert told(copy, python(tmp_path / "python", knows=None), "-m", "grader") == {"Of the copy."}


def test_each_program_finds_the_kit_that_starts_it(copy: Path, tmp_path: Path) -> None:
    """However the path is changed: one rule, in one function."""
    known = python(tmp_path / "python", knows=ROOT)
    asked = f"{grader.STARTS}import random, solutions; print(grader.__file__, solutions.__path__[0], random.__name__)"
    done = subprocess.run([known, "-I", "-c", asked, str(copy)], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == [str(copy / "grader" / "__init__.py"), str(copy / "solutions"), "random"], done.stderr
    assert grader.STARTS in program("grader")[3]
    texts = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in (ROOT / "grader").rglob("*.py")}
    assert [str(path) for path, text in texts.items() if "sys.path.append" in text] == []


def test_a_process_of_multiprocessing_does_not_run_the_command_again() -> None:
    """As `make kit` starts them: by the path of `grader/__main__.py`, which a spawned process would run first."""
    code = (
        "import sys, types\n"
        "path = sys.argv[1]\n"
        "main = sys.modules['__main__'] = types.ModuleType('__main__')\n"
        "main.__file__, sys.argv = path, [path, '--help']\n"
        "try: exec(compile(open(path).read(), path, 'exec'), vars(main))\n"
        "except SystemExit: pass\n"
        "from multiprocessing import spawn\n"
        "told = spawn.get_preparation_data('one')\n"
        "print(told.get('init_main_from_path'), told.get('init_main_from_name'))\n"
    )
    words = [sys.executable, "-P", "-c", code, str(ROOT / "grader" / "__main__.py")]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "None grader.__main__"
