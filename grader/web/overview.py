"""The state of the course for the page: tracks, steps and labs, their points, the learner's progress, and the next
step."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from grader.base.language import gettext as _
from grader.base.results import StepResult
from grader.course import lessons, tracks
from grader.course.steps import step_titles
from grader.labs import lab as labs
from grader.learner import track_list
from grader.learner.progress import StepProgress, TrackProgress
from grader.learner.watch import Watch
from grader.report import terminal as reports
from grader.web import labs as lab_runs


class PageState:
    """The state that the page was last told, and the state to tell now."""

    def __init__(self, session: Watch) -> None:
        """Results that the session has already count as told."""
        self.session, self.board = session, session.board
        self.versions: dict[str, int] = {}
        self.calm: dict[str, str] = {}
        self._seen: dict[str, tuple[StepResult | None, str]] = {
            name: (result, "") for name, result in self.board.results.items()
        }
        self._last: dict[str, Any] | None = None
        self._now: tuple[object, ...] = ()
        self.has_torch = False  # what needs it is told once it is loaded

    def state(self) -> dict[str, Any] | None:
        """The state of the course as JSON for the page; None if it was last told the same. It is asked for twenty times
        a second."""
        self._look()
        board, grading = self.board, self.board.grading
        now = (
            sum(self.versions.values()), tuple(board.names), board.stopped, board.current, self._pending(),
            grading and (grading.step, grading.check, grading.failed), int(time.monotonic()),
        )  # fmt: skip
        if now == self._now:
            return None
        self._now = now
        state = self._state()
        if state == self._last:
            return None
        self._last = state
        return state

    def _look(self) -> None:
        """Counts up the version of each step with a verdict that has changed since the last look."""
        board = self.board
        if board.current:
            self.calm[board.current] = board.calm
        for name in board.names:
            result, calm = board.results.get(name), self.calm.get(name, "")
            before = self._seen.get(name, (None, ""))
            if before[0] is not result:
                calm = self.calm[name] = board.calm if name == board.current else ""
            if before[0] is not result or before[1] != calm:
                self._seen[name] = (result, calm)
                self.versions[name] = self.versions.get(name, 0) + 1

    def _pending(self) -> list[str]:
        """The names of the steps with a verdict about to be replaced: saved or asked for, and not graded since."""
        grading = {self.session.grading} if self.session.grading else set()
        return sorted(name for name in self.session.asked | grading if name in self.board.names)

    def _state(self) -> dict[str, Any]:
        """The state of the course as the page's script reads it."""
        board, progress, grading = self.board, self.board.progress, self.board.grading
        needs = {lab.name: _needs(lab) for lab in labs.labs()} if self.has_torch else {}
        self._progress = progress
        return {
            "points": track_list.points(progress), "score": progress.core.score, "most": progress.core.most,
            "next": progress.next_step(), "ungraded": bool(progress.ungraded), "pending": self._pending(),
            "grading": {
                "step": grading.step, "seconds": grading.seconds, "check": grading.check,
                "failed": grading.says,
            } if grading else None,
            "stopped": board.stopped, "saved": self.session.saved,
            "tracks": [self._track(found, needs) for found in progress.tracks],
        }  # fmt: skip

    def _track(self, found: TrackProgress, needs: Mapping[str, str | None]) -> dict[str, Any]:
        """A track as JSON, with its steps and labs; `needs` has the step that each lab waits for, by the lab's name."""
        track = found.track
        return {
            "name": track.name, "title": track.title, "after": track.after, "summary": track.summary,
            "started": found.is_started, "passed": len(found.passed),
            "steps": [self._step(step) for step in found.steps],
            "labs": [self._lab(lab, needs.get(lab.name)) for lab in _labs(track)],
        }  # fmt: skip

    def _lab(self, lab: labs.Lab, needed: str | None) -> dict[str, Any]:
        """A lab as JSON; `needed` is the last step that it needs, if that is known."""
        return {
            "name": lab.name,
            "title": _lab_title(lab),
            "done": (lab_runs.out(self.board.folder) / f"{lab.name}.html").is_file(),
            "needs": needed,
        }

    def _step(self, step: StepProgress) -> dict[str, Any]:
        """A step as JSON: its status, points, and the next step to do."""
        name, result = step.name, step.result
        status = str(result.status) if result else "waiting" if name in self.board.names else "away"
        if step.is_broken or self.calm.get(name):
            status = "calm"
        return {
            "name": name, "number": int(name[4:6]), "title": _(step_titles()[name]), "status": status,
            "word": reports.status_word(result.status, result.blocked_by) if result else "",
            "score": reports.number(result.score if result else 0.0), "version": self.versions.get(name, 0),
            "most": reports.number(step.points), "at": self.board.at_of.get(name, ""),
            "next": self._progress.next_step(name) if step.passes else None, **_effort(name),
        }  # fmt: skip


@cache
def _effort(name: str) -> dict[str, Any]:
    """The effort of a step in words and its difficulty, as JSON; cached, since a session has one language."""
    effort = lessons.effort(name)
    return {"effort": str(effort), "difficulty": effort.difficulty}


@cache
def _labs(track: tracks.Track) -> list[labs.Lab]:
    """The labs in a track's folder."""
    return [lab for lab in labs.labs() if lab.folder.parent == track.folder]


@cache
def _lab_title(lab: labs.Lab) -> str:
    """A lab's title in the session's language."""
    return lab.lesson.title


@cache
def _needs(lab: labs.Lab) -> str | None:
    """The name of the last step that a lab can't do without; None if it needs none. The first call loads torch."""
    return max((need.step for need in lab.module.NEEDS if not need.optional), default=None)
