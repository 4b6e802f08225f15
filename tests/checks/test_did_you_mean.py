"""An unknown name that is spelled almost like a known one is told so, as Python does where it prints a traceback."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from grader.calls.transfer import described
from grader.checks.learner_errors import learners_error


def raised(source: str, **names: Any) -> str:
    """What is said of a function's error."""
    scope: dict[str, Any] = {"torch": torch}
    exec(compile(f"def f({', '.join(names)}):\n    {source}\n", "step.py", "exec"), scope)
    try:
        scope["f"](**names)
    except Exception as error:
        return str(learners_error(described(error, lambda file: file == "step.py", "step.py"), "f(x)"))
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    ("source", "meant"),
    [
        ("return query @ kye", "`key`"),
        ("return torch.sofmax(query, -1)", "`softmax`"),
        ("return query.transpos(-2, -1)", "`transpose`"),
        ("return lenn(query)", "`len`"),
    ],
)
def test_the_name_that_was_meant(source: str, meant: str) -> None:
    """Of the function, of the file, of Python, of torch and of its tensors."""
    assert f"Did you mean {meant}?" in raised(source, query=torch.ones(2, 2), key=torch.ones(2, 2))


def test_a_name_like_no_other() -> None:
    """Nothing is guessed, and nothing of an object of the learner's own is asked."""
    assert "mean" not in raised("return qwertzuiop", query=1)
    looked: list[str] = []

    class Odd:
        def __dir__(self) -> list[str]:
            looked.append("looked")
            return ["abc"]

    assert "mean" not in raised("return odd.abd", odd=Odd())
    assert looked == []
    assert "mean" not in raised("return odd.abd", odd=SimpleNamespace(abc=1))


@pytest.mark.parametrize(
    "of_torch",
    [
        "Torch not compiled with CUDA enabled",
        "Found no NVIDIA driver on your system.",
        "No CUDA GPUs are available",
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, use 'spawn'",
    ],
)
def test_a_device_that_is_not_there_is_told(of_torch: str) -> None:
    """Whatever torch says of it: built for the CPU, for CUDA without a driver, or in a process that was forked."""
    assert "The device 'cuda' is hard-coded" in raised(f"raise RuntimeError({of_torch!r})")
