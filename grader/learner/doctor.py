"""Examines this machine: what works, what does not, and the command that fixes it."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shlex
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

from grader.base import language, paths
from grader.base.language import gettext as _
from grader.base.limits import Limits
from grader.base.paths import typed
from grader.base.results import Report
from grader.course import choice, submissions
from grader.judge import grader as grading
from grader.judge.launcher import GraderError
from grader.report import layers

State = Literal["works", "limited", "broken"]
MARKS: dict[State, tuple[str, str]] = {"works": ("✓", "green"), "limited": ("!", "yellow"), "broken": ("✗", "red")}

OLDEST = (3, 11)
ENOUGH_DISK = 200 << 20  # bytes: enough for the folders of a few workers
TORCH_SECONDS = 120.0
ISOLATION = ("process", "limits", "namespaces", "landlock", "seccomp")
ASK_TORCH = """
import json, time
start = time.perf_counter()
import torch
seconds = time.perf_counter() - start
name = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else ""
label = getattr(torch.get_device_module(name), "get_device_name", str) if name else str
print(json.dumps({"version": torch.__version__, "seconds": seconds, "accelerator": name, "label": label(),
                  "built_for_cuda": torch.version.cuda or ""}))
"""
# In a file, since Triton reads a kernel's source.
ASK_TRITON = """
import torch, triton, triton.language as tl

@triton.jit
def double(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for _time in range(0, tl.num_programs(0)):
        tl.store(x + at, 2 * tl.load(x + at))

x = torch.ones(16)
double[(1,)](x, 16)
print(triton.__version__ if x.sum() == 32 else "")
"""


@dataclass(frozen=True)
class Finding:
    """One finding: with `limited`, `make grade` still works, with `broken` it does not; `fix` is a command."""

    what: str
    state: State
    says: str
    fix: str = ""


# Files that name students, and the kit's own files with such names.
OF_A_CLASS = re.compile(
    r"(^|/)(assignments\.toml|(overrides|handed_in|remarks)\.csv|gradebook\.db|timestamp\.txt|submission_metadata\.yml"
    r"|step\d\d_\w+(-\d+)?\.py|[^/]+\.ipynb)$|_assignsubmission_"
)
OUR_FOLDERS = ("examples", "exercises", "solutions", "steps", "tests", "tools", "docs", "grader", "dist")


class TorchFacts(msgspec.Struct):
    """Facts that torch reports about itself."""

    version: str
    seconds: float
    accelerator: str
    label: str
    built_for_cuda: str


def examine(folder: Path, looking_at: Callable[[str], None] = lambda what: None) -> Iterator[Finding]:
    """The findings on everything that grading needs; torch is imported, and code graded, in separate processes.
    `folder` has the learner's files; `looking_at` is called with the name of what is examined next."""
    yield python()
    looking_at(_("packages"))
    yield packages(paths.ROOT / "requirements/base.lock")
    yield exercises(folder)
    yield temporary_folder()
    looking_at("torch")
    facts = ask_torch()
    if isinstance(facts, str):
        yield Finding("torch", "broken", facts, _install())
    else:
        says = _("{version}, imported in {seconds} s", version=facts.version, seconds=f"{facts.seconds:.1f}")
        yield Finding("torch", "works", says)
        yield devices(facts)
        looking_at("triton")
        yield kernels()
        looking_at(_("grading"))
        yield from trial_run()
    yield spoken()
    yield screen()
    if paths.SOLUTIONS.name == "solutions":  # a teacher's copy: in a learner's, it is the learner's own work
        yield from published(paths.ROOT)


def published(root: Path) -> Iterator[Finding]:
    """A finding on the files of a class in the clone `root` that one `git add -A` would publish: names, marks, what
    students handed in; nothing if there are none, or no clone."""
    listing = ["git", "-C", str(root), "-c", "core.quotePath=off", "ls-files", "-co", "--exclude-standard", "-z"]
    try:
        there = subprocess.run(listing, capture_output=True, timeout=20, check=True).stdout.decode(errors="replace")
    except (OSError, subprocess.SubprocessError):
        return  # no git, or no clone
    names = [name for name in there.split("\0") if OF_A_CLASS.search(name) and name.split("/")[0] not in OUR_FOLDERS]
    if names:
        first = names[0].split("/")[0]
        files = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
        says = _("git would publish names, marks or what students handed in: {files}", files=files)
        place = shlex.quote(first)
        fix = f"echo {shlex.quote('/' + first)} >> .gitignore && git rm -r -q --cached --ignore-unmatch {place}"
        yield Finding(_("privacy"), "limited", says, fix)


def works(findings: list[Finding]) -> bool:
    """True if no finding is `broken`: then `make grade` works."""
    return all(finding.state != "broken" for finding in findings)


def table(findings: list[Finding]) -> RenderableType:
    """The findings as a table, with a conclusion."""
    words = {"works": _("works"), "limited": _("limited"), "broken": _("does not work")}
    rows = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    rows.add_column(_("what"), no_wrap=True)
    rows.add_column(_("state"), no_wrap=True)
    rows.add_column(_("what was found, and how to fix it"), overflow="fold")
    for finding in findings:
        mark, style = MARKS[finding.state]
        says = Text(finding.says)
        if finding.fix:
            says.append("\n" + _("Type: {command}", command=finding.fix), "bold")
        rows.add_row(finding.what, Text(f"{mark} {words[finding.state]}", style), says)
    if works(findings):
        closing = Text(_("Everything that grading needs works. Type: make grade"), "bold green")
    else:
        closing = Text(_("Grading does not work here yet. Fix what does not work, then type: make doctor"), "bold red")
    return Group(rows, Text(), closing)


# --- findings -----------------------------------------------------------------------------------------------


def python() -> Finding:
    """The finding on the version of Python."""
    says = f"{platform.python_version()}, {platform.system()} {platform.machine()}"
    if sys.version_info < OLDEST:
        newest = _("{found}; 3.11 or newer is needed", found=says)
        return Finding("Python", "broken", newest, "rm -r .venv && make grade PYTHON=python3.12")
    return Finding("Python", "works", says)


def packages(lock: Path) -> Finding:
    """The finding on the installed packages, compared with the pins in the file `lock`."""
    what = _("packages")
    try:
        lines = lock.read_text(encoding="utf-8").splitlines()
    except OSError:
        return Finding(what, "limited", _("requirements/base.lock is missing: there is nothing to compare with"))
    pins = [line.split("==") for line in lines if "==" in line and not line.startswith("#")]
    installed = {name: _installed(name) for name, _version in pins}
    missing = [name for name, version in installed.items() if version is None]
    if missing:
        return Finding(what, "broken", _("not installed: {names}", names=", ".join(missing)), _install())
    others = [f"{name} {installed[name]}" for name, version in pins if installed[name] != version.strip()]
    if others:
        says = _("versions other than the ones the kit was tested with: {names}", names=", ".join(others))
        return Finding(what, "limited", says, _install())
    return Finding(what, "works", _("{count} packages, as pinned", count=len(pins)))


def exercises(folder: Path) -> Finding:
    """The finding on the learner's files: whether there are stubs or work to grade."""
    what = _("exercises")
    if not folder.is_dir():
        return Finding(what, "broken", _("there is no folder {folder}", folder=folder), "make exercises")
    names = choice.step_names(None, choice.CORE)
    missing = [name for name in names if not (folder / f"{name}.py").is_file()]
    if missing:
        return Finding(what, "limited", _("missing: {names}", names=", ".join(missing)), "make exercises")
    if not os.access(folder, os.W_OK):
        says = _("{folder} is not writable: hints are not remembered, and no step can be reset", folder=folder)
        return Finding(what, "limited", says, f"chmod u+w {typed(folder)}")
    return Finding(what, "works", _("{count} steps in {folder}", count=len(names), folder=folder))


def temporary_folder() -> Finding:
    """The finding on the temporary folder, in which each worker gets one."""
    what = _("temporary folder")
    try:
        place = tempfile.gettempdir()
        with tempfile.TemporaryDirectory(prefix="kit-"):
            free = shutil.disk_usage(place).free
    except OSError as error:
        says = _("none is writable ({reason})", reason=error.strerror or error)
        return Finding(what, "broken", says, "mkdir -p ~/tmp && TMPDIR=~/tmp make grade")
    says = _("{folder}, {free} MiB free", folder=place, free=free >> 20)
    if free < ENOUGH_DISK:
        return Finding(what, "limited", says, "mkdir -p ~/tmp && TMPDIR=~/tmp make grade")
    return Finding(what, "works", says)


def ask_torch() -> TorchFacts | str:
    """Facts that torch reports about itself, asked in another process; a phrase with the reason if it can't be
    imported."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", ASK_TORCH], capture_output=True, text=True, timeout=TORCH_SECONDS, cwd="/"
        )
        return msgspec.json.decode(done.stdout.strip().splitlines()[-1], type=TorchFacts)
    except subprocess.TimeoutExpired:
        return _("importing it takes more than {seconds} s", seconds=f"{TORCH_SECONDS:.0f}")
    except (OSError, msgspec.DecodeError) as error:
        return str(error)
    except IndexError:
        ended = _("importing it ends its process (status {status})", status=done.returncode)
        return (done.stderr.strip().splitlines() or [ended])[-1]


def devices(facts: TorchFacts) -> Finding:
    """The finding on the devices on which checks can run."""
    what = _("devices")
    named = f"{facts.accelerator} ({facts.label})" if facts.label else facts.accelerator
    says = ", ".join(filter(None, ("cpu", named)))
    if not facts.accelerator and not facts.built_for_cuda and os.path.exists("/dev/nvidia0"):
        says = _("{found}; there is an NVIDIA device, but this torch is built without CUDA", found=says)
        return Finding(what, "limited", says, f"{sys.executable} -m pip install --force-reinstall torch")
    if not facts.accelerator:
        says = _("{found}; no accelerator, which is enough for every point", found=says)
    return Finding(what, "works", says)


def kernels() -> Finding:
    """The finding on Triton, which one step needs: its interpreter runs a kernel of two lines."""
    if importlib.util.find_spec("triton") is None:
        return Finding("triton", "works", _("not installed, and only step 29 needs it; on Linux make triton adds it"))
    env = os.environ | {"TRITON_INTERPRET": "1"}
    with tempfile.TemporaryDirectory(prefix="kit-") as folder:
        file = Path(folder) / "ask.py"
        file.write_text(ASK_TRITON, encoding="utf-8")
        try:
            command = [sys.executable, "-I", str(file)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=TORCH_SECONDS, cwd=folder, env=env)
        except (OSError, subprocess.TimeoutExpired) as error:
            return Finding("triton", "limited", _("its interpreter fails ({reason})", reason=error))
    version = done.stdout.strip()
    if done.returncode or not version:
        reason = (done.stderr.strip().splitlines() or ["?"])[-1]
        says = _("its interpreter fails ({reason})", reason=reason)
        return Finding("triton", "limited", says, f"{sys.executable} -m pip install -r requirements/triton.lock")
    return Finding("triton", "works", _("{version}, its interpreter runs kernels", version=version))


def trial_run() -> Iterator[Finding]:
    """The findings on grading and on isolation, from grading an empty file; only the first if grading fails."""
    name = choice.step_names()[0]
    nothing = submissions.Submission("doctor", {name: (f"doctor/{name}.py", "nothing = None\n")})
    try:
        with grading.Grader(1, Limits(call_seconds=20.0)) as grader:
            report = grader.grade(nothing, [name], device="cpu")
    except (GraderError, OSError) as error:
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
        yield Finding(_("grading"), "works", _("each worker is a separate program: slower, same results"))
    yield isolation(report)


def isolation(report: Report) -> Finding:
    """The finding on the isolation layers that were in force in a report."""
    says = ", ".join(report.isolation)
    missing = [layer for layer in ISOLATION if layer not in report.isolation]
    if not missing:
        return Finding(_("isolation"), "works", says)
    says = _(
        "{layers}; without {missing}. Enough for your own code; grade the work of others on Linux 6.7 or newer."
    ).format(layers=says, missing=", ".join(missing))
    return Finding(_("isolation"), "limited", " ".join([says, *layers.missing(report.isolation)]))


def spoken() -> Finding:
    """The finding on the language of the kit's messages."""
    what = _("language")
    try:
        chosen = language.choose()
    except language.UnknownLanguage as unknown:
        return Finding(what, "broken", _("KIT_LANG={name}: en or ko", name=unknown), "export KIT_LANG=en")
    names = {"en": "English", "ko": "한국어"}
    other = next(code for code in names if code != chosen)
    says = _("{language}; for {other} set KIT_LANG={code}", language=names[chosen], other=names[other], code=other)
    return Finding(what, "works", says)


def screen() -> Finding:
    """The finding on the terminal: its colours, width and encoding."""
    what = _("terminal")
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    if encoding != "utf8":
        says = _("its encoding is {encoding}: marks and Korean can't be shown", encoding=encoding or "?")
        return Finding(what, "limited", says, "export PYTHONUTF8=1")
    columns = shutil.get_terminal_size().columns
    says = _("UTF-8, {columns} columns", columns=columns)
    if columns < 80:
        return Finding(what, "limited", _("{found}; 80 show everything", found=says))
    return Finding(what, "works", says)


def _installed(name: str) -> str | None:
    """The version of a package without its local label (+cpu), None when it is not installed."""
    try:
        return metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None


def _install() -> str:
    """The command that installs the pinned packages."""
    return f"{sys.executable} -m pip install -r requirements/base.lock"
