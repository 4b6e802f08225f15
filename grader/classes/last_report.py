"""nbgrader's submissions, graded one after another: a warm grader, its last report, and the seed of the course."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from pathlib import Path

import msgspec

from grader.base import files
from grader.base.language import gettext as _
from grader.base.limited import LimitedProcess, OverBudget
from grader.base.limits import Limits
from grader.base.results import Report, without_open_scores
from grader.course import earlier, submissions
from grader.judge import grader
from grader.judge.launcher import GraderError
from grader.marks import ledger
from grader.marks import marking as marks

SEED_FILE = ".attention_seed"


class LastReport:
    """A warm grader for a whole command, and the report on the submission that was graded last."""

    def __init__(self, seed: int | None, device: str, limits: Limits) -> None:
        self._seed, self._device = seed, device
        self._grader = grader.LazyGrader(limits=limits)
        self._reader = LimitedProcess()
        self._last: tuple[Path, list[str], Report | str] | None = None
        self.submission = submissions.Submission("")  # the one that was graded last

    def close(self) -> None:
        """Ends the processes of the grader and of the reader."""
        self._grader.close()
        self._reader.close()

    def report(
        self, course: Path, folder: Path, steps: list[str], marking: marks.Marking | None, has_others: bool
    ) -> Report | str:
        """The report on these steps of the submission in `folder`, relative to `course`, or a sentence if there is
        none. Asked for again at once, as for its next notebook, it is not graded again.

        `has_others`: next to its folder are those of the same student's other assignments alone.
        """
        if self._last is None or self._last[:2] != (folder, steps):
            self._last = (folder, steps, self._grade(course, folder, steps, marking, has_others))
        return self._last[2]

    def _grade(
        self, course: Path, folder: Path, steps: list[str], marking: marks.Marking | None, has_others: bool
    ) -> Report | str:
        """Grades what is in a student's folder. Returns a sentence if it can't be read or graded."""
        try:
            read = self._reader.call(submissions.read, course / folder)
            if marking is not None:
                within = partial(self._reader.call, submissions.read)
                ledger.add_own_earlier(read, (course / folder).parent, marking, within)
            elif has_others:
                read = self._reader.call(earlier.with_siblings, read, course / folder)
            self.submission = read
            handed_in = msgspec.json.encode([read.sources, read.problems, read.earlier], order="deterministic")
            digests = [hashlib.sha256(data).hexdigest() for data in (os.fsencode(folder), handed_in)]
            seed = kept_seed(course / SEED_FILE, *digests) if self._seed is None else self._seed
            return without_open_scores(self._grader.grade(read, steps, device=self._device, seed=seed))
        except OverBudget as over:
            return _("{folder} can't be read ({reason}).").format(folder=folder, reason=over)
        except (GraderError, submissions.NoSubmission, OSError) as error:
            return str(error)


def kept_seed(file: Path, folder: str = "", digest: str = "") -> int:
    """The seed in a file, which is made when it is not there, for its owner alone. Raises GraderError, OSError.

    Below it is a line for each submission that was graded under it: digests of its folder's name and of its files. One
    that comes back changed meets a new seed, as do all from then on: its author may have read what was drawn.
    """
    lines = (
        file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else [str(grader.new_seed())]
    )
    if not lines or not lines[0].strip().isdecimal():
        raise GraderError(_("{file} holds no seed. Delete it, and a new one will be created.").format(file=file))
    seeds = [line for line in lines[1:] if line.startswith(f"{folder} ")]
    if seeds and seeds != [f"{folder} {digest}"]:
        lines, seeds = [str(grader.new_seed())], []
    if digest and not seeds:
        lines.append(f"{folder} {digest}")
    if not seeds:
        files.write(file, "".join(f"{line}\n" for line in lines), private=True)
    return int(lines[0])
