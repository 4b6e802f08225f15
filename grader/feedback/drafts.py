"""A draft of a misconception, from the code of a student with wrong answers that have no name yet.

It is text for an author to finish: three lines say what is to be written, and `make prove` refuses it where the check
that it names does not catch it. No name of a student goes into it.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.base import files, mistakes
from grader.base.language import gettext as _
from grader.base.paths import step_folder
from grader.base.results import Graded
from grader.base.syntax import UNPARSABLE
from grader.checks.catalogue import UNFINISHED
from grader.course.answer_cells import public_names
from grader.feedback import excision
from grader.feedback.items import Cluster

NAME = "draft_{number}"
WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # within KVCache: kv_cache


class NoDraft(ValueError):
    """No draft can be made from this answer. One sentence."""


@dataclass(frozen=True)
class Draft:
    """A draft that was written: its name, the file that it was added to, and the number of its step."""

    name: str
    file: Path
    number: int


def write(cluster: Cluster, entries: Sequence[Graded], sources: Mapping[str, Mapping[str, str]]) -> Draft:
    """Writes a draft of a misconception from a cluster of wrong answers at the end of the step's mistakes, in both
    languages. `sources`: the students' step files, by the name of their report, then by step. Raises NoDraft,
    OSError."""
    folder = step_folder(cluster.step)
    source = _source(cluster, entries, sources)
    public = cluster.result.about
    if public not in public_names(cluster.step):
        raise NoDraft(_("The failing check calls no function or class of {step}.").format(step=cluster.step))
    every = mistakes.files_of(folder)
    file = folder / "mistakes.md"
    if every and file not in every:
        file = folder / "mistakes" / f"{WORD_BEGINS.sub('_', public).lower()}.md"
    lines = {line for path in every for line in path.read_text(encoding="utf-8").splitlines()}
    names = (NAME.format(number=number) for number in itertools.count(1))
    name = next(name for name in names if f"## {name}" not in lines)
    what, why, nudge = UNFINISHED
    _append(file, f"\n## {name}\n{what}\n{why}\n> {nudge}\n{draft(source, cluster)}")
    _append(file.with_suffix(".ko.md"), f"- {name} · {what}\n  {why}\n  > {nudge}\n")
    return Draft(name, file, int(cluster.step[4:6]))


def _append(file: Path, entry: str) -> None:
    """Writes an entry at the end of a file, which is made if it is missing."""
    there = file.read_text(encoding="utf-8").rstrip("\n") + "\n" if file.is_file() else ""
    files.write(file, (there + entry).lstrip("\n"))


def draft(source: str, cluster: Cluster) -> str:
    """A draft's facts and code as Markdown: the student's definition in the file `source`, and all that it needs.
    Raises NoDraft."""
    public = cluster.result.about
    try:
        body = excision.excised(source, public, public_names(cluster.step) - {public}, cluster.step)
    except excision.UnresolvedNames as missing:
        sentence = _("The file of the student uses {names} and does not define it.")
        raise NoDraft(sentence.format(names=missing)) from None
    except UNPARSABLE:
        raise NoDraft(_("The file of the student can't be read as Python.")) from None
    if body is None:
        raise NoDraft(_("The file of the student defines no {name} of its own.").format(name=public))
    inside = textwrap.indent(f"{body}\n\nreturn {public}", "    ")
    block = f"def made():\n{inside}\n\n\n{public} = made()"
    return f"- `{public}` · caught by `{cluster.result.name}`\n```python\n{block}\n```\n"


def _source(cluster: Cluster, entries: Iterable[Graded], sources: Mapping[str, Mapping[str, str]]) -> str:
    """The text of the step's file of the first student of a cluster who has one. Raises NoDraft without any."""
    for entry in entries:
        if entry.student in cluster.students and (source := sources.get(entry.file, {}).get(cluster.step)):
            return source
    raise NoDraft(_("The submissions are no longer where the class was graded from."))
