"""The tracks of the course: folders of steps. There is no registry, and nothing is imported to find them.

A track's title and paragraph are its `track.en.md` and `track.ko.md`, whose last line, `> after step 9`, says when to
take it; the steps that its own use are read from the imports of its references, or in a learner's kit of the stubs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grader.base.language import current
from grader.base.paths import SOLUTIONS, step_folder, step_folders
from grader.base.results import StepResult, TrackResult, total
from grader.course.choice import CORE

STEP_IMPORT = re.compile(
    r"^[ \t]*+from (?:solutions\.\w+|exercises)\.(step\d{2}_\w+)(?:\.reference)? import\b", re.MULTILINE
)
FALLBACK = "en"


@dataclass(frozen=True)
class Track:
    """A folder of steps that belong together."""

    folder: Path

    @property
    def name(self) -> str:
        """`core`."""
        return self.folder.name

    @property
    def title(self) -> str:
        """The track's title in the language in use; its name if it has no title."""
        return self._text.partition("\n")[0].removeprefix("# ").strip() or self.name

    @property
    def summary(self) -> str:
        """The paragraph below the title, in the language in use."""
        return self._text.partition("\n")[2].partition("\n> ")[0].strip()

    @property
    def after(self) -> str:
        """The sentence that says when to take it, in the language in use: the last line of its text, behind a `>`."""
        return self._text.partition("\n> ")[2].strip()

    @property
    def steps(self) -> list[str]:
        """The names of its steps, in order."""
        return [folder.name for folder in step_folders(self.folder.parent) if folder.parent == self.folder]

    @property
    def needs(self) -> list[str]:
        """The steps of other tracks that its steps use, in order."""
        own = self.steps
        used = {name for step in own for name in imported(self.folder / step)}
        return sorted(used - set(own))

    @property
    def _text(self) -> str:
        """The track's text in the language in use, else in English; empty without a file."""
        for spoken in (current(), FALLBACK):
            file = self.folder / f"track.{spoken}.md"
            if file.is_file():
                return file.read_text(encoding="utf-8").strip()
        return ""


def tracks(solutions: Path | None = None) -> list[Track]:
    """Every track that has a step, in the order of the steps."""
    folders = step_folders(solutions or SOLUTIONS)
    return [Track(folder) for folder in dict.fromkeys(folder.parent for folder in folders)]


def imported(folder: Path) -> list[str]:
    """The names of the other steps that the reference in a step's folder imports, or its stub if that is absent."""
    for name in ("reference.py", "stub.en.py"):
        if (folder / name).is_file():
            return STEP_IMPORT.findall((folder / name).read_text(encoding="utf-8"))
    return []


def with_needed(names: Iterable[str], solutions: Path | None = None) -> list[str]:
    """The names of these steps and of all that they import, directly or not, in order."""
    needed: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += imported(step_folder(name, solutions or SOLUTIONS))
    return sorted(needed)


@cache
def may_rest_on(step: str, solutions: Path | None = None) -> frozenset[str]:
    """The names of the steps that a step may use: in the core those before it, in another track the core, what comes
    before it there, and the tracks that its track needs."""
    every = {track.name: track for track in tracks(solutions)}
    own = next((track for track in every.values() if step in track.steps), None)
    if own is None:
        return frozenset()
    names = {name for name in own.steps if name < step}
    waiting = [] if own.name == CORE else [CORE, *_needed_tracks(own, every)]
    seen = {own.name}
    while waiting:
        name = waiting.pop()
        if name in every and name not in seen:
            seen.add(name)
            names.update(every[name].steps)
            waiting += _needed_tracks(every[name], every)
    return frozenset(names)


def _needed_tracks(track: Track, every: dict[str, Track]) -> list[str]:
    """The names of the tracks with a step that this one needs."""
    return [name for name, other in every.items() if not set(track.needs).isdisjoint(other.steps)]


def totals(results: Iterable[StepResult], solutions: Path | None = None) -> list[TrackResult]:
    """The points and full points of each track that has one of these results, titles in the language in use."""
    by_track: dict[str, list[StepResult]] = {}
    for result in results:
        by_track.setdefault(result.track, []).append(result)
    sums = []
    for name, graded in by_track.items():
        score, max_score = total(graded)
        title = Track((solutions or SOLUTIONS) / name).title
        sums.append(TrackResult(name=name, title=title, score=score, max_score=max_score))
    return sums
