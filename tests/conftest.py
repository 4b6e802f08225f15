"""What several test files share: one warm grader for all of them."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
import torch

from grader.base.limits import Limits
from grader.judge.grader import Grader


def pytest_configure() -> None:
    """One thread, as in a judge: small tensors are only slowed by more.

    And an interrupt that ends what is started here: a shell has what it runs behind ignore it, and that is handed on.
    """
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def grader() -> Iterator[Grader]:
    """A warm grader with short deadlines."""
    with Grader(limits=Limits(call_seconds=4.0, step_seconds=20.0, memory=512 << 20)) as warm:
        yield warm
