"""What of this machine works, what does not, and the command that mends it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader import grading, language, saves, submission
from grader.language import gettext as _
from grader.limits import Limits
from grader.places import typed
from grader.results import Report

State = Literal["works", "limited", "broken"]
MARKS: dict[State, tuple[str, str]] = {"works": ("✓", "green"), "limited": ("!", "yellow"), "broken": ("✗", "red")}

OLDEST = (3, 11)
ENOUGH_DISK = 200 << 20  # bytes: the folders of a few workers
TORCH_SECONDS = 120.0
TOLD_SECONDS = 2.0
ISOLATION = ("process", "limits", "landlock", "seccomp")
ASK_TORCH = """
import json, time
start = time.perf_counter()
import torch
seconds = time.perf_counter() - start
cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
print(json.dumps({"version": torch.__version__, "seconds": seconds, "cuda": cuda,
                  "built_for_cuda": torch.version.cuda or "", "mps": torch.backends.mps.is_available()}))
"""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: `limited` leaves `make grade` working, `broken` does not; `mend` is a command."""

    what: str
    state: State
    says: str
    mend: str = ""


class TorchFacts(msgspec.Struct):
    """What torch says of itself."""

    version: str
    seconds: float
    cuda: str
    built_for_cuda: str
    mps: bool


def examine(folder: Path, looking_at: Callable[[str], None] = lambda what: None) -> Iterator[Finding]:
    """Looks at everything that grading needs; torch is imported, and code graded, in processes of their own."""
    yield python()
    looking_at(_("packages"))
    yield packages(grading.ROOT / "requirements.lock")
    yield exercises(folder)
    yield temporary_folder()
    looking_at("torch")
    facts = ask_torch()
    if isinstance(facts, str):
        yield Finding("torch", "broken", facts, _install())
    else:
        says = _("{version}, imported in {seconds} s").format(version=facts.version, seconds=f"{facts.seconds:.1f}")
        yield Finding("torch", "works", says)
        yield devices(facts)
        looking_at(_("grading"))
        yield from trial_run()
    looking_at(_("notification"))
    yield notification(folder)
    yield spoken()
    yield screen()
    yield vocabularies()


def works(findings: list[Finding]) -> bool:
    """Whether `make grade` works."""
    return all(finding.state != "broken" for finding in findings)


def table(findings: list[Finding]) -> RenderableType:
    """The findings as a person reads them, and what they come to."""
    words = {"works": _("works"), "limited": _("limited"), "broken": _("does not work")}
    rows = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    rows.add_column(_("what"), no_wrap=True)
    rows.add_column(_("state"), no_wrap=True)
    rows.add_column(_("what was found, and what mends it"), overflow="fold")
    for finding in findings:
        mark, style = MARKS[finding.state]
        says = Text(finding.says)
        if finding.mend:
            says.append("\n" + _("Type: {command}").format(command=finding.mend), "bold")
        rows.add_row(finding.what, Text(f"{mark} {words[finding.state]}", style), says)
    if works(findings):
        closing = Text(_("Everything that grading needs works. Type: make grade"), "bold green")
    else:
        closing = Text(_("Grading does not work here yet. Mend what does not work, then type: make doctor"), "bold red")
    return Group(rows, Text(), closing)


# --- what is looked at -----------------------------------------------------------------------------------------------


def python() -> Finding:
    """The interpreter."""
    says = f"{platform.python_version()}, {platform.system()} {platform.machine()}"
    if sys.version_info < OLDEST:
        newest = _("{found}; 3.11 or newer is needed").format(found=says)
        return Finding("Python", "broken", newest, "rm -r .venv && make grade PYTHON=python3.12")
    return Finding("Python", "works", says)


def packages(lock: Path) -> Finding:
    """What is installed, held against the pins."""
    what = _("packages")
    try:
        lines = lock.read_text(encoding="utf-8").splitlines()
    except OSError:
        return Finding(what, "limited", _("requirements.lock is not there: nothing to hold them against"))
    pins = [line.split("==") for line in lines if "==" in line and not line.startswith("#")]
    installed = {name: _installed(name) for name, _version in pins}
    missing = [name for name, version in installed.items() if version is None]
    if missing:
        return Finding(what, "broken", _("not installed: {names}").format(names=", ".join(missing)), _install())
    others = [f"{name} {installed[name]}" for name, version in pins if installed[name] != version.strip()]
    if others:
        says = _("other versions than the kit was tested with: {names}").format(names=", ".join(others))
        return Finding(what, "limited", says, _install())
    return Finding(what, "works", _("{count} packages, as pinned").format(count=len(pins)))


def exercises(folder: Path) -> Finding:
    """The learner's files."""
    what = _("exercises")
    if not folder.is_dir():
        return Finding(what, "broken", _("there is no folder {folder}").format(folder=folder), "make exercises")
    names = grading.step_names()
    missing = [name for name in names if not (folder / f"{name}.py").is_file()]
    if missing:
        return Finding(what, "limited", _("missing: {names}").format(names=", ".join(missing)), "make exercises")
    if not os.access(folder, os.W_OK):
        says = _("{folder} can't be written to: hints are not remembered, no step can be reset").format(folder=folder)
        return Finding(what, "limited", says, f"chmod u+w {typed(folder)}")
    return Finding(what, "works", _("{count} steps in {folder}").format(count=len(names), folder=folder))


def temporary_folder() -> Finding:
    """Where workers have their folders."""
    what = _("temporary folder")
    try:
        place = tempfile.gettempdir()
        with tempfile.TemporaryDirectory(prefix="kit-"):
            free = shutil.disk_usage(place).free
    except OSError as error:
        says = _("none can be written to ({reason})").format(reason=error.strerror or error)
        return Finding(what, "broken", says, "mkdir -p ~/tmp && TMPDIR=~/tmp make grade")
    says = _("{folder}, {free} MiB free").format(folder=place, free=free >> 20)
    if free < ENOUGH_DISK:
        return Finding(what, "limited", says, "mkdir -p ~/tmp && TMPDIR=~/tmp make grade")
    return Finding(what, "works", says)


def ask_torch() -> TorchFacts | str:
    """What torch says of itself, asked in another process; else why it can't be asked."""
    try:
        asked = subprocess.run(
            [sys.executable, "-I", "-c", ASK_TORCH], capture_output=True, text=True, timeout=TORCH_SECONDS, cwd="/"
        )
        return msgspec.json.decode(asked.stdout.strip().splitlines()[-1], type=TorchFacts)
    except subprocess.TimeoutExpired:
        return _("importing it takes more than {seconds} s").format(seconds=f"{TORCH_SECONDS:.0f}")
    except (OSError, msgspec.DecodeError) as error:
        return str(error)
    except IndexError:
        ended = _("importing it ends its process (status {status})").format(status=asked.returncode)
        return (asked.stderr.strip().splitlines() or [ended])[-1]


def devices(facts: TorchFacts) -> Finding:
    """Where the checks can run."""
    what = _("devices")
    there = ["cpu", *([f"cuda ({facts.cuda})"] if facts.cuda else []), *(["mps"] if facts.mps else [])]
    says = ", ".join(there)
    if not facts.cuda and not facts.built_for_cuda and os.path.exists("/dev/nvidia0"):
        says = _("{found}; there is an NVIDIA device, but this torch is built without CUDA").format(found=says)
        return Finding(what, "limited", says, f"{sys.executable} -m pip install --force-reinstall torch")
    if not facts.cuda and not facts.mps:
        says = _("{found}; no accelerator, which is enough for every point").format(found=says)
    return Finding(what, "works", says)


def trial_run() -> Iterator[Finding]:
    """Grades a file that holds nothing: the warm process, the judge, a worker and its isolation all take part."""
    name = grading.step_names()[0]
    nothing = submission.Submission("doctor", {name: (f"doctor/{name}.py", "nothing = None\n")})
    try:
        with grading.Grader(1, Limits(call_seconds=20.0)) as grader:
            report = grader.grade(nothing, [name], device="cpu")
    except (grading.GraderError, OSError) as error:
        yield Finding(_("grading"), "broken", str(error), f"KIT_DEBUG=1 make grade STEP={name}")
        return
    checks = report.steps[0].checks
    failure = next((check.message for check in checks if check.status in ("error", "timeout")), None)
    if failure is not None:
        yield Finding(_("grading"), "broken", failure, f"KIT_DEBUG=1 make grade STEP={name}")
        return
    if sys.platform == "linux":
        yield Finding(_("grading"), "works", _("workers are forked from one warm process"))
    else:
        yield Finding(_("grading"), "works", _("each worker is a program of its own: slower, the same result"))
    yield isolation(report)


def isolation(report: Report) -> Finding:
    """The layers between a learner's code and the machine."""
    says = ", ".join(report.isolation)
    missing = [layer for layer in ISOLATION if layer not in report.isolation]
    if not missing:
        return Finding(_("isolation"), "works", says)
    says = _(
        "{layers}; without {missing}. Enough for your own code; grade the work of others on Linux 6.7 or newer."
    ).format(layers=says, missing=", ".join(missing))
    return Finding(_("isolation"), "limited", says)


def notification(folder: Path) -> Finding:
    """Whether the system tells of saves."""
    what = _("notification")
    if not folder.is_dir():
        return Finding(what, "limited", _("there is no folder {folder}").format(folder=folder), "make exercises")
    with saves.Notifications(folder, lambda: None) as told:
        if told.reason is None and told.arrive.wait(TOLD_SECONDS):
            return Finding(what, "works", _("the system tells of saves in {folder}").format(folder=folder))
    reason = told.reason or _("a file written to {folder} was not told of").format(folder=folder)
    says = _("{reason}: make watch looks at the folder five times a second instead").format(reason=reason)
    return Finding(what, "limited", says)


def spoken() -> Finding:
    """The language that the kit speaks here."""
    what = _("language")
    try:
        chosen = language.choose()
    except language.UnknownLanguage as unknown:
        return Finding(what, "broken", _("KIT_LANG={name}: en or ko").format(name=unknown), "export KIT_LANG=en")
    names = {"en": "English", "ko": "한국어"}
    compiled = language.COMPILED / "ko" / "LC_MESSAGES" / f"{language.DOMAIN}.mo"
    if not compiled.is_file():
        says = _("{language}; the Korean sentences are not compiled").format(language=names[chosen])
        return Finding(what, "limited", says, "make messages")
    other = next(code for code in names if code != chosen)
    says = _("{language}; for {other} set KIT_LANG={code}").format(
        language=names[chosen], other=names[other], code=other
    )
    return Finding(what, "works", says)


def screen() -> Finding:
    """What the terminal can show."""
    what = _("terminal")
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    if encoding != "utf8":
        says = _("its encoding is {encoding}: marks and Korean can't be shown").format(encoding=encoding or "?")
        return Finding(what, "limited", says, "export PYTHONUTF8=1")
    columns = shutil.get_terminal_size().columns
    says = _("UTF-8, {columns} columns").format(columns=columns)
    if columns < 80:
        return Finding(what, "limited", _("{found}; 80 show everything").format(found=says))
    return Finding(what, "works", says)


def vocabularies() -> Finding:
    """The vocabularies of the demo."""
    what = _("vocabularies")
    try:
        from grader import vocabulary

        size = len(vocabulary.read_ranks(vocabulary.RANKS)) + 1
    except (ImportError, OSError, ValueError) as error:
        return Finding(what, "limited", _("the demo has none ({reason})").format(reason=error), _install())
    if vocabulary.gpt2_is_cached():
        return Finding(what, "works", _("GPT-2's, and the kit's own of {size} tokens").format(size=size))
    says = _("the kit's own of {size} tokens; GPT-2's can be downloaded for the demo").format(size=size)
    return Finding(what, "works", says, "python -m grader.demo --download")


def _installed(name: str) -> str | None:
    """The version of a package without its local label (+cpu), None when it is not installed."""
    try:
        return metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None


def _install() -> str:
    return f"{sys.executable} -m pip install -r requirements.lock"
