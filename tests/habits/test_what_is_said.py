"""What often goes wrong on the way from an editor or a browser is said as what it is."""

# ruff: noqa: E501  a file is one line here

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader.base.limits import Limits
from grader.base.syntax import loops
from grader.course import submissions
from grader.course.submissions import Submission
from grader.judge.grader import Grader

STEP = "step02_softmax"
HEAD = "import torch\nimport numpy as np\n\ndef softmax(x, dim=-1):\n"
SAID = {
    f"{HEAD}    return np.exp(x - np.max(x, axis=dim, keepdims=True))\n": "NumPy's functions and methods are for arrays",
    f"{HEAD}    return x.astype('float32')\n": "NumPy's functions and methods are for arrays",
    "class softmax:\n    def __init__(self, x, dim=-1):\n        self.x = x\n": "A class gives an object when it is called",
    f"{HEAD}    return x.to('cuda')\n": "The device 'cuda' is hard-coded",
    f"{HEAD}    out = []\n    for row in x:\n        out.append(row)\n        return torch.stack(out)\n": "Line 8 returns "
    "inside the loop of line 6",
    f"{HEAD}    y = x\n    while y.shape[-1] < 9**9:\n        z = torch.exp(y)\n    return y\n": "Nothing in the loop of line 6 "
    "changes",
    f"{HEAD}    return\u00a0x\n": "a blank from a web page",
    f"{HEAD}    return torch.exp\uff08x)\n": "the full-width character \uff08",
    f"{HEAD}    raise ValueError(\u201cx\u201d)\n": "the curly quotation mark \u201c",
    f"<<<<<<< HEAD\n{HEAD}    return x\n=======\n>>>>>>> main\n": "Line 1 is a mark of a merge in Git",
    f"```python\n{HEAD}    return x\n```\n": "Line 1 is Markdown",
    f"import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--n', required=True)\n"
    f"args = parser.parse_args()\n{HEAD}    return x * args.n\n": "argparse reads the command line of a program",
    f"import plotting as plt\n{HEAD}    plt.plot(x)\n    return x\n": "Line 1 of ada/step02_softmax.py, "
    "`import plotting as plt`, failed: ModuleNotFoundError",
}


@pytest.fixture(scope="module")
def brief() -> Grader:
    with Grader(1, Limits(call_seconds=2.0, step_seconds=8.0)) as grader:
        yield grader  # type: ignore[misc]


@pytest.mark.parametrize("source", SAID)
def test_in_a_file(source: str, brief: Grader) -> None:
    report = brief.grade(Submission("ada", {STEP: (f"ada/{STEP}.py", source)}), [STEP], device="cpu", seed=3)
    assert SAID[source] in report.steps[0].checks[0].message


NOTEBOOK = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}).encode()
DAMAGED = {
    "is empty": b"",
    "is text in UTF-16": NOTEBOOK.decode().encode("utf-16"),
    "is a web page": b"\n<!DOCTYPE html><html></html>",
    "the marks of a merge in Git (line 2)": b'{\n<<<<<<< HEAD\n"a": 1\n=======\n>>>>>>> main\n}',
    "a shortcut of Google Drive": b'{"url": "https://docs.google.com/open?id=1", "doc_id": "1"}',
    "is a notebook in format 3": b'{"metadata": {}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": []}]}',
    "is cut off": NOTEBOOK[:40],
    "is damaged": b"hello",
}


@pytest.mark.parametrize("says", DAMAGED)
def test_in_place_of_a_notebook(says: str, tmp_path: Path) -> None:
    (tmp_path / "attention.ipynb").write_bytes(DAMAGED[says])
    assert says in submissions.read(tmp_path).problems[STEP]


def test_loops_that_are_right_are_not_named() -> None:
    right = [
        "def f(m, ids, n):\n  while ids.shape[1] < n:\n    ids = m(ids)\n  return ids\n",
        "def f(ids, n):\n  while len(ids) < n:\n    ids.append(1)\n  return ids\n",
        "def f(m, ids):\n  while True:\n    if m(ids):\n      return ids\n",
        "def f(x):\n  for i in x:\n    if i:\n      return i\n",
        "def f(state):\n  while state.more:\n    state.step()\n",
    ]
    assert [loops(source, "f", 9999) for source in right] == [[]] * len(right)
