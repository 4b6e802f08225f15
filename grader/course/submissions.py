"""A submission: a folder of step files and notebooks. The trusted side reads it, follows no link and runs nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from grader.base.language import gettext as _
from grader.base.paths import STEP_NAME, step_folders
from grader.base.untrusted import MAX_FILE, MAX_NOTEBOOK, Unusable, as_text, content, damaged, source_text
from grader.course import answer_cells, renamed, unread
from grader.course.renamed import by_step, defined_by, imported, own_stem, stem_of
from grader.course.unread import Submission as Submission

MAX_FILES = 200
MAX_NOTEBOOKS = 50
NOTEBOOK = re.compile(r".+\.ipynb", re.IGNORECASE)
MODULE_FILE = re.compile(r"([A-Za-z_]\w*)\.py")


class NoSubmission(FileNotFoundError):
    """There is no such folder."""


def read(folder: Path, only: Mapping[str, str] | None = None, *, called: str = "") -> Submission:
    """Reads the `.py` files of a folder and the answer cells of its notebooks. Raises NoSubmission without it.
    `only`: the files to read, from the name that each had to the one in the folder; `called`: the submission's name in
    messages, by default the folder's.

    Links are not followed, devices and pipes not opened. A file that can't be read becomes a problem, as does a step
    with two different answers: such a step has no score. An untouched stub does not count next to a written answer. The
    only answer to a step may have any name, if it defines what this step asks for. Every other file is listed.
    """
    if not folder.is_dir():
        raise NoSubmission(str(folder))
    everything = {name: name for name in os.listdir(folder)} if only is None else only
    listing = {name: file for name, file in sorted(everything.items()) if not name.startswith(unread.OF_MACOS)}
    reading = _Reading(Submission(called or readable(folder.name or str(folder))), folder, listing)
    for name in everything.keys() - listing.keys():
        unread.note_left(reading.submission, folder / everything[name], readable(name))
    reading.read_modules()
    with answer_cells.one_budget():
        reading.read_renamed()
        reading.read_notebooks()
        reading.read_exports()
        reading.take_by_definition()
    reading.note_imports()
    reading.note_the_rest()
    return reading.submission


@dataclass
class _Reading:
    """One submission as it is read; `listing` has the name on the disk of each file, by its own name."""

    submission: Submission
    folder: Path
    listing: dict[str, str]
    steps: list[str] = field(default_factory=lambda: [path.name for path in step_folders()])
    cells: dict[str, str] = field(default_factory=dict)  # of notebooks, that are no answer cells: by what to call each

    def shown(self, name: str) -> str:
        """A file's name in messages."""
        return f"{self.submission.name}/{readable(name)}"

    def source(self, name: str) -> str:
        """The text of a file. Raises Unusable."""
        return source_text(self.folder / self.listing[name], self.shown(name))

    def missing(self) -> list[str]:
        """The names of the steps that have no written answer so far, and no known problem."""
        sources, problems = self.submission.sources, self.submission.problems
        return [
            step
            for step in self.steps
            if step not in problems and (step not in sources or answer_cells.is_untouched(sources[step][1]))
        ]

    def read_modules(self) -> None:
        """Reads the files that Python could import."""
        submission = self.submission
        names = sorted(filter(MODULE_FILE.fullmatch, self.listing), key=lambda name: name[:4] != "step")
        for name in names[:MAX_FILES]:
            module = name[:-3]
            try:
                submission.sources[module] = (self.shown(name), self.source(name))
            except Unusable as unusable:
                submission.problems[module] = submission.files[name] = str(unusable)
                if module not in self.steps:
                    submission.leave(name, str(unusable))
        for name in names[MAX_FILES:]:
            submission.leave(name, _("more than {count} files", count=MAX_FILES))

    def read_renamed(self) -> None:
        """Reads step files with changed names, `step02_softmax-1.py`, as answers to steps that have no other answer."""
        submission = self.submission
        for step, names in by_step(self.listing, self.steps).items():
            written: dict[str, str] = {}
            for name in names[:MAX_FILES]:
                try:
                    source = self.source(name)
                except Unusable as unusable:
                    submission.leave(readable(name), str(unusable))
                    if step in self.missing():
                        submission.problems[step] = str(unusable)
                    continue
                submission.files[readable(name)] = _("an untouched stub")
                if not answer_cells.is_untouched(source):
                    written[name] = source
            self._add_written(step, written)

    def _add_written(self, step: str, written: Mapping[str, str]) -> None:
        """Adds a step's answer that was found under these names: one text is the source, several are a problem."""
        submission = self.submission
        own = submission.sources.get(step)
        if own is not None and not answer_cells.is_untouched(own[1]):
            reason = _("{step}.py is there too, and was read", step=step)
            for name, source in written.items():
                submission.files[readable(name)] = _("the same as {file}", file=own[0].partition("/")[2])
                if source != own[1]:
                    submission.leave(readable(name), reason)
        elif len(set(written.values())) == 1 and step not in submission.problems:
            name, source = next(iter(written.items()))
            submission.sources[step] = (self.shown(name), source)
            for file in map(readable, written):
                submission.take(file, step)
        elif len(written) > 1:
            first, second = (self.shown(name) for name in list(written)[:2])
            submission.problems[step] = answered_twice(step, first, second)
            submission.files |= dict.fromkeys(map(readable, written), submission.problems[step])

    def read_notebooks(self) -> None:
        """Reads the answer cells of all notebooks, and notes those that can't be read or answer a step twice."""
        submission = self.submission
        unusable_notebooks: dict[str, str] = {}
        answered, left = 0, MAX_NOTEBOOK
        notebooks = [name for name in self.listing if NOTEBOOK.fullmatch(name)]
        for name in notebooks[:MAX_NOTEBOOKS]:
            path, shown = self.folder / self.listing[name], self.shown(name)
            try:
                left -= path.lstat().st_size
                if left < 0 and len(notebooks) > 1:  # reading them has no deadline
                    sentence = _(
                        "With {file}, the notebooks exceed {limit} MiB. Clear their outputs and save them again."
                    )
                    raise Unusable(sentence.format(file=shown, limit=MAX_NOTEBOOK >> 20))
                answers, others = notebook_answers(path, shown)
                answered += sum(len(cell) for cells in answers.values() for cell in cells if len(cell) <= MAX_FILE)
                if answered > MAX_FILE:  # too much is not read: no deadline holds here
                    sentence = _("With {file}, the answer cells exceed {limit} KiB. A step needs a few.")
                    raise Unusable(sentence.format(file=shown, limit=MAX_FILE >> 10))
                if answers:
                    submission.take(readable(name), *sorted(answers))
                else:
                    submission.leave(readable(name), _("it has no answer cell"))
                add_cells(submission, answers, shown, others)
                self.cells |= {f"{readable(name)}[{number}]": source for number, source in others.items()}
            except Unusable as unusable:
                unusable_notebooks[name] = submission.files[readable(name)] = str(unusable)
        missing = self.missing()
        for name, problem in unusable_notebooks.items():  # it may hold the answer to any step that is missing
            stem = name.rpartition(".")[0]
            concerned = [step for step in missing if step == stem] if STEP_NAME.fullmatch(stem) else missing
            for step in concerned:
                submission.problems.setdefault(step, problem)
            if not concerned:
                submission.leave(readable(name), problem)
        for name in notebooks[MAX_NOTEBOOKS:]:
            submission.leave(readable(name), _("more than {count} files", count=MAX_NOTEBOOKS))

    def read_exports(self) -> None:
        """Reads notebooks that were exported as `.py` files."""
        submission = self.submission
        for name in [name for name in self.listing if MODULE_FILE.fullmatch(name) and name[:-3] in submission.sources]:
            source = submission.sources[name[:-3]][1]
            if name[:-3] in self.steps or self._is_imported(name[:-3]) or not renamed.CELL.search(source):
                continue
            answers, others = renamed.exported(source, self.missing())
            if answers:
                del submission.sources[name[:-3]]
                submission.take(readable(name), *sorted(answers))
                add_cells(submission, answers, self.shown(name), others)

    def take_by_definition(self) -> None:
        """Takes files and cells under other names as the answer to the one missing step that asks for what they
        define."""
        submission, missing = self.submission, self.missing()
        texts = {name: text for name, text in self.cells.items() if missing and not answer_cells.is_untouched(text)}
        left = [name for name in self.listing if readable(name) not in submission.files and missing]
        for name in left[:MAX_FILES]:
            if (text := self._possible_answer(name)) is not None:
                texts[readable(name)] = text
        names_of = {step: answer_cells.public_names(step) for step in missing} if texts else {}
        for step, names in defined_by(texts, names_of).items():
            parts = [answer_cells.defined(texts[name]) for name in names]
            if len({text for name, text in texts.items() if name in names}) == 1:
                names = names[:1]
            elif len(frozenset().union(*parts)) < sum(map(len, parts)):  # several answers, not parts of one
                submission.problems[step] = answered_twice(step, *map(self.shown, names[:2]))
                submission.files |= dict.fromkeys(names, submission.problems[step])
                continue
            source = answer_cells.without_commands("\n\n\n".join(texts[name] for name in names))
            files = ", ".join(names)
            submission.sources[step] = (f"{submission.name}/{files}", source)
            sentence = _("{file} is graded as {step}: it defines what this step asks for.", file=files, step=step)
            submission.taken[step] = sentence
            for file in names:
                notebook = file.rpartition("[")[0]
                submission.unread.pop(notebook, None)
                submission.take(notebook or file, step)

    def _possible_answer(self, name: str) -> str | None:
        """The text of a file that may be an answer under any name; None if it can't be, is a stub, or a step imports
        it. One that can't be read becomes the problem of the missing step that its name says."""
        module = name[:-3]
        if name.startswith(".") or name in unread.BESIDE or not stem_of(name):
            return None
        if (
            (self.folder / self.listing[name]).is_dir()
            or module in self.steps
            or module in self.submission.problems
            or self._is_imported(module)
        ):
            return None
        try:
            source = self.source(name)
        except Unusable as unusable:
            step = next(iter(by_step([f"{stem_of(name)}.py"], self.missing())), stem_of(name))
            if step in self.missing():  # its name says which step can't be read
                self.submission.problems[step] = self.submission.files[readable(name)] = str(unusable)
            return None
        return None if answer_cells.is_untouched(source) else source

    def _is_imported(self, module: str) -> bool:
        """Whether another file of the submission imports this one."""
        sources = self.submission.sources.items()
        return any(module in imported(source) for name, (_shown, source) in sources if name != module)

    def note_imports(self) -> None:
        """Follows the imports of steps: a step that imports an unreadable file gets its problem, and a file that is
        imported under the name it had before a system renamed it is read."""
        submission = self.submission
        for name in [name for name in self.listing if name.lower().endswith(".py")]:
            module = own_stem(name)
            if name != f"{module}.py" and readable(name) not in submission.files and module not in submission.sources:
                with suppress(Unusable):
                    if self._is_imported(module):
                        submission.sources[module] = (self.shown(name), self.source(name))
        for module in submission.problems.keys() - set(self.steps):
            for step in submission.sources.keys() & set(self.steps):
                if module in imported(submission.sources[step][1]):
                    submission.problems.setdefault(step, submission.problems[module])

    def note_the_rest(self) -> None:
        """Notes the reason for every file that was not read."""
        submission = self.submission
        used = {shown.partition("/")[2]: module for module, (shown, _source) in submission.sources.items()}
        for name in (name for name in self.listing if readable(name) not in submission.files):
            shown, module = readable(name), used.get(readable(name), "")
            if name[:-3] in self.steps and not module:  # something else answers its step
                submission.files[shown] = _("an untouched stub")
            elif module in self.steps and not submission.sources[module][1].strip():  # as after a failed upload
                submission.leave(shown, _("it is empty"))
            elif module in self.steps:
                submission.take(shown, module)
                submission.files |= {shown: submission.problems[module]} if module in submission.problems else {}
            elif module and self._is_imported(module):
                submission.files[shown] = _("imported by a step")
            else:
                sentence = _("no step imports it, and its name is not that of a step") if module else ""
                unread.note_left(submission, self.folder / self.listing[name], shown, sentence)
        unread.cut(submission)


def answered_twice(step: str, first: str, second: str) -> str:
    """One sentence about a step with two different answers."""
    sentence = _("{step} is answered twice, in {first} and in {second}. Keep one of them.")
    return sentence.format(step=step, first=first, second=second)


def notebook_answers(path: Path, shown: str = "") -> tuple[dict[str, list[str]], dict[int, str]]:
    """The sources of a notebook's answer cells, by step, and those of its other code cells, by number; `shown` is the
    file name in messages. Raises Unusable."""
    data = content(path, shown or path.name, MAX_NOTEBOOK)
    try:
        return answer_cells.answers(data)
    except answer_cells.DamagedNotebook as error:
        raise damaged(shown or path.name, data) from error


def notebook_cells(path: Path) -> list[answer_cells.Cell]:
    """Every cell of a notebook, answer or not. Raises Unusable."""
    data = content(path, path.name, MAX_NOTEBOOK)
    try:
        return list(answer_cells.cells(data))
    except answer_cells.DamagedNotebook as error:
        raise damaged(path.name, data) from error


def add_cells(
    submission: Submission, answers: Mapping[str, list[str]], shown: str, others: Mapping[int, str] = {}
) -> None:
    """Adds the answer cells of one notebook, by step, to a submission, each with what it lacks from `others`; `shown`
    is the notebook's name."""
    cells: dict[str, str] = {}
    for step, sources in answers.items():
        try:
            cells[step] = _answer(step, [as_text(source, shown) for source in sources], shown)
        except Unusable as unusable:
            submission.problems.setdefault(step, str(unusable))
    if others:
        _complete(submission, cells, shown, others)
    for step, source in answer_cells.with_earlier_names(cells).items():
        _add_answer(submission, step, f"{shown}[{step}]", source)


def _complete(submission: Submission, cells: dict[str, str], shown: str, others: Mapping[int, str]) -> None:
    """Adds to answer cells, by step, the definitions that they lack from other cells, by number, and notes which."""
    for step, source in cells.items():
        if answer_cells.is_untouched(source):
            continue
        elsewhere = frozenset().union(*(answer_cells.defined(cell) for name, cell in cells.items() if name != step))
        try:
            cells[step], taken = renamed.completed(step, source, others, elsewhere)
        except renamed.Ambiguous as name:
            sentence = _("{file}: several cells define `{name}`, and the answer cell of {step} does not. Keep one.")
            submission.problems[step] = sentence.format(file=shown, name=name, step=step)
            continue
        if taken:
            files = ", ".join(f"{shown.partition('/')[2]}[{number}]" for number in taken)
            sentence = _("{step} is graded with {files}: what its answer cell lacks is there.", files=files, step=step)
            submission.taken[step] = sentence


def readable(name: str) -> str:
    """A file name that is safe to print in one line: control characters and bytes that are not UTF-8 become escapes."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def _answer(step: str, sources: list[str], shown: str) -> str:
    """The one answer to a step in a notebook, of the sources of its answer cells. Raises Unusable without one, or if
    two are written differently."""
    if not sources:
        raise Unusable(
            _(
                "{file} has no answer cell for {step}: it was deleted, is no longer a code cell, or has lost "
                "its metadata. Start a code cell with the line: # {step}"
            ).format(file=shown, step=step)
        )
    different = set(sources)
    written = {source for source in different if not answer_cells.is_untouched(source)} or different
    if len(written) > 1:
        sentence = _("{file} has {count} answer cells for {step}. Keep one of them.")
        raise Unusable(sentence.format(file=shown, count=len(written), step=step))
    (source,) = written
    return answer_cells.without_commands(source)


def _add_answer(submission: Submission, step: str, shown: str, source: str) -> None:
    """Adds an answer to a step; a second written one that differs becomes the step's problem instead."""
    other = submission.sources.get(step)
    if other is None or answer_cells.is_untouched(other[1]):
        submission.sources[step] = (shown, source)
    elif other[1] != source and not answer_cells.is_untouched(source):
        submission.problems[step] = answered_twice(step, other[0], shown)
