"""The place where a file is not valid Python yet: one sentence, the line and a caret below the place."""

from __future__ import annotations

from grader.base.syntax import invalid
from grader.course import submissions
from grader.report.terminal import plain


def half_written(read: submissions.Submission, name: str) -> str:
    """The sentence, the line and the caret for the file of a step; empty if it parses, or does not exist."""
    if name not in read.sources:
        return ""
    shown, source = read.sources[name]
    return plain(invalid(source, plain(shown)))
