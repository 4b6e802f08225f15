"""Mistakes in a statement: a loop, a list of parts, an order, a case, a step left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from grader.operators.definitions import Definition, Found


def loops(of: Definition, node: ast.For) -> Iterator[Found]:
    """Mistakes in a loop over submodules: a round left out, the same one each time, the order reversed."""
    over = of.source(node.iter)
    if over.startswith("self."):
        yield "last_round_left_out", node.iter, f"{over}[:-1]", {}
        yield "first_round_left_out", node.iter, f"{over}[1:]", {}
        yield "same_part_every_round", node.iter, f"[{over}[0]] * len({over})", {}
        yield "rounds_reversed", node.iter, f"list({over})[::-1]", {}


def many(of: Definition, node: ast.GeneratorExp | ast.ListComp) -> Iterator[Found]:
    """Mistakes in a list of submodules: the same one for all."""
    over = of.source(node.generators[0].iter)
    if over.startswith("range(") and isinstance(node.elt, ast.Call):
        yield "one_part_for_all", node, f"[{of.source(node.elt)}] * {over[5:]}", {}


def tuples(of: Definition, node: ast.Tuple) -> Iterator[Found]:
    """The tuple with two items exchanged, once for each pair."""
    items = [of.source(item) for item in node.elts]
    if not 1 < len(items) <= 3 or (isinstance(node.ctx, ast.Load) and any(item.isdigit() for item in items)):
        return
    for one in range(len(items)):
        for other in range(one + 1, len(items)):
            order = items.copy()
            order[one], order[other] = order[other], order[one]
            new = ", ".join(order)
            yield "another_order", node, f"({new})" if of.source(node).startswith("(") else new, {}


def statements(of: Definition, node: ast.stmt) -> Iterator[Found]:
    """Mistakes in a statement: an error not raised, a case or a step left out."""
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
        case ast.Return(value=ast.Name() | ast.BinOp() | ast.Call()):
            assert node.value is not None
            yield "gradient_cut", node.value, f"({of.source(node.value)}).detach()", {}


def conditions(of: Definition, node: ast.BoolOp | ast.IfExp) -> Iterator[Found]:
    """Mistakes in a conditional expression: a case left out."""
    if isinstance(node, ast.IfExp):
        yield "case_left_out", node, f"({of.source(node.body)})", {}
        yield "case_left_out", node, f"({of.source(node.orelse)})", {}
