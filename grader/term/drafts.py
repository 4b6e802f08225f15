"""A draft of a misconception, from the code of a student whose wrong answers nobody has a name for yet.

It is text for an author to finish: the docstring says what is to be written, and `make prove` refuses it where the
check that it names does not catch it. No name of a student goes into it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.base import files
from grader.base.language import gettext as _
from grader.base.paths import misconception_files, step_folder
from grader.base.results import Graded
from grader.course.answer_cells import public_names
from grader.term.items import Cluster

NAME = "draft_{number}"
DOCSTRING = (
    "Say here what was done.",
    "Say here why it is wrong.",
    "What question would lead there?",
)
CATALOGUE = "from grader.checks.catalogue import misconception"
MARKER_IMPORT = re.compile(r"^from grader\.checks\.catalogue import .*\bmisconception\b", re.MULTILINE)
WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # within KVCache: kv_cache
STEP_IMPORT = re.compile(r"(?:exercises\.)?(step\d{2}_\w+)")


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


def draft(source: str, cluster: Cluster, name: str) -> tuple[list[str], str]:
    """The imports that a draft needs, and its text. Raises NoDraft."""
    public = cluster.told.about
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NoDraft(_("The file of the student can't be read as Python.")) from None
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    if public not in defined:
        raise NoDraft(_("The file of the student defines no {name} of its own.").format(name=public))
    own, needed = _needed(public, tree)
    others = public_names(cluster.step) - {public}
    renamed = {helper: f"_{name}_{helper}" for helper in own if helper not in others}
    imports = [*(_import(node) for node in needed), CATALOGUE]
    if own & others:
        track = step_folder(cluster.step).parent.name
        imports.append(f"from solutions.{track}.{cluster.step} import reference")
    rename = _Rename(renamed | {other: f"reference.{other}" for other in others})
    helpers = [ast.unparse(rename.visit(node)) for node in tree.body if _defines(node) & renamed.keys()]
    node = rename.visit(defined[public])
    node.name, node.decorator_list = name, []
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    node.body = [ast.Expr(ast.Constant("DOCSTRING")), *(body or [ast.Pass()])]
    docstring = '"""' + "\n\n    ".join(DOCSTRING) + '\n    """'
    text = (
        ast.unparse(ast.fix_missing_locations(node))
        .replace("'DOCSTRING'", docstring)
        .replace('"""DOCSTRING"""', docstring)
    )
    decorator = f'@misconception(replaces="{public}", caught_by="{cluster.told.name}")'
    return imports, "\n\n\n".join([*helpers, f"{decorator}\n{text}"]) + "\n"


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


def _needed(public: str, tree: ast.Module) -> tuple[set[str], list[ast.stmt]]:
    """The names of the file that a definition uses, directly or not, and the imports among its statements."""
    by_name: dict[str, ast.stmt] = {}
    for node in tree.body:
        by_name |= dict.fromkeys(_defines(node), node)
    found: set[str] = set()
    waiting, imports = [public], []
    while waiting:
        node = by_name[waiting.pop()]
        for used in {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} & by_name.keys():
            if isinstance(by_name[used], ast.Import | ast.ImportFrom):
                if by_name[used] not in imports:
                    imports.append(by_name[used])
            elif used != public and used not in found:
                found.add(used)
                waiting.append(used)
    return found, imports


def _defines(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {(alias.asname or alias.name).partition(".")[0] for alias in names}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
    return set()


def _import(node: ast.stmt) -> str:
    """An import as a misconception has it: an earlier step's reference in place of the learner's file."""
    if isinstance(node, ast.ImportFrom) and (step := STEP_IMPORT.fullmatch(node.module or "")):
        track = step_folder(step[1]).parent.name
        node = ast.ImportFrom(f"solutions.{track}.{step[1]}.reference", node.names, 0)
    return ast.unparse(node)


class _Rename(ast.NodeTransformer):
    """Gives helpers names of their own, and takes the other public names from the reference."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:  # as ast calls it
        return ast.parse(self._names.get(node.id, node.id), mode="eval").body if node.id in self._names else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:  # as ast calls it
        node.name = self._names.get(node.name, node.name) if "." not in self._names.get(node.name, "") else node.name
        return self.generic_visit(node)


def _merged(there: str, made: tuple[list[str], str]) -> str:
    """A file with a draft at its end, and with the imports that it lacks."""
    imports, text = made
    lines = there.splitlines()
    there_already = {CATALOGUE} if MARKER_IMPORT.search(there) else set()
    missing = [line for line in dict.fromkeys(imports) if line not in {*lines, *there_already}]
    if not there:
        return "\n".join([*missing, "", "", text])
    body = ast.parse(there).body
    places = [node.end_lineno or 0 for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    place = max(places, default=(body[0].end_lineno or 0) if body else 0)
    lines[place:place] = missing
    pairs = next((index for index, line in enumerate(lines) if line.startswith("PAIRS")), len(lines))
    while pairs and pairs <= len(lines) and not lines[pairs - 1].strip():
        pairs -= 1
    before, after = "\n".join(lines[:pairs]), "\n".join(lines[pairs:]).strip("\n")
    return "\n\n\n".join(part for part in (before, text.rstrip("\n"), after) if part) + "\n"
