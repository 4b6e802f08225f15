"""Loads torch, once, into the process that all others are forked from.

What torch imports lazily (at the first backward pass, the first meta tensor) is imported here, so that no forked
process pays for it again or needs files that its sandbox hides.
"""

from __future__ import annotations

import codecs
import gc
import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

CODECS = ("ascii", "latin_1", "utf_8_sig", "utf_16", "idna")  # each is a module, found on the disk at first use
# Ops whose kernel is one for all devices, and asks for another one that `meta` has not, or for a value.
NOT_BELOW_PYTHON = (
    "convolution", "convolution_backward", "cummax", "cummin", "linspace", "logcumsumexp", "logspace",
    "masked_scatter_backward",
)  # fmt: skip


def load_torch() -> None:
    """Imports torch and what it needs at the first backward pass and the first meta tensor. One thread."""
    import torch

    torch.set_num_threads(1)
    importlib.import_module("torch.fx.experimental.symbolic_shapes")
    for codec in CODECS:
        codecs.lookup(codec)
    if sys.platform != "win32":
        importlib.import_module("resource")
    torch.compile = _uncompiled
    torch.use_deterministic_algorithms = _deterministic
    torch.utils.data.DataLoader._get_iterator = _in_this_process  # type: ignore[method-assign,assignment]
    _without_compiler()
    _meta_below_python()


def warm_up() -> None:
    """Does once, forward, what exercises on attention do, watched in every way that a worker watches.

    The first run of an op looks up its kernel and makes its Python face; a forked process inherits both. No backward
    pass: a forked process could not follow one.
    """
    import torch

    from grader.offlimits import FAMILIES, BuiltIns
    from grader.responder import LargestStorage, OneDevice

    torch.default_generator.manual_seed(0)
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        x = torch.ones(2, 2, dtype=dtype)
        repr((x @ x).softmax(-1).exp().sum(-1))
    with BuiltIns(FAMILIES):
        _tour("cpu")
        with LargestStorage():
            _tour("cpu")
        with OneDevice():  # type: ignore[no-untyped-call]
            _tour("meta")


def _tour(device: str) -> None:
    """The ops of attention, of the ways learners write it, and of a small GPT."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.drop = nn.Linear(4, 4), nn.Dropout(0.1)

    part = Part().to(device).train()
    ids = torch.zeros(2, 3, dtype=torch.long, device=device)
    table = nn.Embedding(5, 4).to(device)
    x = table(ids) + torch.arange(3, device=device)[:, None]
    x = part.drop(part.linear(x)).requires_grad_()
    heads = x.view(2, 3, 2, 2).transpose(1, 2).contiguous()
    scores = heads @ heads.transpose(-2, -1) / 2**0.5
    causal = (
        torch.tril(torch.ones(3, 3, dtype=torch.bool, device=device))
        & torch.triu(torch.ones(3, 3, device=device)).bool().T
    )
    for hidden in (scores.masked_fill(~causal, float("-inf")), torch.where(causal, scores, -1e4)):
        shifted = hidden - hidden.max(dim=-1, keepdim=True).values
        weights = shifted.exp() / shifted.exp().sum(-1, keepdim=True)
        torch.softmax(hidden - hidden.amax(-1, keepdim=True).detach(), dim=-1)
    context = (F.dropout(weights, 0.1) @ heads).permute(0, 2, 1, 3).reshape(2, 3, 4)
    torch.einsum("bhqk,bhkd->bhqd", weights, heads)
    torch.stack([torch.cat([heads, heads], dim=-1), torch.cat([heads, heads], dim=-1)])
    F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    query, _key, _value = torch.cat([context] * 3, dim=-1).split(4, dim=2)
    query.chunk(2, -1)
    kept = torch.rand_like(x) >= 0.1
    (
        x * kept / 0.9,
        torch.bernoulli(torch.full_like(x, 0.5)),
        torch.zeros_like(x),
        torch.full((2,), 1.0, device=device),
    )
    spread = (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)
    torch.maximum(spread.rsqrt(), torch.logsumexp(x, -1, keepdim=True)).clone()
    0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * x**3)))
    logits = F.linear(context, table.weight)[:, -1:, :]
    F.cross_entropy(logits.flatten(0, 1), ids[:, 0])
    chosen = logits[:, -1].argmax(-1, keepdim=True)
    best = torch.topk(logits[:, -1], 2).values
    (
        torch.cat([ids, chosen], dim=1)[:, -2:],
        best[:, [-1]],
        x.float().to(torch.bfloat16).unsqueeze(0).expand(2, -1, -1, -1),
    )
    if device != "meta":
        torch.multinomial(torch.softmax(logits[:, -1].detach(), -1), 1)
        torch.isfinite(x).all().item()


def _uncompiled(model: Any = None, **options: object) -> Any:
    """`torch.compile` where no compiler can be started, as in a sandbox: gives back what it is given, as it is."""
    return (lambda function: function) if model is None else model


def _deterministic(mode: bool, *, warn_only: bool = False) -> None:
    """`torch.use_deterministic_algorithms` without a word to the compiler, which torch would import to tell it."""
    import torch

    torch._C._set_deterministic_algorithms(mode, warn_only=warn_only)


def _in_this_process(loader: Any) -> Any:
    """The batches of a data loader whose workers could not be started, as in a sandbox: without any."""
    from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

    loader.num_workers, loader.timeout = 0, 0
    return _SingleProcessDataLoaderIter(loader)


def _without_compiler() -> None:
    """Keeps what torch hides from its compiler from importing that compiler when it first runs.

    Decompositions on a meta tensor and `checkpoint`, say, are wrapped to hide them, and the wrapper imports all of
    `torch._dynamo` (as slow as torch itself) to do so. It looks first for a hidden version noted on the function: here
    the function itself.
    """
    from torch._compile import _disable_dynamo

    wrapper = _disable_dynamo(lambda: None).__code__
    hidden = wrapper.co_freevars.index("fn")
    for function in gc.get_objects():
        if type(function) is types.FunctionType and function.__code__ is wrapper and function.__closure__:
            wrapped = function.__closure__[hidden].cell_contents
            wrapped.__dynamo_disable = wrapped


def _meta_below_python() -> None:
    """Gives the ops on `meta` back to torch's own kernels, where there are any.

    For its compiler torch puts Python functions in their place, which know sizes that are not known yet and take thirty
    times as long. An op that has nothing else, or nothing else that works there, keeps its function.
    """
    import torch
    from torch import _meta_registrations as registered
    from torch._decomp import global_decomposition_table

    registered._meta_lib_dont_use_me_use_register_meta._destroy()
    library = registered._meta_lib_dont_use_me_use_register_meta = torch.library.Library("aten", "IMPL", "Meta")
    for kind in ("meta", "post_autograd", "pre_autograd"):
        for op, function in global_decomposition_table[kind].items():
            if isinstance(op, torch._ops.OpOverload) and op.namespace == "aten" and not _has_meta(op):
                library.impl(op, function)


def _has_meta(op: torch._ops.OpOverload) -> bool:
    import torch

    if op.name().removeprefix("aten::").partition(".")[0] in NOT_BELOW_PYTHON:
        return False
    keys = ("Meta", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key) for key in keys)
