"""Loads torch, once, into the process that all others are forked from.

What torch imports lazily (at the first backward pass, the first meta tensor) is imported here, so that no forked
process pays for it again or needs files that its sandbox hides.
"""

from __future__ import annotations

import gc
import importlib
import types

LAZY_IN_DECOMPOSITIONS = ("torch._refs", "torch._decomp", "torch._prims", "torch._meta_registrations")


def load_torch() -> None:
    """Imports torch and what it needs at the first backward pass and the first meta tensor. One thread."""
    import torch

    torch.set_num_threads(1)
    importlib.import_module("torch.fx.experimental.symbolic_shapes")
    importlib.import_module("torch.autograd.profiler_legacy")
    _without_compiler()


def load_everything() -> None:
    """Also imports the parts of torch that only some submissions use: nine tenths of another `import torch`."""
    for name in (
        "torch._dynamo", "torch.testing", "torch.distributed.tensor", "torch.utils.serialization",
        "torch.utils.checkpoint", "torch.nn.attention.flex_attention", "torch.nn.utils.parametrize",
        "torch.optim.lr_scheduler",
    ):  # fmt: skip
        importlib.import_module(name)


def warm_up() -> None:
    """Runs once what first runs slowly: every dtype, a matrix product, a softmax, the random stream. No backward pass:
    a forked process could not follow one."""
    import torch

    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        x = torch.ones(2, 2, dtype=dtype)
        repr((x @ x).softmax(-1).exp().sum(-1))
    torch.manual_seed(0)
    meta = torch.empty(2, 2, device="meta")
    torch.nn.functional.linear(meta, meta).masked_fill(meta > 0, 0.0).softmax(-1)


def _without_compiler() -> None:
    """Keeps torch's Python decompositions from importing the compiler when they first run on a meta tensor.

    They are wrapped to hide them from `torch.compile`, and the wrapper imports all of `torch._dynamo` (as slow as torch
    itself) to do so. It looks first for a hidden version noted on the function: here the function itself.
    """
    from torch._compile import _disable_dynamo

    wrapper = _disable_dynamo(lambda: None).__code__
    hidden = wrapper.co_freevars.index("fn")
    for function in gc.get_objects():
        if type(function) is types.FunctionType and function.__code__ is wrapper and function.__closure__:
            wrapped = function.__closure__[hidden].cell_contents
            if wrapped.__module__.startswith(LAZY_IN_DECOMPOSITIONS):
                wrapped.__dynamo_disable = wrapped
