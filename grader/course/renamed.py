"""Finds answers that are not where they belong: in files that a browser, an editor, a learning platform or their author
named otherwise, in several cells of a notebook, or in an export of one as a `.py` file."""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from grader.base.paths import STEP_NAME
from grader.base.syntax import UNPARSABLE
from grader.course import answer_cells
from grader.course.answer_cells import defined

BUILT_IN = frozenset(vars(builtins))

# Suffixes added to a name that is taken: step02_softmax-1, step03_attention (1), step04_causal_mask - Copy, … Prefixes
# are added by platforms: jdoe_LATE_123_456_step02_softmax-1.
ADDED = re.compile(r"(?:[ _-]|\(\d{1,3}\)|(?<=[ _-])\d{1,3}+|copy|final|new|old|v\d|복사본|사본|최종)*+", re.IGNORECASE)


def step_meant(stem: str, steps: Iterable[str]) -> str | None:
    """The step with the longest name among those in a file's name `stem`, if the rest is what systems add; None without
    one."""
    lowered = stem.lower()
    matches = [step for step in steps if (start := lowered.rfind(step)) >= 0 and _only_added(lowered, start, step)]
    return max(matches, key=len) if matches else None


def _only_added(name: str, index: int, step: str) -> bool:
    """Whether a file's name has, around a step's name at this index, only what systems add."""
    before = name[:index]
    return (not before or not before[-1].isalnum()) and ADDED.fullmatch(name, index + len(step)) is not None


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
PACKAGES = (".", "exercises")  # the name for the submission itself


def stem_of(name: str) -> str:
    """A file's name without an ending that texts have; empty if it is of another kind."""
    return name.partition(".")[0] if TEXT.fullmatch(name) else ""


def own_stem(name: str) -> str:
    """The name of a Python file before a system added to it: `helper` for `helper-1.py`."""
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


def defined_by(texts: Mapping[str, str], names_of: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    """The names of the texts that define what exactly one step asks for, by step; `texts` by name, and what each step
    asks for.

    Of two steps that ask for a function of one name, the one is meant of which the larger share is there.
    """
    files: dict[str, list[str]] = defaultdict(list)
    names = frozenset().union(*names_of.values())
    for name, text in texts.items():
        own = defined(text) if any(word in text for word in names) else frozenset()
        shares = {step: len(own & wanted) / len(wanted) for step, wanted in names_of.items() if own & wanted}
        best = [step for step, share in shares.items() if share == max(shares.values())]
        if len(best) == 1 and (len(shares) == 1 or not own & names - names_of[best[0]]):
            files[best[0]].append(name)
    return dict(files)


# What starts a cell in an export of a notebook: nbconvert's and jupytext's lines, and the line that names a step.
CELL = re.compile(rf"^#(?: In\[[ \d]*\]:| ?%%.*| ?(?P<step>{STEP_NAME.pattern})\b.*)$", re.MULTILINE)


def exported(source: str, steps: Iterable[str]) -> tuple[dict[str, list[str]], dict[int, str]]:
    """The answers in an export of a notebook, by step, and the other cells by the number of their first line; each
    below as many empty lines as are above it in the file, so that lines keep their numbers."""
    every, found = set(steps), list(CELL.finditer(source))
    answers: dict[str, list[str]] = defaultdict(list)
    others: dict[int, str] = {}
    ends = [*(match.start() for match in found[1:]), len(source)]
    for match, end in zip(found, ends, strict=True):
        line = source.count("\n", 0, match.start())
        text = "\n" * line + source[match.start() : end]
        if match["step"] in every:
            answers[match["step"]].append(text)
        elif text.strip():
            others[line + 1] = text
    if found and source[: found[0].start()].strip():
        others[1] = source[: found[0].start()]
    return {step: texts for step, texts in answers.items() if any(map(defined, texts))}, others


class Ambiguous(Exception):
    """Several cells define a name that a step asks for, and its answer cell does not: the name."""


def completed(step: str, answer: str, cells: Mapping[int, str], elsewhere: Collection[str]) -> tuple[str, list[int]]:
    """An answer cell with those cells of its notebook that define what it lacks, and their numbers: what the step asks
    for, and what the answer reads but does not define, if exactly one cell has it. `cells`: the other cells by number;
    `elsewhere`: names that other answer cells define. Raises Ambiguous.
    """
    public, taken = answer_cells.public_names(step), list[int]()
    source = answer
    try:
        for _cell in range(len(cells)):
            bound, used = answer_cells.names_in(source)
            missing = sorted((public - bound) | (used - bound - BUILT_IN - set(elsewhere)))
            number = next((each for name in missing if (each := _cell_defining(name, public, cells))), 0)
            if not number or number in taken:
                break
            taken.append(number)
            cell = answer_cells.without_commands(cells[number])
            more = answer_cells.names_in(cell)[0]
            if more & bound & public:  # it has another answer to what the answer cell answers
                break
            first = _read_at_once(source) & more
            source = f"{cell}\n\n\n{source}" if first else f"{source}\n\n\n{cell}"
    except UNPARSABLE:
        return answer, []
    return source, sorted(taken)


def _cell_defining(name: str, public: Collection[str], cells: Mapping[int, str]) -> int:
    """The number of the one cell that defines or imports a name; 0 if none does, or several in different ways. Raises
    Ambiguous in that case if it is one of the names `public` that the step asks for."""
    having = {number: text for number, text in cells.items() if name in text and name in _defined_or_imported(text)}
    if name in public and len(set(having.values())) > 1:
        raise Ambiguous(name)
    return min(having, default=0) if len(set(having.values())) == 1 else 0


def _defined_or_imported(text: str) -> set[str]:
    """The names that a text binds; none if it does not parse."""
    try:
        return answer_cells.names_in(answer_cells.without_commands(text))[0]
    except UNPARSABLE:
        return set()


def _read_at_once(source: str) -> set[str]:
    """The names that a text reads while it is run, and not when its functions are called."""
    names, waiting = set[str](), list[ast.AST]([answer_cells.tree_of(source)])
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [*node.decorator_list, node.args]
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return names
