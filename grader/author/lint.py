"""Checks the folder of a step that an author writes, before it grades anybody's work.

`python -m grader lint 13`, which `make prove` runs first, prints one line per mistake: the file, what is wrong, how to
fix it. `in_folder` only reads; `in_modules` imports the step, which needs torch.
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

from grader.author.unfit import folders_named_as_texts, unfit_files, unread
from grader.base import files, language, mistakes
from grader.base.language import LANGUAGES
from grader.base.language import gettext as _
from grader.base.paths import SOLUTIONS, STEP_NAME, shown, step_folders
from grader.base.syntax import UNPARSABLE
from grader.checks.catalogue import UNFINISHED
from grader.course import choice
from grader.course.stubs import BEGIN, END, REFERENCE_IMPORT

if TYPE_CHECKING:
    from grader.oracle.live import Solution

GIVEN = ("student", "reference", "draw")  # the arguments of a check
ASKS = re.compile(r"^(?!.*`?[<>]=?`? (?:or|and) `?[<>]).*\?")  # a question, and none that offers two comparisons
DRAFT = re.compile(r"draft_\d+")  # the names of `python -m grader items --draft`


def problems(wanted: str = "") -> list[str]:
    """Every mistake in the steps chosen by `wanted`, or in all of them; one line each."""
    every = in_names()
    folders = step_folders(SOLUTIONS)
    if wanted and not every:
        try:
            names = choice.chosen([wanted], solutions=SOLUTIONS)
        except choice.UnknownChoice as unknown:
            sentence = _("{problem} Type: {command}")
            return [sentence.format(problem=unknown, command=f"make prove STEP={unknown.instead}")]
        folders = [folder for folder in folders if folder.name in names]
    unread = {folder: list(in_folder(folder)) for folder in folders}
    every += [line for lines in unread.values() for line in lines]
    return every + [line for folder, lines in unread.items() if not lines for line in in_modules(folder)]


def in_folders() -> list[str]:
    """The mistakes in all steps that can be found without importing them."""
    return in_names() + [line for folder in step_folders(SOLUTIONS) for line in in_folder(folder)]


def in_references() -> list[str]:
    """Only the mistakes that prevent stubs from being generated: other files may not be written yet."""
    return in_names() + [line for folder in step_folders(SOLUTIONS) for line in in_reference(folder)]


def unparsed() -> list[str]:
    """Only the files that are not valid Python, which prevent sentences from being collected."""
    folders = step_folders(SOLUTIONS)
    files = sorted({file for folder in folders for file in folder.glob("*.py")})
    return in_names() + [line for file in files for line in _unreadable(file)]


def in_names() -> list[str]:
    """One line for each misnamed step folder, each number that several steps share, and each text outside the steps'
    folders that can't be read; if all can be, for each fault in the mistakes of many steps."""
    lines, numbers = [], defaultdict(list)
    for folder in sorted(SOLUTIONS.glob("*/*")):
        if not folder.is_dir() or folder.name.startswith((".", "__", "lab_")):
            continue
        if STEP_NAME.fullmatch(folder.name):
            numbers[folder.name[:6]].append(shown(folder))
            continue
        sentence = _(
            "{folder} is not a step and is ignored: rename it like step13_name (two digits, then lower-case "
            "letters, digits and _)."
        )
        lines.append(sentence.format(folder=shown(folder)))
    sentence = _("{folders} have the same number: rename one of them.")
    lines += [sentence.format(folders=", ".join(same)) for same in numbers.values() if len(same) > 1]
    texts = [*SOLUTIONS.glob("*.md"), *SOLUTIONS.glob("*/*.md"), *SOLUTIONS.glob("*/lab_*/*.md")]
    unfit = list(unfit_files(texts, SOLUTIONS.parent))
    return lines + (unfit or list(_in_documents(SOLUTIONS)))


def in_reference(folder: Path) -> Iterator[str]:
    """The mistakes that prevent a stub from being generated from the step's reference: none if it can be."""
    file = folder / "reference.py"
    faults = list(unfit_files([file] if file.exists() else [], SOLUTIONS.parent)) or list(_unreadable(file))
    yield from faults
    if not faults:
        source = file.read_text(encoding="utf-8")
        yield from _in_markers(file, source)
        yield from _in_imports(file, source)


def in_folder(folder: Path) -> Iterator[str]:
    """The mistakes in a step's folder that show without importing it: in its files, reference, catalogue, lessons."""
    inside = [Path(entry.path) for entry in files.walk(folder, skip=["__pycache__"])]
    unfit = list(unfit_files([folder, *inside, *folders_named_as_texts(folder)], SOLUTIONS.parent))
    yield from unfit
    if unfit:
        return
    yield from in_reference(folder)
    checks = folder / f"test_{folder.name.partition('_')[2]}.py"
    others = [] if checks.is_file() else sorted(folder.glob("test_*.py"))
    if others:
        yield _("{file} is not read: rename it to {name}.").format(file=shown(others[0]), name=checks.name)
    else:
        yield from _unreadable(checks)
    yield from _in_catalogue(folder)
    yield from _unreadable(folder / "variants.py")
    for spoken in LANGUAGES:
        yield from _in_lesson(folder, spoken)


def in_modules(folder: Path) -> Iterator[str]:
    """The mistakes found by importing the step, once `in_folder` finds none; none if it lacks a package here."""
    from grader.oracle.live import Solution

    step = Solution(folder)
    package = step.package
    try:
        if step.lacking:  # not the step's fault: it can't be imported here
            return
    except (Exception, SystemExit) as error:
        yield _fault(step.check_file, error)
        return
    catalogue = () if mistakes.files_of(folder) else ("misconceptions",)
    for name in ("reference", step.check_file.stem, *catalogue, "variants"):
        try:
            importlib.import_module(f"{package}.{name}")
        except (Exception, SystemExit) as error:
            yield _fault(folder / f"{name}.py", error)
            return
    try:
        checks = list(_in_checks(step))
        yield from checks
        if not checks:
            yield from _in_off_limits(step)
            yield from _in_misconceptions(step)
    except mistakes.Unreadable as problem:
        yield problem.said(_)
    except (Exception, SystemExit) as error:
        yield _fault(folder, error)


# --- found by reading ----------------------------------------------------------------------------------------


def _unreadable(file: Path) -> Iterator[str]:
    """Yields one sentence if a file is missing, can't be read or is not Python; nothing for others."""
    if not file.exists():
        yield _("{file} is missing: write it.").format(file=shown(file))
    elif faults := list(unread(file)):
        yield from faults
    else:
        yield from _unparsable(file)


def _unparsable(file: Path) -> Iterator[str]:
    try:
        ast.parse(file.read_text(encoding="utf-8"))
    except UNPARSABLE as error:  # deeply nested, or with a byte 0, it is no SyntaxError
        line, reason = getattr(error, "lineno", None), getattr(error, "msg", None)
        yield _("{file}:{line}: not valid Python ({reason}): fix it.").format(
            file=shown(file), line=line or 1, reason=reason or str(error) or type(error).__name__
        )


def _in_markers(file: Path, source: str) -> Iterator[str]:
    """Markers that don't alternate BEGIN, END, BEGIN, END."""
    inside, begun = 0, False  # the line of the unmatched BEGIN
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
        yield _("{file}: there is nothing for the learner to write: put {begin} and {end} around the solution.").format(
            file=shown(file), begin=BEGIN, end=END
        )


def _alone(file: Path, line: int, marker: str, other: str) -> str:
    return _("{file}:{line}: this {marker} has no {other}: add it, on a line of its own.").format(
        file=shown(file), line=line, marker=marker, other=other
    )


def _in_imports(file: Path, source: str) -> Iterator[str]:
    """Imports of other references that can't be rewritten to import the learner's files."""
    folders = [folder for folder in step_folders(SOLUTIONS) if folder.name < file.parent.name]
    earlier = [folder.name for folder in folders]
    example = f"{folders[-1].parent.name}.{earlier[-1]}" if folders else "core.step01_name"
    for number, line in enumerate(source.splitlines(), 1):
        if not re.match(r"\s*(?:from|import)\s+solutions\b", line):
            continue
        taken = REFERENCE_IMPORT.search(line)
        if taken is None:
            yield _("{file}:{line}: write it as from solutions.{step}.reference import …, by name.").format(
                file=shown(file), line=number, step=example
            )
        elif taken[1] not in earlier:
            yield _("{file}:{line}: {step} is not an earlier step: import from one that is.").format(
                file=shown(file), line=number, step=taken[1]
            )


def _in_catalogue(folder: Path) -> Iterator[str]:
    """One line for each catalogue of mistakes that is missing or can't be read."""
    if mistakes.files_of(folder):
        yield from _in_documents(folder)
    else:
        yield _("{file} is missing: write it.").format(file=shown(folder / "mistakes.md"))


def _in_documents(folder: Path) -> Iterator[str]:
    """Entries of the catalogues in a folder that can't be read, lack a translation, or nudge without a question."""
    try:
        english, korean = mistakes.read(folder), mistakes.read(folder, korean=True)
        texts = mistakes.texts(folder, english)
        untold = [entry for name, entry in english.entries.items() if name in texts and (entry.text or entry.nudge)]
        pairs = list(mistakes.translations(folder))
    except mistakes.Unreadable as problem:
        yield problem.said(_)
        return
    for entry in untold:
        there = korean.entries.get(entry.name)
        if there is None:
            yield _("{place} has no Korean text: write an item - {name} · … in the Korean file.").format(
                place=entry.place, name=entry.name
            )
        elif (len(there.text), bool(there.nudge)) != (len(entry.text), bool(entry.nudge)):
            yield _("{place} has other lines than the English text: translate each.").format(place=there.place)
        if entry.nudge and not ASKS.search(entry.nudge):
            yield _("{place}: its nudge tells the answer, or one of two: ask a question.").format(place=entry.place)
    for entry in korean.entries.values():
        if entry.name not in english.entries:
            yield _("{place}: there is no such mistake in English: remove it.").format(place=entry.place)
    translations: dict[str, str] = {}
    for sentence, translation in pairs:
        if translation and translations.setdefault(sentence, translation) != translation:
            yield _("{folder}: “{sentence}” is translated in two ways: choose one.").format(
                folder=shown(folder), sentence=sentence
            )


def _in_lesson(folder: Path, spoken: str) -> Iterator[str]:
    """The mistakes in the lesson of one language."""
    from grader.course import lessons

    file = folder / f"lesson.{spoken}.md"
    if not file.is_file():
        yield _("{file} is missing: write it.").format(file=shown(file))
        return
    try:
        with language.use(spoken):
            lessons.hints(folder.name, folder.parents[1])
    except lessons.NoLesson:
        yield _("{file} has no hints: end it in a numbered list under ## Hints or ## 힌트.").format(file=shown(file))


# --- found by importing ----------------------------------------------------------------------------------


def _in_checks(step: Solution) -> Iterator[str]:
    """The mistakes in the check file: names, titles, points and arguments of its checks."""
    file = shown(step.check_file)
    defined = [
        node
        for node in ast.parse(step.check_file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    if not defined:
        yield _("{file} holds no check: write a function test_….").format(file=file)
    names = [node.name for node in defined]
    for index, node in enumerate(defined):
        function = getattr(step.checks_module, node.name)
        at = {"file": file, "line": node.lineno, "check": node.name}
        if node.name in names[:index]:
            yield _("{file}:{line}: {check} is there twice, and one of them never runs: rename it.").format(**at)
        if not (function.__doc__ or "").strip():
            yield _("{file}:{line}: {check} has no title: write a docstring.").format(**at)
        if getattr(function, "points", None) is None:
            yield _("{file}:{line}: {check} has no mark: put @points(1) above it.").format(**at)
        if tuple(inspect.signature(function).parameters) != GIVEN:
            yield _("{file}:{line}: {check} must take {given} and nothing else.").format(**at, given=", ".join(GIVEN))
        elif hasattr(function, "pytestmark"):
            yield _("{file}:{line}: {check} runs once: remove pytest's marks and use a loop.").format(**at)


def _in_off_limits(step: Solution) -> Iterator[str]:
    """The mistakes in OFF_LIMITS: unknown names and families."""
    from grader.calls.builtins import FAMILIES

    file, public = shown(step.check_file), _public(step)
    for name, families in getattr(step.checks_module, "OFF_LIMITS", {}).items():
        yield from _undefined(f"{file}: OFF_LIMITS", name, public)
        if isinstance(families, str):
            yield _('{file}: OFF_LIMITS of {name} is not a tuple: write ("{family}",).').format(
                file=file, name=name, family=families
            )
            continue
        for family in families:
            if family not in FAMILIES:
                yield _("{file}: OFF_LIMITS of {name} names an unknown family “{family}”: choose from {known}.").format(
                    file=file, name=name, family=family, known=", ".join(FAMILIES)
                )


def _in_misconceptions(step: Solution) -> Iterator[str]:
    """The mistakes in the catalogue and the variants of a step: drafts, unknown names and checks."""
    files, public = mistakes.files_of(step.folder), _public(step)
    file = shown(files[0] if len(files) == 1 else files[0].parent)
    checks = [check.name for check in step.checks]
    undefined: list[str] = []
    for wrong in step.misconceptions:
        if DRAFT.fullmatch(wrong.name) or {wrong.what, wrong.why, wrong.nudge} & set(UNFINISHED):
            yield _("{file}: {wrong} is a draft: give it a name, and write its three lines of text.").format(
                file=file, wrong=wrong.name
            )
        for name in wrong.replaced:
            undefined += _undefined(f"{file}: {wrong.name}", name, public)
        if wrong.caught_by not in checks:
            yield _("{file}: {wrong} is caught by {check}, but there is no such check: choose from {known}.").format(
                file=file, wrong=wrong.name, check=wrong.caught_by, known=", ".join(checks)
            )
    for variant in step.variants:
        for name in variant.replaced:
            yield from _undefined(f"{shown(step.folder / 'variants.py')}: {variant.name}", name, public)
    yield from undefined
    for wrong in () if undefined else (*step.misconceptions, *step.pairs):  # made, to find mistakes in them
        dict(wrong.replaced)


def _undefined(where: str, name: str, public: Collection[str]) -> Iterator[str]:
    """Yields one sentence, which starts with `where`, if the name is not among the reference's public ones."""
    if name not in public:
        yield _("{where} names {name}, which the reference does not define: choose from {known}.").format(
            where=where, name=name, known=", ".join(public)
        )


def _public(step: Solution) -> list[str]:
    """The names that the step's reference defines itself."""
    own = step.reference.__name__
    return [name for name, value in vars(step.reference).items() if getattr(value, "__module__", "") == own]


def _fault(file: Path, error: BaseException) -> str:
    """A sentence on an exception, with its last position in a step's folder, else with `file`."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(SOLUTIONS):
            return _("{file}:{line}: {error}: fix it.").format(
                file=shown(Path(frame.filename)), line=frame.lineno, error=_said(error)
            )
    return _("{file}: {error}: fix it.").format(file=shown(file), error=_said(error))


def _said(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")


# --- the command -----------------------------------------------------------------------------------------------------


def main(wanted: str = "") -> int:
    """Prints lines mistake in the steps chosen by `wanted`, one line each; returns 1 if there is one."""
    lines = problems(wanted)
    print("\n".join(lines), end="\n" if lines else "", file=sys.stderr)
    return 1 if lines else 0
