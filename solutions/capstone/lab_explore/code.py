"""Whose code answers when one looks inside a GPT: each of steps 1 to 12 the learner's where it is right, else the
reference's, else a simple part of the kit's own."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.base import paths
from grader.course import stubs
from grader.labs import parts
from grader.sandbox.importer import PACKAGE

from . import own

GPT_STEP = "step12_gpt"
NAMES = {
    "step01_scores": ("scaled_scores",), "step02_softmax": ("softmax",),
    "step03_attention": ("attention",), "step04_causal_mask": ("causal_mask",), "step05_dropout": ("dropout",),
    "step07_heads": ("split_heads", "merge_heads"), "step10_flash": ("flash_attention",),
    GPT_STEP: ("GPT", "generate"),
}  # fmt: skip


@dataclass(frozen=True)
class Code:
    """What a GPT is looked into with. `whose` has each step: `yours`, `reference` or `kit`; `faults` says of a step
    that should have been the learner's why it is not."""

    whose: dict[str, str]
    faults: dict[str, str]
    GPT: Any
    generate: Callable[..., Any]
    scaled_scores: Callable[..., Any]
    softmax: Callable[..., Any]
    attention: Callable[..., Any]
    causal_mask: Callable[..., Any]
    dropout: Callable[..., Any]
    split_heads: Callable[..., Any]
    merge_heads: Callable[..., Any]
    flash_attention: Callable[..., Any] | None

    def new_gpt(self, sizes: tuple[int, ...], dropout: float) -> Any:
        """A model; the kit's own knows no dropout but that of the weights."""
        takes = "dropout" in inspect.signature(self.GPT).parameters
        return self.GPT(*sizes, dropout=dropout) if takes else self.GPT(*sizes)


def core_steps() -> list[str]:
    """Steps 1 to 12, which a GPT is made of."""
    return [folder.name for folder in paths.step_folders() if folder.name <= GPT_STEP]


def chosen(folder: Path, right: frozenset[str]) -> Code:
    """The learner's code of the steps that are right, with the reference's or the kit's own in place of the others."""
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE or name in core_steps()]:
        del sys.modules[name]
    parts.import_from(folder)
    whose: dict[str, str] = {}
    faults: dict[str, str] = {}
    found: dict[str, Any] = {}
    for step in core_steps():
        module, whose[step] = None, "kit"
        if step in right:
            module = _learners(folder, step, faults)
            whose[step] = "yours" if module else "kit"
        if module is None and (module := _reference(step)):
            whose[step] = "reference"
        sys.modules[f"{PACKAGE}.{step}"] = sys.modules[step] = module  # type: ignore[assignment]  # None: no such module
        if module is not None:
            found |= {name: getattr(module, name) for name in NAMES.get(step, ())}
    names = [name for of_step in NAMES.values() for name in of_step]
    return Code(whose, faults, **{name: found.get(name, getattr(own, name, None)) for name in names})


def _learners(folder: Path, step: str, faults: dict[str, str]) -> types.ModuleType | None:
    """The learner's module of a step, or None with the fault."""
    try:
        with parts.blamed_on(folder):
            module = parts.imported(step, NAMES.get(step, ()))
            if missing := [name for name in NAMES.get(step, ()) if not hasattr(module, name)]:
                raise AttributeError(missing[0])
    except (Exception, SystemExit) as error:  # whatever a learner's file raises when it is imported
        if "None in sys.modules" not in str(error):  # else an earlier step is missing, which is said of that one
            faults[step] = str(error)
        return None
    return module


def _reference(step: str) -> types.ModuleType | None:
    """The reference, made of the other steps as they were chosen; None in a copy of the kit without it."""
    file = paths.step_folder(step) / "reference.py"
    if not file.is_file():
        return None
    module = types.ModuleType(f"{PACKAGE}.{step}")
    source = stubs.with_exercise_imports(file.read_text(encoding="utf-8"))
    try:
        exec(compile(source, str(file), "exec"), module.__dict__)
    except ImportError:  # one that it is made of is missing
        return None
    return module
