"""Files of a submission that a browser, an editor, a learning platform or their author named otherwise: finds the step
that each one answers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache

from grader.base.paths import STEP_NAME
from grader.course.answer_cells import defined

# Suffixes added to a name that is taken: step02_softmax-1, step03_attention (1), step04_causal_mask - Copy, … Prefixes
# are added by platforms: jdoe_LATE_123_456_step02_softmax-1.
ADDED = re.compile(r"(?:[ _-]|\(\d{1,3}\)|(?<=[ _-])\d{1,3}+|copy|final|new|old|v\d|복사본|사본|최종)*+", re.IGNORECASE)


def step_meant(stem: str, steps: Iterable[str]) -> str | None:
    """The one step whose name is part of a file's name; None where there is none, or more than one."""
    lowered = stem.lower()
    matches = [step for step in steps if (place := lowered.rfind(step)) >= 0 and _only_added(lowered, place, step)]
    return max(matches, key=len) if matches else None


def _only_added(name: str, place: int, step: str) -> bool:
    before = name[:place]
    return (not before or not before[-1].isalnum()) and ADDED.fullmatch(name, place + len(step)) is not None


def by_step(names: Iterable[str], steps: Iterable[str]) -> dict[str, list[str]]:
    """The renamed `.py` files among these names, by the step that each one answers, in order."""
    every = list(steps)
    files: dict[str, list[str]] = defaultdict(list)
    for name in names:
        stem, dot, ending = name.rpartition(".")
        if not dot or ending.lower() != "py" or (STEP_NAME.fullmatch(stem) and stem in every and ending == "py"):
            continue
        if step := step_meant(stem, every):
            files[step].append(name)
    return dict(files)


TEXT = re.compile(r"[^.]+|.+\.(txt|text|md|py|py3|pyw)|.+\.(py|ipynb)\.\w+", re.IGNORECASE)  # what may hold Python
FROM = re.compile(r"^[ \t]*+from[ \t]++([.\w]++)[ \t]++import[ \t]++(\(?)", re.MULTILINE)
IMPORT = re.compile(r"^[ \t]*+import[ \t]++([^\n#]+)|import_module\(\s*+[\"']([\w.]+)", re.MULTILINE)
WORD = re.compile(r"\w+")
PACKAGES = (".", "exercises")  # what stands for the submission itself


def stem_of(name: str) -> str:
    """What a file is called without an ending that text has; empty where it is of another kind."""
    return name.partition(".")[0] if TEXT.fullmatch(name) else ""


def own_stem(name: str) -> str:
    """What a Python file was called before a system added to its name: `helper` for `helper-1.py`."""
    stem = name.rpartition(".")[0]
    return next((stem[:end] for end in range(1, len(stem)) if ADDED.fullmatch(stem, end)), stem)


@lru_cache(512)
def imported(source: str) -> frozenset[str]:
    """The modules that a text imports, by the last part of their names; it need not be valid Python."""
    stems, end = set(), 0
    last = source.rfind(")")
    while statement := FROM.search(source, end):
        # Each text is looked at once: a parenthesis that is never closed would otherwise be looked for at each import.
        end = statement.end()
        close = ")" if statement[2] and end < last else "\n"
        stop = source.find(close, end)
        names = source[end : stop if stop >= 0 else None]
        end += len(names)
        stems |= set(WORD.findall(names)) if statement[1] in PACKAGES else {statement[1].rpartition(".")[2]}
    for modules in IMPORT.findall(source):
        stems |= {part.split()[0].rpartition(".")[2] for part in "".join(modules).split(",") if part.split()}
    return frozenset(stems)


def defined_by(texts: Mapping[str, str], asked: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    """The texts that define what exactly one of these steps asks for, by step.

    Of two steps that ask for a function of one name, the one is meant of which the larger share is there.
    """
    files: dict[str, list[str]] = defaultdict(list)
    names = frozenset().union(*asked.values())
    for name, text in texts.items():
        own = defined(text) if any(word in text for word in names) else frozenset()
        shares = {step: len(own & wanted) / len(wanted) for step, wanted in asked.items() if own & wanted}
        best = [step for step, share in shares.items() if share == max(shares.values())]
        if len(best) == 1 and (len(shares) == 1 or not own & names - asked[best[0]]):
            files[best[0]].append(name)
    return dict(files)
