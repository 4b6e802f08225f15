"""`make train TEXT=torch`: PyTorch's source as a text, what of a sample is Python, and byte pairs learned from it."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from grader.base import language
from grader.cli import main as command_line
from solutions.capstone.lab_common import pieces, programs, stories, training
from solutions.capstone.lab_train import source


@pytest.fixture(scope="module")
def text() -> str:
    return source.text()


@pytest.mark.thorough
def test_the_text_is_python_without_comments_and_the_same_each_time(text: str) -> None:
    assert text == source.text()
    assert len(text) > 500_000
    nodes = list(ast.walk(ast.parse(text)))
    assert not [node for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node)]
    assert not [node for node in nodes if isinstance(node, ast.arg) and node.annotation]
    assert "class Linear(Module):" in text


@pytest.mark.parametrize(("sample", "is_python"), [
    ("\n\ndef f(x):\n    return x\n\ndef g(", True),
    ("def f(x):\n    if x:\n        y", True),
    ("@property\ndef f(self):\n    try:\n        return 1\n    ex", True),
    ("def f(x):\nreturn x\ny", False),
    ("def f(x, x.y):\n    return x\n    z", False),
    ("x = 'half a string\ny", False),
    ("def f(x): return x", False),  # no line is finished
    ("", False),
])  # fmt: skip
def test_what_parses(sample: str, is_python: bool) -> None:
    assert source.parses(sample) is is_python


def test_indentation_is_one_token_and_the_text_comes_back(text: str) -> None:
    part = text[:60_000]
    words = pieces.learn(part, 300)
    assert "\n        " in words.tokens
    assert words.decode(words.encode(part)) == part


@pytest.mark.parametrize("spoken", language.LANGUAGES)
def test_the_heap_learns_what_counting_again_learns(spoken: str) -> None:
    """Each pair counted again before each merge, the smallest of the most frequent taken."""
    told = stories.text(spoken, 40)
    counts = Counter(pieces.WORD.findall(told))
    words = {word: list(word) for word in counts}
    learned = []
    for _merge in range(80):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, parts in words.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += counts[word]
        first, second = min(pair for pair, times in pairs.items() if times == max(pairs.values()))
        learned.append(first + second)
        for word, parts in words.items():
            joined = "\0".join(["", *parts, ""]).replace(f"\0{first}\0{second}\0", f"\0{first + second}\0")
            words[word] = joined.replace(f"\0{first}\0{second}\0", f"\0{first + second}\0").strip("\0").split("\0")
    assert pieces.learn(told, 80).tokens == list(dict.fromkeys([*sorted(set(told)), *learned]))


@pytest.mark.thorough
def test_the_command_learns_to_write_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A few steps, continued without saying the text again; the page draws how much parses, and it writes on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(source, "PACKAGES", ("optim",))
    monkeypatch.setattr(source, "SAMPLES", 2)
    assert command_line.run(["train", "--model", "kit", "--text", "torch", "--steps", "2"]) == 0
    assert command_line.run(["train", "--model", "kit", "--steps", "1", "--resume"]) == 0
    kept = training.read(programs.CHECKPOINT)[1]
    assert kept["progress"]["step"] == 3
    shares = kept["progress"]["parsing"]
    assert (len(shares), all(0 <= share <= 1 for _step, share in shares)) == (3, True)
    page = (programs.CHECKPOINT.parent / "train.html").read_text(encoding="utf-8")
    assert "How much of what it writes is Python" in page
    assert "are Python up to their last finished line" in capsys.readouterr().out
    assert command_line.run(["generate", "--model", "kit", "--tokens", "3"]) == 0
    assert "class Linear(Module):" in capsys.readouterr().out
