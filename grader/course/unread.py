"""A submission, and notes on its files: those that are not read, and lines that were left out of those that are."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.base import files
from grader.base.language import gettext as _
from grader.base.paths import STEP_NAME, step_folders
from grader.base.results import StepResult
from grader.course import answer_cells, lab_log

MAX_UNREAD = 40  # of the list of files that were not read
MAX_NOTES = 12  # of the lines that were left out, each named
MAX_NAMED = 3  # of the files of a folder that holds no answer
ARCHIVE = re.compile(r".+\.(zip|7z|rar|tar|tgz|tar\.\w+)", re.IGNORECASE)
DOCUMENT = re.compile(r".+\.(docx?|odt|rtf|pdf|hwpx?|pages)", re.IGNORECASE)
GIT, PUT_ASIDE = ".git", ".backup"
OF_MACOS = "._"  # the start of the names of files that macOS adds to others
NOT_ANSWERS = ("__pycache__", "__MACOSX", ".ipynb_checkpoints", ".DS_Store", "Thumbs.db", "desktop.ini")
BESIDE = ("timestamp.txt", "submission_secret.txt")  # what nbgrader puts next to a submission
OF_THE_KIT = (lab_log.FILE, ".kit")  # what the kit keeps next to the exercises
ONLINE_TEXT = re.compile(r"(.*_)?(text|onlinetext)\.html", re.IGNORECASE)  # typed into a learning platform


@dataclass
class Submission:
    """The sources of a submission by module name, the problems of unusable files, and the submitted files that were not
    read, each with the reason. `earlier` are the steps that the same person handed in with earlier assignments.

    `files` says what became of each file, `taken` which one was taken for a step without a file of its name, and why.
    """

    name: str
    sources: dict[str, tuple[str, str]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    earlier: dict[str, tuple[str, str]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)
    answers: dict[str, list[str]] = field(default_factory=dict)  # the steps for which each file was taken
    given_files: dict[str, str] = field(default_factory=dict)  # files that everyone has, and how many
    beyond: int = 0  # files that `unread` has no room for; `files` names them

    def leave(self, file: str, reason: str) -> None:
        """Notes a file that is not read, and why."""
        self.unread[file] = self.files[file] = reason

    def take(self, file: str, *steps: str) -> None:
        """Notes a file that is graded as steps, besides those that it was taken for before."""
        own = self.answers[file] = list(dict.fromkeys([*self.answers.get(file, []), *steps]))
        self.files[file] = _("graded as {step}", step=", ".join(own))

    def add_earlier(self, other: Submission, label: str) -> None:
        """Adds the written files of an earlier submission, `label` in messages, to `earlier`, in place of equally named
        ones."""
        self.earlier |= {
            module: (f"{label}/{shown.partition('/')[2]}", source)
            for module, (shown, source) in other.sources.items()
            if module not in other.problems and not (STEP_NAME.fullmatch(module) and answer_cells.is_untouched(source))
        }


def notes(submission: Submission, results: Sequence[StepResult]) -> list[str]:
    """The notes on the files of these steps: each file that was taken for one of them, and each line at the top level
    that was left out, once: several steps may import its file."""
    taken = [submission.taken[step.name] for step in results if step.name in submission.taken]
    left_out = list(dict.fromkeys(sentence for step in results for sentence in step.left_out))
    more = len(left_out) - MAX_NOTES
    shown = [*taken, *left_out[:MAX_NOTES]]
    return [*shown, _("{count} more lines were left out.", count=more)] if more > 0 else shown


def note_left(submission: Submission, path: Path, shown: str, reason: str = "") -> None:
    """Notes the reason why the file or folder at `path`, `shown` in messages, is not read: what kind it is, or else
    `reason`."""
    name = shown.rpartition("/")[2]
    if name == GIT:
        submission.files[shown] = _("a Git repository: work on another branch of it is not read")
    elif name == PUT_ASIDE:
        submission.files[shown] = _("the student's own work, put aside by `make reset`")
    elif name in NOT_ANSWERS or name.startswith(OF_MACOS):
        submission.files[shown] = _("made by a program")
    elif name in BESIDE or name in OF_THE_KIT:
        submission.files[shown] = _("part of what all students were given")
    elif path.is_dir() and not path.is_symlink():
        if files.holds_any(path):
            hidden = _("it is hidden") if name.startswith(".") else ""
            why = reason or hidden or _("it is a folder: put its files straight into the submission")
            submission.leave(f"{shown}/", why)
        else:
            submission.files[f"{shown}/"] = _("an empty folder")
    else:
        submission.leave(shown, why_not(name, path) or reason or _("its name is not that of a step"))


def why_not(name: str, path: Path) -> str:
    """A phrase with the reason why a file of this name is never read; empty if it could be."""
    if path.is_symlink():
        return _("it is a link")
    if name.startswith("."):
        return _("it is hidden")
    if ARCHIVE.fullmatch(name):
        return _("it is an archive: unpack it")
    if DOCUMENT.fullmatch(name):
        return _("it is a document: put code into a .py file or a notebook")
    if ONLINE_TEXT.fullmatch(name):
        return _("it is a text that was typed into the learning platform")
    if not name.lower().endswith((".py", ".ipynb")) and ".py." not in name.lower():
        return _("it is neither a .py file nor a notebook")
    return ""


def files_within(submission: Submission, steps: Collection[str]) -> dict[str, str]:
    """A phrase for each file of the submission on what became of it, if only these steps are graded."""
    said = {}
    for file, own in submission.answers.items():
        if submission.files.get(file) == _("graded as {step}", step=", ".join(own)):
            graded, others = ([step for step in own if (step in steps) is there] for there in (True, False))
            parts = [_("graded as {step}", step=", ".join(graded))] if graded else []
            parts += [_("{steps}: not part of this assignment", steps=", ".join(others))] if others else []
            said[file] = "; ".join(parts)
    return submission.files | said


def cut(submission: Submission) -> None:
    """Shortens the list of files that were not read to MAX_UNREAD and a line that counts the others; those that may be
    an answer come first. It may be cut again when it grew."""
    files = sorted((file for file in submission.unread if file != "…"), key=lambda file: not _may_be_answer(file))
    submission.beyond += len(files[MAX_UNREAD:])
    more = {"…": _("{count} more", count=submission.beyond)} if submission.beyond else {}
    submission.unread = {file: submission.unread[file] for file in files[:MAX_UNREAD]} | more


def _may_be_answer(file: str) -> bool:
    return file.lower().endswith((".py", ".ipynb")) or ARCHIVE.fullmatch(file) is not None


def without_answer(handed_in: Submission) -> str:
    """A sentence on why a submission with files and no answer can't be graded: they may well be the answer. Empty if it
    has an answer, or no file."""
    if {step.name for step in step_folders()} & (handed_in.sources.keys() | handed_in.problems.keys()):
        return ""
    for file in handed_in.unread:
        if ARCHIVE.fullmatch(file):
            sentence = _("{folder} holds an archive and no answer: unpack {file} there.")
            return sentence.format(folder=handed_in.name, file=file)
    there = [f"{file} ({reason})" for file, reason in (handed_in.unread | handed_in.files).items()]
    if not there:
        return ""
    files = ", ".join(there[:MAX_NAMED] + ["…"] * (len(there) > MAX_NAMED))
    sentence = _(
        "No answer was found in {folder}, only {files}. Put the notebook, or step files with names like "
        "{step}.py, directly into that folder."
    )
    return sentence.format(folder=handed_in.name, files=files, step=step_folders()[0].name)
