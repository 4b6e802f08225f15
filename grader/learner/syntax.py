"""Where a file is not valid Python yet: one sentence, the line and a caret below the place."""

from __future__ import annotations

import warnings

from rich.cells import cell_len

from grader.base.language import gettext as _
from grader.course import submissions
from grader.report.terminal import plain

INDENT = 4  # columns before the line of source
MOST = 72  # columns of a line that are shown
TAB = 4


def half_written(read: submissions.Submission, name: str) -> str:
    """The sentence, the line and the caret for the file of a step; empty if it parses, or does not exist."""
    if name not in read.sources:
        return ""
    shown, source = read.sources[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, shown, "exec", dont_inherit=True)
    except SyntaxError as error:
        said = _("{file}, line {line}: not valid Python yet ({reason}).").format(
            file=shown, line=error.lineno or 1, reason=plain(error.msg)
        )
        return "\n".join([said, *_caret(source, error)])
    except (ValueError, RecursionError, MemoryError) as error:
        return _("{file}: not valid Python yet ({reason}).").format(file=shown, reason=error or type(error).__name__)
    return ""


def _caret(source: str, error: SyntaxError) -> list[str]:
    """The line and the caret, cut to what a screen shows; nothing where Python names no place."""
    lines = source.split("\n")
    if not error.lineno or not error.offset or error.lineno > len(lines):
        return []
    line = lines[error.lineno - 1].rstrip()
    before, after = line[: error.offset - 1], line[error.offset - 1 :]
    before = plain(before.lstrip().replace("\t", " " * TAB))
    while cell_len(before) > MOST - TAB:
        before = "…" + before[2:]
    text = before + plain(after.replace("\t", " " * TAB))
    while cell_len(text) > MOST:
        text = text[:-2] + "…"
    return [" " * INDENT + text, " " * (INDENT + cell_len(before)) + "^"]
