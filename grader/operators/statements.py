"""Mistakes in a statement: a loop, a list of parts, an order, a case, a step left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from grader.operators.definitions import Definition, Replacement


def loops(of: Definition, node: ast.For) -> Iterator[Replacement]:
    """Yields mistakes in a loop over submodules: a round left out, the same one each time, the order reversed."""
    over = of.source(node.iter)
    if over.startswith("self."):
        yield "last_round_left_out", node.iter, f"{over}[:-1]", {}
        yield "first_round_left_out", node.iter, f"{over}[1:]", {}
        yield "same_part_every_round", node.iter, f"[{over}[0]] * len({over})", {}
        yield "rounds_reversed", node.iter, f"list({over})[::-1]", {}


def bounds_of_loops(of: Definition, node: ast.For | ast.FunctionDef | ast.With | ast.If) -> Iterator[Replacement]:
    """Yields loops with a line moved over their end: the last one out of it, or the next one into it."""
    for one, other in pairwise([*node.body, None]):
        if not isinstance(one, ast.For | ast.While):
            continue
        text, indent = of.source(one).splitlines(), " " * one.col_offset
        last = one.body[-1]
        rows = last.lineno - one.lineno
        if len(one.body) > 1:
            moved = [line.removeprefix("    ") for line in text[rows:]]
            yield "done_after_the_loop", one, "\n".join([*text[:rows], *moved]), {}
        if isinstance(other, ast.Expr | ast.AugAssign | ast.Assign | ast.If):
            both = ast.copy_location(ast.Pass(), one)
            both.end_lineno, both.end_col_offset = other.end_lineno, other.end_col_offset
            moved = ["    " + line for line in (indent + of.source(other)).splitlines()]
            yield "done_in_every_round", both, "\n".join([*text, *moved]), {}


def many(of: Definition, node: ast.GeneratorExp | ast.ListComp) -> Iterator[Replacement]:
    """Yields a comprehension of calls over a range replaced by a list with one call's result many times: of submodules,
    all share their parameters. Nothing for another comprehension."""
    over = of.source(node.generators[0].iter)
    if over.startswith("range(") and isinstance(node.elt, ast.Call):
        yield "one_part_for_all", node, f"[{of.source(node.elt)}] * {over[5:]}", {}


def tuples(of: Definition, node: ast.Tuple) -> Iterator[Replacement]:
    """Yields the tuple with two items exchanged, once for each pair; nothing for more than three items."""
    items = [of.source(item) for item in node.elts]
    if not 1 < len(items) <= 3 or (isinstance(node.ctx, ast.Load) and any(item.isdigit() for item in items)):
        return
    for one in range(len(items)):
        for other in range(one + 1, len(items)):
            order = items.copy()
            order[one], order[other] = order[other], order[one]
            new = ", ".join(order)
            yield "another_order", node, f"({new})" if of.source(node).startswith("(") else new, {}


def statements(of: Definition, node: ast.stmt) -> Iterator[Replacement]:
    """Yields mistakes in a statement: an error not raised, a case or step left out, results exchanged, a gradient
    cut."""
    match node:
        case ast.If() if isinstance(node.body[0], ast.Raise):
            yield "error_not_raised", node.test, "False", {}
        case ast.If():
            yield "case_left_out", node.test, "False", {}
            yield "case_left_out", node.test, "True", {}
        case ast.Assign() if isinstance(node.targets[0], ast.Name | ast.Attribute):
            if of.source(node.targets[0]) in of.source(node.value):
                yield "step_left_out", node, "pass", {}
        case ast.AugAssign() | ast.Expr():
            yield "step_left_out", node, "pass", {}
            yield "step_done_twice", node, f"{of.source(node)}\n{' ' * node.col_offset}{of.source(node)}", {}
        case ast.Return(value=ast.Tuple(elts=[first, second])):
            assert node.value is not None
            text = f"({of.source(second)}), ({of.source(first)})"
            yield "results_exchanged", node.value, text, {}
        case ast.Return(value=ast.Name() | ast.BinOp() | ast.Call()):
            assert node.value is not None
            yield "gradient_cut", node.value, f"({of.source(node.value)}).detach()", {}


def earlier_values(of: Definition, node: ast.FunctionDef) -> Iterator[Replacement]:
    """Yields the function with one use of an argument that has been changed by then, as it was before the change."""
    for change in [each for each in ast.walk(node) if isinstance(each, ast.Assign)]:
        stored = {each.id for target in change.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        read = {each.id for each in ast.walk(change.value) if isinstance(each, ast.Name)}
        for name in sorted(stored & read & of.arguments):
            for use in ast.walk(node):
                later = isinstance(use, ast.Name) and use.lineno > (change.end_lineno or change.lineno)
                if not (later and isinstance(use, ast.Name) and use.id == name and isinstance(use.ctx, ast.Load)):
                    continue
                kept = f"before_it = {name}\n{' ' * change.col_offset}{of.source(change)}"
                text = replace(of, text=of.with_new(use, "before_it")).with_new(change, kept)
                yield "earlier_value_used", node, of.of_the_function(text), {"argument": name}


def conditions(of: Definition, node: ast.BoolOp | ast.IfExp) -> Iterator[Replacement]:
    """Yields a conditional expression with one of its cases alone."""
    if isinstance(node, ast.IfExp):
        yield "case_left_out", node, f"({of.source(node.body)})", {}
        yield "case_left_out", node, f"({of.source(node.orelse)})", {}
