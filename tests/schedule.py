"""Which process runs which tests, with `-n`. Without torch, since the process that hands them out imports it, too."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class ByFileAndStep(LoadFileScheduling):
    """Tests of one file stay in one process, which shares their warm grader; those of the course, by step."""

    def _split_scope(self, nodeid: str) -> str:
        step = re.search(r"\[(step\d\d)", nodeid) if "test_course.py" in nodeid else None
        return super()._split_scope(nodeid) + (step[1] if step else "")

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Hands the next file to a process. If it has ended, which xdist may not have noticed yet, `remove_node` takes
        the file back."""
        with contextlib.suppress(OSError):
            super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Hands out files until the process has two tests: it begins its last one only when it knows what comes next.
        xdist gives one file to a process that replaces another, and waits for ever if that holds a single test."""
        super()._reschedule(node)
        if not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            self._reschedule(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Takes a process that has ended out, and returns the test that ended it. xdist would hand its finished files
        out again, as no tests at all, and wait for ever for these to be done."""
        work = self.assigned_work[node]
        ended = next((name for unit in work.values() for name, is_done in unit.items() if not is_done), None)
        for unit in work.values():
            if ended in unit:
                unit[ended] = True
        self.assigned_work[node] = {scope: unit for scope, unit in work.items() if not all(unit.values())}
        super().remove_node(node)
        return ended


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """The one above."""
    return ByFileAndStep(config, log)
