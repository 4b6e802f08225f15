"""The secret seed of a course of nbgrader's, in a file of its own."""

from __future__ import annotations

from pathlib import Path

from grader.base import files
from grader.base.language import gettext as _
from grader.judge import grader
from grader.judge.launcher import GraderError


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
