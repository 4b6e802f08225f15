"""What authors of steps get wrong: a line for each mistake, which says where it is and what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.author import lint, pages
from grader.base import language, mistakes, paths
from grader.checks.assertions import deadline, points
from grader.oracle.live import Solution
from tests.command import run
from tools import fresh

STEP = "step13_scores"
MODEL = "step01_scores"

Mistake = Callable[[Path], object]


def copy(folder: Path, name: str = STEP) -> Path:
    """Step 1 as a step of another name in the folder `solutions` below `folder`."""
    step = folder / "solutions" / "core" / name
    shutil.copytree(
        paths.SOLUTIONS / "core" / MODEL, step, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors")
    )
    (step / "test_scores.py").rename(step / f"test_{name.partition('_')[2]}.py")
    for file in step.glob("*.py"):
        file.write_text(file.read_text(encoding="utf-8").replace(MODEL, name), encoding="utf-8")
    return step


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A course of one step, a thirteenth, which can be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(lint, "SOLUTIONS", tmp_path / "solutions")
    yield copy(tmp_path)
    for name in [name for name in sys.modules if name.startswith(f"solutions.core.{STEP}")]:
        del sys.modules[name]


def put(file: str, old: str, new: str) -> Mistake:
    """Replaces a text of a file once."""

    def make(step: Path) -> None:
        source = (step / file).read_text(encoding="utf-8")
        assert old in source
        (step / file).write_text(source.replace(old, new, 1), encoding="utf-8")

    return make


def lost(file: str) -> Mistake:
    """Removes a file."""
    return lambda step: (step / file).unlink()


def first_check(line: str) -> Mistake:
    """Puts a line before the first check."""
    return put("test_scores.py", "@points", f"{line}\n\n\n@points")


def in_two_files(step: Path) -> None:
    """Copies the mistakes into a folder, so that each is there twice."""
    (step / "mistakes").mkdir()
    shutil.copy(step / "mistakes.md", step / "mistakes" / "scores.md")


def with_pair(names: str) -> Mistake:
    """Adds a pair."""

    def make(step: Path) -> None:
        with (step / "mistakes.md").open("a", encoding="utf-8") as file:
            file.write(f"\n## Together\n- {names}\n")

    return make


def instead(file: str, make: Mistake) -> Mistake:
    """Puts something else in place of a file."""

    def replace(step: Path) -> None:
        (step / file).unlink()
        make(step / file)

    return replace


TRANSPOSED = "The keys were dotted with the queries, so the result came out transposed.\n"

MISTAKES: dict[str, tuple[Mistake, str]] = {
    "no reference": (lost("reference.py"), "reference.py is missing: write it."),
    "no checks": (lost("test_scores.py"), "test_scores.py is missing: write it."),
    "checks of another name": (
        lambda step: (step / "test_scores.py").rename(step / "test_score.py"),
        "test_score.py is not read: rename it to test_scores.py.",
    ),
    "no mistakes": (lost("mistakes.md"), "mistakes.md is missing: write it."),
    "one name in two files": (in_two_files, "keys_against_queries is there twice"),
    "a block without an end": (put("mistakes.md", "\n```\n\n## ", "\n\n## "), "this block has no end"),
    "a block of another kind": (
        put("mistakes.md", "```diff", "```text"),
        "its first line is not ```diff or ```python.",
    ),
    "no code": (put("mistakes.md", " · `query @ key` → `key @ query`", ""), "has no code"),
    "no facts": (
        put("mistakes.md", "`dot_product_scores` · `query @ key`", "`query @ key`"),
        "say what is wrong and which check refuses it",
    ),
    "a name in capitals": (put("mistakes.md", "## keys_against", "## KeysAgainst"), "write it in lower case"),
    "half an edit": (put("mistakes.md", "→ `key @ query`", "→"), "is no fact: write it like `old` → `new`"),
    "a fact that is none": (
        put("mistakes.md", "caught by", "refused by"),
        "“refused by `test_scores_by_hand`” is no fact",
    ),
    "words that the reference lacks": (
        put("mistakes.md", "`query @ key` →", "`query * key` →"),
        "there is no “query * key”",
    ),
    "code that is no Python": (
        put("mistakes.md", "→ `key @ query`", "→ `key @ (`"),
        "its code can't be run: SyntaxError",
    ),
    "no Korean text": (put("mistakes.ko.md", "- keys_against_queries · ", ""), "has no Korean text"),
    "Korean of nothing": (put("mistakes.ko.md", "- ", "- no_mistake\n- "), "there is no such mistake in English"),
    "a Korean line too few": (put("mistakes.ko.md", "  > ", "  "), "has other lines than the English text"),
    "a nudge that tells": (put("mistakes.md", "so that its tokens become the rows?", "now."), "ask a question"),
    "a nudge of two answers": (put("mistakes.md", "\n> Which", "\n> Is it `>` or `>=`? Which"), "ask a question"),
    "a pair of what is not there": (with_pair("`no_mistake` with `not_scaled`"), "a pair names no_mistake"),
    "no variants": (lost("variants.py"), "variants.py is missing"),
    "no Korean lesson": (lost("lesson.ko.md"), "lesson.ko.md is missing"),
    "no hints": (put("lesson.en.md", "## Hints", "## Tips"), "lesson.en.md has no hints"),
    "BEGIN alone": (put("reference.py", "    ### END SOLUTION\n", ""), "this ### BEGIN SOLUTION has no ### END"),
    "END alone": (put("reference.py", "    ### BEGIN SOLUTION\n", ""), "this ### END SOLUTION has no ### BEGIN"),
    "a marker misspelt": (put("reference.py", "BEGIN SOLUTION", "BEGIN SOLUTIONS"), "this ### END SOLUTION has no"),
    "no region": (
        lambda step: (step / "reference.py").write_text("def dot_product_scores(query, key):\n    return query\n"),
        "there is nothing for the learner to write",
    ),
    "no Python": (put("test_scores.py", "@points", "x = = 1\n@points"), "not valid Python (invalid syntax): fix it."),
    "a reference that is no Python": (put("reference.py", "import math", "import = math"), "reference.py:"),
    "a module imported": (
        put("reference.py", "import math", "from solutions.core.step01_scores import reference\nimport math"),
        "by name.",
    ),
    "a step that is not there": (
        put("reference.py", "import math", "from solutions.core.step07_head.reference import split_heads\nimport math"),
        "step07_head is not an earlier step",
    ),
    "an import that fails": (first_check("import grader.chekcs"), "No module named 'grader.chekcs': fix it."),
    "no check": (
        lambda step: (step / "test_scores.py").write_text('"""Checks."""\n'),
        "test_scores.py holds no check",
    ),
    "no points": (
        put("test_scores.py", "@points", "def test_more(student, reference, draw):\n    '''More.'''\n\n\n@points"),
        "test_more has no mark: put @points(1) above it.",
    ),
    "no title": (
        first_check("@points(1)\ndef test_more(student, reference, draw):\n    pass"),
        "test_more has no title: write a docstring.",
    ),
    "another fixture": (
        first_check("@points(1)\ndef test_more(student, reference, drawn):\n    '''More.'''"),
        "test_more must take student, reference, draw and nothing else.",
    ),
    "two of one name": (
        first_check("@points(1)\ndef test_scores_by_hand(student, reference, draw):\n    '''More.'''"),
        "test_scores_by_hand is there twice",
    ),
    "parametrized": (
        first_check(
            "import pytest\n@pytest.mark.parametrize('n', [1])\n@points(1)\n"
            "def test_more(student, reference, draw):\n    '''More.'''"
        ),
        "test_more runs once: remove pytest's marks",
    ),
    "negative points": (put("test_scores.py", "@points(1)", "@points(-1)"), "@points(…) takes a number above 0"),
    "an unknown family": (
        put("test_scores.py", "@points", "OFF_LIMITS = {'dot_product_scores': ('sofmax',)}\n\n\n@points"),
        "OFF_LIMITS of dot_product_scores names an unknown family “sofmax”: choose from ",
    ),
    "a family without its tuple": (
        first_check("OFF_LIMITS = {'dot_product_scores': ('softmax')}"),
        'OFF_LIMITS of dot_product_scores is not a tuple: write ("softmax",).',
    ),
    "off limits in what is not there": (
        first_check("OFF_LIMITS = {'dot_products': ('softmax',)}"),
        "OFF_LIMITS names dot_products, which the reference does not define: choose from dot_product_scores",
    ),
    "caught by no check": (put("mistakes.md", "caught by `test_", "caught by `tset_"), "there is no such check"),
    "replaces what is not there": (
        put("mistakes.md", "- `dot_product_scores` · `query", "- `dot_product` · `query"),
        "names dot_product, which the reference does not define",
    ),
    "a link out of the course": (
        instead("lesson.en.md", lambda file: file.symlink_to("/etc/passwd")),
        "lesson.en.md leads out of the course: put a copy in its place.",
    ),
    "a pipe": (instead("pictures.py", os.mkfifo), "pictures.py is not a regular file."),
    "a folder of mistakes that is named as a file": (
        instead("mistakes.md", os.mkdir),
        "mistakes.md can't be read (Is a directory).",
    ),
    "a folder for checks": (instead("test_scores.py", os.mkdir), "test_scores.py can't be read (Is a directory)."),
    "a catalogue of bytes": (lambda step: (step / "ko.po").write_bytes(b"\xff"), "ko.po is not in UTF-8"),
    "an enormous file": (lambda step: os.truncate(step / "mistakes.md", 1 << 40), "mistakes.md has more than 2 MB"),
    "a lesson of bytes": (lambda step: (step / "lesson.en.md").write_bytes(b"\xff"), "lesson.en.md is not in UTF-8"),
    "a byte 0": (put("reference.py", "import math", "import math  # \0"), "not valid Python"),
    "nested too deep": (put("reference.py", "import math", f"import math\nx = {'-' * 100_000}1"), "not valid Python"),
    "checks that end the program": (first_check("raise SystemExit(0)"), "SystemExit: 0: fix it."),
    "a reference that ends the program": (
        put("reference.py", "import math", "import math\nraise SystemExit(0)"),
        "SystemExit: 0: fix it.",
    ),
    "a name that leads out": (put("mistakes.md", "## keys_against", "## ../../keys_against"), "write it in lower case"),
    "two lines": (
        put("mistakes.md", TRANSPOSED, ""),
        "needs three lines",
    ),
}


def test_a_whole_step_has_no_problem(step: Path) -> None:
    """Nothing is said of a step that is as it should be, nor of the steps of the course."""
    assert lint.problems() == []


@pytest.mark.thorough
def test_the_course_has_no_problem() -> None:
    """Each step of the course is whole."""
    assert lint.problems() == []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(step: Path, mistake: str) -> None:
    """The file and what to do, in both languages; no traceback."""
    make, said = MISTAKES[mistake]
    make(step)
    (line,) = lint.problems("13")
    assert said in line
    assert line.startswith(str(step))
    with language.use("ko"):
        (korean,) = lint.problems("13")
    assert korean != line
    assert korean.startswith(str(step))


@pytest.mark.parametrize(
    "file", ["reference.py", "test_scores.py", "variants.py", "mistakes.md", "lesson.ko.md", "pictures.py", "ko.po"]
)
def test_a_file_that_this_user_may_not_read_is_one_line(step: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """Root may read every file, so the refusal is the system's in name only."""
    read_text = Path.read_text

    def read(path: Path, *how: Any, **more: Any) -> str:
        if path == step / file:
            raise PermissionError(13, "Permission denied", str(path))
        return read_text(path, *how, **more)

    (step / "ko.po").touch()
    monkeypatch.setattr(Path, "read_text", read)
    assert lint.problems("13") == [f"{step / file} can't be read (Permission denied)."]


def test_mistakes_in_a_folder(step: Path) -> None:
    """They come in the order of the names that they replace, whichever file they are in; pairs may be of any."""
    before = Solution(paths.SOLUTIONS / "core" / MODEL).misconceptions
    (step / "mistakes").mkdir()
    for language_of, heading in (("md", "## not_scaled\n"), ("ko.md", "- not_scaled ")):
        text = (step / f"mistakes.{language_of}").read_text(encoding="utf-8")
        first, second = text.split(heading)
        (step / f"mistakes.{language_of}").unlink()
        (step / "mistakes" / f"z.{language_of}").write_text(first, encoding="utf-8")
        (step / "mistakes" / f"a.{language_of}").write_text(f"{heading}{second}", encoding="utf-8")
    pairs = "## Together\n- `not_scaled`,\n  `divided_by_width` with `key_not_transposed`\n"
    (step / "mistakes" / "pairs.md").write_text(pairs, encoding="utf-8")
    assert lint.problems("13") == []
    made = Solution(step)
    assert sorted(wrong.name for wrong in made.misconceptions) == sorted(wrong.name for wrong in before)
    public = [next(iter(wrong.replaced)) for wrong in made.misconceptions]
    assert public == sorted(public, key=["dot_product_scores", "scaled_scores"].index)
    assert [pair.name for pair in made.pairs] == [
        "not_scaled + key_not_transposed",
        "divided_by_width + key_not_transposed",
    ]
    assert all(set(pair.replaced) == {"scaled_scores", "dot_product_scores"} for pair in made.pairs)


COMPACT = """# What learners get wrong in `scaled_scores`

```python
def halved(x):
    return x / 2
```

## halved_again
What was done.
Why it is wrong.
> A nudge?
- `dot_product_scores` · `query @ key` → `key`, `(d)` →
  `(d + 1)` · caught by `test_a` · misses the point
- in_another_form · `/ math.sqrt(d)` → nothing · in part
```diff
- d
+ e
```

## As in step 1
- not_scaled · body `return query` · caught by `test_b`
  - not_scaled_at_all · caught by `test_c`
```diff
- a
  b
```
- scaled_once · `a` → `b` ·
  caught by `test_b` · as `scaled` of step 1

## Together
- `not_scaled`,
  `halved_again` with `scaled_once`
"""


def test_a_compact_list_is_read_whole(tmp_path: Path) -> None:
    """An item says what differs from the one before it; a line that is indented goes on with it."""
    (tmp_path / "mistakes.md").write_text(COMPACT, encoding="utf-8")
    document = mistakes.read(tmp_path)
    assert document.shared == "\ndef halved(x):\n    return x / 2\n"
    assert document.together == [("not_scaled", "scaled_once"), ("halved_again", "scaled_once")]
    forms = [form for entry in document.entries.values() for form in entry.ways]
    own, usual = ("dot_product_scores",), ("scaled_scores",)
    assert [(form.name, form.code, form.facts.names, form.facts.caught_by) for form in forms] == [
        ("halved_again", "- query @ key\n+ key\n- (d)\n+ (d + 1)\n", own, "test_a"),
        ("in_another_form", "- / math.sqrt(d)\n+ \n", own, "test_a"),
        ("halved_again_3", "- d\n+ e\n", own, "test_a"),
        ("not_scaled", "return query\n", usual, "test_b"),
        ("not_scaled_at_all", "- a\n  b\n", usual, "test_c"),
        ("scaled_once", "- a\n+ b\n", usual, "test_b"),
    ]
    assert [form.facts.misses_the_point for form in forms[:3]] == [True, False, True]
    assert [form.facts.said_in for form in forms[3:]] == [("not_scaled", 1), ("not_scaled", 1), ("scaled", 1)]
    assert document.entries["halved_again"].said == ("What was done.", "Why it is wrong.", "A nudge?")
    (tmp_path / "mistakes.ko.md").write_text("# -\n\n- halved_again · A · b.\n  C.\n  > D?\n- bare\n")
    korean = mistakes.read(tmp_path, korean=True).entries
    assert {name: entry.said for name, entry in korean.items()} == {
        "halved_again": ("A · b.", "C.", "D?"),
        "bare": ("", "", ""),
    }


def test_a_mistake_is_compiled_when_it_is_asked(step: Path) -> None:
    """Reading a catalogue runs none of it: only the one whose answer is wanted."""
    put("mistakes.md", "→ `key @ query`", "→ `key @ (`")(step)
    broken, whole = Solution(step).misconceptions[:2]
    assert callable(whole.replaced["dot_product_scores"])
    assert broken.replaced.keys() == {"dot_product_scores"}
    with pytest.raises(mistakes.Unreadable, match=r"mistakes\.md:\d+: keys_against_queries"):
        broken.replaced["dot_product_scores"]


def test_edits_of_the_same_words(step: Path) -> None:
    """Two mistakes in the same words are no pair, and say so; those in different words of a line are."""
    with_pair("`not_scaled` with `multiplied_by_root`")(step)
    (line,) = lint.problems("13")
    assert "not_scaled and " in line
    assert "two of its edits change the same words." in line


@pytest.mark.parametrize("name", ["step13-scores", "Step13_scores", "step9_scores", "13_scores"])
def test_a_folder_that_is_no_step(step: Path, name: str) -> None:
    """A misspelt name is not passed over."""
    step.rename(step.with_name(name))
    (line,) = lint.problems()
    assert f"{name} is not a step and is ignored" in line


def test_two_steps_of_one_number(step: Path, tmp_path: Path) -> None:
    """Both are named."""
    copy(tmp_path, "step13_more")
    (line,) = lint.problems("13")
    assert "step13_more" in line and STEP in line and "have the same number" in line


def test_no_such_step(step: Path) -> None:
    """A step that is not there proves nothing, and is not passed over."""
    assert lint.problems("14") == [f"There is no step 14. The steps are {STEP} to {STEP}. Type: make prove STEP={STEP}"]


@pytest.mark.parametrize("number", [0, -1, float("nan"), float("inf"), "2", None, test_no_such_step])
def test_marks_and_deadlines_are_above_zero(number: object) -> None:
    """Anything else is refused where it is written."""
    for mark in (points, deadline):
        with pytest.raises(ValueError, match="takes a number above 0"):
            mark(number)  # type: ignore[arg-type]  # that is the mistake


@pytest.mark.thorough
def test_prove_knows_a_step_by_its_number() -> None:
    """`make prove STEP=2` proves step 2 and not nothing."""
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "tests/solutions/test_course.py"],
        capture_output=True, text=True, cwd=paths.ROOT, env=os.environ | {"KIT_ONLY": "2"}, timeout=600,
    )  # fmt: skip
    assert "step02_softmax" in listed.stdout
    assert "step01_scores" not in listed.stdout


@pytest.mark.thorough
def test_grading_says_what_is_wrong_with_a_step(tmp_path: Path) -> None:
    """A mistake in one step is no failure of the judge's: every command says whose file it is, and grades nothing."""
    shutil.copytree(paths.ROOT / "grader", tmp_path / "grader", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "exercises").mkdir()
    step = copy(tmp_path)
    first_check("@points(1)\ndef test_more(student, reference, draw):\n    pass")(step)
    graded = run(tmp_path, "grade")
    assert graded.returncode == 2
    assert graded.stderr.splitlines() == [
        f"solutions/core/{STEP}/test_scores.py:{_line(step, 'test_more')}: test_more has no title: write a docstring.",
        "This is for the author of the step. Type: make prove",
    ]
    _start_again(step)
    put("test_scores.py", "@points", "OFF_LIMITS = {'dot_product_scores': ('sofmax',)}\n\n\n@points")(step)
    (tmp_path / "exercises" / f"{STEP}.py").write_text(
        Solution(paths.SOLUTIONS / "core" / MODEL).solved(), encoding="utf-8"
    )
    graded = run(tmp_path, "grade")  # of right code: it must not be refused for that
    assert graded.returncode == 2
    assert "names an unknown family “sofmax”" in graded.stderr
    copy(tmp_path, "step13_more")
    assert "have the same number" in run(tmp_path, "grade", "--step", "13").stderr
    shutil.rmtree(step.with_name("step13_more"))
    lost("reference.py")(step)
    for command in ("exercises", "kit", "grade"):
        done = run(tmp_path, command)
        assert done.returncode == 2
        assert f"solutions/core/{STEP}/reference.py is missing: write it." in done.stderr
        assert "Traceback" not in done.stderr


def _start_again(step: Path) -> None:
    shutil.rmtree(step)
    copy(step.parents[2])


def _line(step: Path, check: str) -> int:
    lines = (step / "test_scores.py").read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith(f"def {check}("))


def test_a_stub_of_no_step_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step left behind that was renamed or removed is named."""
    shutil.copytree(paths.EXERCISES, tmp_path / "exercises", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "exercises" / "step07_splitting.py").touch()
    monkeypatch.setattr(paths, "EXERCISES", tmp_path / "exercises")
    assert fresh.left_behind() == [
        "exercises/step07_splitting.py belongs to no step: remove it, or give the step its old name"
    ]


def test_the_readmes_list_every_track(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With its steps and points, in both languages; one that says something else is named as stale."""
    assert pages.stale() == []
    old = tmp_path / "README.md"
    old.write_text(pages.READMES["en"].read_text(encoding="utf-8").replace("| 100 |", "| 99 |"), encoding="utf-8")
    monkeypatch.setitem(pages.READMES, "en", old)
    assert pages.stale() == [old]
