"""`make cuda`, which needs a GPU, by its parts on a CPU."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.oracle.live import solutions
from tools.cuda import __main__ as command
from tools.cuda import course, flash, halves, page, run

pytestmark = pytest.mark.thorough

STEPS = [step for step in solutions() if step.number in (1, 4)]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What the parts find on a CPU, in little."""
    later = time.monotonic() + 60
    bench = flash.measure("cpu", (32, 64), later, lambda what: None)
    return {
        "version": 1, "device": "cpu", "quick": True, "machine": run.machine("cpu"), "failed": [], "date": "2026-01-01",
        "seconds": 1.0, "graded": course.graded(STEPS[:1], "cpu", later, lambda what: None), "not_graded": 1,
        "halves": halves.run("cpu", 4), "flash": bench | {"goals": flash.goals(bench["rows"])},
        "right_and_wrong": course.right_and_wrong(STEPS, "cpu", later, lambda what: None),
    }  # fmt: skip


def test_every_part_finds_what_it_should(found: dict[str, Any]) -> None:
    """Right ones pass, wrong ones are refused, float16 learns and survives an overflow, all ways agree."""
    assert run.unexpected(found) == []
    assert found["graded"][0]["status"] == "pass"
    for one, step in zip(found["right_and_wrong"], STEPS, strict=True):
        assert (one["passed"], one["refused"]) == (len(step.variants), len(step.misconceptions))
    half = found["halves"]
    assert half["float16"]["after"] < half["float16"]["before"]
    assert half["overflow"] == {
        "norm": half["overflow"]["norm"], "parameters_kept": True, "scale_before": 2.0**40, "scale_after": 2.0**39,
        "goes_on": True,
    }  # fmt: skip
    names = {row["name"] for row in found["flash"]["rows"]}
    assert {"naive", "step 10, blocks of 64", "SDPA, math", "SDPA, flash"} <= names
    assert all(row["ms"] > 0 and row["MiB"] > 0 for row in found["flash"]["rows"])
    assert {row["backward"] for row in found["flash"]["rows"]} == {False, True}


def test_what_is_otherwise_is_said(found: dict[str, Any]) -> None:
    """A step that fails, an overflow that was kept, a contestant that is off: each by name."""
    wrong = json.loads(json.dumps(found))
    wrong["graded"][0] |= {"status": "fail", "said": "test_a: no"}
    wrong["right_and_wrong"][0]["surprises"] = ["a_way: test_b: pass."]
    wrong["halves"]["overflow"]["parameters_kept"] = False
    wrong["flash"]["errors"]["naive"] = 0.5
    assert len(run.unexpected(wrong)) == 4


def test_a_part_that_fails_is_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A driver too old, a compiler without Python's headers: the other parts go on, and the page has the reason."""

    def broken(*_given: Any) -> Any:
        raise RuntimeError("The NVIDIA driver on your system is too old\nmore of it")

    def no_headers(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        raise OSError("fatal error: Python.h: No such file or directory")

    ways = [flash.Contestant("naive", flash._naive), flash.Contestant("step 29", no_headers, False)]
    monkeypatch.setattr(halves, "run", broken)
    monkeypatch.setattr(course, "graded", broken)
    monkeypatch.setattr(flash, "contestants", lambda device: iter(ways))
    monkeypatch.setattr(run, "QUICK_STEPS", (1,))
    measured = run.measured("cpu", True, time.monotonic(), 60.0) | {"seconds": 1.0}
    assert [line.partition(":")[0] for line in measured["failed"]] == ["graded", "float16"]
    assert len(run.unexpected(measured)) == 2
    _data, *pages = run.written(measured, tmp_path)
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert "too old" in text
        assert "Python.h" in text


def test_goals_are_compared() -> None:
    """Only what was measured."""
    rows = [
        {"name": name, "T": length, "backward": False, "ms": ms, "MiB": mebi}
        for name, length, ms, mebi in (
            ("naive", 512, 1, 1), ("step 10, blocks of 64", 512, 1, 2),
            ("naive", 1024, 1, 4), ("step 10, blocks of 64", 1024, 1, 1),
            ("step 29", 4096, 2.5, 1), ("SDPA, flash", 4096, 2.0, 1),
        )
    ]  # fmt: skip
    assert flash.goals(rows) == {"kernel": 1.25, "memory": 0.25}
    assert flash.goals(rows[:2]) == {"kernel": None, "memory": None}


@pytest.mark.parametrize("spoken", ["en", "ko"])
def test_page_is_whole(found: dict[str, Any], spoken: str, tmp_path: Path) -> None:
    """One file without scripts; it says that it was a CPU; plots where matplotlib is, figures anyway."""
    files = run.written(found, tmp_path)
    assert len(files) == 3
    assert json.loads(files[0].read_text(encoding="utf-8"))["machine"]["name"].endswith("CPU")
    text = page.html(found, spoken)
    assert ("on a CPU" in text) if spoken == "en" else ("CPU에서 실행한" in text)
    assert "<script" not in text
    assert text.count("<svg") == 5
    assert len(re.findall("<table>", text)) == 7
    assert "{" not in re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)


def test_sentences_are_the_same_in_both_languages() -> None:
    """Each has its other, with the same places to fill in."""
    english, korean = (
        json.loads((page.HERE / f"words.{spoken}.json").read_text(encoding="utf-8")) for spoken in ("en", "ko")
    )
    assert english.keys() == korean.keys()
    assert english.pop("names").keys() == korean.pop("names").keys()
    for name, sentence in english.items():
        places = [sorted(re.findall(r"\{[\w:.]*\}", one)) for one in (sentence, korean[name])]
        assert places[0] == places[1], name


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so() -> None:
    """One line, and what to type."""
    asked = [sys.executable, "-m", "tools.cuda"]
    told = subprocess.run(asked, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert told.returncode == 2
    assert told.stderr.startswith("There is no cuda here")
    assert "make cuda" in told.stderr
    assert "Traceback" not in told.stderr


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it, before anything is imported."""
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "msgspec" else there(name))
    assert command.missing().startswith("Not installed: msgspec. Type: ")
    assert command.missing().endswith("-m pip install msgspec")
