"""What several test files share: one warm grader for all of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import torch

from grader.base.limits import Limits
from grader.judge.grader import Grader


def pytest_configure() -> None:
    """One thread, as in a judge: small tensors are only slowed by more. Triton's kernels are interpreted, as there.

    And an interrupt that ends what is started here: a shell has what it runs behind ignore it, and that is handed on.
    """
    torch.set_num_threads(1)
    os.environ.setdefault("TRITON_INTERPRET", "1")  # as in a judge; Triton reads it when it is imported
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def grader() -> Iterator[Grader]:
    """A warm grader with short deadlines."""
    with Grader(limits=Limits(call_seconds=4.0, step_seconds=20.0, memory=512 << 20)) as warm:
        yield warm
