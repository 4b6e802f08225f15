"""The map of the course: its tracks, steps and labs, what each is worth, how far the learner is, and what is next."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from grader.base.language import gettext as _
from grader.base.paths import SOLUTIONS
from grader.base.results import total
from grader.course import lab_log, tracks
from grader.course.steps import steps
from grader.learner.watch_view import Board
from grader.report import terminal as reports

NEED = re.compile(r"\bNeed\(\s*\"(step\d{2}_\w+)\"")


class Shown:
    """What the page was last told, and what is to be told now."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.versions: dict[str, int] = {}
        self.calm: dict[str, str] = {}
        self.at: dict[str, str] = {}
        self._seen: dict[str, tuple[object, ...]] = {}
        self._last: dict[str, Any] | None = None

    def state(self) -> dict[str, Any] | None:
        """The state of the course; None where it is what was last told."""
        self._look()
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
            self.at[board.current] = board.at
        for name in board.names:
            seen = (id(board.results.get(name)), self.calm.get(name, ""), self.at.get(name, ""))
            if self._seen.get(name) != seen:
                self._seen[name] = seen
                self.versions[name] = self.versions.get(name, 0) + 1

    def _state(self) -> dict[str, Any]:
        board = self.board
        score, most = total(board.results.values())
        return {
            "score": reports.number(score), "most": reports.number(most), "busy": board.busy, "notice": board.notice,
            "saved": board.current, "next": board.following(),
            "tracks": [self._track(track) for track in tracks.tracks()],
        }  # fmt: skip

    def _track(self, track: tracks.Track) -> dict[str, Any]:
        return {
            "name": track.name, "title": track.title, "after": track.after,
            "steps": [self._step(name) for name in track.steps], "labs": _labs(track.folder),
        }  # fmt: skip

    def _step(self, name: str) -> dict[str, Any]:
        result = self.board.results.get(name)
        begun = name in self.board.names
        status = "calm" if self.calm.get(name) else result.status if result else ("waiting" if begun else "away")
        return {
            "name": name, "number": int(name[4:6]), "title": _(step_titles()[name]), "status": status,
            "word": reports.status_word(result.status, result.blocked_by) if result else "",
            "score": reports.number(result.score) if result else "", "version": self.versions.get(name, 0),
            "most": reports.number(result.max_score) if result else "", "at": self.at.get(name, ""),
        }  # fmt: skip


@cache
def step_titles() -> dict[str, str]:
    """The English title of every step, by name."""
    return {step.name: step.title for step in steps()}


@cache
def lab_needs() -> dict[str, list[str]]:
    """The steps that each lab's code names, read as text."""
    found = {}
    for folder in lab_log.folders():
        text = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
        found[folder.name.removeprefix("lab_")] = sorted(set(NEED.findall(text)))
    return found


def _labs(folder: Path) -> list[dict[str, Any]]:
    """The labs of a track, each with the last step that it needs."""
    names = [one.name.removeprefix("lab_") for one in lab_log.folders() if one.parent == SOLUTIONS / folder.name]
    needs = lab_needs()
    return [{"name": name, "needs": needs[name][-1] if needs[name] else None} for name in names]
