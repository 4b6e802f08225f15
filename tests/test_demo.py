"""The demo: what it shows, what it says of a learner's code that does not run, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner, Result

from grader import course, demo


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A terminal of 80 columns without colour, English, and no vocabulary in tiktoken's cache."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.delenv("KIT_LANG", raising=False)


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    """A folder where every step is solved."""
    folder = tmp_path / "exercises"
    folder.mkdir()
    for step in course.steps():
        (folder / f"{step.name}.py").write_text(step.solved(), encoding="utf-8")
    return folder


def run(*arguments: str) -> Result:
    """The demo with few steps of training."""
    return CliRunner().invoke(demo.app, ["--train-steps", "2", *arguments])


def test_reference_goes_on() -> None:
    """Tokens with their ids, the likeliest next tokens, the whole text and more; all within 80 columns."""
    result = run("--model", "reference", "--top", "3", "The query asks")
    assert result.exit_code == 0, result.output
    assert "small one that comes with the kit, 1,024 tokens" in result.output
    assert "Model: the reference." in result.output
    assert '" query"' in result.output
    assert result.output.count("%") == 3
    assert "The query asks" in result.output.splitlines()[-2:][0] + result.output.splitlines()[-1]
    assert max(cell_len(line) for line in result.output.splitlines()) <= 80
    assert "\x1b" not in result.output


def test_korean_fits_80_columns() -> None:
    """A Korean text is gone on from with the Korean sample, and wide characters are counted as two."""
    result = run("--lang", "ko", "모델은 모든")
    assert result.exit_code == 0, result.output
    assert '" 모든"' in result.output
    assert max(cell_len(line) for line in result.output.splitlines()) <= 80


def test_learners_own_gives_the_same(submission: Path) -> None:
    """The weights depend on the parameters' names and the seed, so a right GPT shows what the reference shows."""
    ours, theirs = run("--model", "reference"), run("--model", "mine", "--submission", str(submission))
    assert theirs.exit_code == 0, theirs.output
    assert "Model: yours, from exercises/step12_gpt.py." in theirs.output
    assert theirs.output.partition("What comes next")[2] == ours.output.partition("What comes next")[2]


def test_long_texts_and_parts_of_characters_are_shown() -> None:
    """Only the last 64 tokens are seen, and a token that is half a character is shown as bytes."""
    result = run("--train-steps", "0", "뷁\n" * 60)
    assert result.exit_code == 0, result.output
    assert "the model sees the last 64 of them" in " ".join(result.output.split())
    assert "bytes" in result.output
    assert max(cell_len(line) for line in result.output.splitlines()) <= 80


def test_empty_text() -> None:
    """An empty text ends with the command to type."""
    result = run("")
    assert result.exit_code == 2
    assert result.output.startswith("The text is empty. Type: python -m grader.demo")


def test_stub_is_not_written(submission: Path) -> None:
    """An untouched stub gives one line and the command to type, no traceback."""
    gpt = next(step for step in course.steps() if step.number == 12)
    (submission / "step12_gpt.py").write_text(gpt.stub(), encoding="utf-8")
    result = run("--model", "mine", "--submission", str(submission))
    assert result.exit_code == 2
    assert "step12_gpt.py is not written yet" in " ".join(result.output.split())
    assert "grader grade --step step12_gpt" in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_earlier_stub_is_not_written(submission: Path) -> None:
    """When an earlier step is a stub, the message names that one."""
    block = next(step for step in course.steps() if step.number == 11)
    (submission / "step11_gpt_block.py").write_text(block.stub(), encoding="utf-8")
    result = run("--model", "mine", "--submission", str(submission))
    assert result.exit_code == 2
    assert "exercises/step11_gpt_block.py is not written yet" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("return logits, None", "return logits.undefined", "in forward: AttributeError"),
        ("return logits, loss", "return logits[:, -1], loss", "The logits must have shape"),
        ("return logits, loss", "return logits, loss.item()", "The loss must be a tensor"),
        ("return logits, loss", "return logits, loss * float('nan')", "The loss is nan at step 1 of training."),
        ("    return idx", "    return idx[:, 1:]", "generate must return shape"),
        ("yield inputs[first", "yield inputs.sum(), inputs[first", "next_token_batches must yield pairs"),
        ("class GPT(nn.Module):", "class GPT(nn.Module:", "SyntaxError"),
        ("class GPT(nn.Module):", "class Gpt(nn.Module):", "GPT"),
    ],
)
def test_wrong_code_gives_one_line(submission: Path, old: str, new: str, said: str) -> None:
    """Their file and line and error, or what came instead of what was asked for; never a traceback."""
    file = submission / "step12_gpt.py"
    source = file.read_text(encoding="utf-8")
    assert old in source
    file.write_text(source.replace(old, new), encoding="utf-8")
    result = run("--model", "mine", "--submission", str(submission))
    words = " ".join(result.output.split())
    assert result.exit_code == 2, result.output
    assert said in words
    assert "Traceback" not in words
    assert "python -m grader grade --step step12_gpt" in words


def test_no_file(tmp_path: Path) -> None:
    """A folder without the step says how to make it."""
    result = run("--model", "mine", "--submission", str(tmp_path))
    assert result.exit_code == 2
    assert "make exercises" in result.output


def test_no_reference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A learner's copy has no reference: `--model reference` says so, and nothing else is the default there."""
    monkeypatch.setattr(course, "SOLUTIONS", tmp_path)
    result = run("--model", "reference")
    assert result.exit_code == 2
    assert "--model mine" in result.output
    assert "There is no file" in run("--submission", str(tmp_path)).output


def test_failed_download(monkeypatch: pytest.MonkeyPatch) -> None:
    """A download that fails ends with the command that does without."""
    import tiktoken

    def refuse(name: str) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(tiktoken, "get_encoding", refuse)
    result = run("--download")
    words = " ".join(result.output.split())
    assert result.exit_code == 2
    assert "could not be downloaded (ConnectionError: no route)" in words
    assert words.endswith("python -m grader.demo")
