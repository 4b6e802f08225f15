"""Changes that operators make to the text of a reference.

An operator looks at one expression or statement and says how a learner writes it wrongly. Its result is the text of the
definition with this one change, the family of the mistake, and the words of the family's sentence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from grader.base import mistakes
from grader.operators import calls, expressions, statements
from grader.operators.definitions import Definition, Replacement, functions

OPERATORS: tuple[tuple[type | tuple[type, ...], Callable[..., Iterator[Replacement]]], ...] = (
    (ast.Slice, expressions.slices),
    (ast.Call, calls.calls),
    (ast.BinOp, expressions.arithmetic),
    (ast.BinOp, expressions.joined_masks),
    (ast.BinOp, expressions.numbers),
    (ast.UnaryOp, expressions.signs),
    (ast.Compare, expressions.comparisons),
    (ast.IfExp, statements.conditions),
    ((ast.Name, ast.Attribute), expressions.names),
    (ast.Subscript, expressions.shapes),
    (ast.For, statements.loops),
    ((ast.For, ast.With, ast.If), statements.bounds_of_loops),
    ((ast.GeneratorExp, ast.ListComp), statements.many),
    (ast.Tuple, statements.tuples),
    (ast.stmt, statements.statements),
)
# Families that may hide all that a query sees, or a key from all queries.
HIDE_A_WHOLE_ROW = {
    "another_dimension", "diagonal_one_too_low", "diagonal_one_too_high", "mask_turned_round", "mask_of_the_other_side",
    "function_exchanged", "condition_turned_round", "boundary_left_out", "boundary_counted_in", "compared_one_off",
    "one_side_narrower",
}  # fmt: skip
ADDED = re.compile(r"\b(\w++)\.masked_fill\((.{1,200}?), -torch\.inf\)")
# The words that a line about a mistake may have places for.
WORDS = ("function", "argument", "used", "due", "part", "number", "call", "factor", "dim", "other")


BOUNDARIES = frozenset({"boundary_left_out", "boundary_counted_in", "compared_one_off"})


@dataclass(frozen=True)
class ChangedText:
    """A definition with one mistake. `words` complete the sentence of the family."""

    family: str
    name: str
    text: str
    words: dict[str, str] = field(default_factory=dict)


@cache
def families() -> dict[str, tuple[str, str, str]]:
    """The families (kinds) of mistakes that operators make, by name, each with its three sentences: what was done, why
    it is wrong, a question. They are the entries without edits among the mistakes of many steps, in the order in which
    a diagnosis prefers them: of two that give the same answers, the first says more."""
    entries = mistakes.of_many_steps().entries
    return {name: entry.said for name, entry in entries.items() if not entry.ways}


def changes(name: str, text: str, shown: str) -> list[ChangedText]:
    """Every change that an operator makes to the source `text` of the function or class `name`, each text once, in the
    order of the families; `shown` is the name that a sentence has for it."""
    found: dict[str, ChangedText] = {}
    for change in sorted(_changed_texts(name, text, shown), key=lambda change: list(families()).index(change.family)):
        if change.text != text:
            found.setdefault(change.text, change)
    for form in masked_otherwise(text):
        for change in _changed_texts(name, form, shown):
            if change.family in HIDE_A_WHOLE_ROW and change.text != form:
                found.setdefault(change.text, change)
    return list(found.values())


def masked_otherwise(text: str) -> Iterator[str]:
    """Yields a definition's source with its -inf masks in other ways that are right as well: they differ under a
    mistake that hides a whole row or column, of which -inf makes NaN. Nothing if it has no such mask."""
    if "-torch.inf" in text and ".masked_fill(" in text:
        yield text.replace("-torch.inf", "-1e9")
        added = ADDED.sub(r"(\1 + (\2).to(\1.dtype) * -1e9)", text)
        if added != text:
            yield added
        if ".softmax(dim=-1)" in text:
            yield text.replace(".softmax(dim=-1)", ".softmax(dim=-1).nan_to_num(0.0)")


def _changed_texts(name: str, text: str, shown: str) -> Iterator[ChangedText]:
    """Yields a text with each of the operators' replacements made; nothing in a course without the families'
    sentences."""
    for definition in functions(text):
        place = shown if definition.method in ("", "forward", "__init__") else f"{shown}.{definition.method}"
        for family, node, new, words in _replacements(definition):
            if family in families():
                yield ChangedText(family, name, definition.with_new(node, new), {"function": place, **words})


def _replacements(definition: Definition) -> Iterator[Replacement]:
    """Yields the operators' replacements in a function. In a condition that guards a `raise` only the boundary is
    moved: any other refusal of right arguments would be found in all code that raises an error of its own."""
    refusals = {
        id(part)
        for node in ast.walk(definition.node)
        if isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise)
        for part in ast.walk(node.test)
    }
    yield from statements.bounds_of_loops(definition, definition.node)
    yield from calls.everywhere(definition, definition.node)
    yield from statements.earlier_values(definition, definition.node)
    for statement in definition.node.body:
        for node in ast.walk(statement):
            for kind, operator in OPERATORS:
                if isinstance(node, kind):
                    yield from (
                        found
                        for found in operator(definition, node)
                        if id(node) not in refusals or found[0] in BOUNDARIES
                    )
