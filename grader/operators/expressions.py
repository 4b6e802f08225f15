"""Mistakes in an expression: the end of a slice, a term, a sign, a boundary, one name for another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from grader.operators.definitions import Definition, Replacement

ROLES = (("query", "key", "value"), ("queries", "keys", "values"), ("q", "k", "v"), ("Q", "K", "V"))
# What scores are multiplied by, as a sentence writes it, and in terms of the queries `{a}` and of the transposed keys.
FACTORS = (
    ("2", "2.0"), ("1/2", "0.5"), ("√2", "2.0 ** 0.5"), ("1/√2", "0.5 ** 0.5"), ("√d", "{a}.shape[-1] ** 0.5"),
    ("1/√d", "{a}.shape[-1] ** -0.5"), ("d", "{a}.shape[-1]"), ("1/d", "1 / {a}.shape[-1]"),
    ("√(d / T_k)", "({a}.shape[-1] / {b}.shape[-1]) ** 0.5"), ("√d / T_k", "{a}.shape[-1] ** 0.5 / {b}.shape[-1]"),
    ("√(d / T_q)", "({a}.shape[-1] / {a}.shape[-2]) ** 0.5"),
    ("√d / ln d", "{a}.shape[-1] ** 0.5 / (math.log({a}.shape[-1]) or 1.0)"),
    ("1/√H", "{a}.shape[-3] ** -0.5"), ("√H", "{a}.shape[-3] ** 0.5"),
    ("√(d / H)", "({a}.shape[-1] / {a}.shape[-3]) ** 0.5"), ("2/√d", "2 / {a}.shape[-1] ** 0.5"),
    ("√(d / (d + 1))", "({a}.shape[-1] / ({a}.shape[-1] + 1)) ** 0.5"), ("4", "4.0"), ("1/4", "0.25"),
)  # fmt: skip
NUMBER = re.compile(r"-?\d+(\.\d*)?")
EXCHANGED = re.compile(r"\.(transpose|swapaxes|permute|mT|T)\b")


def slices(of: Definition, node: ast.Slice) -> Iterator[Replacement]:
    """Yields mistakes in a slice: bounds that are off by one, and a slice left out."""
    lower = of.source(node.lower) if node.lower else None
    upper = of.source(node.upper) if node.upper else None
    step = f":{of.source(node.step)}" if node.step else ""
    start, end = lower or "", upper or ""
    if node.step is None and (lower or upper):
        yield "ends_one_early", node, f"{start}:{_moved(upper, -1)}", {}
        if upper:
            yield "ends_one_late", node, f"{start}:{_moved(upper, 1)}", {}
        yield "starts_one_late", node, f"{_moved(lower or '0', 1)}:{end}", {}
        if lower:
            yield "starts_one_early", node, f"{_moved(lower, -1)}:{end}", {}
            yield "start_left_out", node, f":{end}", {}
    elif node.step is not None:
        yield "starts_one_late", node, f"{_moved(lower or '0', 1)}:{end}{step}", {}
        if lower:
            yield "starts_one_early", node, f":{end}{step}", {}


def _moved(expression: str | None, by: int) -> str:
    """The source of an index one place further (`by` 1) or before (-1); None counts as 0."""
    if not expression:
        return str(by)
    if re.fullmatch(r"-?\d+", expression):
        return str(int(expression) + by) if int(expression) + by or by < 0 or expression != "-1" else ""
    return f"{expression} {'+' if by > 0 else '-'} 1"


def arithmetic(of: Definition, node: ast.BinOp) -> Iterator[Replacement]:
    """Yields mistakes in a sum, difference, product or quotient: a term or factor left out, doubled or with the wrong
    sign."""
    left, right = of.source(node.left), of.source(node.right)
    match node.op:
        case ast.Add() | ast.Sub() if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Add | ast.Sub):
            yield "terms_left_out", node, of.source(node.left.left), {}
            yield "term_left_out", node, f"({left})", {}
            yield "sign_turned", node, f"({left} {'-' if isinstance(node.op, ast.Add) else '+'} ({right}))", {}
        case ast.Add():
            yield from _added_parts(of, node)
            yield "term_left_out", node, f"({left})", {}
            yield "term_left_out", node, f"({right})", {}
            yield "sign_turned", node, f"({left} - ({right}))", {}
            yield "term_doubled", node, f"({left} + ({right}) + ({right}))", {}
            yield "term_doubled", node, f"({left} + ({left}) + ({right}))", {}
        case ast.Sub():
            for by in (1, -1) if not left.isdigit() and not right.isdigit() else ():
                yield "difference_one_off", node, f"({left} - ({right}) + {by})", {}
            yield "term_left_out", node, f"({left})", {}
            yield "sign_turned", node, f"(({right}) - ({left}))", {}
            yield "sign_turned", node, f"({left} + ({right}))", {}
        case ast.Mult():
            yield from _factors(of, node, left, right)
        case ast.Div():
            yield "division_left_out", node, f"({left})", {}
            yield "multiplied_not_divided", node, f"({left} * ({right}))", {}
            yield "divided_twice", node, f"({left} / ({right}) / ({right}))", {}
            for shown, factor in FACTORS if of.tensors and "sqrt" in right else ():
                scale = factor.format(a=of.tensors[0], b=f"({left})")
                yield "scores_scaled", node, f"({left} / ({right}) * ({scale}))", {"factor": shown}
        case ast.Pow():
            yield "power_left_out", node, f"({left})", {}
            yield "power_turned", node, f"({left} ** -({right}))", {}
        case ast.FloorDiv():
            yield "rounded_up", node, f"(-(-({left}) // ({right})))", {}
        case ast.MatMult():
            yield from _products(of, node)


def numbers(of: Definition, node: ast.BinOp) -> Iterator[Replacement]:
    """Yields a literal number of a product, quotient or power doubled or halved."""
    for side in (node.left, node.right) if isinstance(node.op, ast.Mult | ast.Div | ast.Pow) else ():
        if NUMBER.fullmatch(of.source(side)):
            for shown, times in (("2", "2"), ("1/2", "0.5")):
                yield "number_scaled", side, f"({of.source(side)} * {times})", {"factor": shown}


def _added_parts(of: Definition, node: ast.BinOp) -> Iterator[Replacement]:
    """Yields sums without a submodule's output, or with it in the place of what it should be added to."""
    sides = (node.left, node.right)
    parts = [of.submodule(side) for side in sides]
    for side, other, part, beside in (*zip(sides, sides[::-1], parts, parts[::-1], strict=True),):
        if part:
            yield "part_not_added", node, f"({of.source(other)})", {"part": part}
        if part and not beside:
            yield "part_replaces_the_stream", node, f"({of.source(side)})", {"part": part}


def _factors(of: Definition, node: ast.BinOp, left: str, right: str) -> Iterator[Replacement]:
    """Yields mistakes in a product: a whole number in front that is off by one, a factor left out, doubled or divided
    by."""
    for factor, other in ((left, right), (right, left)):
        if factor in of.arguments:
            yield "argument_not_counted", node, f"({other})", {"argument": factor}
    for by, family in ((-1, "counted_too_few"), (1, "counted_too_often")) if left.isdigit() else ():
        yield family, node, f"({int(left) + by} * {right})", {"number": str(int(left) + by)}
    yield "factor_left_out", node, f"({left})", {}
    yield "factor_left_out", node, f"({right})", {}
    yield "divided_not_multiplied", node, f"({left} / ({right}))", {}
    yield "factor_doubled", node, f"({left} * ({right}) * ({right}))", {}
    yield "factor_doubled", node, f"({left} * ({left}) * ({right}))", {}


def _products(of: Definition, node: ast.BinOp) -> Iterator[Replacement]:
    """Yields mistakes in a matrix product: transposed, exchanged or scaled."""
    left, right = of.source(node.left), of.source(node.right)
    yield "product_transposed", node.right, f"({right}).T", {}
    yield "product_exchanged", node, f"({right} @ {left})", {}
    for shown, factor in FACTORS if EXCHANGED.search(right) else ():
        scale = factor.format(a=f"({left})", b=f"({right})")
        yield "scores_scaled", node, f"(({left} @ {right}) * ({scale}))", {"factor": shown}
    for size in of.kept if EXCHANGED.search(right) else ():
        scale = f"(({left}).shape[-1] / self.{size}) ** 0.5"
        yield "scores_scaled", node, f"(({left} @ {right}) * {scale})", {"factor": f"√(d / {size})"}


def signs(of: Definition, node: ast.UnaryOp) -> Iterator[Replacement]:
    """Yields the operand without its minus sign or negation."""
    if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "sign_turned", node, of.source(node.operand), {}
    elif isinstance(node.op, ast.Invert | ast.Not):
        yield "condition_turned_round", node, of.source(node.operand), {}


def comparisons(of: Definition, node: ast.Compare) -> Iterator[Replacement]:
    """Yields mistakes in a comparison: its boundary, its direction, its bounds off by one."""
    signs = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
    near = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
    turned = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
    sign = signs.get(type(node.ops[0]))
    if sign is None or len(node.ops) > 1:
        return
    left, right = of.source(node.left), of.source(node.comparators[0])
    if sign in near:
        family = "boundary_left_out" if len(near[sign]) < len(sign) else "boundary_counted_in"
        yield family, node, f"{left} {near[sign]} {right}", {}
        places = not of.floats & {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        for by in (1, -1) if places else ():
            yield "compared_one_off", node, f"{left} {sign} {right} + {by}", {}
        if places and left.endswith(".abs()"):
            inside = left.removesuffix(".abs()")
            for one, other in ((0, 1), (1, 0)):
                both = f"(({inside} {sign} {right} - {one}) & (-{inside} {sign} {right} - {other}))"
                yield "one_side_narrower", node, both, {}
            yield "one_side_only", node, f"({inside} {sign} {right})", {}
            yield "one_side_only", node, f"(-{inside} {sign} {right})", {}
    yield "condition_turned_round", node, f"{left} {turned[sign]} {right}", {}


def joined_masks(of: Definition, node: ast.BinOp) -> Iterator[Replacement]:
    """Yields mistakes in two masks joined by `&` or `|`: the other sign, or a mask left out."""
    left, right = of.source(node.left), of.source(node.right)
    if isinstance(node.op, ast.BitAnd | ast.BitOr):
        other = "|" if isinstance(node.op, ast.BitAnd) else "&"
        yield "masks_joined_otherwise", node, f"({left} {other} {right})", {}
        yield "one_mask_left_out", node, f"({left})", {}
        yield "one_mask_left_out", node, f"({right})", {}


def names(of: Definition, node: ast.Name | ast.Attribute) -> Iterator[Replacement]:
    """Yields the name of a neighbour: key for query, `ln_1` for `ln_2`, one size for another, an argument's default."""
    if not isinstance(node.ctx, ast.Load):
        return
    name = node.id if isinstance(node, ast.Name) else node.attr
    before = "" if isinstance(node, ast.Name) else of.source(node.value) + "."
    for roles in ROLES:
        for role in roles:
            parts = re.split(rf"(?<![a-zA-Z]){role}(?![a-zA-Z])", name.replace("_", " "))
            for other in roles if len(parts) > 1 else ():
                new = other.join(parts).replace(" ", "_")
                if other != role and new in of.names:
                    yield "part_for_another", node, before + new, {"used": new, "due": name}
    if isinstance(node, ast.Attribute) and before == "self.":
        stem = name.rstrip("0123456789")
        for other_name in sorted(of.names):
            if stem != name and other_name != name and other_name.rstrip("0123456789") == stem:
                yield "part_for_another", node, before + other_name, {"used": other_name, "due": name}
    if isinstance(node, ast.Name) and name in of.sizes:
        for other_size in of.sizes:
            if other_size != name:
                yield "size_for_another", node, other_size, {}
    if isinstance(node, ast.Name) and of.defaults.get(name):
        yield "argument_not_used", node, of.defaults[name], {"argument": name}


def shapes(of: Definition, node: ast.Subscript) -> Iterator[Replacement]:
    """Yields mistakes in an index: the size of another dimension, or another entry."""
    if isinstance(node.value, ast.Attribute) and node.value.attr == "shape" and isinstance(node.ctx, ast.Load):
        for other in ("-1", "-2", "-3", "0", "1"):
            if other != of.source(node.slice):
                yield "size_for_another", node.slice, other, {}
    elif re.fullmatch(r"-?\d", of.source(node.slice)) and isinstance(node.ctx, ast.Load):
        for other in ("0", "1", "-1"):
            if other != of.source(node.slice):
                yield "another_entry", node.slice, other, {}
