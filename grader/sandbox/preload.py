"""Loads torch, once, into the process from which all others are forked.

What torch imports lazily (at the first backward pass, the first meta tensor) is imported here, so that no forked
process pays for it again, or needs files that its sandbox hides.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Collection
from importlib import metadata
from typing import TYPE_CHECKING, Any

from grader.sandbox import no_compiler

if TYPE_CHECKING:
    import torch

CODECS = ("ascii", "latin_1", "utf_8_sig", "utf_16", "idna")  # each is a module, imported lazily at its first use
# Ops with one kernel for all devices, which calls an op that `meta` lacks, or reads a value.
NOT_BELOW_PYTHON = (
    "convolution", "convolution_backward", "cummax", "cummin", "linspace", "logcumsumexp", "logspace",
    "masked_scatter_backward",
)  # fmt: skip
OURS_ON_META = (
    # What torch has for them runs half a millisecond of Python, and takes a third of a second to import.
    "relu", "native_layer_norm", "index_select", "max", "where.self", "where.self_out", "var.correction",
    "var_mean.correction", "abs.out", "logical_not.out", "dot", "vdot", "flip",
    # What torch has for them refuses.
    "_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "bincount",
)  # fmt: skip


# The keys of kernels that answer on `meta`.
META = ("Meta", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")


def load_torch(*, once: bool = False) -> None:
    """Imports torch and what it needs at the first backward pass and the first meta tensor. One thread.

    `once`: for a process that grades once: torch's kernels in Python are left out until something needs them."""
    if once and not _back_ends_beside_torch():
        no_compiler.put_off_kernels()
    import torch

    torch.set_num_threads(1)
    from grader.calls import devices, private_torch  # they need torch

    devices.compute_exactly()
    for codec in CODECS:
        codecs.lookup(codec)
    if sys.platform != "win32":
        importlib.import_module("resource")
    torch.compile = _uncompiled
    torch.use_deterministic_algorithms = functools.partial(_deterministic, private_torch.set_deterministic)
    private_torch.load_in_this_process()
    private_torch.disable_fusers(_stays_off)
    no_compiler.install()
    private_torch.when_references_are_there = no_compiler.afterwards
    meta_below_python()


def _back_ends_beside_torch() -> bool:
    """Whether a package brings torch a device: it runs while torch is imported, and may need all of torch there."""
    return bool(metadata.entry_points(group="torch.backends"))


def _stays_off(*given: object) -> bool:
    """False, whatever is to be switched on."""
    return False


def warm_up() -> None:
    """Runs the forward pass of typical exercises once, under every mode that a worker uses.

    The first run of an op looks up its kernel and creates its Python binding; a forked process inherits both. No
    backward pass: torch can't be forked after one.
    """
    import torch

    from grader.calls.builtins import FAMILIES, IN_ANY_FORM, BuiltIns
    from grader.calls.counters import LargestStorage
    from grader.calls.modes import OneDevice

    torch.default_generator.manual_seed(0)
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        x = torch.ones(2, 2, dtype=dtype)
        repr((x @ x).softmax(-1).exp().sum(-1))
    with BuiltIns(FAMILIES.keys() - {*IN_ANY_FORM}):  # which need no warm-up
        _run_ops("cpu")
        with LargestStorage():
            _run_ops("cpu")
        with OneDevice():  # type: ignore[no-untyped-call]
            _run_ops("meta")


def _run_ops(device: str) -> None:
    """Runs the ops of attention, in the ways learners write it, and of a small GPT."""
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.drop = nn.Linear(4, 4), nn.Dropout(0.1)

    part = Layer().to(device).train()
    ids = torch.zeros(2, 3, dtype=torch.long, device=device)
    table = nn.Embedding(5, 4).to(device)
    x = table(ids) + torch.arange(3, device=device)[:, None]
    x = part.drop(part.linear(x)).requires_grad_()
    context = _run_attention(x)
    _run_dropout_and_norm(x)
    logits = nn.functional.linear(context, table.weight)[:, -1:, :]
    _run_sampling(logits, ids)
    x.float().to(torch.bfloat16).unsqueeze(0).expand(2, -1, -1, -1)
    if device != "meta":
        torch.multinomial(torch.softmax(logits[:, -1].detach(), -1), 1)
        torch.isfinite(x).all().item()


def _run_attention(x: torch.Tensor) -> torch.Tensor:
    """Runs the ops of an attention step once, so that workers inherit them warm."""
    import torch
    from torch.nn import functional as F

    heads = x.view(2, 3, 2, 2).transpose(1, 2).contiguous()
    scores = heads @ heads.transpose(-2, -1) / 2**0.5
    lower = torch.tril(torch.ones(3, 3, dtype=torch.bool, device=x.device))
    causal = lower & torch.triu(torch.ones(3, 3, device=x.device)).bool().T
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
    return context


def _run_dropout_and_norm(x: torch.Tensor) -> None:
    """Runs the ops of dropout, layer norm and GELU once."""
    import torch

    mask = torch.rand_like(x) >= 0.1
    _made = x * mask / 0.9, torch.bernoulli(torch.full_like(x, 0.5)), torch.zeros_like(x)
    torch.full((2,), 1.0, device=x.device)
    spread = (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)
    torch.maximum(spread.rsqrt(), torch.logsumexp(x, -1, keepdim=True)).clone()
    0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * x**3)))


def _run_sampling(logits: torch.Tensor, ids: torch.Tensor) -> None:
    """Runs the ops of a loss and of sampling once."""
    import torch
    from torch.nn import functional as F

    F.cross_entropy(logits.flatten(0, 1), ids[:, 0])
    chosen = logits[:, -1].argmax(-1, keepdim=True)
    best = torch.topk(logits[:, -1], 2).values
    _made = torch.cat([ids, chosen], dim=1)[:, -2:], best[:, [-1]]


def _uncompiled(model: Any = None, **options: object) -> Any:
    """`torch.compile` if no compiler can be started, as in a sandbox: returns its argument unchanged."""
    return (lambda function: function) if model is None else model


def _deterministic(set_for_torch: Callable[..., None], mode: bool, *, warn_only: bool = False) -> None:
    """Does what `torch.use_deterministic_algorithms` does, without importing the compiler to notify it."""
    set_for_torch(mode, warn_only=warn_only)  # passed in: in a worker nothing of ours can be imported any more


def meta_below_python() -> None:
    """Restores the C++ meta kernels that torch replaced by Python decompositions (30 × slower).

    The decompositions support symbolic sizes, which only the compiler needs. An op without a working C++ meta kernel
    keeps its decomposition; those that every Transformer runs get a kernel of ours. If the decompositions are put off,
    such an op imports them.
    """
    from grader.calls import private_torch, reads

    _below_python(private_torch, reads)


def _below_python(private: Any, reads: Any) -> None:  # in a worker nothing of ours can be imported any more
    """Registers torch's Python kernels for `meta` again, for ops without a C++ kernel there alone, and then ours."""
    import torch

    if no_compiler.kernels_wait:
        library = torch.library.Library("aten", "IMPL", "Meta")
        no_compiler.until_kernels(library, functools.partial(_below_python, private, reads))
        kernels = {
            name: functools.partial(_by_the_real_one, no_compiler.real, name)
            for name in private.all_op_names()
            if name.startswith("aten::")
        }
    else:
        library, functions = private.remove_meta_kernels()
        kernels = {
            op.name(): function
            for kind in ("pre_autograd", "post_autograd", "meta")  # if an op is in several, the last counts
            for op, function in functions[kind].items()
            if isinstance(op, private.OpOverload) and op.namespace == "aten"
        }
    there = private.kernels_at(*META)
    for name, function in kernels.items():
        if not _has_meta(name, there):
            with contextlib.suppress(RuntimeError):  # in torch 2.6 some are registered a second time: they stay
                library.impl(name, function)
    _our_kernels(library, private, reads)


def _by_the_real_one(real: Callable[[str], Any], qualified: str, *args: Any, **kwargs: Any) -> Any:
    """The result of an op on `meta` by torch's kernel in Python; these kernels are imported first."""
    import torch

    real("torch._meta_registrations")
    name, _dot, overload = qualified.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, name), overload or "default")(*args, **kwargs)


def _has_meta(qualified: str, there: Collection[str]) -> bool:
    """Whether an op has a kernel for `meta` that stays: `there` are the names of those that torch has in C++."""
    whole = qualified.removeprefix("aten::")
    name = whole.partition(".")[0]
    if name in NOT_BELOW_PYTHON or whole in OURS_ON_META:
        return whole in OURS_ON_META
    return qualified in there


def _relu_on_meta(x: torch.Tensor) -> torch.Tensor:
    """The result of `relu` on `meta`."""
    import torch

    return torch.empty_like(x)


def _layer_norm_on_meta(
    by_reference: Callable[..., tuple[torch.Tensor, ...]],
    x: torch.Tensor,
    normalized_shape: list[int],
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> tuple[torch.Tensor, ...]:
    """The three results of layer norm on `meta`; by torch's own kernel if a shape does not fit."""
    import torch

    shape = torch.Size(normalized_shape)
    if any(each is not None and each.shape[-len(shape) :] != shape for each in (x, weight, bias)):
        return by_reference(x, shape, weight, bias, eps)  # which says what does not fit
    normed = torch.empty_like(x, memory_format=torch.contiguous_format)
    mean = x.new_empty(x.shape[: -len(shape)] + (1,) * len(shape))
    return normed, mean, torch.empty_like(mean)


def _our_kernels(library: Any, private: Any, reads: Any) -> None:
    """Registers a kernel of ours for `meta` for each of `OURS_ON_META`. If its arguments are not the ordinary ones, it
    calls torch's own in Python, which says what does not fit. `private`, `reads`: modules of `calls`."""
    import torch

    def or_else_torch(op: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """The kernel; if it raises or returns None, torch's own answers instead."""
        torchs = private.python_kernel

        def tried(*args: Any, **kwargs: Any) -> Any:
            """The result of the kernel, or else of torch's own."""
            try:
                found = kernel(*args, **kwargs)
            except Exception:  # which torch words in its own way
                found = None
            return torchs(op)(*args, **kwargs) if found is None else found

        return tried

    aten = torch.ops.aten
    for op, kernel in (
        (aten.index_select.default, _index_select), (aten.max.default, lambda x: x.new_empty(())),
        (aten.where.self, _where), (aten.where.self_out, _where_out), (aten.var.correction, _var),
        (aten.var_mean.correction, _var_mean), (aten.abs.out, _abs), (aten.logical_not.out, _logical_not),
        (aten.dot.default, _dot), (aten.vdot.default, _dot), (aten.flip.default, _flip),
    ):  # fmt: skip
        library.impl(op, or_else_torch(op, kernel))
    library.impl(private.LOCAL_SCALAR, reads.item_on_meta)
    for sized in reads.SIZED_BY_VALUES:
        library.impl(sized, reads.sized_on_meta(sized))
    library.impl(aten.relu.default, _relu_on_meta)
    kernel = functools.partial(_layer_norm_on_meta, private.layer_norm_by_reference)
    library.impl(aten.native_layer_norm.default, kernel)


# Each of these gives the result of the op of its name on `meta`, empty; or None if its arguments are not ordinary ones.


def _index_select(x: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor | None:
    """The result of `index_select` on `meta`."""
    sizes = list(x.shape)
    sizes[dim] = index.numel()
    return x.new_empty(sizes)


def _where(pred: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor | None:
    """The result of `where` on `meta`; None if its arguments are not ordinary ones."""
    import torch

    operands = (pred, first, second)
    if pred.dtype is not torch.bool or not all(each.is_meta and each.is_contiguous() for each in operands):
        return None
    shape = torch.broadcast_tensors(*operands)[0].shape  # `broadcast_shapes` is one of torch's references
    return pred.new_empty(shape, dtype=torch.result_type(first, second))


def _where_out(*operands: torch.Tensor, out: torch.Tensor) -> torch.Tensor | None:
    """As `_where`, into `out`; None if `out` does not fit."""
    found = _where(*operands)
    if found is None or found.dtype != out.dtype or (out.numel() and out.shape != found.shape):
        return None
    return out if out.numel() else out.resize_(found.shape)


def _var(
    x: torch.Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> torch.Tensor | None:
    """The result of `var` on `meta`; None for other numbers than floats."""
    return x.mean(dim, keepdim) if x.is_floating_point() else None


def _var_mean(x: torch.Tensor, dim: list[int] | None = None, **how: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The two results of `var_mean` on `meta`; None as for `_var`."""
    found, mean = _var(x, dim, **how), _var(x, dim, **how)
    return None if found is None or mean is None else (found, mean)


def _abs(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor | None:
    """The result of `abs` into an empty `out`, on `meta`; None if the arguments are not ordinary ones."""
    fits = x.is_contiguous() and not out.numel() and out.dtype == x.dtype and not x.is_complex()
    return out.resize_(x.shape) if fits else None


def _logical_not(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor | None:
    """The result of `logical_not` into an empty `out`, on `meta`; None if the arguments are not ordinary ones."""
    import torch

    fits = x.is_contiguous() and not out.numel() and out.dtype is torch.bool
    return out.resize_(x.shape) if fits else None


def _dot(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor | None:
    """The result of `dot` or `vdot` on `meta`; None if the vectors do not fit."""
    fits = first.dim() == 1 and first.shape == second.shape and first.dtype == second.dtype
    return first.new_empty(()) if fits and first.is_meta and second.is_meta else None


def _flip(x: torch.Tensor, dims: list[int]) -> torch.Tensor | None:
    """The result of `flip` on `meta`; None if `x` is not contiguous, or a dimension is there twice."""
    flipped = {range(x.dim())[dim] for dim in dims}
    return x.new_empty(x.shape) if x.is_contiguous() and len(flipped) == len(dims) else None
