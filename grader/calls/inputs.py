"""The arguments passed to the called code: modules for handles, and copies of tensors and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.calls.call import Call
from grader.calls.values import HandleId, as_tensor, mapped_by_path

OF_AN_OBJECT = (".", "?")  # how the name of a call begins that uses a method, or an attribute, of the author's own


class Inputs:
    """The arguments of one call: modules for handle numbers, tensors on the device, leaves for gradients."""

    def __init__(self, call: Call, handles: Mapping[int, Any]) -> None:
        self.leaves: dict[str, Tensor] = {}
        self.handle_numbers: list[int] = []
        self._given: list[tuple[str, Any, Any]] = []
        self._options = call.options
        self._handles = handles
        bookkeeping = call.handle is not None and call.name != "__call__" and not call.name.startswith(OF_AN_OBJECT)
        self._keep = not bookkeeping
        self.args = tuple([mapped_by_path(str(place), value, self._ready) for place, value in enumerate(call.args)])
        self.kwargs = {name: mapped_by_path(name, value, self._ready) for name, value in call.kwargs.items()}

    def _ready(self, name: str, value: Any) -> Any:
        if isinstance(value, HandleId):
            self.handle_numbers.append(value.number)
            return self._handles.get(value.number)
        if not self._keep or not isinstance(value, Tensor | np.ndarray):
            return value
        # A copy, so that changes don't reach the original, and not a leaf: a leaf that requires a gradient refuses
        # in-place changes, with an error about autograd instead of about the change.
        if isinstance(value, np.ndarray):
            given: Any = _reversed(value) if self._options.strided else np.array(value)
        else:
            if self._options.device != "cpu":
                value = value.to(self._options.device)
            given = value.detach().clone(memory_format=torch.preserve_format)
            if self._options.gradients and value.is_floating_point():
                self.leaves[name] = given.requires_grad_()
                given = given if self._options.strided else given.clone(memory_format=torch.preserve_format)
            if self._options.strided:
                given = _apart(given)
        self._given.append((name, given, value))
        return given

    @property
    def wide(self) -> bool:
        """Whether a float64 tensor is among them."""
        return any(isinstance(given, Tensor) and given.dtype == torch.float64 for _name, given, _before in self._given)

    def modified(self) -> list[str]:
        """The names of the tensor and array arguments that were modified."""
        return [name for name, given, before in self._given if not _same_bits(given, before)]


def _apart(tensor: Tensor) -> Tensor:
    """A copy in which the first dimension has the smallest stride and no dimension is contiguous.

    Made here and not by the caller: encoding makes a tensor contiguous.
    """
    back = tuple(reversed(range(tensor.dim())))
    turned = tensor.permute(back)
    return torch.stack([turned, torch.zeros_like(turned)], dim=-1)[..., 0].permute(back)


def _reversed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that lies apart as `_apart` has it, and backwards: every stride is negative, as after `[::-1]`."""
    if not array.ndim:
        return np.array(array)
    back = np.ascontiguousarray(np.flip(array.T))
    return np.flip(np.stack([back, np.zeros_like(back)], axis=-1)[..., 0]).T


def _same_bits(given: Any, before: Any) -> bool:
    if given.shape != before.shape or given.dtype != before.dtype:
        return False
    if isinstance(given, np.ndarray):
        given, before = as_tensor(given), as_tensor(before)
    if given.device != before.device:
        return False
    if given.device.type == "meta" or torch.equal(given, before):
        return True
    return given.is_floating_point() and torch.equal(given.isnan(), before.isnan()) and torch.equal(
        given.nan_to_num(), before.nan_to_num()
    )  # fmt: skip
