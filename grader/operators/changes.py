"""Changes that operators make to the text of a reference.

An operator looks at one expression or statement and says how a learner writes it wrongly. Its result is the text of the
definition with this one change, the family of the mistake, and the words of the family's sentence.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from grader.base import mistakes
from grader.operators import calls, expressions, statements
from grader.operators.definitions import Definition, Found, functions

OPERATORS: tuple[tuple[type | tuple[type, ...], Callable[..., Iterator[Found]]], ...] = (
    (ast.Slice, expressions.slices),
    (ast.Call, calls.calls),
    (ast.BinOp, expressions.arithmetic),
    (ast.BinOp, expressions.joined_masks),
    (ast.UnaryOp, expressions.signs),
    (ast.Compare, expressions.comparisons),
    (ast.IfExp, statements.conditions),
    ((ast.Name, ast.Attribute), expressions.names),
    (ast.Subscript, expressions.shapes),
    (ast.For, statements.loops),
    ((ast.GeneratorExp, ast.ListComp), statements.many),
    (ast.Tuple, statements.tuples),
    (ast.stmt, statements.statements),
)
# The words that a line about a mistake may have places for.
WORDS = ("function", "argument", "used", "due", "part", "number", "call", "factor", "dim", "other")


@dataclass(frozen=True)
class ChangedText:
    """A definition with one mistake. `words` complete the sentence of the family."""

    family: str
    name: str
    text: str
    words: dict[str, str] = field(default_factory=dict)


@cache
def families() -> dict[str, tuple[str, str, str]]:
    """The families of mistakes that operators make, each with its three lines, which have places for words: the entries
    without edits among the mistakes of many steps. The order is that in which a diagnosis prefers them: of two that
    give the same answers, the first says more."""
    entries = mistakes.of_many_steps().entries
    return {name: entry.said for name, entry in entries.items() if not entry.ways}


def changes(name: str, text: str, shown: str) -> list[ChangedText]:
    """Every change that an operator makes to the definition `name`, in the order of the families; `shown` is how a
    sentence names it."""
    found: dict[str, ChangedText] = {}
    order = list(families())  # nothing in a course without their texts
    for definition in functions(text):
        place = shown if definition.method in ("", "forward", "__init__") else f"{shown}.{definition.method}"
        for family, node, new, words in _found(definition):
            changed = definition.with_new(node, new)
            if changed != text and changed not in found and family in order:
                found[changed] = ChangedText(family, name, changed, {"function": place, **words})
    return sorted(found.values(), key=lambda change: order.index(change.family))


def _found(definition: Definition) -> Iterator[Found]:
    """The operators' findings in the body."""
    for statement in definition.node.body:
        for node in ast.walk(statement):
            for kind, operator in OPERATORS:
                if isinstance(node, kind):
                    yield from operator(definition, node)
