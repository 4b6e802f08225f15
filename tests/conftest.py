"""What several test files share: one warm grader for all of them."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from xdist.scheduler import LoadFileScheduling

from grader.base.limits import Limits
from grader.course import exercises
from grader.judge.grader import Grader
from tests.whole import THOROUGH

# These take longest. They begin first: what runs last alone leaves the other processor idle.
LONG = (
    "test_accelerator",
    "test_nbgrader",
    "test_soak",
    "test_kit",
    "test_classroom",
    "test_own_faults",
    "test_capstone",
    "test_labs",
)


class ByFileAndStep(LoadFileScheduling):
    """Tests of one file stay in one process, which shares their warm grader; those of the course, by step."""

    def _split_scope(self, nodeid: str) -> str:
        step = re.search(r"\[(step\d\d)", nodeid) if "test_course.py" in nodeid else None
        return super()._split_scope(nodeid) + (step[1] if step else "")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """The one above, for `-n`."""
    return ByFileAndStep(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long files first (Python's sort keeps the order of the others), and nothing `thorough` in `make test`."""
    if not THOROUGH and not config.option.keyword:  # a test that is asked for by its name is run
        left = [item for item in items if item.get_closest_marker("thorough") is None]
        config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = left
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


def pytest_configure() -> None:
    """One thread, as in a judge: small tensors are only slowed by more.

    And an interrupt that ends what is started here: a shell has what it runs behind ignore it, and that is handed on.
    And Triton's interpreter, where Triton is installed: it reads this when a test first imports it.
    """
    os.environ.setdefault("TRITON_INTERPRET", "1")
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def grader() -> Iterator[Grader]:
    """A warm grader with short deadlines."""
    with Grader(limits=Limits(call_seconds=4.0, step_seconds=20.0, memory=512 << 20)) as warm:
        yield warm


@pytest.fixture(scope="session")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The references as a submission."""
    folder = tmp_path_factory.mktemp("solved")
    exercises.write_solved(folder)
    return folder
