"""The pictures of a step's lesson: drawn from the reference, or kept as numbers without one.

A step may have `pictures.py` with `pictures(reference)`, which returns a picture by name. It is called under `no_grad`,
with torch's seed set to the step's number. The lesson shows a picture in a line of its own, with what to see in it:
`![What to see](picture:name)`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import msgspec
import torch

from grader.base import files, language
from grader.oracle.live import Solution
from grader.report.pictures import Picture

KEPT = "pictures.json"  # in a learner's copy of the kit


def pictures(folder: Path) -> dict[str, Picture]:
    """The pictures of the step in this folder, by name, drawn from the reference, or read from `pictures.json` in a
    learner's kit; empty if it has none, or the saved ones are damaged."""
    step = Solution(folder)
    if step.is_recorded:
        every = files.decoded(folder / KEPT, dict[str, dict[str, Picture]]) or {}
        return every.get(language.current()) or every.get(language.LANGUAGES[0], {})
    if not (folder / "pictures.py").is_file():
        return {}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(step.number)
        drawn: dict[str, Picture] = importlib.import_module(f"{step.package}.pictures").pictures(_reference(step))
    return drawn


def _reference(step: Solution) -> ModuleType:
    """The reference's module; an empty one if it lacks a package here, as Triton on most machines."""
    try:
        return step.reference
    except ImportError:
        return ModuleType(step.name)


def kept(folder: Path) -> bytes:
    """The pictures of a step for `pictures.json`, in each language; empty if it has none. Their words are translated
    when they are drawn: only a picture of another text differs from English."""
    by_language: dict[str, dict[str, Picture]] = {}
    for spoken in language.LANGUAGES:
        with language.use(spoken):
            drawn = pictures(folder)
        if drawn and drawn not in by_language.values():
            by_language[spoken] = drawn
    return msgspec.json.encode(by_language) + b"\n" if by_language else b""
