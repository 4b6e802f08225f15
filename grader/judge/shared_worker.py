"""One worker for the steps of a submission: a judge hands it from one right step to the next.

A process per step costs as much as the calls of some. It is handed on only when nothing can be left of the step before:
its checks all passed, its file uses nothing that reaches beyond its own names, it printed nothing, the process looks as
it did at first, and has its time and memory. In all other cases the next step gets a new one.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import types
import unicodedata

from grader.base.limits import Limits
from grader.calls.call import Load
from grader.sandbox.process import Launcher, Worker

# Strings and comments, but for strings that hold code: what is left of a file are its names.
PROSE = re.compile(
    r"(?i:\b(?:[fbt]|rf|fr|br|rb|rt|tr)(?=[\"']))?"
    r"(\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')|#[^\n]*",
    re.DOTALL,
)
IMPORTS = re.compile(r"(?:^|[;:])[ \t]*+(?:from[ \t]++([\w.]++)[ \t]++)?import\b([^\n;]*+)", re.MULTILINE)
AFTER_A_DOT = re.compile(r"(?<=\.)\s++")
STEP = re.compile(r"(?:exercises\.)?(step\d{2}_\w+)$")
# What an exercise needs of Python and torch: none of them does anything by being imported.
ORDINARY = {
    "__future__", "abc", "collections", "collections.abc", "copy", "dataclasses", "enum", "exercises", "functools",
    "itertools", "math", "numbers", "numpy", "operator", "torch", "torch.nn", "torch.nn.functional", "torch.nn.init",
    "typing", "typing_extensions",
}  # fmt: skip
PARTS = {"torch.autograd", "torch.autograd.function", "torch.fft", "torch.linalg", "torch.optim", "torch.special"}
ALSO_OTHERS = {"cpu", "functional", "grad", "linalg", "parameter", "sparse"}  # names of modules, but of others as well
OF_ITSELF = {"attention"}  # names of modules, but with `self` those of a learner's own part
# Names by which code reaches beyond itself: the interpreter, files, and torch's switches.
FAR_REACHING = re.compile(
    r"(?<![.\w])((?:set|get)attr(?!\(self,)|delattr|exec|eval|compile|globals|locals|vars|open|input|breakpoint|exit|quit"
    r"|help|print)\b"
    r"|\b__(?!(init|call|len|getitem|iter|next|repr|name|all|future|post_init|annotations)__\b)"
    r"|\.(save|load|from_file|share_memory_?|fromfile|tofile|memmap|loadtxt|savetxt|ctypeslib|seterr|seterrcall"
    r"|seed|setflags|setbufsize|onnx|attrgetter|methodcaller|make_dataclass|get_type_hints|ForwardRef)\b"
    r"|\.(use|enable|disable)_|\bset_|manual_seed|\bregister_(?!buffer\b|parameter\b)|\b(torch|nn|F)\._"
)


@functools.cache
def _other_modules() -> re.Pattern[str]:
    """Matches the names by which ordinary modules hold others, which do more than an exercise needs: `torch.sys`."""
    names = {
        name
        for module in map(sys.modules.get, ORDINARY | PARTS)
        for name, value in (vars(module).items() if module else ())
        if isinstance(value, types.ModuleType) and value.__name__ not in ORDINARY | PARTS
    }
    others = "|".join(map(re.escape, sorted(names - ALSO_OTHERS - OF_ITSELF)))
    return re.compile(rf"\.({others})\b|(?<!\bself)\.({'|'.join(OF_ITSELF)})\b")


def is_ordinary(source: str) -> tuple[bool, set[str]]:
    """Whether a source, read as text, has no effect beyond its own names (in doubt it has), and the modules that it
    imports."""
    text = PROSE.sub(lambda found: found[0] if found[0][0] in "fFrRtT" else "", unicodedata.normalize("NFKC", source))
    text = text.replace("\\\n", " ")
    modules, names = set[str](), [AFTER_A_DOT.sub("", text)]
    for module, imported in IMPORTS.findall(text):
        if ("(" in imported or "*" in imported) and not STEP.match(module):
            return False, modules  # its names may be on lines that follow, or on none
        parts = [part.split()[0] for part in imported.split(",") if part.strip()]
        modules.update([module] if module else parts)
        names += [f".{part}" for part in parts] if module else []
    imports_are_ordinary = all(module in ORDINARY or STEP.match(module) for module in modules)
    reaches = [pattern.search(name) for pattern in (FAR_REACHING, _other_modules()) for name in names]
    return imports_are_ordinary and not any(reaches), modules


class SharedWorker:
    """The worker that waits for the next step of one submission, if any."""

    def __init__(self) -> None:
        self._run = 0
        self._ordinary: dict[str, tuple[bool, set[str]]] = {}
        self._waiting: tuple[tuple[object, ...], Worker] | None = None

    def belongs_to(self, run: int) -> None:
        """Sets the number of the submission's run that comes next (0: none), and ends a worker that waits for another
        one."""
        if run != self._run or not run:
            self.end()
            self._ordinary.clear()
        self._run = run

    def take(self, launcher: Launcher, load: Load, limits: Limits) -> Worker | None:
        """The waiting worker, renewed, if it can grade this step as a new one would; it no longer waits. None if no
        worker waits, or if it can't: then it is ended."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return None
        key, worker = waiting
        with contextlib.suppress(OSError):
            if key == self._key(launcher, load, limits) and worker.renewed():
                launcher.note_again(worker.process)
                return worker
        worker.close()
        return None

    def keep(self, worker: Worker, launcher: Launcher, load: Load, limits: Limits) -> bool:
        """Keeps the worker of a step that passed for the next step, if nothing of this one can be left in it. Returns
        True if so, and the caller must not use or end it then."""
        if not self._run or load.public or limits.accelerator or worker.process.printed():
            return False
        if not self._leaves_nothing(load) or not worker.can_go_on(limits):
            return False
        try:
            worker.process.rest()
        except OSError:
            return False
        self.end()
        self._waiting = self._key(launcher, load, limits), worker
        return True

    def end(self) -> None:
        """Ends the waiting worker."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting[1].close()

    def _leaves_nothing(self, load: Load) -> bool:
        """Whether the step's file and all that it imports of the submission are ordinary."""
        seen, waiting = set[str](), [load.module]
        while waiting:
            name = waiting.pop()
            if name in seen or name not in load.sources:
                continue
            seen.add(name)
            if name not in self._ordinary:
                self._ordinary[name] = is_ordinary(load.sources[name][1])
            ordinary, modules = self._ordinary[name]
            if not ordinary:
                return False
            waiting += [module.rpartition(".")[2] for module in modules]
        return True

    def _key(self, launcher: Launcher, load: Load, limits: Limits) -> tuple[object, ...]:
        """The values that must be the same for two steps to share a worker."""
        return self._run, launcher, load.sources, limits, load.public
