"""Answers calls from one module's names: the one place where a request becomes a response.

The worker answers with a learner's module, the judge with a reference or a misconception; both through here, so that
no second way of calling, seeding, differentiating or measuring exists.
"""

from __future__ import annotations

import inspect
import itertools
import linecache
import numbers
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import _engine_run_backward
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from grader import offlimits
from grader.messages import (
    DTYPE_NAMES,
    MAX_TENSOR_ELEMENTS,
    Call,
    HandleId,
    Opaque,
    Options,
    Outcome,
    Placed,
    Raised,
    extent,
)

MAX_ITEMS = 2000  # items taken from one generator or list
MAX_DEPTH = 4  # of tuples in tuples
MAX_INT = 1 << 63
PLAIN = (type(None), bool, int, float, str, bytes, tuple, list, dict, set, Tensor, nn.Module)  # travel as they are
HIDDEN_LOCALS = ("self", "__class__")
BACKWARD = "backward"  # where an error arose that no line of the called code has raised


class NotThere(Exception):
    """What is called is not there: "undefined", "not callable", "no module" or "no such method"."""


class UncompiledMode(TorchDispatchMode):
    """A dispatch mode that torch does not hide from its compiler: to hide it, it imports all of the compiler."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class LargestStorage(UncompiledMode):
    """Notes the largest storage, in elements, of any tensor that an op returns inside the block."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.elements = 0

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in _tensors([result]):
            if leaf.layout == torch.strided:
                self.elements = max(self.elements, leaf.untyped_storage().nbytes() // leaf.element_size())
        return result


class OneDevice(UncompiledMode):
    """Refuses to mix tensors on `meta` with others, as an accelerator does: some ops do not look on `meta`.

    Copies between devices are right anywhere, and an accelerator takes indices from the CPU.
    """

    MIXING = ("copy_", "_to_copy", "index", "index_put", "index_put_", "set_", "detach")

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        leaves = _tensors([*args, *kwargs.values()] if kwargs else args)
        others = [leaf for leaf in leaves if not leaf.is_meta]
        if others and len(leaves) > 1:
            name = func.name().removeprefix("aten::").partition(".")[0]  # type: ignore[attr-defined]  # an op has one
            elsewhere = [leaf for leaf in others if leaf.dim() > 0]
            if elsewhere and len(elsewhere) < len(leaves) and name not in self.MIXING:
                stray = elsewhere[0]
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but {name} got one on meta and one of shape "
                    f"{tuple(stray.shape)} on {stray.device}"
                )
            numbers = sum(leaf.dim() == 0 and leaf.device.type == "cpu" for leaf in others)
            if 0 < numbers < len(leaves):
                # One number on the CPU is right on an accelerator; some of torch's meta kernels refuse it.
                args, kwargs = tree_map(_number_on_meta, (args, kwargs))
        return func(*args, **kwargs)


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among what an op takes or gives: tensors, lists of them, and what is none."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += [item for item in value if isinstance(item, Tensor)]
    return found


class Responder:
    """Answers calls by name.

    `names` are the public names of the module. `off_limits` maps a public name to the families banned in it; without
    any, nothing is watched unless a call asks for it. `is_own` says of a file name whether it is the module's author's.
    """

    def __init__(
        self,
        names: Mapping[str, Any],
        off_limits: Mapping[str, tuple[str, ...]] | None = None,
        is_own: Callable[[str], bool] = lambda filename: True,
    ) -> None:
        self.names = names
        self.off_limits = off_limits or {}
        self.is_own = is_own
        self.handles: dict[int, Any] = {}
        self.made_by: dict[int, str] = {}
        self._built_ins = offlimits.BuiltIns({family for families in self.off_limits.values() for family in families})

    def begin_check(self, seed: int) -> None:
        """Drops the modules made so far and seeds the random stream."""
        self.handles.clear()
        self.made_by.clear()
        seed_everything(seed)

    def respond(self, call: Call, begins: Callable[[], None] = lambda: None) -> Outcome:
        """Does what comes first, makes the call, notes what was asked. Never raises for what the called code does.

        `begins` is called between the two.
        """
        if call.options.device == "cuda":
            torch.cuda.init()  # a generator that is not there yet could not be seeded
        if call.begin is not None:
            self.begin_check(call.begin)
        for place, earlier in enumerate(call.first):
            outcome = self._respond(earlier)
            made = earlier.handle is not None or isinstance(outcome.value, HandleId)
            if outcome.raised is not None or not made or (earlier.name == "load_parameters" and outcome.value):
                outcome.of = place
                return outcome
        begins()
        return self._respond(call)

    def _respond(self, call: Call) -> Outcome:
        outcome = Outcome()
        inputs = _Inputs(call, self.handles)
        name = call.name if call.handle is None else self.made_by.get(call.handle, call.name)
        built_ins = self._watched(name, call)
        with ExitStack() as stack:
            if built_ins:
                stack.enter_context(built_ins)
            functions = stack.enter_context(offlimits.FunctionNames()) if call.options.functions else None
            largest = stack.enter_context(LargestStorage()) if call.options.largest else None
            if call.options.device == "meta":
                stack.enter_context(OneDevice())  # type: ignore[no-untyped-call]  # torch gives it no types
            try:
                target = self._target(call)
                if call.options.seed is not None:
                    seed_everything(call.options.seed)
                result = _materialised(target(*inputs.args, **inputs.kwargs))
            except BaseException as error:  # SystemExit and KeyboardInterrupt are a learner's errors too
                outcome.raised = self.describe(error)
                result = None
        outcome.functions = sorted(functions.names) if functions else []
        outcome.largest = largest.elements if largest else 0
        outcome.modified = inputs.modified()
        if outcome.raised is None:
            try:
                outcome.value = self._travelling(result, call, name)
            except BaseException as error:
                outcome.raised = self.describe(error)
        if outcome.raised is None and call.options.gradients:
            try:
                with built_ins or nullcontext():  # a backward pass may be the learner's own code
                    outcome.gradients = self._gradients(result, inputs, call.handle)
            except BaseException as error:
                outcome.raised = self.describe(error)
                outcome.raised.function = outcome.raised.function or BACKWARD
        if built_ins and not self._made_a_module(call, result):
            outcome.off_limits = offlimits.banned(built_ins.names, self._families(name, inputs.handle_numbers))
        return outcome

    # --- what is called ---

    def _target(self, call: Call) -> Callable[..., Any]:
        if call.handle is None:
            if call.name not in self.names:
                raise NotThere("undefined")
            target = self.names[call.name]
            if not callable(target):
                raise NotThere("not callable")
            return _placed_on(target, call.options.device) if inspect.isclass(target) else target
        module = self.handles.get(call.handle)
        if call.name == "__call__":
            forward: Any = module
            return forward  # type: ignore[no-any-return]  # a module: calling it is its forward
        if not isinstance(module, nn.Module):
            raise NotThere("no module")
        methods: dict[str, Callable[..., Any]] = {
            "parameters": lambda: dict(module.named_parameters(remove_duplicate=False)),
            "load_parameters": lambda values, evaluating: load_parameters(module, values, evaluating),
            "train": lambda: module.train() and None,
            "eval": lambda: module.eval() and None,
            "to": lambda device, dtype: module.to(device, getattr(torch, dtype) if dtype else None) and None,
            "is_training": lambda: all(part.training for part in module.modules()),
            "is_evaluating": lambda: not any(part.training for part in module.modules()),
            "shares": lambda first, second: _attribute(module, first) is _attribute(module, second),
        }
        if call.name not in methods:
            raise NotThere(f"a module has no {call.name} here")
        return methods[call.name]

    def _families(self, name: str, handles: list[int]) -> list[str]:
        names = {name, *(self.made_by.get(number, "") for number in handles)}
        return [family for public in names for family in self.off_limits.get(public, ())]

    def _watched(self, name: str, call: Call) -> offlimits.BuiltIns | None:
        """What notes the built-ins that a call uses, where some are off limits and it does a public name's work: moving
        a module does not."""
        if (call.handle is not None and call.name != "__call__") or not self._families(name, []):
            return None
        self._built_ins.names = set()
        return self._built_ins

    def _made_a_module(self, call: Call, result: Any) -> bool:
        """Whether a call made a module, or failed to, which is no work yet. A class may well stand for a function, and
        give its result when it is called: what came tells, and not what was called."""
        if call.handle is not None or not inspect.isclass(self.names.get(call.name)):
            return False
        return result is None or isinstance(result, nn.Module)

    # --- what comes back ---

    def _travelling(self, value: Any, call: Call, name: str, depth: int = 0) -> Any:
        match value:
            case None | bool() | float():
                return value
            case int() if abs(value) < MAX_INT:
                return int(value)
            case str():
                return str(value)
            case Tensor():
                return _travelling_tensor(value)
            case nn.Module() if depth == 0:
                self.handles[call.new_handle] = value
                self.made_by[call.new_handle] = name
                return HandleId(call.new_handle)
            case numbers.Integral() if abs(int(value)) < MAX_INT:  # NumPy's, say
                return int(value)
            case numbers.Real() if not isinstance(value, numbers.Integral):
                return float(value)
            case tuple() | list() if depth < MAX_DEPTH and len(value) <= MAX_ITEMS:
                return tuple(self._travelling(item, call, name, depth + 1) for item in value)
            case dict() if depth == 0 and len(value) <= MAX_ITEMS:
                return {str(key): self._travelling(item, call, name, depth + 1) for key, item in value.items()}
        return Opaque(f"an object of type {type(value).__qualname__}")

    def _gradients(self, result: Any, inputs: _Inputs, handle: int | None) -> dict[str, Placed | None]:
        wanted = dict(inputs.leaves)
        module = self.handles.get(handle) if handle is not None else None
        if isinstance(module, nn.Module):
            wanted |= dict(module.named_parameters(remove_duplicate=False))  # a tied weight has two names
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
        pairs = list(zip(outputs, cotangents(outputs), strict=True))
        pairs = [(output, cotangent) for output, cotangent in pairs if output.requires_grad]
        if not pairs or not wanted:
            return dict.fromkeys(wanted)
        for leaf in wanted.values():
            leaf.grad = None  # of an earlier call
        # What `Tensor.backward` calls: that itself is one function to torch, what happens in it goes unwatched. Asked
        # for the gradients of some leaves only, as `torch.autograd.grad` is, a `checkpoint` of the older kind refuses.
        _engine_run_backward(
            tuple(output for output, _ in pairs), tuple(cotangent for _, cotangent in pairs), False, False, (),
            allow_unreachable=True, accumulate_grad=True,
        )  # fmt: skip
        return {
            name: None if leaf.grad is None else Placed(leaf.grad.detach().cpu(), str(leaf.grad.device))
            for name, leaf in wanted.items()
        }

    def describe(self, error: BaseException) -> Raised:
        """What an error of the called code says, and where in its author's own file it arose."""
        frames: list[tuple[types.FrameType, int]] = []
        walker = error.__traceback__
        while walker is not None:
            frames.append((walker.tb_frame, walker.tb_lineno))
            walker = walker.tb_next
        own = [(frame, line) for frame, line in frames if self.is_own(frame.f_code.co_filename)]
        try:
            message = str(error)
        except BaseException:  # an exception class of the learner's may fail even at this
            message = ""
        raised = Raised(type(error).__name__, message)
        if isinstance(error, SyntaxError) and self.is_own(error.filename or ""):
            raised.file, raised.line = error.filename or "", error.lineno or 0
            raised.source, raised.message = error.text or "", error.msg
            raised.source = (raised.source or linecache.getline(raised.file, raised.line)).strip()
        elif isinstance(error, NotThere):
            file = self.names.get("__file__")
            raised.file = file if type(file) is str and self.is_own(file) else ""
        elif own:
            frame, raised.line = own[-1]
            raised.file, raised.function = frame.f_code.co_filename, frame.f_code.co_name
            raised.source = linecache.getline(raised.file, raised.line).strip()
            raised.shapes = [
                f"{name}: {shape}"
                for name, value in itertools.islice(frame.f_locals.items(), 50)
                if name not in HIDDEN_LOCALS and (shape := _shape(value))
            ]
        return raised


def _shape(value: Any) -> str:
    """The shape of a tensor, those in a pair, as `((1, 2, 5), None)`, where one was taken for the other; else empty."""
    if isinstance(value, Tensor):
        return str(tuple(value.shape))
    if type(value) is tuple and len(value) == 2 and isinstance(value[0], Tensor):
        return f"({_shape(value[0])}, {_shape(value[1]) or ('None' if value[1] is None else '…')})"
    return ""


def cotangents(outputs: list[Tensor]) -> Iterator[Tensor]:
    """What is back-propagated from each output: cos(1), cos(2), … in the output's shape, one run over all outputs.

    A fixed pattern and not a draw, so that both sides make it for themselves whatever shape came out.
    """
    start = 1
    for output in outputs:
        count = output.numel() if output.device.type != "meta" else 0
        steps = torch.arange(start, start + count, dtype=torch.float64, device="cpu")  # a file may set a default device
        start += count
        if output.device.type == "meta":
            yield torch.empty_like(output)
        else:
            yield torch.cos(steps).to(output.device, output.dtype).reshape(output.shape)


def _number_on_meta(leaf: Any) -> Any:
    return leaf.to("meta") if isinstance(leaf, Tensor) and leaf.dim() == 0 and leaf.device.type == "cpu" else leaf


def seed_everything(seed: int) -> None:
    """What `torch.manual_seed` does, without its note of the call stack for every accelerator that is not there."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)


def load_parameters(
    module: nn.Module, values: Mapping[str, Tensor], evaluating: bool
) -> dict[str, tuple[str, ...]] | None:
    """Copies `values` into the parameters of the same names; says what does not fit, or returns None."""
    for path, part in module.named_modules():
        if isinstance(part, nn.LazyLinear) and f"{path}.weight" in values:
            part.initialize_parameters(values[f"{path}.weight"])  # else it gets its width at its first call
    own = {name: value for name, value in module.named_parameters(remove_duplicate=False) if not is_lazy(value)}
    missing = tuple(name for name in values if name not in own)
    extra = tuple(name for name in own if name not in values)
    misshapen = tuple(
        f"{name}: {tuple(own[name].shape)}"
        for name in values
        if name in own and own[name].shape != values[name].shape
    )  # fmt: skip
    if missing or extra or misshapen:
        deeper = tuple(f".{name}" for name in missing)  # one module further in, as in a ModuleDict around all of them
        candidates = [name for name in own if name in extra or name.endswith(deeper)]
        shapes = tuple(f"{name}: {tuple(own[name].shape)}" for name in candidates)
        known = {id(own[name]): name for name in values if name in own}
        twice = tuple(f"{name}: {known[id(own[name])]}" for name in extra if id(own[name]) in known)
        return {"missing": missing, "extra": extra, "misshapen": misshapen, "shapes": shapes, "twice": twice}
    with torch.no_grad():
        for name, value in values.items():
            own[name].copy_(value)
    if evaluating:
        module.eval()
    return None


class _Inputs:
    """The arguments of one call: modules for handle numbers, tensors on the device, leaves for gradients."""

    def __init__(self, call: Call, handles: Mapping[int, Any]) -> None:
        self.leaves: dict[str, Tensor] = {}
        self.handle_numbers: list[int] = []
        self._given: list[tuple[str, Tensor, Tensor]] = []
        self._options: Options = call.options
        self._handles = handles
        bookkeeping = call.handle is not None and call.name != "__call__"
        self._keep = not bookkeeping
        self.args = tuple(self._ready(str(index), value) for index, value in enumerate(call.args))
        self.kwargs = {name: self._ready(name, value) for name, value in call.kwargs.items()}

    def _ready(self, name: str, value: Any) -> Any:
        if isinstance(value, HandleId):
            self.handle_numbers.append(value.number)
            return self._handles.get(value.number)
        if isinstance(value, tuple | list):
            return type(value)(self._ready(f"{name}.{index}", item) for index, item in enumerate(value))
        if not isinstance(value, Tensor) or not self._keep:
            return value
        if self._options.device != "cpu":
            value = value.to(self._options.device)
        # A copy, so that what the called code does to it stays with it, and not a leaf: a leaf that wants a gradient
        # refuses in-place changes, which would tell about autograd and not about the change.
        if self._options.gradients and value.is_floating_point():
            leaf = value.detach().clone(memory_format=torch.preserve_format).requires_grad_()
            self.leaves[name] = leaf
            given = leaf.clone(memory_format=torch.preserve_format)
        else:
            given = value.detach().clone(memory_format=torch.preserve_format)
        self._given.append((name, given, value))
        return given

    def modified(self) -> list[str]:
        """The names of the tensor arguments that no longer hold what was given."""
        return [name for name, given, before in self._given if not _same_bits(given, before)]


def _same_bits(given: Tensor, before: Tensor) -> bool:
    if given.shape != before.shape or given.dtype != before.dtype or given.device != before.device:
        return False
    if given.device.type == "meta" or torch.equal(given, before):
        return True
    return given.is_floating_point() and torch.equal(given.isnan(), before.isnan()) and torch.equal(
        given.nan_to_num(), before.nan_to_num()
    )  # fmt: skip


def _materialised(value: Any) -> Any:
    """A generator, a data loader, whatever is gone through becomes the list of what it yields, up to a bound.

    So does a tuple or list of a kind of one's own, which may do its work only now, and has to do it while watched.
    """
    if isinstance(value, tuple | list) and type(value) not in (tuple, list):
        return list(itertools.islice(value, MAX_ITEMS + 1))
    # Whether something is an Iterable takes long to say of a class seen for the first time, as each learner's are.
    if not isinstance(value, PLAIN) and isinstance(value, Iterable):
        return list(itertools.islice(value, MAX_ITEMS))
    if not isinstance(value, PLAIN) and hasattr(type(value), "__getitem__") and hasattr(type(value), "__len__"):
        return list(itertools.islice(iter(value), min(len(value), MAX_ITEMS)))  # `for` goes through it, by number
    return value


def _placed_on(made: Callable[..., Any], device: str) -> Callable[..., Any]:
    if device == "cpu":
        return made

    def make(*args: Any, **kwargs: Any) -> Any:
        module = made(*args, **kwargs)
        return module.to(device) if isinstance(module, nn.Module) else module

    return make


def _attribute(module: nn.Module, path: str) -> Any:
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _travelling_tensor(value: Tensor) -> Placed | Opaque:
    shape = tuple(value.shape)
    if type(value) not in (Tensor, nn.Parameter):
        return Opaque(f"a {type(value).__name__}, a tensor subclass, of shape {shape}")
    if value.layout != torch.strided or value.is_quantized:
        return Opaque(f"a tensor of layout {value.layout} and shape {shape}")
    if extent(shape) > MAX_TENSOR_ELEMENTS and value.device.type != "meta":
        return Opaque(f"a tensor of shape {shape} (too big)")
    if value.dtype not in DTYPE_NAMES:
        return Opaque(f"a tensor of dtype {str(value.dtype).removeprefix('torch.')} and shape {shape}")
    if value.device.type == "meta":
        return Placed(value.detach(), "meta")
    return Placed(value.detach().resolve_neg().to("cpu"), str(value.device))
