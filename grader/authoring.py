"""What is wrong with a step that an author writes, before anything of it runs on anybody's work.

`python -m grader.authoring 13`, with which `make prove` begins, prints a line for each mistake: the file, what is wrong
there, what to do. `in_folder` only reads; `in_modules` imports the step, which needs torch.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import traceback
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from grader import arguments, language
from grader.grading import match_step
from grader.language import LANGUAGES
from grader.language import gettext as _
from grader.places import ROOT, SOLUTIONS, STEP_NAME, step_folders
from grader.stubs import BEGIN, END, REFERENCE_IMPORT

if TYPE_CHECKING:
    from grader.course import Step

GIVEN = ("student", "reference", "draw")  # what a check takes


def problems(wanted: str = "") -> list[str]:
    """Everything that is wrong with the step meant by `wanted`, or with all of them; a line each."""
    found = in_names()
    folders = step_folders(SOLUTIONS)
    if wanted and not found:
        name = match_step(wanted, [folder.name for folder in folders])
        if name is None:
            return [_no_step(wanted, folders)]
        folders = [SOLUTIONS / name]
    unread = {folder: list(in_folder(folder)) for folder in folders}
    found += [line for lines in unread.values() for line in lines]
    return found + [line for folder, lines in unread.items() if not lines for line in in_modules(folder)]


def in_folders() -> list[str]:
    """What is wrong with any step and shows without importing it."""
    return in_names() + [line for folder in step_folders(SOLUTIONS) for line in in_folder(folder)]


def in_references() -> list[str]:
    """What keeps stubs from being made, and nothing else: other files may be still to come."""
    return in_names() + [line for folder in step_folders(SOLUTIONS) for line in in_reference(folder)]


def unparsed() -> list[str]:
    """What keeps sentences from being collected: files that are no Python; others may be still to come."""
    files = [file for folder in step_folders(SOLUTIONS) for file in sorted(folder.glob("*.py"))]
    return in_names() + [line for file in files for line in _unreadable(file)]


def in_names() -> list[str]:
    """Folders that are no step although somebody may think so, and steps of the same number."""
    found, numbers = [], defaultdict(list)
    for folder in sorted(SOLUTIONS.iterdir()):
        if not folder.is_dir() or folder.name.startswith((".", "__")):
            continue
        if STEP_NAME.fullmatch(folder.name):
            numbers[folder.name[:6]].append(_shown(folder))
            continue
        sentence = _(
            "{folder} is no step, so it is left out: rename it like step13_name, two digits and then small letters, "
            "digits and _."
        )
        found.append(sentence.format(folder=_shown(folder)))
    sentence = _("{folders} have the same number: rename one of them.")
    return found + [sentence.format(folders=", ".join(same)) for same in numbers.values() if len(same) > 1]


def in_reference(folder: Path) -> Iterator[str]:
    """What keeps a stub from being made from the step's reference."""
    file = folder / "reference.py"
    faults = list(_unreadable(file))
    yield from faults
    if not faults:
        source = file.read_text(encoding="utf-8")
        yield from _in_markers(file, source)
        yield from _in_imports(file, source)


def in_folder(folder: Path) -> Iterator[str]:
    """What is missing in the step's folder, or is no Python."""
    yield from in_reference(folder)
    checks = folder / f"test_{folder.name.partition('_')[2]}.py"
    others = [] if checks.is_file() else sorted(folder.glob("test_*.py"))
    if others:
        yield _("{file} is not read: rename it to {name}.").format(file=_shown(others[0]), name=checks.name)
    else:
        yield from _unreadable(checks)
    yield from _unreadable(folder / "misconceptions.py")
    yield from _unreadable(folder / "variants.py")
    for spoken in LANGUAGES:
        yield from _in_lesson(folder, spoken)


def in_modules(folder: Path) -> Iterator[str]:
    """What shows when the step, whose folder has no fault, is imported."""
    from grader.course import Step

    step = Step(folder)
    package = f"{SOLUTIONS.name}.{step.name}"
    for name in ("reference", step.check_file.stem, "misconceptions", "variants"):
        try:
            importlib.import_module(f"{package}.{name}")
        except Exception as error:
            yield _fault(folder / f"{name}.py", error)
            return
    try:
        checks = list(_in_checks(step))
        yield from checks
        if not checks:
            yield from _in_off_limits(step)
            yield from _in_misconceptions(step)
    except Exception as error:
        yield _fault(folder, error)


# --- what only has to be read ----------------------------------------------------------------------------------------


def _unreadable(file: Path) -> Iterator[str]:
    try:
        ast.parse(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        yield _("{file} is missing: write it.").format(file=_shown(file))
    except UnicodeDecodeError:
        yield _("{file} is not in UTF-8: save it again in this encoding.").format(file=_shown(file))
    except SyntaxError as error:
        yield _("{file}:{line}: this is no Python ({reason}): mend it.").format(
            file=_shown(file), line=error.lineno, reason=error.msg
        )


def _in_markers(file: Path, source: str) -> Iterator[str]:
    """Markers that do not stand as BEGIN, END, BEGIN, END."""
    inside, begun = 0, False  # the line of the BEGIN that is open
    for number, line in enumerate(source.splitlines(), 1):
        marker = line.strip()
        if marker == BEGIN and inside:
            yield _alone(file, inside, BEGIN, END)
        if marker == END and not inside:
            yield _alone(file, number, END, BEGIN)
        if marker in (BEGIN, END):
            begun, inside = True, number if marker == BEGIN else 0
    if inside:
        yield _alone(file, inside, BEGIN, END)
    if not begun:
        yield _("{file}: nothing is left for the learner to write: put {begin} and {end} around it.").format(
            file=_shown(file), begin=BEGIN, end=END
        )


def _alone(file: Path, line: int, marker: str, other: str) -> str:
    return _("{file}:{line}: this {marker} has no {other}: add it, on a line of its own.").format(
        file=_shown(file), line=line, marker=marker, other=other
    )


def _in_imports(file: Path, source: str) -> Iterator[str]:
    """Imports of other references that can't become imports of the learner's own files."""
    earlier = [folder.name for folder in step_folders(SOLUTIONS) if folder.name < file.parent.name]
    for number, line in enumerate(source.splitlines(), 1):
        if not re.match(r"\s*(?:from|import)\s+solutions\b", line):
            continue
        taken = REFERENCE_IMPORT.search(line)
        if taken is None:
            yield _("{file}:{line}: write it as from solutions.{step}.reference import …, by name.").format(
                file=_shown(file), line=number, step=earlier[-1] if earlier else "step01_name"
            )
        elif taken[1] not in earlier:
            yield _("{file}:{line}: {step} is no earlier step: import from one that is.").format(
                file=_shown(file), line=number, step=taken[1]
            )


def _in_lesson(folder: Path, spoken: str) -> Iterator[str]:
    from grader import lessons

    file = folder / f"lesson.{spoken}.md"
    if not file.is_file():
        yield _("{file} is missing: write it.").format(file=_shown(file))
        return
    try:
        with language.use(spoken):
            lessons.hints(folder.name, folder.parent)
    except lessons.NoLesson:
        yield _("{file} has no hints: end it in a numbered list under ## Hints or ## 힌트.").format(file=_shown(file))


# --- what shows when it is imported ----------------------------------------------------------------------------------


def _in_checks(step: Step) -> Iterator[str]:
    file = _shown(step.check_file)
    defined = [
        node
        for node in ast.parse(step.check_file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    if not defined:
        yield _("{file} holds no check: write a function test_….").format(file=file)
    names = [node.name for node in defined]
    for place, node in enumerate(defined):
        function = getattr(step.checks_module, node.name)
        at = {"file": file, "line": node.lineno, "check": node.name}
        if node.name in names[:place]:
            yield _("{file}:{line}: {check} is there twice, and one of them never runs: rename it.").format(**at)
        if not (function.__doc__ or "").strip():
            yield _("{file}:{line}: {check} has no title: write a docstring.").format(**at)
        if getattr(function, "points", None) is None:
            yield _("{file}:{line}: {check} has no mark: put @points(1) above it.").format(**at)
        if tuple(inspect.signature(function).parameters) != GIVEN:
            yield _("{file}:{line}: {check} has to take {given}, and nothing else.").format(
                **at, given=", ".join(GIVEN)
            )
        elif hasattr(function, "pytestmark"):
            yield _("{file}:{line}: {check} runs once: take pytest's marks off it, and loop.").format(**at)


def _in_off_limits(step: Step) -> Iterator[str]:
    from grader.offlimits import FAMILIES

    file, public = _shown(step.check_file), _public(step)
    for name, families in getattr(step.checks_module, "OFF_LIMITS", {}).items():
        yield from _undefined(f"{file}: OFF_LIMITS", name, public)
        if isinstance(families, str):
            yield _('{file}: OFF_LIMITS of {name} is no tuple: write ("{family}",).').format(
                file=file, name=name, family=families
            )
            continue
        for family in families:
            if family not in FAMILIES:
                yield _("{file}: OFF_LIMITS of {name} has no family “{family}”: take of {known}.").format(
                    file=file, name=name, family=family, known=", ".join(FAMILIES)
                )


def _in_misconceptions(step: Step) -> Iterator[str]:
    file, public = _shown(step.folder / "misconceptions.py"), _public(step)
    checks = [check.name for check in step.checks]
    for wrong in step.misconceptions:
        for name in wrong.replaced:
            yield from _undefined(f"{file}: {wrong.name}", name, public)
        if wrong.caught_by not in checks:
            yield _("{file}: {wrong} is caught by {check}, and there is no such check: take of {known}.").format(
                file=file, wrong=wrong.name, check=wrong.caught_by, known=", ".join(checks)
            )
    for variant in step.variants:
        for name in variant.replaced:
            yield from _undefined(f"{_shown(step.folder / 'variants.py')}: {variant.name}", name, public)
    _pairs = step.pairs  # read, so that a fault in them shows


def _undefined(where: str, name: str, public: Collection[str]) -> Iterator[str]:
    if name not in public:
        yield _("{where} names {name}, which the reference does not define: take of {known}.").format(
            where=where, name=name, known=", ".join(public)
        )


def _public(step: Step) -> list[str]:
    own = step.reference.__name__
    return [name for name, value in vars(step.reference).items() if getattr(value, "__module__", "") == own]


def _fault(file: Path, error: Exception) -> str:
    """An exception as a line, at the last place in the folders of the steps that it passed."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(SOLUTIONS):
            return _("{file}:{line}: {error}: mend it.").format(
                file=_shown(Path(frame.filename)), line=frame.lineno, error=_said(error)
            )
    return _("{file}: {error}: mend it.").format(file=_shown(file), error=_said(error))


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")


# --- the command -----------------------------------------------------------------------------------------------------


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def _no_step(wanted: str, folders: list[Path]) -> str:
    return _("There is no step {wanted}. The steps are {first} to {last}. Type: make prove STEP={last}").format(
        wanted=wanted, first=folders[0].name, last=folders[-1].name
    )


def main(wanted: str = "") -> int:
    """Prints what is wrong, a line each; 1 when something is."""
    with language.use(arguments.spoken([])):
        found = problems(wanted)
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
