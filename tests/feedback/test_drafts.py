"""The road of a wrong answer without a name to one that has it: a class, its items, a draft, `make prove`."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from grader.author import lint
from grader.base import mistakes, paths
from grader.checks.catalogue import UNFINISHED
from grader.course import steps as course
from grader.feedback import drafts, excision, items
from grader.oracle.wrong_ways import WrongWays
from tests.feedback.test_term_pages import STEP, a_class

WRITTEN = '''\
from __future__ import annotations
import math, torch
import torch.nn.functional as F
from exercises.step02_softmax import softmax
from exercises import step03_attention as mine
if torch.cuda.is_available():
    SCALE: float = 3
else:
    SCALE = 2
LOW, HIGH = 0, 1
unused = open("notes by dora.txt")


def helper(x: Tensor, causal_mask=None):
    """By dora."""
    return F.relu(x) * SCALE


def causal_mask(num_tokens, device=None):
    return helper(num_tokens)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """By dora."""
    renormalise = helper(scores)
    def again(times):
        return masked_softmax(scores, mask) if times else LOW
    return softmax(renormalise) * causal_mask(3) * mine.attention(again(1))
'''


def test_a_draft_holds_all_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Helpers, imports of its own, other names from the reference; no docstring of the student's. It goes behind what
    is there, and its block can be run."""
    cluster = items.clusters(a_class())[0]
    folder = tmp_path / "core" / STEP
    folder.mkdir(parents=True)
    file = folder / "mistakes.md"
    file.write_text("# Mistakes\n\n## one\n", encoding="utf-8")
    real = paths.step_folder
    monkeypatch.setattr(drafts, "step_folder", lambda name: folder if name == STEP else real(name))
    written = drafts.write(cluster, a_class(), {"dora": {STEP: WRITTEN}})
    assert (written.name, written.number) == ("draft_1", 4)
    before, own = file.read_text(encoding="utf-8").split("\n## draft_1\n")
    assert before == "# Mistakes\n\n## one\n"
    what, why, nudge = UNFINISHED
    assert own.startswith(
        f"{what}\n{why}\n> {nudge}\n- `masked_softmax` · caught by `test_hard`\n```python\ndef made():\n"
    )
    for line in (
        "import torch",
        "import torch.nn.functional as F",
        "from solutions.core.step02_softmax.reference import softmax",
        "from solutions.core.step03_attention import reference as mine",
        f"from solutions.core.{STEP}.reference import causal_mask",
        "return F.relu(x) * SCALE",
        "renormalise = helper(scores)",
    ):
        assert line in own, line
    assert not [word for word in ("dora", "unused", "math", "HIGH = 2", "Tensor", "__future__") if word in own]
    assert all(line in own for line in UNFINISHED)
    file.write_text(f"## draft_1\n{own}", encoding="utf-8")
    shutil.copy(real(STEP) / "reference.py", folder / "reference.py")
    reference = importlib.import_module(f"solutions.core.{STEP}.reference")
    (made,) = WrongWays(folder, reference).single
    assert callable(made.replaced["masked_softmax"])
    korean = mistakes.read(folder, korean=True).entries["draft_1"]
    assert korean.said == tuple(UNFINISHED)
    # In a folder it goes to the file of its public name, and its name is in none of the files.
    (folder / "mistakes").mkdir()
    file.rename(folder / "mistakes" / "causal_mask.md")
    written = drafts.write(cluster, a_class(), {"dora": {STEP: WRITTEN}})
    assert (written.name, written.file) == ("draft_2", folder / "mistakes" / "masked_softmax.md")
    assert "## draft_2" in written.file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "source",
    [
        None,
        "def (",
        "def renormalise(weights, mask):\n    return weights\n",
        "from torch import *\ndef masked_softmax(scores, mask):\n    return relu(scores)\n",
        "import exercises.step02_softmax\ndef masked_softmax(scores, mask):\n    return softmax(scores)\n",
    ],
)
def test_no_draft_is_made_of_what_could_not_run(source: str | None) -> None:
    """One that fails for another reason than the student's would be caught, and prove nothing."""
    with pytest.raises(drafts.NoDraft):
        drafts.write(items.clusters(a_class())[0], a_class(), {"dora": {STEP: source}} if source else {})


def test_names_are_looked_up_as_python_does() -> None:
    """A class that names itself, a `global`, an argument and a comprehension that are called like a helper."""
    source = """
count = 0
rows = print
class Thing(Base):
    size: int = 2
    def __init__(self, rows):
        super(Thing, self).__init__([rows for rows in rows])
    def step(self):
        global count
        count += 1
class Base:
    def __init__(self, rows): self.rows = rows
"""
    made = excision.excised(source, "Thing", (), STEP)
    assert made is not None and "nonlocal count" in made and "print" not in made and "size = 2" in made


SAME = """
import torch
EPS = 0.25


def {helper}(x, dim):
    return x - x.amax(dim=dim, keepdim=True)


def softmax(x, dim=-1):
    e = torch.exp({helper}(x, dim))
    return e / (e.sum(dim=dim, keepdim=True) + EPS * e.amax(dim=dim, keepdim=True))
"""


@pytest.mark.thorough
def test_the_road_of_an_author(tmp_path: Path) -> None:
    """Three students with the same answers that nobody knows; a draft, which is refused until its texts are written and
    then proved; and the class, graded again, has the mistake by its name."""
    step = paths.step_folder("step02_softmax")
    # Step 1 words what step 2 names after it.
    for folder in ("grader", "tests", "solutions/core/step01_scores", f"solutions/core/{step.name}"):
        shutil.copytree(paths.ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.mo"))
    for file in ("pyproject.toml", "solutions/core/track.en.md", "solutions/core/track.ko.md"):
        shutil.copy(paths.ROOT / file, tmp_path / file)
    # A Python of its own: the one that runs this knows where this checkout is, and would take its modules.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)
    (packages,) = (tmp_path / ".venv").glob("lib/python*/site-packages")
    (packages / "packages.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    right = course.Step(step).solved()
    for name in ("ada", "brook", "chen", "dora", "emre"):
        (tmp_path / "class" / name).mkdir(parents=True)
        text = SAME.format(helper=f"of_{name}") if name < "d" else right
        (tmp_path / "class" / name / f"{step.name}.py").write_text(text, encoding="utf-8")
    _run(tmp_path, "-m", "grader", "class", "class", "--step", "2")
    assert "1 wrong answers without a name" in _run(tmp_path, "-m", "grader", "items")
    assert "make prove STEP=2" in _run(tmp_path, "-m", "grader", "items", "--draft", "1")
    refused = subprocess.run(
        [".venv/bin/python", "-m", "grader", "lint", "2"], capture_output=True, text=True, cwd=tmp_path, timeout=600
    )
    assert refused.returncode == 1 and "draft_1 is a draft" in refused.stderr
    for name in ("softmax.md", "softmax.ko.md"):
        file = tmp_path / "solutions" / "core" / step.name / "mistakes" / name
        file.write_text(_finished(file.read_text(encoding="utf-8")), encoding="utf-8")
    _run(tmp_path, "-m", "grader", "lint", "2")
    proved = _run(
        tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/solutions/test_course.py", KIT_ONLY="2"
    )
    assert re.search(r"\d+ passed", proved)
    _run(tmp_path, "-m", "grader", "class", "class", "--step", "2", "--again")
    rows = (tmp_path / "dist" / "class" / "class.csv").read_text(encoding="utf-8-sig").splitlines()
    assert [line.partition(",")[0] for line in rows if "a_quarter_more" in line] == ["ada", "brook", "chen"]
    assert "0 wrong answers without a name" in _run(tmp_path, "-m", "grader", "items")


def _finished(text: str) -> str:
    for old, new in zip(
        ("draft_1", *UNFINISHED),
        ("a_quarter_more", "A quarter was added.", "Nothing adds up to 1.", "What do they add up to?"),
        strict=True,
    ):
        assert old in text
        text = text.replace(old, new)
    return text


def _run(folder: Path, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [".venv/bin/python", *arguments], capture_output=True, text=True, cwd=folder, timeout=500,
        env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_course_holds_no_draft() -> None:
    """Nothing unfinished stands in the catalogue."""
    assert not [line for line in lint.problems("4") if "draft" in line]
