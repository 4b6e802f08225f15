"""What every `truth.py` runs under, and which of them `make prove` runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.base.paths import STEP_NAME, step_folders
from grader.course.choice import match_step

os.environ.setdefault("TRITON_INTERPRET", "1")  # step 29 on a CPU; Triton reads it when it is imported


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """With KIT_ONLY=4 the folders of other steps are left out."""
    only = os.environ.get("KIT_ONLY")
    if not only or not STEP_NAME.fullmatch(collection_path.name):
        return None
    return collection_path.name != match_step(only, [folder.name for folder in step_folders()]) or None


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    import torch  # the checks of the steps are collected without it

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are tiny: a second thread would mostly wait for the first
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield
    torch.set_num_threads(threads)
