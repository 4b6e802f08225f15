"""Mistakes in a call: its function, its arguments, the dimension it works along, and the positions it masks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from grader.operators.definitions import Definition, Replacement

OTHER_FUNCTIONS = {
    "exp": ("exp2",), "log": ("log2",), "sin": ("cos",), "cos": ("sin",), "tanh": ("relu", "sigmoid"),
    "relu": ("tanh", "sigmoid"), "gelu": ("relu",), "mean": ("sum",), "sum": ("mean",), "amax": ("amin",),
    "argmax": ("argmin",), "maximum": ("minimum",), "max": ("min",), "min": ("max",), "tril": ("triu",),
    "triu": ("tril",), "any": ("all",), "all": ("any",), "elu": ("relu",), "cumsum": ("cumprod",),
    "repeat_interleave": ("repeat",), "ones": ("zeros",), "zeros": ("ones",), "softmax": ("sigmoid",),
}  # fmt: skip
ALONG_A_DIMENSION = {
    "softmax", "sum", "mean", "amax", "amin", "max", "argmax", "cumsum", "cat", "stack", "split", "chunk", "var",
    "concatenate", "any", "all", "repeat_interleave", "topk", "sort", "gather", "select", "unsqueeze", "squeeze",
}  # fmt: skip
EXCHANGES = ("transpose", "permute", "swapaxes", "mT", "T")
RESHAPES = ("view", "reshape")
PASSES_ON = {
    "dropout", "drop", "softmax", "tanh", "relu", "gelu", "exp", "sqrt", "log", "abs", "clamp", "detach", "sum",
    "float", "flatten", "clone", "contiguous", "min", "max",
}  # fmt: skip
DEVICES = ("device", "dtype")
LOWEST = ("-torch.inf", "-1e9")  # what scores are filled with where a mask hides them


def calls(of: Definition, node: ast.Call) -> Iterator[Replacement]:
    """Yields replacements that make a mistake in a call: in its bounds, function, dimensions, arguments or mask."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    yield from _ranges(of, node, called)
    yield from _other_function(of, node, called)
    yield from _along(of, node, called)
    yield from _handed_on(of, node, called)
    yield from _left_out(of, node, called)
    yield from _masks(of, node, called)


def _ranges(of: Definition, node: ast.Call, called: str) -> Iterator[Replacement]:
    """Yields mistakes in the bounds of a call of `range` or `arange`, or the diagonal of `tril` or `triu`."""
    ends = [of.source(argument) for argument in node.args]
    if called in ("range", "arange") and ends:
        keywords = "".join(f", {of.source(keyword)}" for keyword in node.keywords)

        def with_arguments(*those: str) -> str:
            """The source of the call with these positional arguments."""
            return f"{of.source(node.func)}({', '.join(those)}{keywords})"

        first, last, rest = (ends[0], ends[1], ends[2:]) if len(ends) > 1 else ("0", ends[0], [])
        if called == "range":
            yield "last_round_left_out", node, with_arguments(first, f"{last} - 1", *rest), {}
            if rest:
                yield "rest_left_out", node, with_arguments(first, f"{last} - {rest[0]} + 1", *rest), {}
                yield "first_block_left_out", node, with_arguments(f"{first} + {rest[0]}", last, *rest), {}
            yield "first_round_left_out", node, with_arguments(f"{first} + 1", last, *rest), {}
            yield "one_round_too_many", node, with_arguments(first, f"{last} + 1", *rest), {}
        else:
            yield "counted_from_one", node, f"({of.source(node)} + 1)", {}
            for size in of.kept:
                yield "counted_from_one", node, f"(({of.source(node)} + 1) % self.{size})", {}
            yield "counted_backwards", node, f"{of.source(node)}.flip(0)", {}
    if called in ("tril", "triu") and not (ends and called == of.source(node.func)):
        inside = ends[0] if isinstance(node.func, ast.Attribute) and ends else "0"
        inside = next((of.source(word.value) for word in node.keywords if word.arg == "diagonal"), inside)
        for by, family in ((1, "diagonal_one_too_high"), (-1, "diagonal_one_too_low")):
            yield family, node, f"{of.source(node.func)}({inside} + {by})", {}


def _other_function(of: Definition, node: ast.Call, called: str) -> Iterator[Replacement]:
    """Yields the call with another function in place of the `called` one: `sum` for `mean`, sigmoid for softmax."""
    for other in OTHER_FUNCTIONS.get(called, ()):
        function = of.source(node.func)
        new = function[: len(function) - len(called)] + other
        if called == "softmax":
            argument = (
                of.source(node.args[0]) if function.startswith(("F.", "torch.")) else function[: -len(".softmax")]
            )
            yield "function_exchanged", node, f"torch.sigmoid({argument})", {"used": other, "due": called}
        else:
            yield "function_exchanged", node.func, new, {"used": other, "due": called}


def _along(of: Definition, node: ast.Call, called: str) -> Iterator[Replacement]:
    """Yields mistakes in the dimensions of a call: another one, or an exchange of two left out."""
    if called in ALONG_A_DIMENSION:
        inside = [keyword.value for keyword in node.keywords if keyword.arg in ("dim", "axis")]
        inside += [argument for argument in node.args[-1:] if re.fullmatch(r"-?\d", of.source(argument))]
        for value in inside:
            for other in ("-1", "-2", "-3", "0", "1", "2"):
                if other != of.source(value):
                    yield "another_dimension", value, other, {"call": called}
    if isinstance(node.func, ast.Attribute) and called in EXCHANGES:
        base = node.func.value
        yield "not_exchanged", node, of.source(base), {}
        places = [of.source(argument) for argument in node.args]
        reshaped = isinstance(base, ast.Call) and getattr(base.func, "attr", "") in RESHAPES
        if reshaped and called != "permute" and all(re.fullmatch(r"-?\d", place) for place in places):
            assert isinstance(base, ast.Call)
            assert isinstance(base.func, ast.Attribute)
            sizes = [of.source(argument) for argument in base.args]
            first, second = (int(place) for place in places)
            if max(abs(first), abs(second)) < len(sizes):
                sizes[first], sizes[second] = sizes[second], sizes[first]
                yield ("reshaped_not_exchanged", node, f"{of.source(base.func.value)}.reshape({', '.join(sizes)})", {})


def everywhere(of: Definition, node: ast.FunctionDef) -> Iterator[Replacement]:
    """Yields the function with another dimension in all of its calls that work along one, if they share it."""
    text, called = of.source(node), re.findall(r"\b(\w++)\([^()]{0,200}?dim=(-?\d)", of.source(node))
    if len(called) > 1 and len({dim for _call, dim in called}) == 1:
        for other in ("-1", "-2", "-3", "0", "1", "(-2, -1)"):
            if other != called[0][1]:
                new = text.replace(f"dim={called[0][1]}", f"dim={other}")
                yield "another_dimension", node, new, {"call": called[0][0]}


def _handed_on(of: Definition, node: ast.Call, called: str) -> Iterator[Replacement]:
    """Yields mistakes in the keyword arguments of a call, and in the inputs of a submodule."""
    for keyword in node.keywords:
        words = {"argument": keyword.arg or ""}
        if keyword.arg and keyword.arg not in (*DEVICES, "dim", "axis", "keepdim", "strict"):
            value = of.source(keyword.value)
            part = f"self.{called}" in of.text or called == "Linear"
            for other in {"True": ("False",), "False": ("True",)}.get(value, ("False", "True") if part else ()):
                family = "bias_too_few" if keyword.arg == "bias" and other == "False" else "argument_another"
                family = "bias_too_many" if keyword.arg == "bias" and other == "True" else family
                yield family, keyword.value, other, words
    if isinstance(node.func, ast.Attribute) and of.source(node.func.value) == "self":
        yield from _inputs(of, node, called)
    for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
        name = of.source(argument)
        if of.defaults.get(name):
            yield "argument_not_handed_on", argument, of.defaults[name], {"argument": name}


def _inputs(of: Definition, node: ast.Call, called: str) -> Iterator[Replacement]:
    """Yields mistakes in the inputs of a submodule: another tensor for one argument, or one term of a sum only."""
    tensors = {
        argument.arg for argument in of.node.args.args if "Tensor" in ast.unparse(argument.annotation or argument)
    }
    tensors -= {"mask"}
    tensors |= {
        found.id for found in ast.walk(of.node) if isinstance(found, ast.Name) and isinstance(found.ctx, ast.Store)
    }
    for index, argument in enumerate(node.args):
        for other in sorted(tensors) if isinstance(argument, ast.Name | ast.Call) else ():
            if other != of.source(argument):
                yield "input_for_another", argument, other, {"part": called, "number": str(index + 1)}
    if len(node.args) == 1 and isinstance(node.args[0], ast.BinOp) and isinstance(node.args[0].op, ast.Add):
        left, right, part = of.source(node.args[0].left), of.source(node.args[0].right), of.source(node.func)
        yield "applied_to_one_term", node, f"({left} + {part}({right}))", {"part": called}
        yield "applied_to_one_term", node, f"({part}({left}) + {right})", {"part": called}


def _left_out(of: Definition, node: ast.Call, called: str) -> Iterator[Replacement]:
    """Yields the call left out: its argument in its place."""
    if not isinstance(node.func, ast.Attribute):
        if called == "sqrt":
            yield "root_left_out", node, of.source(node.args[0]), {}
        elif len(node.args) == 1 and called not in ("range", "list", "tuple", "super", "len", "int"):
            yield "part_left_out", node, of.source(node.args[0]), {"part": called}
        return
    base = of.source(node.func.value)
    if base == "self" and len(node.args) == 1:
        yield "part_not_applied", node, of.source(node.args[0]), {"part": called}
    elif called == "sqrt" and node.args:
        yield "root_left_out", node, of.source(node.args[0]), {}
    elif base in ("self", "torch", "F", "math", "np") or base.startswith("self."):
        if node.args and (base.startswith("self") or called in PASSES_ON):
            yield "part_left_out", node, of.source(node.args[0]), {"part": called}
    elif called in PASSES_ON:
        yield "part_left_out", node, base, {"part": called}


def _masks(of: Definition, node: ast.Call, called: str) -> Iterator[Replacement]:
    """Yields mistakes in a `masked_fill`: no mask, a reversed one, or for scores another value than minus infinity; if
    what decides is no mask, no call, or the reverse condition."""
    if called != "masked_fill" or not isinstance(node.func, ast.Attribute) or len(node.args) != 2:
        return
    base, hidden, value = of.source(node.func.value), of.source(node.args[0]), of.source(node.args[1])
    turned = hidden.removeprefix("~") if hidden.startswith("~") else f"~({hidden})"
    if value not in LOWEST and "mask" not in hidden:
        yield "part_left_out", node, base, {"part": called}
        yield "condition_turned_round", node.args[0], turned, {}
        return
    yield "mask_left_out", node, base, {}
    yield "mask_turned_round", node.args[0], turned, {}
    if value not in LOWEST:
        return
    yield "masked_with_zero", node.args[1], "0.0", {}
    yield "masked_by_product", node, f"({base} * ~({hidden}))", {}
    yield "masked_with_little", node.args[1], "-10.0", {}
    yield "mask_added", node, f"({base} + ~({hidden}))", {}
    yield "mask_of_the_first", node.args[0], f"({hidden})[:1]", {}
    yield "mask_of_the_other_side", node.args[0], f"({hidden}).transpose(-2, -1)", {}
