"""A draft of a misconception, from the code of a student whose wrong answers nobody has a name for yet.

It is text for an author to finish: the docstring says what is to be written, and `make prove` refuses it where the
check that it names does not catch it. No name of a student goes into it.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.base import files
from grader.base.language import gettext as _
from grader.base.paths import misconception_files, step_folder
from grader.base.results import Graded
from grader.base.syntax import parsed
from grader.checks.catalogue import UNFINISHED
from grader.course.answer_cells import public_names
from grader.feedback import excision
from grader.feedback.items import Cluster

NAME = "draft_{number}"
CATALOGUE = "from grader.checks.catalogue import misconception"
WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # within KVCache: kv_cache


class NoDraft(ValueError):
    """No draft can be made from this answer. One sentence."""


@dataclass(frozen=True)
class Draft:
    """A draft that was written: its name, the file at whose end it stands, and the number of its step."""

    name: str
    file: Path
    number: int


def write(cluster: Cluster, entries: Sequence[Graded], sources: Mapping[str, Mapping[str, str]]) -> Draft:
    """Writes a draft at the end of the step's misconceptions. Raises NoDraft, OSError."""
    folder = step_folder(cluster.step)
    source = _source(cluster, entries, sources)
    public = cluster.told.about
    if public not in public_names(cluster.step):
        raise NoDraft(_("The failing check calls no function or class of {step}.").format(step=cluster.step))
    every = [file for file in misconception_files(folder) if file.is_file()]
    file = folder / "misconceptions.py"
    if every and file not in every:
        file = folder / "misconceptions" / f"{WORD_BEGINS.sub('_', public).lower()}.py"
    texts = {one: one.read_text(encoding="utf-8") for one in every}
    known = "".join(texts.values())
    name = next(name for name in _names() if f"{name}(" not in known and f"class {name}" not in known)
    files.write(file, _merged(texts.get(file, ""), draft(source, cluster, name)))
    return Draft(name, file, int(cluster.step[4:6]))


def draft(source: str, cluster: Cluster, name: str) -> str:
    """The text of a draft: a function that holds all that the student's definition needs, so that no name in it clashes
    with another misconception's. Raises NoDraft."""
    public = cluster.told.about
    try:
        body = excision.excised(source, public, public_names(cluster.step) - {public}, cluster.step)
    except excision.Unresolved as missing:
        said = _("The file of the student uses {names} and does not define it.")
        raise NoDraft(said.format(names=missing)) from None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NoDraft(_("The file of the student can't be read as Python.")) from None
    if body is None:
        raise NoDraft(_("The file of the student defines no {name} of its own.").format(name=public))
    docstring = '"""' + "\n\n    ".join(UNFINISHED) + '\n    """'
    decorator = f'@misconception(replaces=("{public}",), caught_by="{cluster.told.name}")'
    inside = textwrap.indent(f'{body}\n\nreturn {{"{public}": {public}}}', "    ")
    return f"{decorator}\ndef {name}():\n    {docstring}\n{inside}\n"


def _source(cluster: Cluster, entries: Iterable[Graded], sources: Mapping[str, Mapping[str, str]]) -> str:
    """The file of the first student of a cluster whose file is there."""
    for entry in entries:
        if entry.student in cluster.students and (source := sources.get(entry.file, {}).get(cluster.step)):
            return source
    raise NoDraft(_("The submissions are no longer where the class was graded from."))


def _names() -> Iterator[str]:
    number = 1
    while True:
        yield NAME.format(number=number)
        number += 1


def _merged(there: str, made: str) -> str:
    """A file with a draft at its end, before its pairs, and with the import that a draft needs."""
    if not there:
        return f"{CATALOGUE}\n\n\n{made}"
    lines, body = there.splitlines(), parsed(there).body
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    if not any(alias.name == "misconception" for node in imports for alias in node.names):
        place = max([node.end_lineno or 0 for node in imports], default=(body[0].end_lineno or 0) if body else 0)
        lines.insert(place, CATALOGUE)
    pairs = next((index for index, line in enumerate(lines) if line.startswith("PAIRS")), len(lines))
    while 0 < pairs <= len(lines) and (not lines[pairs - 1].strip() or lines[pairs - 1].startswith("#")):
        pairs -= 1
    before, after = "\n".join(lines[:pairs]), "\n".join(lines[pairs:]).strip("\n")
    return "\n\n\n".join(part for part in (before, made.rstrip("\n"), after) if part) + "\n"
