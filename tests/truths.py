"""What the steps' `truth.py` share: draws, comparisons, and proofs that every public name of a reference has to pass.

Nothing here asks our own checks. What a `truth.py` compares with was written by somebody else: the worked example of a
book, torch's softmax, attention, norm, loss and dropout, Hugging Face's GPT-2, and the difference quotients of
`gradcheck`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call
from torch.testing import assert_close

AnyModule = TypeVar("AnyModule", bound=nn.Module)
Refused = tuple[Callable[[], Any], tuple[int, ...]]  # a call, and the numbers that its ValueError has to name

DOUBLE = torch.float64
WIDE = (torch.float32, torch.float64)
HALVES = (torch.float16, torch.bfloat16)
# Two right ways round differently: by a few of the dtype's steps in halves, by more of them where steps are cheap.
ROOM = {torch.float64: 1e-11, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
NUM_DRAWS = 8_000

every_dtype = pytest.mark.parametrize("dtype", (*WIDE, *HALVES), ids=str)
with_and_without_bias = pytest.mark.parametrize("bias", (True, False), ids=("bias", "no bias"))


def normal(*shape: int, dtype: torch.dtype = DOUBLE) -> Tensor:
    return torch.randn(shape, dtype=DOUBLE).to(dtype)


def close(got: Tensor, expected: Tensor) -> None:
    """The same shape and dtype, and the same numbers within the dtype's room at the size of the largest of them."""
    room = ROOM[expected.dtype]
    assert_close(got, expected, rtol=room, atol=room * max(1.0, expected.abs().max().item()))


def agree(ours: Callable[..., Tensor], theirs: Callable[..., Tensor], *inputs: Tensor, at: Any = ()) -> None:
    """The same values, and the same gradients in all inputs and in the parameters `at` which both are taken."""
    leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    points = [x for x in leaves if x.requires_grad] + list(at)
    got, expected = ours(*leaves), theirs(*leaves)
    close(got, expected)
    direction = torch.randn_like(expected)
    gradients = zip(
        torch.autograd.grad(got, points, direction), torch.autograd.grad(expected, points, direction), strict=True
    )
    for ours_gradient, their_gradient in gradients:
        close(ours_gradient, their_gradient)


def drawn(module: AnyModule) -> AnyModule:
    """The module in float64, with every parameter random: none is left at 0 or 1, where a mistake would not show."""
    module.to(DOUBLE)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


# The worked example of Sebastian Raschka, "Build a Large Language Model (From Scratch)", chapter 3. The book prints
# four decimals. Its random layers also prove the order in which ours are made: W_query, W_key, W_value, out_proj.

JOURNEY = torch.tensor(
    [
        [0.43, 0.15, 0.89],  # Your
        [0.55, 0.87, 0.66],  # journey
        [0.57, 0.85, 0.64],  # starts
        [0.22, 0.58, 0.33],  # with
        [0.77, 0.25, 0.10],  # one
        [0.05, 0.80, 0.55],  # step
    ]
)
CAUSAL = [
    [-0.4519, 0.2216],
    [-0.5874, 0.0058],
    [-0.6300, -0.0632],
    [-0.5675, -0.0843],
    [-0.5526, -0.0981],
    [-0.5299, -0.1081],
]


def printed(got: Tensor, expected: list[Any]) -> None:
    """What the book prints, to its last decimal."""
    assert_close(got, torch.tensor(expected), rtol=0.0, atol=5e-5)


# torch's attention.

MASKS = {
    "no mask": None,
    "one row": torch.tensor([[True, False, True, True, False, True]]),
    "one column": torch.tensor([[True, False, True, True, False, True]] * 5).roll(1, dims=1),
    "a batch": torch.stack([torch.ones(1, 5, 6).tril(1), torch.ones(1, 5, 6).triu(-2)]).bool(),
    "every head": (torch.arange(180).view(2, 3, 5, 6) % 7 % 3) < 2,
}


def weights_of(query: Tensor, key: Tensor, mask: Tensor | None = None, **options: Any) -> Tensor:
    """The weights inside torch's attention: with the identity matrix as values they are what comes out."""
    return F.scaled_dot_product_attention(
        query, key, torch.eye(key.shape[-2], dtype=key.dtype).expand(*key.shape[:-1], -1), attn_mask=mask, **options
    )


def by_projections(module: nn.Module, x: Tensor, **options: Any) -> Tensor:
    """Torch's attention over the query, key and value layers of one of our modules."""
    return F.scaled_dot_product_attention(module.W_query(x), module.W_key(x), module.W_value(x), **options)


def by_torch(module: nn.Module, x: Tensor, num_heads: int, rate: float = 0.0) -> Tensor:
    """Torch's multi-head attention with the parameters of one of our modules. It wants the batch second."""
    if hasattr(module, "c_attn"):
        weight, bias, out = module.c_attn.weight, module.c_attn.bias, module.c_proj
    else:
        layers = (module.W_query, module.W_key, module.W_value)
        weight, out = torch.cat([layer.weight for layer in layers]), module.out_proj
        bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
    x = x.transpose(0, 1)
    hidden = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)  # here True means "may NOT attend"
    context, _weights = F.multi_head_attention_forward(
        *(x, x, x, x.shape[-1], num_heads, weight, bias, None, None, False, rate, out.weight, out.bias),
        training=module.training,
        need_weights=False,
        attn_mask=hidden,
    )
    return context.transpose(0, 1)


def same_distribution(ours: Tensor, theirs: Tensor) -> None:
    """Two sets of draws, one a row, with the same means and the same covariances between all their elements."""
    ours, theirs = ours.detach().flatten(1), theirs.detach().flatten(1)
    spread = torch.sqrt((ours.var(dim=0) + theirs.var(dim=0)) / len(ours))
    assert ((ours.mean(dim=0) - theirs.mean(dim=0)).abs() <= 5 * spread + 1e-9).all()
    difference = torch.linalg.norm(ours.T.cov() - theirs.T.cov()) / torch.linalg.norm(theirs.T.cov())
    assert difference < 0.1


# What a step's contract names: parameters, and arguments that are errors.


def linear(name: str, width_in: int, width_out: int, bias: bool) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {f"{name}.weight": (width_out, width_in)}
    return shapes | ({f"{name}.bias": (width_out,)} if bias else {})


def projections(width_in: int, width_out: int, bias: bool) -> dict[str, tuple[int, ...]]:
    """The parameters of the three linear layers that make queries, keys and values."""
    layers = [linear(name, width_in, width_out, bias) for name in ("W_query", "W_key", "W_value")]
    return layers[0] | layers[1] | layers[2]


def has_parameters(module: nn.Module, expected: dict[str, tuple[int, ...]]) -> None:
    """Every parameter that the step names, with its shape, and no other."""
    assert {name: tuple(p.shape) for name, p in module.named_parameters()} == expected


def refusals(refused: Mapping[str, Refused]) -> Callable[..., None]:
    """A test that each of these calls raises a `ValueError` that names the offending numbers."""

    @pytest.mark.parametrize(("call", "numbers"), refused.values(), ids=refused.keys())
    def test(call: Callable[[], Any], numbers: tuple[int, ...]) -> None:
        with pytest.raises(ValueError) as refusal:
            call()
        assert set(numbers) <= {int(number) for number in re.findall(r"\d+", str(refusal.value))}

    return test


# Every public name: finite differences, the meta device, bfloat16.


@dataclass(frozen=True)
class Case:
    """One way to call a public name: what makes the function or module, and what is passed."""

    make: Callable[[], Callable[..., Any]]
    inputs: tuple[Tensor, ...]
    differentiable: int = 2  # how often, as far as it is checked

    def built(self) -> Callable[..., Any]:
        torch.manual_seed(0)
        target = self.make()
        return drawn(target) if isinstance(target, nn.Module) else target

    def called(self, device: str, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """The tensors that come out in eval mode. It is called before it moves too, since a module must not mind."""
        target = self.built()
        if isinstance(target, nn.Module):
            target.eval()
            target(*self.inputs)
            target.to(device, dtype)
        torch.manual_seed(1)
        out = target(*(x.to(device, dtype) if x.is_floating_point() else x.to(device) for x in self.inputs))
        return out if isinstance(out, tuple) else (out,)


def of(function: Callable[..., Any], *inputs: Tensor, differentiable: int = 2, **options: Any) -> Case:
    return Case(lambda: partial(function, **options), inputs, differentiable)


def drawer() -> Callable[..., Tensor]:
    """Draws the inputs of a step's cases: the same ones each time."""
    generator = torch.Generator().manual_seed(5)
    return lambda *shape: torch.randn(shape, dtype=DOUBLE, generator=generator)


def gradients(cases: Mapping[str, Case]) -> Callable[..., None]:
    """A test of each case that is differentiable: its gradients are what difference quotients say."""
    differentiable = {name: case for name, case in cases.items() if case.differentiable}

    @pytest.mark.parametrize("case", differentiable.values(), ids=differentiable.keys())
    def test(case: Case) -> None:
        require_gradients(case)

    return test


def moves(cases: Mapping[str, Case]) -> Callable[..., None]:
    """A test of each case on the device `meta` and in bfloat16."""

    @pytest.mark.parametrize("case", cases.values(), ids=cases.keys())
    def test(case: Case) -> None:
        require_that_it_moves(case)

    return test


def require_gradients(case: Case) -> None:
    """Gradients in the inputs and in all parameters are what difference quotients say, with dropout switched on."""
    target = case.built()
    parameters = dict(target.named_parameters()) if isinstance(target, nn.Module) else {}

    def function(*tensors: Tensor) -> Any:
        torch.manual_seed(2)  # the same mask in every call
        inputs = tensors[: len(case.inputs)]
        if not isinstance(target, nn.Module):
            return target(*inputs)
        return functional_call(target, dict(zip(parameters, tensors[len(case.inputs) :], strict=True)), inputs)

    points = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in (*case.inputs, *parameters.values())]
    assert gradcheck(function, points)
    if case.differentiable == 2:
        assert gradgradcheck(function, points, fast_mode=True)


def require_that_it_moves(case: Case) -> None:
    """Shapes come out on a device without numbers; halves come out as halves, near what float64 gives."""
    expected = case.called("cpu", DOUBLE)
    on_meta = case.called("meta", DOUBLE)
    in_halves = case.called("cpu", torch.bfloat16)
    for exact, shape, half in zip(expected, on_meta, in_halves, strict=True):
        assert shape.device.type == "meta"
        assert (shape.shape, shape.dtype) == (exact.shape, exact.dtype)
        assert half.shape == exact.shape
        if exact.is_floating_point():
            assert half.dtype == torch.bfloat16
            assert_close(half.to(DOUBLE), exact, rtol=0.05, atol=0.05)
