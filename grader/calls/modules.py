"""The operations on a module other than calling it, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parameter import is_lazy

from grader.calls.transfer import NotThere

DTYPES = {name: getattr(torch, name) for name in ("float64", "float32", "float16", "bfloat16")}


def method(module: nn.Module, name: str) -> Callable[..., Any]:
    """The function that does the operation of this name to the module. Raises NotThere for an unknown name."""
    methods: dict[str, Callable[..., Any]] = {
        "parameters": lambda: dict(module.named_parameters(remove_duplicate=False)),
        "outline": lambda: outline(module),
        "load_parameters": lambda values, evaluating: load_parameters(module, values, evaluating),
        "load_fitting": lambda values: load_fitting(module, values),
        "train": lambda path="": _part(module, path).train() and None,
        "eval": lambda path="": _part(module, path).eval() and None,
        "nested": lambda mode: getattr(nn.ModuleList([module]), mode)() and None,
        "to": lambda device, dtype: module.to(device, DTYPES[dtype] if dtype else None) and None,
        "is_training": lambda: all(part.training for part in module.modules()),
        "is_evaluating": lambda: not any(part.training for part in module.modules()),
        "shares": lambda first, second: attribute(module, first) is attribute(module, second),
        "optimizer": lambda rate: optimizer(module, rate),
        "noting_model": lambda *sizes: NotingModel(*sizes).to(next(module.parameters()).device),
        "scaler": lambda scale: torch.amp.GradScaler(next(module.parameters()).device.type, init_scale=scale),
    }
    if name not in methods:
        raise NotThere(f"a module has no {name} here")
    return methods[name]


class NotingModel(nn.Module):
    """A language model of ours, as an argument for a learner's code: its arguments and results are those of a GPT.

    `noted`: for each call of a layer the dtype that it computed, and whether it built a graph. `arrived`: the largest
    gradient that came to a loss.
    """

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.h = nn.ModuleList([nn.Linear(width, width), nn.Linear(width, width)])
        self.lm_head = nn.Linear(width, vocabulary)
        self.noted: list[tuple[str, bool]] = []
        self.arrived = 0.0

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Logits (…, vocabulary) for ids (…), and the mean cross-entropy, None without targets."""
        x = self.wte(idx)
        for layer in (*self.h, self.lm_head):
            x = layer(x if layer is self.h[0] else F.relu(x))
            self.noted.append((str(x.dtype).removeprefix("torch."), x.requires_grad))
        if targets is None:
            return x, None
        loss = F.cross_entropy(x.flatten(0, -2), targets.flatten())
        if loss.requires_grad:
            loss.register_hook(self._note)
        return x, loss

    def _note(self, gradient: Tensor) -> None:
        self.arrived = max(self.arrived, float(gradient.abs().max()))


def optimizer(module: nn.Module, rate: float) -> torch.optim.Optimizer:
    """An ordinary optimizer of the module with this learning rate, for functions that take one; the parameters go
    alternately into two groups."""
    parameters = list(module.parameters())
    groups = [{"params": parameters[::2]}, {"params": parameters[1::2]}]
    return torch.optim.AdamW(groups, lr=rate, weight_decay=0.1)


def step_by(optimizer: object, learning_rate: float) -> None:
    """Takes a step of an optimizer at this learning rate, from the current gradients. Raises NotThere for any other
    object."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise NotThere("no optimizer")
    for parameters in optimizer.param_groups:
        parameters["lr"] = learning_rate
    optimizer.step()


def outline(module: nn.Module) -> dict[str, Tensor]:
    """Every parameter by name, in its shape and dtype, filled with one number: a vector with its mean rounded to a
    whole number, a matrix with its index, that of the first name if two names share a parameter."""
    indexes: dict[int, int] = {}
    filled: dict[str, Tensor] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        value = parameter.detach()
        index = indexes.setdefault(id(parameter), len(indexes))
        filled[name] = torch.full_like(value, round(float(value.mean())) if value.dim() < 2 else index)
    return filled


def attribute(module: nn.Module, path: str) -> Any:
    """The object at a dotted path of attribute names. Raises AttributeError."""
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _part(module: nn.Module, path: str) -> nn.Module:
    """The submodule at a dotted path, the module itself for an empty one. Raises NotThere."""
    try:
        part = attribute(module, path) if path else module
    except AttributeError:
        part = None
    if not isinstance(part, nn.Module):
        raise NotThere(f"no part {path}")
    return part


def placed_on(constructor: Callable[..., Any], device: str) -> Callable[..., Any]:
    """A function that makes an object of a class and, if that is a module, moves it to the device; for `cpu` the class
    itself."""
    if device == "cpu":
        return constructor

    def make(*args: Any, **kwargs: Any) -> Any:
        module = constructor(*args, **kwargs)
        return module.to(device) if isinstance(module, nn.Module) else module

    return make


def load_parameters(
    module: nn.Module, values: Mapping[str, Tensor], evaluating: bool
) -> dict[str, tuple[str, ...]] | None:
    """Copies `values` into the parameters of the same names, and returns None. If a name or a shape doesn't fit, copies
    nothing and returns the names: those `missing`, `extra`, `misshapen` (`name: shape`), the `shapes` of likely
    matches, and parameters found `twice`. `evaluating`: then switches to evaluation mode."""
    every = _parameters(module, values)
    own = {name: value for name, value in every.items() if not is_lazy(value)}
    missing = tuple(name for name in values if name not in own)
    extra = tuple(name for name in every if name not in values)
    misshapen = tuple(
        f"{name}: {tuple(own[name].shape)}" for name in values if name in own and own[name].shape != values[name].shape
    )
    if missing or extra or misshapen:
        deeper = tuple(f".{name}" for name in missing)  # nested one level deeper, as in a ModuleDict around all of them
        candidates = [name for name in own if name in extra or name.endswith(deeper)]
        shapes = tuple(f"{name}: {tuple(own[name].shape)}" for name in candidates)
        names = {id(own[name]): name for name in values if name in own}
        twice = tuple(f"{name}: {names[id(own[name])]}" for name in extra if name in own and id(own[name]) in names)
        return {"missing": missing, "extra": extra, "misshapen": misshapen, "shapes": shapes, "twice": twice}
    with torch.no_grad():
        for name, value in values.items():
            own[name].copy_(value)
    if evaluating:
        module.eval()
    return None


def load_fitting(module: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Copies the values into the parameters of the same names and shapes, leaves all others as they are, and switches
    to evaluation mode."""
    own = {name: value for name, value in _parameters(module, values).items() if not is_lazy(value)}
    with torch.no_grad():
        for name, value in values.items():
            if name in own and own[name].shape == value.shape:
                own[name].copy_(value)
    module.eval()


def _parameters(module: nn.Module, values: Mapping[str, Tensor]) -> dict[str, nn.Parameter]:
    """Every parameter by name. A lazy linear layer, which gets its width at its first call, gets that of its values."""
    every = dict(module.named_parameters(remove_duplicate=False))
    if any(map(is_lazy, every.values())):
        for path, part in module.named_modules():
            if isinstance(part, nn.LazyLinear) and f"{path}.weight" in values:
                part.initialize_parameters(values[f"{path}.weight"])
    return every
