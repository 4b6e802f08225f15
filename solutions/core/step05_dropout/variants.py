"""Right ways of step 5 that differ from the reference."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import variant


def _require_probability(p: float) -> None:
    assert 0 <= p <= 1, f"{p} is not a probability"


@variant(
    replaces="dropout",
    trades="One call draws and decides: fewer intermediate tensors than comparing uniform numbers.",
)
def mask_drawn_by_bernoulli(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The mask comes from `bernoulli_`, in the dtype of x."""
    if not training or p == 0:
        return x
    if p < 0 or p > 1:
        raise RuntimeError("p has to be a probability")
    if p == 1:
        return torch.zeros_like(x)
    return x * torch.empty_like(x).bernoulli_(1 - p).div_(1 - p)


@variant(replaces="dropout")
def uniform_in_the_dtype_of_x(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """`rand_like`, compared with >, and a division at the end."""
    _require_probability(p)
    if not training:
        return x.clone()
    if p == 1:
        return x * 0
    return x * (torch.rand_like(x) > p) / (1 - p)


@variant(replaces="dropout")
def bernoulli_of_probabilities(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """A tensor of probabilities, `torch.bernoulli` and `torch.where`."""
    if not training:
        return x
    _require_probability(p)
    keep = 1.0 - p
    kept = torch.bernoulli(torch.full(x.shape, keep, device=x.device)).bool()
    return torch.where(kept, x / max(keep, 1e-12), torch.zeros((), dtype=x.dtype, device=x.device))


@variant(replaces="dropout")
def copy_changed_in_place(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """A copy is zeroed and scaled in place."""
    if training and not 0 <= p <= 1:
        raise ValueError(p)
    own = x.clone()
    if training:
        own[torch.rand(x.shape, device=x.device) < p] = 0
        own.mul_(1 / (1 - p) if p < 1 else 1.0)
    return own


@variant(replaces="dropout")
def drawn_in_another_order(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """The draw is made for the last dimension first and transposed: the result is not contiguous."""
    if not training:
        return x
    _require_probability(p)
    kept = (torch.rand(x.shape[::-1], dtype=torch.float64, device=x.device) >= p).permute(*range(x.dim() - 1, -1, -1))
    return x.masked_fill(~kept, 0) * (0.0 if p == 1 else 1 / (1 - p))


@variant(replaces="dropout")
def row_after_row(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """A loop over the first dimension."""
    _require_probability(p)
    if not training or p == 0.0:
        return x
    scale = (1 - p) ** -1 if p < 1 else 0
    rows = [row * (torch.rand(row.shape, device=row.device) < 1 - p) * scale for row in x]
    return torch.stack(rows)


@variant(
    replaces="dropout",
    trades="One seed gives the same mask on every device; moving it there takes time.",
)
def drawn_on_the_cpu_and_moved(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """A Bernoulli distribution draws on the CPU, and the mask is moved to x."""
    if not training:
        return x
    _require_probability(p)
    mask = torch.distributions.Bernoulli(1 - p).sample(x.shape).to(x)
    return x * mask if p == 1 else x * mask / (1 - p)


@variant(replaces="dropout")
def threshold_of_whole_numbers(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Whole numbers of 31 bits are compared with a threshold."""
    if not training:
        return x
    if not 0 <= p <= 1:
        raise ValueError(f"p = {p}")
    kept = torch.randint(2**31, x.shape, device=x.device) >= p * 2**31
    return torch.mul(x, kept.to(x.dtype)) * (1 / (1 - p) if p != 1 else 1)


class _Remembered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(factor)
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        (factor,) = ctx.saved_tensors
        return gradient * factor, None


@variant(replaces="dropout")
def backward_by_hand(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """A function of autograd that remembers its mask."""
    if not training:
        return x
    _require_probability(p)
    factor = (torch.rand(x.shape, device=x.device) >= p).to(x.dtype) * (1 / (1 - p) if p < 1 else 0)
    return _Remembered.apply(x, factor)


@variant(replaces="Dropout")
class ModuleByItself(nn.Module):
    """A module that draws for itself, checks p when it is made, and writes the mode with an early return."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError("p must lie in [0, 1]")
        self.keep_prob = 1 - p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.keep_prob == 1:
            return x
        if self.keep_prob == 0:
            return torch.zeros_like(x)
        mask = torch.full_like(x, self.keep_prob).bernoulli()
        return mask * x / self.keep_prob


@variant(replaces=("dropout", "Dropout"))
def function_made_of_the_module() -> dict[str, object]:
    """The function calls the module, and p is kept in a buffer."""

    class Dropout(nn.Module):
        def __init__(self, p: float = 0.5) -> None:
            super().__init__()
            self.register_buffer("p", torch.tensor(p), persistent=False)
            self.keep = 1.0 - p

        def forward(self, x: Tensor) -> Tensor:
            if self.training is False:
                return x
            kept = torch.rand_like(x, dtype=torch.float32) >= self.p.to(x.device)
            return F.threshold(kept.to(x.dtype), 0.5, 0.0) * x * (1 / self.keep if self.keep else 0.0)

    def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
        if training and (p < 0.0 or p > 1.0):
            raise ValueError(f"dropout probability {p} not in [0, 1]")
        return Dropout(p).train(training)(x)

    return {"dropout": dropout, "Dropout": Dropout}
