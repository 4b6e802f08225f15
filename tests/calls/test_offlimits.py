"""Built-ins that are off limits are seen however they are reached, and looking changes nothing."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._decomp import decomposition_table
from torch.ao.nn import quantizable
from torch.distributions.transforms import SoftmaxTransform
from torch.nn import functional as F
from torch.overrides import handle_torch_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from grader.calls.builtins import FAMILIES, PLACES, BuiltIns, banned
from grader.calls.call import Call, Options
from grader.calls.reads import FunctionNames
from grader.calls.responder import Responder

X = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(0))
CPU = torch._C.DispatchKey.CPU
AUTOGRAD = torch._C.DispatchKey.AutogradCPU
CPUS = torch._C.DispatchKeySet(CPU)
PLACE = torch._C.DispatchKeySet(torch._C._dispatch_key_parse("TESTING_ONLY_GenericWrapper"))
HEADS = X.reshape(2, 1, 4, 6)


def softmax_of(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


class Backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return gradient.softmax(-1)


class OwnEncoder(nn.TransformerEncoderLayer):
    def forward(self, src: Tensor) -> Tensor:
        return self.linear2(self.linear1(src))


class InItsPlace(TorchDispatchMode):
    def __torch_dispatch__(self, func: object, types: object, args: Any = (), kwargs: Any = None) -> Any:
        return args[0].softmax(-1)


class InItsPlaceToo(Tensor):
    @classmethod
    def __torch_dispatch__(cls, func: object, types: object, args: Any = (), kwargs: Any = None) -> Any:
        return X.softmax(-1)


def in_a_mode() -> Tensor:
    with InItsPlace():  # type: ignore[no-untyped-call]  # torch gives it no types
        return X.exp()


def behind_torchs_back() -> Tensor:
    with torch._C.DisableTorchFunction():
        return X.softmax(-1)


def out_of_the_way(guard: Any) -> Tensor:
    with guard:
        return X.softmax(-1)


def kernel_from_the_library() -> object:
    if not hasattr(torch.library, "get_kernel"):
        pytest.skip("this version of torch has none")
    return torch.library.get_kernel("aten::_softmax", "CPU").call_boxed(CPUS, X, -1, False)


def switched_off(switch: Callable[..., None], to: bool) -> Tensor:
    for place in PLACES:
        switch(torch._C._dispatch_key_parse(place), to)
    return X.softmax(-1)


def unwrapped_heads() -> object:
    heads, eye = inspect.unwrap(F.multi_head_attention_forward), torch.eye(6)
    return heads(X, X, X, 6, 2, eye.repeat(3, 1), None, None, None, False, 0.0, eye, None)


def flex_in_python() -> object:
    from torch._higher_order_ops.flex_attention import math_attention
    from torch.nn.attention.flex_attention import _create_empty_block_mask

    blocks = _create_empty_block_mask(HEADS, HEADS).as_tuple()
    return math_attention(HEADS, HEADS, HEADS, lambda score, *place: score, blocks, 1.0, {})


def for_another_program() -> object:
    onnx = pytest.importorskip("torch.onnx.ops")  # not in old versions
    return onnx.attention(HEADS, HEADS, HEADS, qk_matmul_output_mode=1)


def in_a_backward_pass() -> None:
    Backward.apply(X.clone().requires_grad_()).sum().backward()


def flex() -> object:
    from torch._higher_order_ops import flex_attention

    def unchanged(score: Tensor, *place: Tensor) -> Tensor:
        return score

    def visible(*place: Tensor) -> Tensor:
        return torch.ones((), dtype=torch.bool)

    one = torch.ones(2, 1, 1, dtype=torch.int32)
    mask = (4, 4, one[..., 0], one[..., None] * 0, None, None, one[..., 0], one[..., None] * 0, None, None, 4, 4)
    return flex_attention(HEADS, HEADS, HEADS, unchanged, (*mask, visible), 1.0, {}, (), ())


SEEN: dict[str, tuple[str, Callable[[], object]]] = {
    "patches taken out": ("patches", lambda: F.unfold(torch.ones(1, 2, 4, 4), 2)),
    "patches put back": ("patches", lambda: F.fold(torch.ones(1, 8, 4), (4, 4), 2, stride=2)),
    "a module that takes patches out": ("patches", lambda: nn.Unfold(2)(torch.ones(1, 2, 4, 4))),
    "pixels shuffled": ("patches", lambda: F.pixel_shuffle(torch.ones(1, 4, 2, 2), 2)),
    "pixels shuffled back": ("patches", lambda: nn.PixelUnshuffle(2)(torch.ones(1, 1, 4, 4))),
    "any method of a tensor": ("torch", lambda: X.exp()),
    "a shape": ("torch", lambda: X.shape),
    "an array made a tensor": ("torch", lambda: torch.from_numpy(X.numpy())),
    "a list made a tensor": ("torch", lambda: torch.tensor([1.0])),
    "a tensor made of nothing": ("torch", lambda: torch.zeros(2)),
    "a tensor among arrays": ("torch", lambda: np.asarray(X) + 1),
    "any op past torch's hooks": ("torch", behind_torchs_back),
    "any module": ("torch", lambda: nn.Linear(6, 2)(X)),
    "a method": ("softmax", lambda: X.softmax(-1)),
    "an op": ("softmax", lambda: torch.ops.aten._softmax(X, -1, False)),
    "an overload": ("softmax", lambda: torch.ops.aten.softmax.int(X, -1)),
    "a result put elsewhere": ("softmax", lambda: torch.softmax(X, -1, out=torch.empty_like(X))),
    "a logarithm of it": ("softmax", lambda: F.log_softmax(X, -1)),
    "one for masked tensors": ("softmax", lambda: torch.masked.softmax(X, -1, mask=X > 0)),
    "a module": ("softmax", lambda: nn.Softmin(-1)(X)),
    "a script": ("softmax", lambda: torch.jit.script(softmax_of)(X)),
    "what a compiler puts in its place": ("softmax", lambda: torch._refs.softmax(X, -1)),
    "another op": ("softmax", lambda: F.cross_entropy(X[0], torch.arange(4))),
    "every row": ("softmax", lambda: torch.func.vmap(lambda row: row.softmax(-1))(X)),
    "a gradient": ("softmax", lambda: torch.func.grad(lambda x: x.softmax(-1).sum())(X)),
    "a checkpoint": ("softmax", lambda: checkpoint(lambda x: x.softmax(-1), X, use_reentrant=False)),
    "torch's hooks switched off": ("softmax", behind_torchs_back),
    "a backward pass": ("softmax", in_a_backward_pass),
    "a mode of one's own": ("softmax", in_a_mode),
    "a tensor class of one's own": ("softmax", lambda: X.as_subclass(InItsPlaceToo).exp()),
    "a distribution's transform": ("softmax", lambda: SoftmaxTransform()(X)),
    "heads to be quantised": ("multi_head_attention", lambda: quantizable.MultiheadAttention(6, 2)(X, X, X)),
    "a kernel by its place": ("softmax", lambda: torch.ops.aten._softmax.default._op_dk(CPU, X, -1, False)),
    "a kernel by its places": ("softmax", lambda: torch.ops.aten._softmax.default.redispatch(CPUS, X, -1, False)),
    "a kernel by its op's handle": (
        "softmax",
        lambda: torch.ops.aten._softmax.default._handle.redispatch_boxed(CPUS, X, -1, False),
    ),
    "a kernel by its op's name": (
        "softmax",
        lambda: torch._C._get_operation_overload("aten::_softmax", "")[1](CPU, X, -1, False),
    ),
    "a kernel from the library": ("softmax", kernel_from_the_library),
    "all places but one taken away": (
        "softmax",
        lambda: out_of_the_way(torch._C._ForceDispatchKeyGuard(CPUS, torch._C.DispatchKeySet(AUTOGRAD))),
    ),
    "places switched off": (
        "softmax",
        lambda: switched_off(torch._C._dispatch_tls_set_dispatch_key_included, False),
    ),
    "places shut out": ("softmax", lambda: switched_off(torch._C._dispatch_tls_set_dispatch_key_excluded, True)),
    "a place left out": ("softmax", lambda: out_of_the_way(torch._C._ExcludeDispatchKeyGuard(PLACE))),
    "what an op is made of, by the op": ("gelu", lambda: decomposition_table[torch.ops.aten.gelu.default](X)),
    "what is inside of a decorator": ("gelu", lambda: torch._refs.nn.functional.gelu.__wrapped__(X)),
    "what a function stands for": ("softmax", lambda: inspect.unwrap(torch._refs.softmax)(X, -1)),
    "heads that a function stands for": ("multi_head_attention", unwrapped_heads),
    "a kernel that a function stands for": (
        "softmax",
        lambda: inspect.unwrap(torch.ops.aten._softmax.default._op_dk)(CPU, X, -1, False),
    ),
    "flex as Python has it": ("flex_attention", flex_in_python),
    "attention of another program's": ("scaled_dot_product_attention", for_another_program),
    "shapes alone": ("softmax", lambda: X.to("meta").softmax(-1)),
    "flash": ("scaled_dot_product_attention", lambda: F.scaled_dot_product_attention(HEADS, HEADS, HEADS)),
    "heads": ("multi_head_attention", lambda: nn.MultiheadAttention(6, 2)(X, X, X)),
    "flex": ("flex_attention", flex),
    "in place": ("dropout", lambda: F.dropout(X.clone(), 0.5, inplace=True)),
    "whole channels": ("dropout", lambda: F.dropout1d(X, 0.5)),
    "a norm of one group": ("norms", lambda: F.group_norm(X, 1)),
    "a norm of each": ("norms", lambda: F.instance_norm(X[None], use_input_stats=True)),
    "a norm of columns": ("norms", lambda: F.batch_norm(X.mT, None, None, training=True)),
    "a norm without a mean": ("norms", lambda: F.rms_norm(X, (6,))),
    "a norm": ("layer_norm", lambda: nn.LayerNorm(6)(X)),
    "gelu": ("gelu", lambda: nn.GELU(approximate="tanh")(X)),
    "an encoder": ("transformer", lambda: nn.TransformerEncoderLayer(6, 2)(X)),
    "an encoder's forward": ("transformer", lambda: nn.TransformerEncoderLayer(6, 2).forward(X)),
    "an encoder of one's own": ("transformer", lambda: OwnEncoder(6, 2)(X)),
}


@pytest.mark.filterwarnings("ignore:.*jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("way", SEEN)
def test_a_built_in_is_seen(way: str) -> None:
    """However it is called, and each time that it is."""
    family, run = SEEN[way]
    for _time in range(2):
        with BuiltIns([family]) as seen:
            run()
        assert banned(seen.names, [family])
        seen.names.clear()
        run()
        assert not seen.names  # nobody looked


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_ops_of_other_namespaces_are_seen() -> None:
    """Also where this machine has no kernel for them."""
    with BuiltIns(["softmax", "layer_norm"]) as seen:
        with suppress(NotImplementedError, RuntimeError):
            torch.ops.quantized.softmax(torch.quantize_per_tensor(X, 0.1, 0, torch.quint8), -1, 0.1, 0)
        with suppress(NotImplementedError, RuntimeError):
            torch.ops.static_runtime.layer_norm(X, [6], None, None, 1e-5, False)
    assert {"softmax", "layer_norm"} <= seen.names


def scaled_dot_product_attention(x: Tensor) -> Tensor:
    """None of torch's, whatever its name says."""
    return x


def test_a_name_alone_is_no_function_of_torchs() -> None:
    """What is required is not met by a function with its name."""
    with FunctionNames() as called:
        handle_torch_function(scaled_dot_product_attention, (X,), X)
        handle_torch_function(operator.matmul, (X,), X, X.mT)
        F.softmax(X, -1)
    assert "scaled_dot_product_attention" not in called.names
    assert "softmax" in called.names


class ReadiesItself(nn.Module):
    """Does in `eval` what it may not do."""

    def __init__(self, late: bool = False) -> None:
        super().__init__()
        self.late = late

    def eval(self) -> ReadiesItself:
        torch.softmax(X, -1)
        return self

    def forward(self, x: Tensor) -> Tensor:
        return x


def test_every_call_on_a_module_is_watched() -> None:
    """Not its forward alone."""
    responder = Responder({"ReadiesItself": ReadiesItself}, {"ReadiesItself": ("softmax",)})
    assert responder.respond(Call("ReadiesItself", new_handle=1)).off_limits == []
    assert responder.respond(Call("eval", handle=1)).off_limits
    assert responder.respond(Call("__call__", (X,), handle=1)).off_limits == []


def test_what_runs_after_the_call_counts() -> None:
    """Until its answer is bytes for this call, then for the next."""
    responder = Responder({"f": lambda x: x, "free": lambda x: torch.softmax(x, -1)}, {"f": ("softmax",)})
    with responder.watching():
        assert responder.respond(Call("f", (X,))).off_limits == []
        torch.softmax(X, -1)
        assert responder.used_late()
        torch.softmax(X, -1)
        assert responder.respond(Call("f", (X,))).off_limits
        responder.used_late()
        assert responder.respond(Call("free", (X,))).off_limits == responder.used_late() == []
        assert responder.respond(Call("f", (X,))).off_limits == []


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        weights = (x - x.amax(-1, keepdim=True)).exp()
        return weights / weights.sum(-1, keepdim=True)

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return gradient


def softmax(x: Tensor) -> Tensor:
    return Softmax.apply(x)


UNSEEN: dict[str, Callable[[], object]] = {
    "a function of one's own with the name": lambda: softmax(X.clone().requires_grad_()).sum().backward(),
    "patches cut as a view": lambda: X.unfold(1, 2, 2).exp(),
    "a module of one's own with the name": lambda: type("LayerNorm", (nn.Linear,), {})(6, 6)(X),
    "a module that is made and not run": lambda: (nn.Softmax(-1), nn.MultiheadAttention(6, 2), nn.LayerNorm(6)),
    "what computes the same": lambda: (X - X.logsumexp(-1, keepdim=True)).exp() * (torch.rand_like(X) > 0.1),
}


@pytest.mark.parametrize("way", UNSEEN)
def test_work_of_ones_own_is_not_taken_for_one(way: str) -> None:
    """A name proves nothing."""
    families = FAMILIES.keys() - {"torch", "exponential", "product"}  # of which the steps themselves are made
    with BuiltIns(families) as seen:
        UNSEEN[way]()
    assert not banned(seen.names, families)


def test_arrays_alone_are_no_torch() -> None:
    """Nor is what brings the arguments there and the answer back."""
    responder = Responder({"f": lambda x: np.exp(x), "g": torch.from_numpy}, {"f": ("torch",), "g": ("torch",)})
    options = Options(strided=True, measures=("peak",))
    assert responder.respond(Call("f", (X.numpy(),), options=options)).off_limits == []
    assert responder.respond(Call("g", (X.numpy(),))).off_limits


def test_looking_changes_nothing() -> None:
    """Values, gradients and random numbers are those of a run that nobody looks at."""

    def run() -> list[Tensor]:
        torch.manual_seed(0)
        encoder = nn.TransformerEncoderLayer(6, 2, dropout=0.3, activation="gelu")
        x = X.clone().requires_grad_()
        result = encoder(x)
        F.cross_entropy(result[0], torch.arange(4)).backward()
        assert x.grad is not None
        return [result.detach(), x.grad, *(weight.grad for weight in encoder.parameters() if weight.grad is not None)]

    alone = run()
    with BuiltIns(FAMILIES):
        watched = run()
    assert len(alone) == len(watched) > 10
    assert all(torch.equal(one, other) for one, other in zip(alone, watched, strict=True))


def test_an_error_is_the_learners_own() -> None:
    """What a built-in raises under watch is what it raises without."""
    with BuiltIns(FAMILIES), pytest.raises(IndexError, match="Dimension out of range"):
        X.softmax(7)
    with pytest.raises(IndexError, match="Dimension out of range"):
        X.softmax(7)


def test_each_call_says_what_it_used() -> None:
    """And not what another one did: a call from the fifth on, too."""
    calls = iter([False] * 4 + [True, False])

    def weights(x: Tensor) -> Tensor:
        return x.softmax(-1) if next(calls) else x.exp()

    responder = Responder({"weights": weights}, {"weights": ("softmax",)})
    said = [responder.respond(Call("weights", (X,))).off_limits for _call in range(6)]
    assert said == [[], [], [], [], ["_softmax", "softmax"], []]


class Answer:
    """A class in the place of a function, one in the place of a class, and what only calls itself a class."""

    def __new__(cls, x: Tensor) -> Any:
        return x.softmax(-1)


class NoClass:
    __class__ = property(lambda self: type)  # type: ignore[assignment]

    def __call__(self, x: Tensor) -> Tensor:
        return x.softmax(-1)


class Ready(nn.Module):
    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", x.softmax(-1))


class Refusing(nn.Module):
    def __init__(self, x: Tensor) -> None:
        super().__init__()
        raise ValueError(x.softmax(-1))


@pytest.mark.parametrize(("target", "seen"), [(Answer, True), (NoClass(), True), (Ready, False), (Refusing, False)])
def test_a_class_is_at_work_where_no_module_comes_of_it(target: Callable[..., Any], seen: bool) -> None:
    """A function may be any callable, a class too. To make a module is no work yet."""
    responder = Responder({"weights": target}, {"weights": ("softmax",)})
    assert bool(responder.respond(Call("weights", (X,))).off_limits) is seen


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_scripted_module_runs_beside_the_watch() -> None:
    """Where it is allowed, TorchScript compiles nn.MultiheadAttention although a function of it is watched."""
    with BuiltIns({"transformer"}):
        scripted = torch.jit.script(nn.MultiheadAttention(6, 2, batch_first=True))
        assert scripted(X, X, X)[0].shape == X.shape
