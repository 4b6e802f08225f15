"""Each step proves its reference in its own `truth.py`; here, that it leaves no public name out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from grader.base.paths import step_folders

TRUTHS = [folder for folder in step_folders() if (folder / "truth.py").is_file()]


def public_names(folder: Path) -> set[str]:
    """What a learner writes: what stands at the top level of a reference, outside of its solution regions."""
    source = (folder / "reference.py").read_text(encoding="utf-8")
    taught = re.sub(r"### BEGIN SOLUTION.*?### END SOLUTION", "", source, flags=re.DOTALL)
    return set(re.findall(r"^(?:def|class) ([a-zA-Z]\w*)", taught, re.MULTILINE))


def cases(tree: ast.Module) -> set[str] | None:
    """The names that have a case in CASES ("name" or "name/what is special"); None where a proof has no such table."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CASES":
            assert isinstance(node.value, ast.Dict)
            return {ast.literal_eval(key).partition("/")[0] for key in node.value.keys if key}
    return None


def used_in(tree: ast.AST) -> set[str]:
    """Every name that stands in this code, its imports aside."""
    return {
        name.id if isinstance(name, ast.Name) else name.attr
        for name in ast.walk(tree)
        if isinstance(name, ast.Name | ast.Attribute)
    }


def with_their_parts(names: set[str], reference: ast.Module) -> set[str]:
    """These names, and what the reference makes them of: a block is not right with a wrong layer in it."""
    made_of = {node.name: used_in(node) for node in reference.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    while not (parts := set().union(*(made_of.get(name, set()) for name in names))) <= names:
        names = names | parts
    return names


def test_every_core_step_has_a_proof() -> None:
    """A step of another track may still be being written; `make prove` says what it lacks."""
    core = {folder.name for folder in step_folders() if folder.parent.name == "core"}
    assert core == {folder.name for folder in TRUTHS if folder.parent.name == "core"}


@pytest.mark.parametrize("folder", TRUTHS, ids=lambda folder: folder.name)
def test_every_public_name_is_proved(folder: Path) -> None:
    """Each is used, by itself or as a part; where a proof has cases, each name that takes or gives tensors has one."""
    tree, reference = (ast.parse((folder / file).read_text(encoding="utf-8")) for file in ("truth.py", "reference.py"))
    names, with_a_case = public_names(folder), cases(tree)
    assert names <= with_their_parts(used_in(tree), reference)
    if with_a_case is not None:
        without_tensors = {"attention_matrix_bytes"}  # it takes and returns integers: there is nothing to move
        assert with_a_case == names - without_tensors
