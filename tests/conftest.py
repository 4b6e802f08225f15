"""What several test files share: one warm grader for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from grader.grading import Grader
from grader.limits import Limits


def pytest_configure() -> None:
    """One thread, as in a judge: small tensors are only slowed by more."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def grader() -> Iterator[Grader]:
    """A warm grader with short deadlines."""
    with Grader(limits=Limits(call_seconds=4.0, step_seconds=20.0, memory=512 << 20)) as warm:
        yield warm
