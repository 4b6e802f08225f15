"""Pairs of submissions that are more alike than chance: passages of syntax trees, winnowed.

After Schleimer, Wilkerson and Aiken, "Winnowing" (SIGMOD 2003). What a new name, a comment, a type hint or an order of
functions changes is taken out first; so is the released stub, and what much of the class wrote in the same way.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

from grader.base import syntax
from grader.base.limited import OverBudget
from grader.base.paths import SOLUTIONS

LONGEST = 256 << 10  # characters: a file of ordinary code of this length is parsed in a second
GRAM = 12  # nodes of the syntax tree in one passage: an expression such as `q @ k.mT / q.shape[-1] ** 0.5`
WINDOW = 5  # of so many passages in a row one is kept
COMMON = 0.15  # what more than this share of the class wrote says nothing, nor what three did in a small class
FEW = 3
ENOUGH = 10  # passages: a share of fewer is drawn towards 0
HONEST = 0.5  # the share below which pairs stay that wrote by themselves (tests/feedback/test_term_pages.py)
EACH = 8  # students who share a passage up to which each is compared with each; beyond it, with the next one
CANDIDATES = 20  # pairs for each student that are looked at closely: those with the most in common
UNUSUAL = 0.85  # what is left of the doubt after each wrong answer that only the two gave

Sources = Mapping[str, Mapping[str, str]]  # by student, then by step
Wrong = Mapping[str, frozenset[str]]  # by student: the wrong answers, each as a text that equal answers share


@dataclass(frozen=True)
class Passage:
    """A run of nodes by its digest, and the lines that it covers, from 1, both included."""

    mark: int
    first: int
    last: int


@dataclass
class SimilarPair:
    """Two submissions: the share of the smaller one that both have, by step too, and what else they share.

    `known`: the second is no student of the class but a known source. `lines` are those alike, by step, in each.
    """

    first: str
    second: str
    is_known: bool
    share: float
    steps: dict[str, float]
    answers: list[str] = field(default_factory=list)
    lines: dict[str, tuple[frozenset[int], frozenset[int]]] = field(default_factory=dict)

    @property
    def likeness(self) -> float:
        """The share, with each unusual wrong answer that the two have in common taking some of the doubt away."""
        return 1 - (1 - self.share) * UNUSUAL ** len(self.answers)


def pairs(
    students: Sources,
    stubs: Mapping[str, str],
    known_sources: Sources | None = None,
    wrong: Wrong | None = None,
    on_student: Callable[[], None] = lambda: None,
) -> list[SimilarPair]:
    """The pairs that share anything unusual, the most alike first. Known sources are not compared with each other.
    `stubs` are the released texts by step, `wrong` the wrong answers that no known mistake gives.

    Passages are in an index with the students who have them: the cost grows with the class, not with its square. A
    group that copied is found as a chain of pairs. `on_student` is called after each that was read.
    """
    known_sources, wrong = known_sources or {}, wrong or {}
    released = {step: {passage.mark for passage in passages(source)} for step, source in stubs.items()}
    own = _without_released(_passages_of_each(students, on_student), released)
    others = _without_released(_passages_of_each(known_sources, on_student), released)
    most = max(FEW, COMMON * len(students))
    owners: dict[tuple[str, int], set[str]] = defaultdict(set)
    for student, steps in own.items():
        for step, everything in steps.items():
            for passage in everything:
                owners[step, passage.mark].add(student)
    weights = {key: _weight(len(names), len(students)) for key, names in owners.items() if len(names) <= most}
    shared = Counter[tuple[str, str]]()
    for key in weights:
        names = sorted(owners[key])
        shared.update(itertools.combinations(names, 2) if len(names) <= EACH else itertools.pairwise(names))
    for name, steps in others.items():
        marks = {(step, passage.mark) for step, everything in steps.items() for passage in everything}
        shared.update((student, name) for key in marks & weights.keys() for student in owners[key])
    unusual = _unusual(wrong, len(students))
    everyone = own | others
    most_alike = shared.most_common(CANDIDATES * (len(students) + len(others)))
    candidates = {*(pair for pair, _count in most_alike), *unusual}
    alike = [_pair(one, other, everyone, weights, other in others, unusual) for one, other in candidates]
    return sorted(alike, key=lambda pair: (-pair.likeness, pair.first, pair.second))


def _pair(
    one: str, other: str, by_student: Mapping[str, Mapping[str, Sequence[Passage]]],
    weights: Mapping[tuple[str, int], float], is_known: bool, unusual: Mapping[tuple[str, str], list[str]],
) -> SimilarPair:  # fmt: skip
    """Two submissions with the share of their passages in common, by step and over all. `weights` and `unusual` are of
    `_weight` and `_unusual`; `is_known`: the other is a known source."""
    steps, lines = {}, {}
    total, both = [0.0, 0.0], 0.0
    for step in sorted({*by_student[one], *by_student[other]}):
        sides = [by_student[name].get(step, ()) for name in (one, other)]
        marks = [{passage.mark for passage in side} for side in sides]
        worth = [sum(weights.get((step, mark), float(is_known)) for mark in side) for side in marks]
        alike = {mark for mark in marks[0] & marks[1] if (step, mark) in weights}
        weight = sum(weights[step, mark] for mark in alike)
        total, both = [total[0] + worth[0], total[1] + worth[1]], both + weight
        if alike:
            steps[step] = _share(weight, min(worth))
            lines[step] = (_lines(sides[0], alike), _lines(sides[1], alike))
    # A known source may be a whole course: what counts is how much of the student's own is in it.
    smaller = total[0] if is_known else min(total)
    return SimilarPair(one, other, is_known, _share(both, smaller), steps, unusual.get((one, other), []), lines)


def _share(both: float, smaller: float) -> float:
    """The weight in common as a share, from 0 to 1, of that of the smaller one; less if there is little to compare."""
    return both / max(smaller, ENOUGH) if both else 0.0


def _weight(owners: int, students: int) -> float:
    """The weight of a passage that so many of the students have: 1 for one or two, less for more, 0 for all."""
    if owners <= 2 or students <= 2:
        return 1.0
    return math.log(students / owners) / math.log(students / 2)


def _unusual(wrong: Wrong, students: int) -> dict[tuple[str, str], list[str]]:
    """The wrong answers that just two of so many students gave, by the pair of their names, sorted; empty for a class
    of two."""
    givers: dict[str, list[str]] = defaultdict(list)
    for student, answers in wrong.items():
        for answer in answers:
            givers[answer].append(student)
    shared: dict[tuple[str, str], list[str]] = defaultdict(list)
    for answer, names in sorted(givers.items()):
        if len(names) == 2 and students > 2:
            shared[min(names), max(names)].append(answer)
    return shared


def _lines(passages: Iterable[Passage], alike: set[int]) -> frozenset[int]:
    """The numbers of the lines, from 1, of those passages with digests that are `alike`."""
    return frozenset(
        line for passage in passages if passage.mark in alike for line in range(passage.first, passage.last + 1)
    )


# --- passages --------------------------------------------------------------------------------------------------------


def not_comparable(steps: Mapping[str, str]) -> list[str]:
    """The steps of one person that can't be compared: no Python, too long, or more than one person's time to parse."""
    with syntax.budget():
        return [step for step, source in steps.items() if _read(source) is None]


def passages(source: str) -> Sequence[Passage]:
    """The passages of a file that are compared, as `_winnowed` chooses them; none if it can't be compared."""
    read = _read(source)
    return read[0] if read else []


@lru_cache(8192)  # pairs and equal files ask for the same
def _read(source: str) -> tuple[Sequence[Passage], tuple[int, ...]] | None:
    """The passages of a file that are compared, and the digests of its statements, sorted; None if it is no Python, too
    long, or beyond the time to parse one person's files."""
    try:
        tree = syntax.tree_of(source, LONGEST)
    except OverBudget:
        return None
    if tree is None:
        return None
    every = [passage for part in tree.body for passage in _winnowed(list(_tokens(part)))]
    statements = sorted(_mark(_tokens(part)) for part in tree.body)
    return list({passage.mark: passage for passage in reversed(every)}.values()), tuple(statements)


def _passages_of_each(sources: Sources, on_student: Callable[[], None]) -> dict[str, dict[str, Sequence[Passage]]]:
    """The passages of each student's steps; `on_student` is called after each student."""
    counts = {}
    for name, steps in sorted(sources.items()):
        with syntax.budget():
            counts[name] = {step: passages(source) for step, source in sorted(steps.items())}
        on_student()
    return counts


def _without_released(
    by_student: Mapping[str, Mapping[str, Sequence[Passage]]], released: Mapping[str, set[int]]
) -> dict[str, dict[str, list[Passage]]]:
    """The passages of each student and step without those in the stubs; `released` has the digests of these by step."""
    return {
        name: {
            step: [passage for passage in own if passage.mark not in released.get(step, ())]
            for step, own in steps.items()
        }
        for name, steps in by_student.items()
    }


def _winnowed(tokens: Sequence[tuple[str, int]]) -> Iterator[Passage]:
    """From every WINDOW neighbouring runs of GRAM nodes, the one with the smallest digest: what two files share in GRAM
    + WINDOW - 1 nodes is never missed. `tokens`: each node and its line."""
    grams = [tokens[position : position + GRAM] for position in range(len(tokens) - GRAM + 1)]
    marks = [_mark(gram) for gram in grams]
    positions = set()
    for start in range(max(1, len(marks) - WINDOW + 1) if marks else 0):
        window = range(start, min(start + WINDOW, len(marks)))
        positions.add(min(window, key=lambda position: (marks[position], -position)))
    for position in sorted(positions):
        lines = [line for _token, line in grams[position]]
        yield Passage(marks[position], min(lines), max(lines))


def _mark(gram: Iterable[tuple[str, int]]) -> int:
    """The digest of a run of nodes, 64 bits."""
    text = " ".join(token for token, _line in gram)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _tokens(part: ast.stmt) -> Iterator[tuple[str, int]]:
    """The nodes of a statement as tokens from the outside in, each with its line; without imports, docstrings, type
    hints."""
    waiting: list[tuple[ast.AST, int]] = [(part, part.lineno)]
    while waiting:
        node, line = waiting.pop()
        line = getattr(node, "lineno", line)
        if isinstance(node, ast.Import | ast.ImportFrom | ast.expr_context) or _is_text(node):
            continue
        yield _token(node), line
        waiting += [(child, line) for child in reversed(list(_children(node)))]


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The child nodes without annotations, which change nothing in what code does."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_comment", "type_params"):
            continue
        yield from (child for child in (value if isinstance(value, list) else [value]) if isinstance(child, ast.AST))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _token(node: ast.AST) -> str:
    """A node as a token: its kind, and a library's names (methods, keyword arguments), none of the student's."""
    match node:
        case ast.Attribute(value=ast.Name(id="self")):
            return "Attribute"
        case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
            return f"{type(node).__name__}:{name}"
        case ast.Constant(value=value):
            return f"Constant:{value!r}" if isinstance(value, int | float | bool | None) else "Constant"
        case ast.AnnAssign():
            return "Assign"
    return type(node).__name__


# --- the kit's own files ---------------------------------------------------------------------------------------------


def kits_own() -> dict[str, str]:
    """The texts of the kit's files with ordinary attention code that are not solutions (its labs), by path."""
    files = sorted(SOLUTIONS.glob("*/lab_*/*.py"))
    return {file.relative_to(SOLUTIONS.parent).as_posix(): file.read_text(encoding="utf-8") for file in files}


@cache
def _kits_marks() -> frozenset[int]:
    """The digests of the passages in the kit's own files."""
    return frozenset(passage.mark for text in kits_own().values() for passage in passages(text))


def taken_from_the_kit(source: str, stub: str) -> float:
    """The share (0 to 1) of the code added to a stub that is also, word for word, in the kit's own files."""
    released = {passage.mark for passage in passages(stub)}
    own = {passage.mark for passage in passages(source)} - released
    return len(own & _kits_marks()) / max(len(own), ENOUGH)


# --- the same file ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SameFile:
    """Students with the same answer to a step but for names, comments and hints."""

    step: str
    students: list[str]


def same_files(students: Sources, stubs: Mapping[str, str]) -> list[SameFile]:
    """The groups of students who wrote a step in the same way, of more students than `pairs` looks at: it takes what
    these wrote for common knowledge.

    Answers so short that they can hardly be written otherwise are left out.
    """
    holders: dict[tuple[str, int], list[str]] = defaultdict(list)
    for student, steps in sorted(students.items()):
        for step, source in steps.items():
            read = _read(source)
            released = {passage.mark for passage in passages(stubs.get(step, ""))}
            if read and sum(passage.mark not in released for passage in read[0]) >= ENOUGH:
                holders[step, hash(read[1])].append(student)
    most = max(FEW, COMMON * len(students))
    return [SameFile(step, names) for (step, _key), names in sorted(holders.items()) if len(names) > most]
