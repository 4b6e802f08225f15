"""Notebooks as submissions: which cell answers a step, what it takes from earlier ones, what is wrong with it."""

from __future__ import annotations

import ast
import json
import math
import os
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from grader.base import paths
from grader.base.results import as_json
from grader.course import answer_cells, stubs, submissions
from grader.judge.grader import Grader

ALL = {folder.name for folder in paths.step_folders()}
RIGHT = (
    "# step07_heads\n"
    "def split_heads(x, num_heads):\n    B, T, D = x.shape\n    if D % num_heads:\n        raise ValueError(D)\n"
    "    return x.reshape(B, T, num_heads, D // num_heads).transpose(1, 2)\n\n"
    "def merge_heads(x):\n    B, H, T, d = x.shape\n    return x.transpose(1, 2).reshape(B, T, H * d)\n"
)


def cell(source: Any, identity: str | None = None, *, solution: bool = True, kind: str = "code") -> dict[str, Any]:
    """A cell, with nbgrader's mark where it has an identity."""
    marks = {} if identity is None else {"nbgrader": {"grade_id": identity, "solution": solution}}
    return {"cell_type": kind, "source": source, "metadata": marks, "outputs": [], "execution_count": None}


def write(folder: Path, *cells: Any, name: str = "attention.ipynb") -> submissions.Submission:
    """The submission of a folder with this notebook in it."""
    (folder / name).write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells)}))
    return submissions.read(folder)


def test_an_answer_cell_is_a_submission(grader: Grader, tmp_path: Path) -> None:
    """It is graded like a file, and named in what is said of it."""
    wrong = RIGHT.replace("x.transpose(1, 2).reshape", "x.reshap")
    folder = tmp_path / "ada"
    folder.mkdir()
    report = grader.grade(write(folder, cell(RIGHT.splitlines(keepends=True), "step07_heads")), ["step07_heads"])
    assert (report.score, report.submission) == (6.0, "ada")
    report = grader.grade(write(folder, cell(wrong, "step07_heads")), ["step07_heads"])
    messages = "\n".join(check.message for check in report.steps[0].checks)
    assert "at line 10 of ada/attention.ipynb[step07_heads], in merge_heads" in messages


@pytest.mark.parametrize("head", ["", RIGHT.partition("\n")[0] + "\n"])
def test_an_answer_below_commands_is_found(head: str, tmp_path: Path) -> None:
    """Without metadata too: by the step's name, or by what it defines."""
    source = f"%%time\n!pip install torch\n{head}{RIGHT.partition(chr(10))[2]}"
    read = write(tmp_path, cell("# step07_heads\nraise NotImplementedError", "step07_heads"), cell(source))
    assert "def merge_heads" in read.sources["step07_heads"][1]
    assert "%%time" not in read.sources["step07_heads"][1]


SPLIT, MERGE = RIGHT.replace("x.reshape", "helper(x).reshape").split("def merge_heads")
OTHERS = "import nothing_of_ours, math\ndef helper(x):\n    math.pi\n    return x", f"def merge_heads{MERGE}"


def test_what_stands_in_another_cell(grader: Grader, tmp_path: Path) -> None:
    """It is taken from the one cell that defines it, and that is said."""
    cells = cell(OTHERS[0]), cell(SPLIT, "step07_heads"), cell("plot(merge_heads)"), cell(f"%%time\n{OTHERS[1]}")
    report = grader.grade(write(tmp_path, *cells), ["step07_heads"])
    assert report.steps[0].status == "pass"
    assert "step07_heads is graded with attention.ipynb[1], attention.ipynb[4]" in report.notes[0]


def test_what_stands_in_two_other_cells(grader: Grader, tmp_path: Path) -> None:
    """Of what the step asks for a person must say which is meant; of a helper, that it is missing here."""
    cells = cell(OTHERS[0]), cell(SPLIT, "step07_heads"), cell(OTHERS[1]), cell(f"{OTHERS[1]}\nx = 1")
    report = grader.grade(write(tmp_path, *cells), ["step07_heads"])
    assert report.steps[0].score is None
    assert "several cells define `merge_heads`" in report.steps[0].unusable
    cells = cell(OTHERS[0]), cell(f"{OTHERS[0]} + 1"), cell(SPLIT + OTHERS[1], "step07_heads")
    report = grader.grade(write(tmp_path, *cells), ["step07_heads"])
    messages = "\n".join(check.message for check in report.steps[0].checks)
    assert "No other cell of the notebook defines or imports it, or several do" in messages


def test_what_stands_in_no_other_cell(grader: Grader, tmp_path: Path) -> None:
    report = grader.grade(write(tmp_path, cell("x = 1"), cell(SPLIT, "step07_heads")), ["step07_heads"])
    messages = "\n".join(check.message for check in report.steps[0].checks)
    assert "The answer cell must define `merge_heads`, but does not, nor does another cell." in messages


EXPORTS = {
    "nbconvert": "#!/usr/bin/env python\n# coding: utf-8\n\n# # Title\n\n# In[1]:\n\n\n{0}\n\n\n# In[ ]:\n\n\n{1}\n\n\n"
    "# In[3]:\n\n\nget_ipython().run_line_magic('time', '')\n{2}\n",
    "jupytext": "# ---\n# jupyter:\n# ---\n\n# %% [markdown]\n# Title\n\n# %%\n{0}\n\n# %%\n{1}\n\n# %%\n{2}\n",
    "colab": '# -*- coding: utf-8 -*-\n"""attention.ipynb\n\n# Title\n"""\n\n{1}\n\n"""## More"""\n\n{2}\n\n{0}\n',
}


@pytest.mark.parametrize("kind", EXPORTS)
def test_an_export_is_split_at_its_steps(kind: str, grader: Grader, tmp_path: Path) -> None:
    """The lines keep their numbers."""
    wrong = "# step01_scores\ndef dot_product_scores(query, key):\n    raise ZeroDivisionError\n\n\n"
    text = EXPORTS[kind].format(OTHERS[0], wrong + SPLIT, OTHERS[1])
    (tmp_path / "attention.py").write_text(text)
    read = submissions.read(tmp_path)
    report = grader.grade(read, ["step07_heads", "step01_scores"])
    assert (report.steps[1].status, report.unread) == ("pass", {}), report
    line = text[: text.index("raise ZeroDivisionError")].count("\n") + 1
    assert f"at line {line} of" in report.steps[0].checks[0].message


def test_what_only_a_notebook_has(grader: Grader, tmp_path: Path) -> None:
    """IPython's own names cost nothing beside the answer; in it they are not to be defined, but to leave it."""
    report = grader.grade(write(tmp_path, cell(f"{RIGHT}\ndisplay(1)\n", "step07_heads")), ["step07_heads"])
    assert report.steps[0].status == "pass"
    assert "`display(1)`, raised NameError" in report.notes[0]
    inside = RIGHT.replace("    return", "    display(1)\n    return")
    report = grader.grade(write(tmp_path, cell(inside, "step07_heads")), ["step07_heads"])
    messages = "\n".join(check.message for check in report.steps[0].checks)
    assert "`display` only exists in a notebook: move what needs it to another cell." in messages
    assert "put it into this one" not in messages


def test_an_earlier_step_that_was_not_handed_in(grader: Grader, tmp_path: Path) -> None:
    """Nothing that this one asks for is made of it: its import is left out, and that is said."""
    builds = f"from exercises.step06_causal_attention import CausalAttention\n{RIGHT}"
    (tmp_path / "step07_heads.py").write_text(builds)
    report = grader.grade(submissions.read(tmp_path), ["step07_heads"])
    assert "No module named 'exercises.step06_causal_attention'" in report.notes[0]
    assert report.steps[0].status == "pass"


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ([cell("x = 1", "step07_heads"), cell("x = 2", "step07_heads")], "has 2 answer cells for step07_heads"),
        ([cell("0", "step07_heads_points", solution=False)], "has no answer cell for step07_heads"),
        ([cell("x = '\0'", "step07_heads")], "contains a NUL character"),
        ([cell("x" * (300 << 10), "step07_heads")], "is larger than 256 KiB"),
    ],
)
def test_what_is_wrong_with_a_cell_is_said(tmp_path: Path, cells: list[Any], says: str) -> None:
    """In one sentence, which is a problem of that step alone."""
    read = write(tmp_path, cell("y = 1", "step01_scores"), *cells)
    assert says in read.problems.pop("step07_heads")
    assert not read.problems
    assert set(read.sources) == {"step01_scores"}


@pytest.mark.parametrize(
    "cells",
    [
        [cell(RIGHT, "step07_heads"), cell(RIGHT, "step07_heads")],  # copied and left as it was
        [cell(RIGHT, "step07_heads"), cell("def split_heads():\n    raise NotImplementedError", "step07_heads")],
        [cell(RIGHT)],  # its mark was lost
        [cell(RIGHT, "step07_heads"), cell("# step07_heads, once more\nx = 1")],
        [cell(RIGHT, "step07_heads"), {"cell_type": 5}, 7, cell("a", 3), {"cell_type": "code", "metadata": []}],  # type: ignore[arg-type]
        [cell(RIGHT, "step07_heads"), cell("z", "step07_heads", kind="markdown")],
    ],
)
def test_which_cell_is_the_answer(tmp_path: Path, cells: list[Any]) -> None:
    """Copies, stubs, notes and odd cells beside it change nothing."""
    read = write(tmp_path, *cells)
    assert read.sources["step07_heads"][1] == RIGHT
    assert not read.problems


STUB = "# step07_heads\ndef split_heads(x, num_heads):\n    raise NotImplementedError\n"
UNMARKED = RIGHT.split("\n", 1)[1]


@pytest.mark.parametrize(
    ("cells", "source"),
    [
        ([cell(STUB, "step07_heads"), cell(RIGHT)], RIGHT),
        ([cell(STUB, "step07_heads"), cell(UNMARKED)], UNMARKED),
        ([cell(f"{STUB.rstrip()}()\n", "step07_heads"), cell(UNMARKED)], UNMARKED),  # as nbgrader's own stubs raise
        ([cell(STUB), cell("", "step07_heads"), cell(UNMARKED)], UNMARKED),
        ([cell("0", "step07_heads_points", solution=False), cell(UNMARKED)], UNMARKED),  # the answer cell was deleted
        ([cell(RIGHT, "step07_heads"), cell("def merge_heads(x):\n    return x")], RIGHT),  # it was answered
        ([cell(STUB, "step07_heads"), cell(RIGHT), cell("def merge_heads(x):\n    return x")], RIGHT),
        ([cell(STUB, "step07_heads"), cell("def other(x):\n    return x"), cell("merge_heads(x")], STUB),
        ([cell(STUB, "step07_heads"), cell("def split_heads(x, num_heads):\n    pass")], STUB),
    ],
)
def test_an_answer_beside_the_stub_counts(tmp_path: Path, cells: list[Any], source: str) -> None:
    """As in a kernel, where `check` takes it: what is green there would be as good as not handed in."""
    read = write(tmp_path, *cells)
    assert read.sources["step07_heads"][1] == source
    assert not read.problems


def test_a_scratch_cell_answers_no_step_of_another_notebook(tmp_path: Path) -> None:
    """What defines a name of step 7 is no second answer to it where step 7 is not asked for."""
    write(tmp_path, cell(RIGHT, "step07_heads"), name="step07_heads.ipynb")
    read = write(tmp_path, cell("x = 1", "step01_scores"), cell("def merge_heads(x):\n    return x"))
    assert (read.sources["step07_heads"][1], read.problems) == (RIGHT, {})


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"worksheets": []}', b'{"cells": ' + b"[" * 100_000, b'{"cells": [{"source": "\xff"}]}'],
)
def test_a_damaged_notebook(tmp_path: Path, data: bytes) -> None:
    """Every step that has no other answer says so; one named for a step, only that step."""
    (tmp_path / "attention.ipynb").write_bytes(data)
    (tmp_path / "step01_scores.py").write_text("x = 1")
    read = submissions.read(tmp_path)
    assert set(read.problems) == ALL - {"step01_scores"}
    said = read.problems["step02_softmax"]
    assert any(words in said for words in ("is damaged: it is not a notebook in format 4", "is empty", "is cut off"))
    (tmp_path / "attention.ipynb").rename(tmp_path / "step03_attention.ipynb")
    assert set(submissions.read(tmp_path).problems) == {"step03_attention"}


def test_numbers_that_are_none_in_outputs(tmp_path: Path) -> None:
    """As Python writes them. In strings they are words, and an odd file is read as fast as another."""
    output = {"output_type": "display_data", "data": {"application/json": [math.nan, -math.inf, math.inf, -1]}}
    source = 'x = "NaN \\"Infinity"'
    answer = cell(source, "step07_heads") | {"outputs": [output]}
    assert write(tmp_path, answer).sources["step07_heads"][1] == source
    for odd in ('NaN"' + '\\"' * 1_000_000, "NaN" + '"a"' * 1_000_000, "NaN" + "NI-" * 1_000_000, "NaN " * 1_000_001):
        (tmp_path / "attention.ipynb").write_text(odd)
        assert "is damaged" in submissions.read(tmp_path).problems["step07_heads"]


@pytest.mark.parametrize(
    "deep", ["x" + ".b" * 990, "def f(x):\n    x" + ".b" * 990, "x" + "[0]" * 2000, "-" * 3000 + "1"]
)
def test_an_answer_nested_deep(tmp_path: Path, deep: str) -> None:
    """Is told from a stub like another: it must not end the reading of a whole class."""
    (tmp_path / "step02_softmax.py").write_text(deep)
    read = write(tmp_path, cell(deep, "step07_heads"))
    assert read.sources["step07_heads"][1] == deep
    assert not stubs.is_untouched(read.sources["step02_softmax"][1])


def test_answers_that_take_long_to_read(tmp_path: Path) -> None:
    """All answer cells together are as long as one step file may be, and no notebook has cells without end: no deadline
    is kept while they are read."""
    long = "x = [" + "0," * 40_000 + "]"
    read = write(tmp_path, *[cell(long, step) for step in sorted(ALL)[:3]])
    assert len(read.sources) == 3
    read = write(tmp_path, *[cell(long, step) for step in sorted(ALL)[:3]], name="more.ipynb")
    assert "more.ipynb, the answer cells exceed" in read.problems["step12_gpt"]
    read = write(tmp_path, *[0] * 20_000)
    assert "is damaged" in read.problems["step12_gpt"]


def test_each_cell_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not once for each later one."""
    parsed: list[str] = []
    parse = answer_cells.tree_of
    monkeypatch.setattr(answer_cells, "tree_of", lambda source: parsed.append(source) or parse(source))
    answer_cells.with_earlier_names({step: f"y = {number}" for number, step in enumerate(sorted(ALL))})
    assert len(parsed) == len(set(parsed)) == len(ALL)


def test_a_name_is_one_line() -> None:
    """Line ends, marks that turn the writing round and letters without width are escapes; any language stays."""
    assert submissions.readable("a\nb\u202ec\u200bd 김민서") == "a\\nb\\u202ec\\u200bd 김민서"


def test_names_that_are_no_text(grader: Grader, tmp_path: Path) -> None:
    """A folder and a notebook whose names are no UTF-8 are named by escapes, here and in the report."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/ada\xff"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this system has no such names")
    read = write(folder, cell("x = 1", "step07_heads"), name=os.fsdecode(b"b\xfe.ipynb"))
    (folder / os.fsdecode(b"c\xfd.ipynb")).write_text("{}")
    report = grader.grade(submissions.read(folder), ["step07_heads", "step08_multi_head"])
    assert report.submission == read.name == "ada\\xff"
    assert "b\\xfe.ipynb" in read.sources["step07_heads"][0]
    assert "c\\xfd.ipynb is damaged" in as_json(report).replace("\\\\", "\\")


def test_a_notebook_with_too_much_output(tmp_path: Path) -> None:
    """Its outputs can go, and the sentence says so."""
    outputs = {"outputs": [{"output_type": "stream", "name": "stdout", "text": "x" * submissions.MAX_NOTEBOOK}]}
    read = write(tmp_path, cell(RIGHT, "step07_heads") | outputs)
    assert "is larger than 32 MiB. Clear its outputs" in read.problems["step07_heads"]


def test_links_and_devices_are_not_read(tmp_path: Path) -> None:
    """Neither another's notebook nor an endless file."""
    (tmp_path / "step03_attention.ipynb").symlink_to("/etc/passwd")
    for name in ("step04_causal_mask.ipynb", "step05_dropout.py"):
        (tmp_path / name).mkdir()
    problems = submissions.read(tmp_path).problems
    assert "is a link" in problems["step03_attention"]
    assert "is not a regular file" in problems["step04_causal_mask"]
    assert "is not a regular file" in problems["step05_dropout"]


def test_a_file_and_a_cell(tmp_path: Path) -> None:
    """Two answers to one step are one too many, unless one of them is a stub that nobody touched."""
    (tmp_path / "step07_heads.py").write_text("x = 1\n")
    read = write(tmp_path, cell(RIGHT, "step07_heads"))
    assert "step07_heads is answered twice" in read.problems["step07_heads"]
    read = write(tmp_path, cell("def split_heads(x):\n    raise NotImplementedError\n", "step07_heads"))
    assert (read.sources["step07_heads"][1], read.problems) == ("x = 1\n", {})
    (tmp_path / "step07_heads.py").write_text("def split_heads(x):\n    raise NotImplementedError\n")
    assert write(tmp_path, cell(RIGHT, "step07_heads")).sources["step07_heads"][1] == RIGHT


# --- names from earlier cells ----------------------------------------------------------------------------------------

EARLIER = "import torch\nfrom torch.nn import functional as F\nSCALE = 2\ndef softmax(x):\n    return x\n"


@pytest.mark.parametrize(
    ("source", "becomes"),
    [
        ("# a note\ndef f(x):\n    return softmax(x)\n", "from exercises.step01_scores import softmax\ndef f(x):\n"),
        ('"""é"""  # so\ndef f(x):\n    return F.relu(x)\n', '"""é"""; from torch.nn import functional as F  # so\n'),
        ("from __future__ import division\ny = torch.e", "from __future__ import division; import torch\ny = torch.e"),
        ("y = SCALE", "from exercises.step01_scores import SCALE; y = SCALE"),
        ("def f():\n    return torch.e", "import torch\ndef f():\n    return torch.e"),
        ("@torch.no_grad()\ndef f():\n    pass", "import torch\n@torch.no_grad()\n"),
    ],
)
def test_names_of_earlier_cells_are_there(source: str, becomes: str) -> None:
    """They are imported in a line that was there already, so that the numbers of the others stay."""
    given = answer_cells.with_earlier_names({"step01_scores": EARLIER, "step02_softmax": source})["step02_softmax"]
    assert given.startswith(becomes)
    if not source.startswith(("def", "@")):
        assert given.count("\n") == source.count("\n")
    compile(given, "cell", "exec")


@pytest.mark.parametrize(
    "source",
    [
        "def softmax(x):\n    return x",  # its own
        "def f(softmax):\n    return softmax",  # an argument
        "softmax = 1\nprint(softmax)",
        "from torch import softmax\nprint(softmax)",
        "def f(:\n",  # the worker says what is wrong
        "f(" * 50_000,
        "",
    ],
)
def test_a_cell_that_takes_nothing_stays_as_it_is(source: str) -> None:
    """Nothing is written into it."""
    given = answer_cells.with_earlier_names({"step01_scores": EARLIER, "step02_softmax": source})
    assert given["step02_softmax"] == source


def test_later_cells_and_other_notebooks_give_no_names(tmp_path: Path) -> None:
    """As in the notebook itself, run from top to bottom."""
    uses = "def f(x):\n    return softmax(x)\n"
    write(tmp_path, cell(EARLIER, "step03_attention"), name="other.ipynb")
    read = write(tmp_path, cell(uses, "step02_softmax"), cell(EARLIER, "step04_causal_mask"))
    assert read.sources["step02_softmax"][1] == uses


def test_a_cell_that_takes_long_to_parse_is_left_to_its_own_process() -> None:
    """Python 3.11 takes the square of its length for an f-string, and no deadline is kept on this side."""
    long = 'x = f"' + "{a}" * 80_000 + '"\n'
    began = time.process_time()
    assert not answer_cells.is_untouched(long) and answer_cells.without_commands(long) == long
    steps = {"step01_scores": "a = 1\n", "step02_softmax": long}
    assert answer_cells.with_earlier_names(steps)["step02_softmax"] == long
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("source", "becomes"),
    [
        ("%%time\nx = 1", "\nx = 1"),
        ("# step01_scores\n%%time\nx = 1", "# step01_scores\n\nx = 1"),
        ("!ls\nx = 1\n%matplotlib inline\ny = 2", "\nx = 1\n\ny = 2"),
        ("files = !ls\nx = 1", "\nx = 1"),
        ("softmax?\nx = 1", "\nx = 1"),
        ("!pip install \\\n    torch \\\n    numpy\nx = 1", "\n\n\nx = 1"),
        ("def f():\n    !ls\n", "def f():\n    pass\n"),
        ("a = 5 % 3\nb = a \\\n  % 2\n", "a = 5 % 3\nb = a \\\n  % 2\n"),
        ("!ls\ndef f(:\n", "!ls\ndef f(:\n"),
    ],
)
def test_commands_of_a_notebook_are_blanked(source: str, becomes: str) -> None:
    """Lines keep their numbers, and what is Python stays."""
    assert answer_cells.without_commands(source) == becomes


@pytest.mark.thorough
def test_one_budget_for_all_notebooks(tmp_path: Path) -> None:
    """Fifty notebooks of cells that are slow to parse take no longer than the budget allows, and an answer is read."""
    slow = 'f"' + "{a}" * 4_000 + '"'
    first, *others = sorted(ALL)
    for number in range(49):
        cells = [cell(f"{slow}  # {number}\n# {step}\nraise NotImplementedError", step) for step in others]
        notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
        (tmp_path / f"more{number}.ipynb").write_text(json.dumps(notebook))
    parsed: list[str] = []
    with mock.patch.object(answer_cells, "parsed", lambda source: parsed.append(source) or ast.parse(source)):
        read = write(tmp_path, cell("def scores(query, key):\n    return query @ key.mT\n", first), name="a.ipynb")
    slowly = [source for source in parsed if slow in source]
    assert len(slowly) == len(set(slowly))
    assert 0 < sum(map(len, slowly)) <= answer_cells.MAX_PARSED
    assert "query @ key.mT" in read.sources[first][1]
