"""Private names of torch are named in one module, and each is there in the torch that is installed."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.base.paths import ROOT
from grader.calls import private_torch
from grader.calls.private_torch import NAMES, Private

ROOM = ROOT / "grader" / "calls" / "private_torch.py"
BEFORE_TORCH = ROOT / "grader" / "sandbox" / "no_compiler.py"
MOVED = """torch {version} has no {path}: {purpose}; without it, {lost}. It was seen in torch {seen}.
Look for its new place in torch's source (git log -S{name} torch/), and name that in {room}, with the versions of both.
If nothing has taken its place, use a public name; if there is none, make it `optional` there, and do without it."""


def found(path: str) -> Any:
    """What a path leads to. Raises AttributeError, or ImportError."""
    first, *rest = path.split(".")
    value: Any = importlib.import_module(first)
    for index, name in enumerate(rest, 1):
        if not hasattr(value, name) and isinstance(value, type):
            value = torch.ops.aten.add.Tensor if value is private_torch.OpOverload else value  # it is an object's own
        if hasattr(value, name):
            value = getattr(value, name)
        else:
            value = importlib.import_module(".".join([first, *rest[:index]]))
    return value


@pytest.mark.parametrize("private", NAMES, ids=lambda private: private.path)
def test_a_private_name_is_where_it_was(private: Private) -> None:
    """A new torch that has moved one fails here first, and says what to do."""
    try:
        found(private.path)
    except (AttributeError, ImportError):
        if not private.optional:
            name = private.path.rpartition(".")[2]
            said = MOVED.format(version=torch.__version__, room=ROOM.relative_to(ROOT), name=name, **private._asdict())
            pytest.fail(said, pytrace=False)


def test_a_name_that_moved_is_told_of() -> None:
    with pytest.raises((AttributeError, ImportError)):
        found("torch._C._dispatch_key_that_moved")
    with pytest.raises((AttributeError, ImportError)):
        found("torch._ops.OpOverload._moved")


@pytest.mark.thorough
def test_the_room_imports_no_compiler() -> None:
    """It is imported wherever torch is used, by a lab as well: the compiler takes as long as torch itself."""
    code = "import sys; from grader.calls import devices, private_torch; print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_no_other_module_names_one() -> None:
    """All others import what they need from there."""
    files = [path for path in (ROOT / "grader").rglob("*.py") if path not in (ROOM, BEFORE_TORCH)]
    assert {str(path.relative_to(ROOT)): named for path in files if (named := sorted(privately(path)))} == {}


def test_each_that_the_room_names_is_told_of() -> None:
    """And so has its purpose."""
    told = {private.path for private in NAMES}
    named = privately(ROOM)
    pairs = {(f"{path}.", f"{name}.") for path in named for name in told}
    known = {path.rstrip(".") for path, name in pairs if path.startswith(name) or name.startswith(path)}
    assert named == known


def privately(path: Path) -> set[str]:
    """The private names of torch in a module: imported, or reached by dots from what is. An op of torch's may begin
    with an underscore and is no private name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    known, found = {"torch": "torch"}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "torch":
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                found.add(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "torch"}
    found |= set(reached(tree, known))
    found = {name for name in found if not name.startswith("torch.ops.")}
    return {name for name in found if any(part.startswith("_") and not part.endswith("__") for part in name.split("."))}


def reached(tree: ast.AST, known: dict[str, str]) -> Iterator[str]:
    """Each longest path by dots that starts at a known name."""

    def path_of(node: ast.AST) -> str:
        if isinstance(node, ast.Name):
            return known.get(node.id, "")
        before = path_of(node.value) if isinstance(node, ast.Attribute) else ""
        return f"{before}.{node.attr}" if before and isinstance(node, ast.Attribute) else ""

    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner and (path := path_of(node)):
            yield path
