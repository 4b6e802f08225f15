"""The house stays one that people can live in: small rooms, short modules, short functions, and light workers."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.base.mistakes import files_of
from grader.base.paths import ROOT, step_folders
from grader.course import submissions
from grader.judge.grader import Grader

MODULES = 15  # in one folder
MODULE_LINES = 400
CATALOGUE_LINES = 640  # of misconceptions in one file
FUNCTION_LINES = 40
LONG_FOR_A_REASON = re.compile(r"#.*\blong: \w+")  # on the line of the `def`

LOADED = re.compile(r"LOADED (grader[^E]*) END")
ENGINE = sorted((ROOT / "grader").rglob("*.py"))
FOUND = (ROOT / "tests" / "attacks" / "parts" / "found.py").read_text(encoding="utf-8")
INHERITED = f"""
{FOUND}
NOTED = ("grader", "solutions", "pytest", "_pytest", "rich", "jinja2")
HIDDEN = found("grader.sandbox.conceal")._spaces.values()


def dot_product_scores(query, key):
    names = [*sys.modules, *(str(space.get("__name__")) for space in HIDDEN)]
    loaded = sorted({{name for name in names if name.partition(".")[0] in NOTED and name != "grader"}})
    raise ValueError("LOADED " + " ".join(loaded) + " END")
"""


def test_no_folder_is_too_full_to_take_in_at_one_look() -> None:
    modules = Counter(path.parent for path in ENGINE if path.name != "__init__.py")
    assert {str(folder): count for folder, count in modules.items() if count > MODULES} == {}


def test_no_module_is_too_long() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in ENGINE}
    assert {name: lines for name, lines in lengths.items() if lines > MODULE_LINES} == {}


def test_no_file_of_misconceptions_is_too_long() -> None:
    """Beyond that, the step has a folder of them: a file for each public name."""
    every = [file for step in step_folders() for file in files_of(step)]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in every}
    assert {name: lines for name, lines in lengths.items() if lines > CATALOGUE_LINES} == {}


def test_no_two_modules_import_each_other() -> None:
    """Not even in functions, or for types; nor do two of the page's scripts."""
    imports = {path: set(_imported(path)) for path in ENGINE}
    circles = {(one.name, other.name) for one in ENGINE for other in imports[one] if one in imports.get(other, ())}
    assert circles == set(), "move what both need into the lower one"
    scripts = sorted((ROOT / "grader" / "web" / "assets").glob("*.js"))
    taken = {path.name: set(SCRIPT.findall(path.read_text(encoding="utf-8"))) for path in scripts}
    assert not [(one, other) for one in taken for other in taken[one] if one in taken.get(other, ())]


SCRIPT = re.compile(r"(?:from|import\() ?\"\./(\w+\.js)\"")


def _imported(path: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "grader":
            folder = ROOT.joinpath(*str(node.module).split("."))
            yield folder.with_suffix(".py")
            yield from (folder / f"{alias.name}.py" for alias in node.names)


def _long_functions(path: Path) -> Iterator[str]:
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES and not LONG_FOR_A_REASON.search(lines[node.lineno - 1]):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name} has {length} lines"


def test_functions_fit_a_screen() -> None:
    """Or say beside their `def` why not: `# long: one case per line`."""
    assert [line for path in ENGINE for line in _long_functions(path)] == []


def test_a_public_class_name_means_one_thing() -> None:
    names = Counter(
        node.name
        for path in ENGINE
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("fork", [True, False], ids=["forked", "spawned"])
def test_what_a_worker_has_inherited(tmp_path: Path, fork: bool) -> None:
    """Looked at from inside: nothing that knows an answer, a check, a step or a report."""
    (tmp_path / "step01_scores.py").write_text(INHERITED, encoding="utf-8")
    with Grader(1, fork=fork) as grader:
        report = grader.grade(submissions.read(tmp_path), ["step01_scores"], device="cpu", seed=1)
    told = next(found for check in report.steps[0].checks if (found := LOADED.search(check.message)))
    loaded = set(told[1].split())
    assert {name.partition(".")[0] for name in loaded} == {"grader"}
    rooms = {name.split(".")[1] for name in loaded if name.startswith("grader.")}
    assert "grader.sandbox.worker" in loaded
    assert rooms <= {"base", "calls", "sandbox", "judge"}
    assert {name for name in loaded if name.startswith("grader.judge.")} <= {
        f"grader.judge.{name}" for name in ("zygote", "process", "messages", "fork_memory")
    }


def test_no_test_fails_because_the_machine_is_busy() -> None:
    """A program that a test waits for gets minutes: its time limit only ends what hangs."""
    waits = re.compile(r"(?:run|check_output|communicate|wait|NotebookClient)\([^#]*?timeout=(\d+)", re.DOTALL)
    short = {
        path.name: [int(seconds) for seconds in waits.findall(path.read_text(encoding="utf-8")) if int(seconds) < 300]
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
    }
    assert {name: seconds for name, seconds in short.items() if seconds} == {}
