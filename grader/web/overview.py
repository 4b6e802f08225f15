"""The map of the course: its tracks, steps and labs, what each is worth, how far the learner is, and what is next."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from grader.base.language import gettext as _
from grader.base.results import StepResult, total
from grader.course import lessons, tracks
from grader.course.steps import steps
from grader.labs import lab as labs
from grader.learner.watch_view import Board
from grader.report import terminal as reports
from grader.web import labs as lab_runs
from grader.web.kept import KeptVerdict


class Shown:
    """What the page was last told, and what is to be told now."""

    def __init__(self, board: Board, known: Mapping[str, KeptVerdict]) -> None:
        self.board = board
        self.versions: dict[str, int] = {}
        self.calm: dict[str, str] = {}
        self.at = {name: one.at for name, one in known.items()}
        self._seen: dict[str, tuple[StepResult | None, str]] = {
            name: (board.results.get(name), "") for name in known
        }  # fmt: skip
        self._last: dict[str, Any] | None = None
        self._now: tuple[object, ...] = ()
        self.has_torch = False  # what needs it is told once it is loaded

    def state(self) -> dict[str, Any] | None:
        """The state of the course; None where it is what was last told. It is asked for twenty times a second."""
        self._look()
        board = self.board
        now = (sum(self.versions.values()), len(board.names), board.busy, board.current, int(time.monotonic()))
        if now == self._now:
            return None
        self._now = now
        state = self._state()
        if state == self._last:
            return None
        self._last = state
        return state

    def _look(self) -> None:
        """Counts up the version of each step whose verdict has changed."""
        board = self.board
        if board.current:
            self.calm[board.current] = board.calm
        for name in board.names:
            result, calm = board.results.get(name), self.calm.get(name, "")
            before = self._seen.get(name, (None, ""))
            if before[0] is not result:
                calm = self.calm[name] = board.calm if name == board.current else ""
                self.at[name] = time.strftime("%H:%M:%S")
            if before[0] is not result or before[1] != calm:
                self._seen[name] = (result, calm)
                self.versions[name] = self.versions.get(name, 0) + 1

    def _state(self) -> dict[str, Any]:
        board = self.board
        needs = {lab.name: _needs(lab) for lab in labs.labs()} if self.has_torch else {}
        score, most = total(board.results.values())
        return {
            "score": reports.number(score), "most": reports.number(most), "busy": board.busy,
            "ready": bool(board.results), "saved": board.current,
            "tracks": [self._track(track, needs) for track in _tracks()],
        }  # fmt: skip

    def _track(self, track: tracks.Track, needs: Mapping[str, str | None]) -> dict[str, Any]:
        return {
            "name": track.name, "title": track.title, "after": track.after, "summary": track.summary,
            "steps": [self._step(name) for name in _steps_of(track)],
            "labs": [self._lab(lab, needs.get(lab.name)) for lab in _labs(track)],
        }  # fmt: skip

    def _lab(self, lab: labs.Lab, needed: str | None) -> dict[str, Any]:
        return {
            "name": lab.name, "title": _lab_title(lab),
            "done": (lab_runs.out(self.board.folder) / f"{lab.name}.html").is_file(),
            "needs": needed,
        }  # fmt: skip

    def _step(self, name: str) -> dict[str, Any]:
        result = self.board.results.get(name)
        status = str(result.status) if result else "waiting" if name in self.board.names else "away"
        if self.calm.get(name):
            status = "calm"
        return {
            "name": name, "number": int(name[4:6]), "title": _(step_titles()[name]), "status": status,
            "word": reports.status_word(result.status, result.blocked_by) if result else "",
            "score": reports.number(result.score) if result else "", "version": self.versions.get(name, 0),
            "most": reports.number(result.max_score) if result else "", "at": self.at.get(name, ""),
            "blocked": result.blocked_by if result else None, **_effort(name),
        }  # fmt: skip


@cache
def step_titles() -> dict[str, str]:
    """The English title of every step, by name."""
    return {step.name: step.title for step in steps()}


@cache
def _effort(name: str) -> dict[str, Any]:
    """What a step takes; the language of a session is one."""
    effort = lessons.effort(name)
    return {"effort": str(effort), "difficulty": effort.difficulty}


@cache
def _tracks() -> list[tracks.Track]:
    return tracks.tracks()


@cache
def _steps_of(track: tracks.Track) -> list[str]:
    return track.steps


@cache
def _labs(track: tracks.Track) -> list[labs.Lab]:
    return [lab for lab in labs.labs() if lab.folder.parent == track.folder]


@cache
def _lab_title(lab: labs.Lab) -> str:
    return lab.lesson.title


@cache
def _needs(lab: labs.Lab) -> str | None:
    """The last step that a lab cannot do without. The first call loads torch."""
    return max((need.step for need in lab.module.NEEDS if not need.optional), default=None)
