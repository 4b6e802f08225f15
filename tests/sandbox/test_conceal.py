"""What a new Python adds to frames, functions, syntax and processes is decided on before a learner's code has it.

A name that these lists lack makes a test fail under that Python: seal it in `sandbox/conceal.py`, or look at the code
that walks syntax trees; then add it here.
"""

from __future__ import annotations

import ast
import re
import sys
import types

import pytest

from grader.base.paths import ROOT
from grader.sandbox.conceal import CHANGING

SEALED = {"f_builtins", "f_code", "f_generator", "f_globals", "f_lineno", "f_locals", "f_trace"}
HARMLESS = {"clear", "f_back", "f_lasti", "f_trace_lines", "f_trace_opcodes"}
OF_FUNCTIONS = {
    "__annotate__", "__annotations__", "__builtins__", "__call__", "__closure__", "__code__", "__defaults__",
    "__dict__", "__get__", "__globals__", "__kwdefaults__", "__module__", "__name__", "__qualname__", "__type_params__",
}  # fmt: skip
OF_GENERATORS = {"close", "gi_code", "gi_frame", "gi_running", "gi_suspended", "gi_yieldfrom", "send", "throw"}
STATEMENTS = """
    AnnAssign Assert Assign AsyncFor AsyncFunctionDef AsyncWith AugAssign Break ClassDef Continue Delete Expr For
    FunctionDef Global If Import ImportFrom Match Nonlocal Pass Raise Return Try TryStar TypeAlias While With
"""
EXPRESSIONS = """
    Attribute Await BinOp BoolOp Call Compare Constant Dict DictComp FormattedValue GeneratorExp IfExp Interpolation
    JoinedStr Lambda List ListComp Name NamedExpr Set SetComp Slice Starred Subscript TemplateStr Tuple UnaryOp Yield
    YieldFrom
"""


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        (types.FrameType, SEALED | HARMLESS),
        (types.FunctionType, OF_FUNCTIONS),
        (types.GeneratorType, OF_GENERATORS),
    ],
)
def test_what_leads_on_from_a_frame_is_known(kind: type, known: set[str]) -> None:
    """Each attribute that a plain object lacks; those of frames that lead to ours are sealed by name."""
    new = {name for name in vars(kind) if name not in dir(object) and name not in known}
    assert new - {"__class_getitem__", "__del__", "__iter__", "__name__", "__next__", "__qualname__"} == set()
    text = (ROOT / "grader" / "sandbox" / "conceal.py").read_text(encoding="utf-8")
    assert all(f'"{name}"' in text for name in SEALED)


@pytest.mark.parametrize(("kind", "known"), [(ast.stmt, STATEMENTS), (ast.expr, EXPRESSIONS)])
def test_the_kinds_of_syntax_are_known(kind: type, known: str) -> None:
    """Statements may bind names, expressions may hold code: `_bound`, `Outline` and `is_ordinary` have to see it."""
    assert {each.__name__ for each in kind.__subclasses__() if each.__module__ in ("ast", "_ast")} - set(
        known.split()
    ) == set()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="it came with Python 3.12")
def test_monitors_are_known() -> None:
    """`register_callback` is what hands out code; an audit hook refuses it."""
    assert {name for name in dir(sys.monitoring) if name.startswith(("register", "set", "use"))} <= {
        "register_callback", "set_events", "set_local_events", "use_tool_id",
    }  # fmt: skip


def test_no_process_is_started_in_the_default_way() -> None:
    """That is fork on Linux up to Python 3.13, and a server of forks from 3.14 on; each place says which it needs."""
    default = []
    for path in [*(ROOT / "grader").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
            if called in ("Process", "Pool") and "multiprocessing" in ast.unparse(node):
                default.append(path.name)
            if isinstance(node, ast.Call) and called == "ProcessPoolExecutor" and len(node.args) < 2:
                default.append(path.name)
    assert default == []


def test_every_class_that_changes_is_in_the_kit() -> None:
    """Under a new name a class that counts would be made immutable, and each call would fail."""
    sources = [file.read_text(encoding="utf-8") for file in (ROOT / "grader" / "calls").glob("*.py")]
    assert set(CHANGING) <= set(re.findall(r"^class (\w+)", "\n".join(sources), re.MULTILINE))
