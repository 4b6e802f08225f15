"""What people write in and around right code, as small rewrites of any step's file; and right files of every step."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from grader.course.steps import Step
from grader.course.stubs import with_exercise_imports

Rewrite = Callable[[str], str]

# --- in functions: each value that was just computed is looked at -----------------------------------------------------

READS = {
    "print": "print(x)",
    "print_shape": "print('scores:', x.shape, x.dtype, x.device)",
    "f_string": "f'{x} {x.float().sum():.3f}'",
    "percent": "'%s %.2f' % (x, x.float().sum())",
    "repr": "repr([x]); str({'x': x})",
    "logging": "import logging; logging.getLogger('mine').warning('%s', x)",
    "warning": "import warnings; warnings.warn(f'{x.float().mean().item():.1f}')",
    "tolist": "x.tolist()",
    "item": "x.float().mean().item(); float(x.float().sum()); int(x.float().sum() > 0)",
    "no_nan": "assert not torch.isnan(x).any(), 'nan'",
    "all_finite_or_inf": "assert (torch.isfinite(x) | torch.isinf(x)).all()",
    "branch": "y = 1 if x.float().max() > 1e30 else 2",
    "numpy": "x.detach().float().cpu().numpy().max()",
    "as_array": "import numpy; numpy.asarray(x.detach().float().cpu()).sum()",
    "allclose": "torch.equal(x, x) and torch.allclose(x.float(), x.float(), equal_nan=True)",
    "nonzero": "x[x != 0].numel(); torch.nonzero(x)",
    "contains": "0.0 in x",
    "unique": "x.unique(); x.unique(return_counts=True); x.dim() and x.masked_select(x != 0); x.unique_consecutive()",
    "saved": "import copy, io; copy.deepcopy(x.detach()); torch.save(x.detach(), io.BytesIO())",
    "sorted": "sorted([x.float().sum(), x.float().mean()], key=float)",
}

LOOKING = """


def _seen_by_hand(x):
    import torch
    if isinstance(x, torch.Tensor) and 0 < x.numel() < 100_000:
        {body}
"""


class _Looks(ast.NodeTransformer):
    """Calls the function above after each assignment to a name, in functions that were given in one piece."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        body: list[ast.stmt] = []
        for statement in node.body:
            body.append(statement)
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                body += ast.parse(f"_seen_by_hand({statement.targets[0].id})").body
        node.body = body
        return node


def looking(body: str) -> Rewrite:
    """A file in which every intermediate value is looked at."""
    return lambda source: (
        ast.unparse(ast.fix_missing_locations(_Looks().visit(ast.parse(source)))) + LOOKING.format(body=body)
    )


# --- around functions -------------------------------------------------------------------------------------------------

BELOW = {
    "wrong_self_test": "assert 1 + 1 == 3, 'my own test'",
    "raises": "raise RuntimeError('stop here')",
    "plot": "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()",
    "opens_a_file": "text = open('input.txt').read()",
    "display": "display(1)",
    "underscore": "_",
    "get_ipython": "get_ipython().run_line_magic('matplotlib', 'inline')",
    "await": "await something()",
    "check_of_the_kit": "check('step02')",
    "check_imported": "from grader.notebook import check\ncheck()",
    "exit": "import sys\nsys.exit(main() if False else 0)",
    "quit": "exit()",
    "argparse": "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--n', required=True)\n"
    "args = parser.parse_args()",
    "input": "n = int(input('how many? '))",
    "breakpoint": "breakpoint()",
    "main_guard": "if __name__ == '__main__':\n    raise SystemExit(main())",
    "return_at_the_top": "return 5",
    "drive": "from google.colab import drive\ndrive.mount('/content/drive')",
    "cuda": "import torch\nx = torch.ones(2, device='cuda')",
    "progress_bar": "from tqdm import tqdm\nfor _i in tqdm(range(3)):\n    pass",
    "frame": "import pandas as pd\ntable = pd.DataFrame({'a': [1]})\ntable",
    "settings": "import numpy, torch\ntorch.set_grad_enabled(False); torch.set_default_dtype(torch.float64)\n"
    "numpy.seterr(all='raise'); torch.set_printoptions(precision=2); torch.set_autocast_enabled('cpu', True)",
    "division": "print(1 / 0)",
    "loop_that_fails": "for i in range(3):\n    undefined_name(i)",
    "threads": "import threading\nthreading.Thread(target=print).start()",
    "download": "import urllib.request\nurllib.request.urlopen('http://example.com').read()",
}
ABOVE = {
    "unused_imports": "import os, sys, time, random, matplotlib, seaborn\nfrom IPython.display import HTML",
    "numpy_unused": "import numpy as np",
    "cells_of_jupytext": "# %%\nimport math\n\n# %% [markdown]\n# My notes",
    "seeds": "import random\nimport torch\nrandom.seed(0)\ntorch.manual_seed(0)",
    "deterministic": "import os\nimport torch\nos.environ['CUBLAS_WORKSPACE_CONFIG'] = ':4096:8'\n"
    "torch.use_deterministic_algorithms(True)\ntorch.backends.cudnn.benchmark = False",
    "settings": "import torch\ntorch.set_printoptions(precision=3)\ntorch.set_num_threads(1)",
    "device": "import torch\ndevice = 'cuda' if torch.cuda.is_available() else 'cpu'",
    "quiet": "import warnings\nwarnings.filterwarnings('ignore')",
    "fallback": "try:\n    import tiktoken\nexcept ImportError:\n    tiktoken = None",
    "name_and_date": "# Name: Ada\n# Date: 2026-09-14\n\n\n'''My answers.'''",
}
TEXT: dict[str, Rewrite] = {
    "windows_line_ends": lambda source: source.replace("\n", "\r\n"),
    "byte_order_mark": lambda source: f"\ufeff{source}",
    "no_last_line_end": lambda source: source.rstrip("\n"),
    "trailing_blanks": lambda source: re.sub(r"(?m)$", "  ", source),
    "annotations_as_text": lambda source: f"from __future__ import annotations\n\n{source}",
}
SLOW = {  # each takes as long as the top level may
    "trains": "import torch\nw = torch.zeros(3, requires_grad=True)\nwhile True:\n    (w.sum() ** 2).backward()",
    "waits": "import time\nwhile True:\n    time.sleep(0.1)",
}


def _above(lines: str, source: str) -> str:
    """The lines above everything but imports from the future."""
    future = "from __future__ import annotations\n"
    return f"{future if future in source else ''}{lines}\n\n\n{source.replace(future, '')}"


HABITS: dict[str, Rewrite] = {
    **{name: looking(body) for name, body in READS.items()},
    **{name: lambda source, lines=lines: f"{source.rstrip()}\n\n\n{lines}\n" for name, lines in BELOW.items()},  # type: ignore[misc]
    **{name: lambda source, lines=lines: _above(lines, source) for name, lines in ABOVE.items()},  # type: ignore[misc]
    **TEXT,
}
OF_CELLS = ("windows_line_ends", "byte_order_mark")  # what a file may be and a cell is not

# --- right files ------------------------------------------------------------------------------------------------------


def right(step: Step, most: int = 2) -> Iterator[str]:
    """The reference of a step as a file, and files of its first variants that can stand alone."""
    solved = step.solved()
    yield solved
    text = (step.folder / "variants.py").read_text(encoding="utf-8")
    tree = ast.parse(with_exercise_imports(text))
    own = f"exercises.{step.name}"
    parts = [
        node
        for node in tree.body
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("grader", "solutions", own)))
    ]
    found = 0
    for node in parts:
        replaced = _replaced(node)
        if not replaced or found == most or not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        bare = [_without_decorators(each) for each in parts if _replaced(each) is None or each is node]
        if any(
            isinstance(each, ast.Name) and each.id in ("reference", replaced) for each in ast.walk(ast.Module(bare, []))
        ):
            continue  # it rests on what it replaces
        found += 1
        variant = "\n\n\n".join(ast.unparse(each) for each in bare)
        yield f"{solved}\n\n\n{variant}\n\n\n{replaced} = {node.name}\n"


def _replaced(node: ast.stmt) -> str | None:
    """The name that a variant replaces; "" if there are several."""
    for decorator in getattr(node, "decorator_list", []):
        if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "variant":
            return next(
                (
                    str(each.value.value) if isinstance(each.value, ast.Constant) else ""
                    for each in decorator.keywords
                    if each.arg == "replaces"
                ),
                None,
            )
    return None


def _without_decorators(node: ast.stmt) -> ast.stmt:
    if _replaced(node) is not None and isinstance(node, ast.FunctionDef | ast.ClassDef):
        node.decorator_list = []
    return node
