"""`make train TEXT=torch`: the Python source of the PyTorch that is installed, and how much of what is written parses.

Nothing is downloaded: the source is on the disk of everybody who has torch.
"""

from __future__ import annotations

import ast
import codeop
import importlib.util
import random
import warnings
from pathlib import Path

from ..lab_common import training

TEXT = "torch"  # what is typed after TEXT=
PACKAGES = ("nn", "optim")  # written in much the same way
MERGES = 900
DECAYING = 0.5  # of the time
START = "\n\n"  # before each function and class: what a sample goes on from
SAMPLES, SAMPLE_TOKENS, TEMPERATURE = 20, 64, 0.6  # whose share that parses is a point of the curve
PROMPT = """

class Linear(Module):

    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.in_features = in_features
        self.out_features ="""  # what `make generate` and `make explore` go on from
SEED = 20


def text() -> str:
    """Every function and class of those packages, as `ast.unparse` writes it, in an order that is drawn.

    Comments, docstrings and the types of arguments are left out: English would be a second language to learn, and a
    signature would fill all that the model sees. The order is the same each time, and the end, which is held out, is
    like the rest.
    """
    found: list[str] = []
    for package in PACKAGES:
        for file in sorted((_torch() / package).rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            made = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))
            found += [ast.unparse(_Bare().visit(node)) for node in made]
    random.Random(SEED).shuffle(found)
    return START + START.join(one for one in found if one.isascii()) + START


def shape(vocab_size: int) -> training.Shape:
    """A model that sees some ten lines of code."""
    sizes = {"block_size": 128, "n_layer": 4, "n_head": 4, "n_embd": 96, "batch_size": 8}
    return training.Shape(vocab_size, **sizes, learning_rate=3e-3, warm_up=100)


def decay(done: float) -> float:
    """The learning rate falls to a tenth in the last part of the time: the syntax gains most from it."""
    return max(0.1, min(1.0, (1 - done) / DECAYING))


def parses(sample: str) -> bool:
    """Whether the finished lines of a sample are Python, or the beginning of it: a block may go on after the end."""
    lines = sample.strip().rpartition("\n")[0] + "\n"
    flags = ast.PyCF_ONLY_AST | codeop.PyCF_ALLOW_INCOMPLETE_INPUT | codeop.PyCF_DONT_IMPLY_DEDENT
    try:
        with warnings.catch_warnings(action="ignore"):  # an odd escape is a matter of style
            compile(lines, "sample", "exec", flags)
    except SyntaxError as error:
        return error.msg == "incomplete input"  # as codeop itself tells it, in every version of Python
    except (ValueError, MemoryError, RecursionError):
        return False
    return bool(lines.strip())


def _torch() -> Path:
    """Where torch's source is."""
    found = importlib.util.find_spec("torch")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


class _Bare(ast.NodeTransformer):
    """Leaves out docstrings and the types of arguments and results."""

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(node):
            node.body[:1] = [] if len(node.body) > 1 else [ast.Pass()]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        return self.generic_visit(node)
