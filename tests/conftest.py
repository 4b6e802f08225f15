"""What several test files share: one warm grader for all of them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from grader.base.limits import Limits
from grader.course import exercises
from grader.judge.grader import Grader
from tests.schedule import pytest_xdist_make_scheduler  # noqa: F401  pytest finds the hook here
from tests.whole import THOROUGH, WHOLE

RUN = "KIT_TEST_RUN"
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long files first (Python's sort keeps the order of the others); nothing `thorough` in `make test`, and
    nothing `exhaustive` in CI; `make prove` leaves out nothing about its step."""
    skipped = {"exhaustive": not WHOLE, "thorough": not THOROUGH and not os.environ.get("KIT_ONLY")}
    if any(skipped.values()) and not config.option.keyword:  # a test that is asked for by its name is run
        marked = [marker for marker, is_skipped in skipped.items() if is_skipped]
        left = [item for item in items if not any(item.get_closest_marker(marker) for marker in marked)]
        config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = left
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


def pytest_configure() -> None:
    """One thread, as in a judge: small tensors are only slowed by more.

    And an interrupt that ends what is started here: a shell has what it runs behind ignore it, and that is handed on.
    And Triton's interpreter, where Triton is installed: it reads this when a test first imports it.
    """
    os.environ.setdefault("TRITON_INTERPRET", "1")
    os.environ.setdefault(RUN, str(os.getpid()))  # the processes that tests start have it too
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run fails in which a test has left a process behind: the code it started may go on for ever."""
    if os.environ[RUN] != str(os.getpid()) or not Path("/proc/self/environ").exists():
        return  # a process of another run, or no Linux
    deadline = time.monotonic() + 60
    while (left := _left_behind()) and time.monotonic() < deadline:
        time.sleep(0.2)
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print("", *(f"left behind: {process}" for process in left), sep="\n", file=sys.stderr)


def _left_behind() -> list[str]:
    """What was started in this run and still runs: the test that started it, and its command."""
    left, mark = [], f"{RUN}={os.environ[RUN]}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            if mark in environment:  # not in this process's own, which began without
                test = next((each for each in environment if each.startswith(b"PYTEST_CURRENT_TEST=")), b"")
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")[:200]
                left.append(b" ".join((folder.name.encode(), test, command)).decode(errors="replace"))
    return left


@pytest.fixture(scope="session")
def grader() -> Iterator[Grader]:
    """A warm grader with short deadlines, which names a mistake on a slow machine as well."""
    with Grader(limits=Limits(call_seconds=1.0, step_seconds=5.0, patience=4.0, memory=512 << 20)) as warm:
        yield warm


@pytest.fixture(scope="session")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The references as a submission."""
    folder = tmp_path_factory.mktemp("solved")
    exercises.write_solved(folder)
    return folder
