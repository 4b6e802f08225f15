"""A failing call as a small program: the same inputs, weights and expected values, for a learner's own process.

It is text. A learner's answers go into it only as numbers; large tensors are in a file next to it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from grader.base.errors import CheckFailed
from grader.base.language import gettext as _
from grader.base.results import Reproduction
from grader.calls.call import Call
from grader.calls.values import HandleId, Opaque, PlacedTensor, as_tensor, leaves
from grader.checks.backends import Exchange
from grader.checks.compare import (
    SCALE_FLOOR,
    Tolerance,
    gradient_room,
    largest_of,
    magnitude,
    require_agreement,
    require_close,
)
from grader.checks.value_text import WIDTH, constants, nested, paths_of, plain, quiet

LITERAL = 96  # elements that are written out; what has more lies next to the program
SILENT = ("parameters", "is_training", "is_evaluating", "shares")  # they look at a module and leave it as it is


@dataclass(frozen=True)
class Due:
    """The expected answer. `part` is an index into it, as text; `raises` says why an error was due."""

    wanted: Any = None
    gradients: dict[str, PlacedTensor | None] = field(default_factory=dict)
    tolerance: Tolerance = Tolerance()
    part: str = ""
    raises: str = ""


def program(
    step: str, check: str, message: str, exchanges: Sequence[Exchange], about: Exchange, due: Due | None,
    parameters: Mapping[str, Sequence[str]],
) -> Reproduction:  # fmt: skip
    """The program that makes the call which a check failed on. `parameters` are the names of each callable's arguments,
    a class's methods under `Class.method`."""
    return _Program(step, check, message, about, due, parameters).written(exchanges)


class _Program:
    """Collects the lines of a program; the arguments are those of `program`."""

    def __init__(
        self, step: str, check: str, message: str, about: Exchange, due: Due | None,
        parameters: Mapping[str, Sequence[str]],
    ) -> None:  # fmt: skip
        self.step, self.check, self.message, self.about, self.due = step, check, message, about, due
        self.parameters = parameters
        self.lines: list[str] = []
        self.aside: dict[str, Tensor] = {}
        self.used: set[str] = set()
        self.leaves: dict[str, str] = {}  # the variable of each argument that is differentiated, by its path
        self.models: dict[int, str] = {}
        self.classes: dict[int, str] = {}
        self.imported: dict[str, None] = {}

    def written(self, exchanges: Sequence[Exchange]) -> Reproduction:
        """The whole program, with the earlier calls among the exchanges that the failing one needs; call it once."""
        calls = list(_leading_to(exchanges, self.about.call))
        gradients = self._failing_gradients()
        for call in calls[:-1]:
            self._earlier(call)
        last = calls[-1]
        if last.options.seed is not None:
            self.lines.append(f"torch.manual_seed({last.options.seed})")
        arguments = self._arguments(last, bool(gradients))
        expected = [] if gradients or self.due is None else list(self._expected("result" + self.due.part))
        self._call(last, arguments)
        if gradients:
            self._compare_gradients(last, gradients)
        elif self.due is None and not self._raised():
            self._say_the_property()
        self.lines += expected
        return self._whole()

    # --- the program around the call ---

    def _whole(self) -> Reproduction:
        """The program: its docstring, the imports that the collected lines need, and these."""
        head = [f'"""{quiet(self._title())}"""', "", "import sys", "from pathlib import Path", ""]
        body = "\n".join(self.lines)
        imports = [f"from math import {', '.join(names)}"] if (names := constants(body)) else []
        imports += ["import numpy as np"] if "np." in body else []
        imports += ["import torch", *(["from safetensors.torch import load_file"] if self.aside else [])]
        root = "sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the folder of exercises/"
        own = f"from exercises.{self.step} import {', '.join(self.imported)}  # noqa: E402"
        load = ['tensors = load_file(Path(__file__).with_suffix(".safetensors"))', ""] if self.aside else []
        text = "\n".join([*head, *imports, "", root, own, "", *load, body]) + "\n"
        return Reproduction(self.check, text, save(self.aside) if self.aside else b"")

    def _title(self) -> str:
        """The program's docstring, unescaped: the step, the check and its message."""
        sentence = _("{step}, check {check}: the call that fails, to run in a process of your own.")
        what = textwrap.indent("\n".join(self.message.splitlines()[:12]), "    ")
        how = _("breakpoint(), print and a debugger work here and in exercises/{step}.py.").format(step=self.step)
        return f"{sentence.format(step=self.step, check=self.check)}\n\n{what}\n\n{how}\n"

    def _say_the_property(self) -> None:
        """Adds lines that print the result and say that no single value is expected."""
        self.lines += ["print(result)", ""]
        sentence = _("No single value is expected here: the check asks for what is said at the top.")
        command = _("To see whether it holds, type: make grade STEP={number}").format(number=int(self.step[4:6]))
        self.lines += [f"# {line}" for line in (*textwrap.wrap(sentence, WIDTH), command)]

    def _raised(self) -> bool:
        return self.about.outcome is None or self.about.outcome.raised is not None

    # --- calls ---

    def _earlier(self, call: Call) -> None:
        """Adds the Python code for one earlier call: it makes a module, or changes one."""
        if call.handle is None:
            name = self._free("model")
            arguments = self._arguments(call)
            self.models[call.new_handle], self.classes[call.new_handle] = name, call.name
            self.imported[call.name] = None
            moved = f'.to("{call.options.device}")' if call.options.device not in ("cpu", "") else ""
            self.lines.append(f"{name} = {call.name}({arguments}){moved}")
            return
        model = self.models[call.handle]
        if call.name in ("load_parameters", "load_fitting"):
            self._load(model, *call.args)
        elif call.name == "to":
            device, dtype = call.args
            placement = [f'"{device}"'] * bool(device) + [f"torch.{dtype}"] * bool(dtype)
            self.lines.append(f"{model}.to({', '.join(placement)})")
        elif call.name in ("train", "eval"):
            path = f'.get_submodule("{call.args[0]}")' if call.args else ""
            self.lines.append(f"{model}{path}.{call.name}()")
        elif call.name == "nested":
            self.lines.append(f"torch.nn.ModuleList([{model}]).{call.args[0]}()")
        elif call.name == "optimizer":
            optimizer = self.models[call.new_handle] = self._free("optimizer")
            groups = f'[{{"params": list({model}.parameters())[place::2]}} for place in (0, 1)]'
            self.lines.append(f"{optimizer} = torch.optim.AdamW({groups}, lr=1.0, weight_decay=0.1)")
        elif call.name == "step_by":
            self.lines += [f"for group in {model}.param_groups:", f'    group["lr"] = {plain(call.args[0])}', ""]
            self.lines.append(f"{model}.step()")
        else:
            self.lines.append(_asked(call, model, self._arguments(call)))

    def _load(self, model: str, values: dict[str, Tensor], evaluating: bool | None = None) -> None:
        """Adds lines that copy the values into the parameters of the variable `model`; None: as far as they fit."""
        exact = "assert own.keys() == {0}.keys(), own.keys() ^ {0}.keys()"
        fitting = "{0} = {{key: value for key, value in {0}.items() if key in own and own[key].shape == value.shape}}"
        name = self._free("weights" if model == "model" else f"weights_of_{model}")
        self.lines.append(f"{name} = {{")
        for parameter, value in values.items():
            self.lines.append(textwrap.indent(f'"{parameter}": {self._literal(value, parameter)},', "    "))
        self.lines += [
            "}",
            f"own = dict({model}.named_parameters(remove_duplicate=False))",
            (fitting if evaluating is None else exact).format(name),
            "with torch.no_grad():",
            f"    for name, value in {name}.items():",
            "        own[name].copy_(value)",
        ]
        self.lines += [""] if evaluating is False else [f"{model}.eval()", ""]

    def _call(self, call: Call, arguments: str) -> None:
        """Adds the failing call, with its arguments as text; the variable `result` has what it returns."""
        if call.handle is None:
            self.imported[call.name] = None
            shown = f"{call.name}({arguments})"
        else:
            shown = _asked(call, self.models[call.handle], arguments)
        indent = ""
        if call.begin is not None:  # the seed of the check, and of its first call
            self.lines.append(f"torch.manual_seed({call.begin})")
        if call.options.no_grad:
            self.lines.append("with torch.no_grad():")
            indent = "    "
        if self.due is not None and self.due.raises:
            self.lines += [f"{indent}try:", f"{indent}    result = {shown}", f"{indent}except Exception as error:"]
            self.lines += [f"{indent}    print(repr(error))", f"{indent}else:"]
            self.lines += [f"{indent}    raise AssertionError({self.due.raises!r})"]
            return
        if self._raised() and self.about.outcome is not None and self.about.outcome.raised is not None:
            self.lines.append(f"{indent}# " + _("This raises {error}.").format(error=self.about.outcome.raised.type))
        self.lines += [f"{indent}result = {shown}", ""]

    def _arguments(self, call: Call, differentiated: bool = False) -> str:
        """The arguments of a call as text; tensors get names, and lines of their own before it."""
        names = self._names_of(call)
        shown = []
        for index, value in enumerate(call.args):
            name = names[index] if index < len(names) else f"argument{index + 1}"
            shown.append(self._argument(name, str(index), value, call, differentiated))
        for name, value in call.kwargs.items():
            shown.append(f"{name}=" + self._argument(name, name, value, call, differentiated))
        return ", ".join(shown)

    def _names_of(self, call: Call) -> Sequence[str]:
        """The names of the parameters of what is called, in order; empty if they are not known."""
        if call.handle is None:
            return self.parameters.get(call.name) or self.parameters.get(f"{call.name}.__init__", ())
        return self.parameters.get(f"{self.classes.get(call.handle, '')}.forward", ())

    def _argument(self, name: str, path: str, value: Any, call: Call, differentiated: bool) -> str:
        """An argument as text; a tensor becomes a variable like `name`, set in a line before. `path`, such as `0.1`,
        names its gradient; `differentiated`: tensors of floats require one."""
        if isinstance(value, HandleId):
            return self.models.get(value.number, "None")
        if isinstance(value, tuple | list):
            items = [(f"{name}_{index}", f"{path}.{index}", item) for index, item in enumerate(value)]
            inner = [self._argument(*item, call, differentiated) for item in items]
            return "(" + ", ".join(inner) + ("," if len(inner) == 1 else "") + ")"
        if isinstance(value, dict):
            items = [(f"{name}_{key}", f"{path}.{key}", item) for key, item in value.items()]
            inner = [self._argument(*item, call, differentiated) for item in items]
            return "{" + ", ".join(f"{key!r}: {text}" for key, text in zip(value, inner, strict=True)) + "}"
        if not isinstance(value, Tensor | np.ndarray):
            return plain(value)
        variable = self._free(name)
        ending = ""
        if isinstance(value, Tensor) and call.options.device == "meta":
            value = value.to("meta")
        if call.options.strided and not (isinstance(value, Tensor) and value.is_meta):
            repeat = "repeat_interleave" if isinstance(value, Tensor) else "repeat"
            ending = f".{repeat}(2, -1)[..., ::2]" if value.ndim else ""
        leaf = differentiated and isinstance(value, Tensor) and value.is_floating_point()
        self.lines.append(f"{variable} = {self._literal(value, variable)}{ending}{'.requires_grad_()' * leaf}")
        if leaf:
            self.leaves[path] = variable
        return f"{variable}.clone()" if leaf else variable

    # --- what was expected ---

    def _expected(self, result: str) -> Iterator[str]:
        """Yields the asserts on the expression `result`; none if an error was expected. Adds the expected values."""
        if self.due is not None and not self.due.raises:
            yield from self._asserts(result, self.due.wanted, "expected")

    def _asserts(self, result: str, wanted: Any, name: str) -> Iterator[str]:
        """Yields the asserts that `result`, an expression, is `wanted`; adds variables after `name` for its tensors."""
        match wanted:
            case tuple() | list():
                yield f"assert len({result}) == {len(wanted)}, len({result})"
                for index, part in enumerate(wanted):
                    yield from self._asserts(f"{result}[{index}]", part, f"{name}_{index}")
            case dict():
                yield f"assert {result}.keys() == {set(wanted)!r}, {result}.keys()"
                for key, part in wanted.items():
                    yield from self._asserts(f"{result}[{key!r}]", part, f"{name}_{key}")
            case PlacedTensor() | Tensor() | np.ndarray():
                yield self._compared(result, wanted, name)
            case HandleId():
                yield f"assert isinstance({result}, torch.nn.Module)"
            case Opaque():
                return
            case float():
                assert self.due is not None
                room = self.due.tolerance.of(torch.float64, max(abs(wanted), SCALE_FLOOR))
                yield f"assert abs({result} - {plain(wanted)}) <= {room:.2g}, {result}"
            case _:
                yield f"assert {result} == {plain(wanted)}, {result}"

    def _compared(self, result: str, wanted: Any, name: str, room: float | None = None) -> str:
        """The line that fails unless `result` is the tensor or array `wanted`: each number within `room`, an absolute
        difference (None: the check's); on `meta`, of its shape and dtype. Adds one that sets `name` to `wanted`."""
        assert self.due is not None
        tensor = wanted.tensor if isinstance(wanted, PlacedTensor) else wanted
        variable = self._free(name)
        self.lines.append(f"{variable} = {self._literal(tensor, variable)}")
        if isinstance(tensor, Tensor) and tensor.is_meta:
            return f"assert ({result}.shape, {result}.dtype) == ({variable}.shape, {variable}.dtype), {result}"
        numbers = as_tensor(tensor) if isinstance(tensor, np.ndarray) else tensor
        if room is None:
            room = self.due.tolerance.of(numbers.dtype, magnitude(numbers, SCALE_FLOOR))
        return f"torch.testing.assert_close({result}, {variable}, rtol=0, atol={room:.2g})"

    # --- gradients ---

    def _failing_gradients(self) -> dict[str, tuple[PlacedTensor, float]]:
        """The expected gradients that were not given, if the values agree: at most two, by name, with their room."""
        due, outcome = self.due, self.about.outcome
        if due is None or outcome is None or not due.gradients:
            return {}
        try:
            require_agreement(outcome.value, due.wanted, due.tolerance)
        except CheckFailed:
            return {}
        failing, largest = {}, largest_of(due.gradients)
        for name, wanted in due.gradients.items():
            if wanted is None or wanted.device == "meta":
                continue
            got, room = outcome.gradients.get(name), gradient_room(wanted.tensor, largest, due.tolerance)
            gradient = torch.zeros_like(wanted.tensor) if got is None else got.tensor
            try:
                require_close(gradient, wanted.tensor, room)
            except (CheckFailed, RuntimeError):  # RuntimeError: of another shape
                failing[name] = wanted, room
        return dict(list(failing.items())[:2])

    def _compare_gradients(self, call: Call, failing: dict[str, tuple[PlacedTensor, float]]) -> None:
        """Adds the backward pass and an assert for each failing gradient: the expected one, and its room."""
        assert self.due is not None
        outputs = ", ".join(paths_of("result", self.due.wanted))
        self.lines += [
            "# " + _("The check back-propagates a fixed pattern: cos(1), cos(2), … over all outputs."),
            f"outputs = [{outputs}]",
            "steps = torch.arange(1, 1 + sum(output.numel() for output in outputs), dtype=torch.float64).cos()",
            "parts = steps.split([output.numel() for output in outputs])",
            "patterns = [part.reshape(output.shape).to(output) for part, output in zip(parts, outputs)]",
            "torch.autograd.backward(outputs, patterns)",
        ]
        for name, (wanted, room) in failing.items():
            if name in self.leaves:
                where = f"{self.leaves[name]}.grad"
            else:
                where = f'dict({self.models.get(call.handle or 0, "model")}.named_parameters())["{name}"].grad'
            self.lines.append(self._compared(where, wanted, f"expected_gradient_{len(self.lines)}", room))

    # --- values as text ---

    def _free(self, wanted: str) -> str:
        """A variable name like `wanted` that is not used yet; used from now on."""
        base = "".join(letter if letter.isalnum() else "_" for letter in wanted)
        base = base if base.isidentifier() else f"value_{base}"
        name, number = base, 2
        while name in self.used:
            name, number = f"{base}_{number}", number + 1
        self.used.add(name)
        return name

    def _literal(self, value: Any, name: str) -> str:
        """An expression for a tensor or array; a large one is put aside for the file, under `name`."""
        if isinstance(value, np.ndarray):
            return self._literal(as_tensor(value), name) + ".numpy()"
        if value.is_meta:
            return f'torch.empty({tuple(value.shape)}, dtype={value.dtype}, device="meta")'
        if value.numel() > LITERAL or value.numel() == 0:
            key, number = name, 2
            while key in self.aside:
                key, number = f"{name}_{number}", number + 1
            self.aside[key] = value.detach().contiguous().cpu().clone()
            return f'tensors["{key}"]'
        dtype = "" if value.dtype in (torch.float32, torch.int64, torch.bool) else f", dtype={value.dtype}"
        return f"torch.tensor({nested(value)}{dtype})"


def _leading_to(exchanges: Sequence[Exchange], last: Call) -> Iterator[Call]:
    """The calls on which one call depends, in order, then that call: all operations on the modules it uses."""
    every: list[Call] = []
    for exchange in exchanges:
        every += [*exchange.call.first, exchange.call]
        if exchange.call is last:
            break
    wanted = _handles(last)
    makers = {call.new_handle: call for call in every if call.handle is None}
    for number in list(wanted):
        wanted |= _handles(makers[number]) if number in makers else set()
    for call in every:
        if call is last:
            break
        is_maker = call.handle is None and call.new_handle in wanted
        if is_maker or (call.handle in wanted and call.name not in SILENT):
            yield call
    yield last


def _handles(call: Call) -> set[int]:
    """The handle numbers of the called object and of those in the arguments."""
    arguments = {leaf.number for leaf in leaves((call.args, call.kwargs)) if isinstance(leaf, HandleId)}
    return arguments | ({call.handle} if call.handle is not None else set())


def _asked(call: Call, model: str, arguments: str) -> str:
    """The Python expression for a call of the module in the variable `model`, or of an operation that looks at it."""
    if call.own:
        return f"{model}.{call.name}" + f"({arguments})" * (call.own == "method")
    paths = [repr(value) for value in call.args]
    return {
        "__call__": f"{model}({arguments})",
        "parameters": f"{{name: value.detach() for name, value in {model}.named_parameters(remove_duplicate=False)}}",
        "is_training": f"all(part.training for part in {model}.modules())",
        "is_evaluating": f"not any(part.training for part in {model}.modules())",
        "shares": "__import__('operator').attrgetter({0})({2}) is __import__('operator').attrgetter({1})({2})".format(
            *(paths + ["''", "''"])[:2], model
        ),
    }.get(call.name, model)
