"""The rules of the simulated accelerator, one after another: `python -m tests.accelerator.rules`.

Prints a line for each that does not hold. What CUDA does was taken from torch's documentation and its CUDA tests.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from grader.calls import devices
from tests.accelerator import simulated

simulated.install()
X = torch.randn(2, 3, device="sim", requires_grad=True)
IDS = torch.tensor([0, 1], device="sim")


def seeded_alike() -> bool:
    """One seed, the same numbers; and they are not the CPU's stream."""
    torch.manual_seed(5)
    first = torch.rand(4, device="sim")
    torch.rand(9)
    torch.manual_seed(5)
    return torch.equal(first, torch.rand(4, device="sim"))


def tied_parameters_stay_one() -> bool:
    """`.to` keeps the parameters' objects, and a weight that two layers share."""
    table, head = nn.Embedding(3, 2), nn.Linear(2, 3, bias=False)
    head.weight = table.weight
    both, weight = nn.ModuleList([table, head]), table.weight
    both.to("sim")
    return both[0].weight is weight and both[1].weight is weight and weight.device.type == "sim"


def memory_is_counted() -> bool:
    """A tensor counts while it lives, a view does not, and the peak stays until it is reset."""
    before = torch.sim.memory_allocated()
    held = torch.ones(1000, device="sim")
    view = held[2:]
    grown = torch.sim.memory_allocated() - before
    del held, view
    torch.sim.reset_peak_memory_stats()
    torch.ones(500, device="sim")
    return (grown, torch.sim.memory_allocated(), torch.sim.max_memory_allocated() - before) == (4000, before, 2000)


def apart_from_the_cpu() -> bool:
    """A copy to the device and back shares no memory with what was copied."""
    here = torch.zeros(2)
    there = here.to("sim")
    there.add_(1)
    back = there.cpu()
    back.add_(1)
    return (here.tolist(), there.tolist(), back.tolist()) == ([0, 0], [1, 1], [2, 2])


def autocast_narrows_products() -> bool:
    """Products in bfloat16, a softmax in float32."""
    with torch.autocast("sim", dtype=torch.bfloat16):
        product = X @ X.T
        return (product.dtype, product.softmax(-1).dtype) == (torch.bfloat16, torch.float32)


def second_run_draws_the_same() -> bool:
    """`checkpoint` restores the device's generator."""
    seen: list[torch.Tensor] = []

    def run(x: torch.Tensor) -> torch.Tensor:
        seen.append(F.dropout(x, 0.5))
        return seen[-1] * x

    checkpoint(run, X, use_reentrant=False).sum().backward()
    return len(seen) == 2 and torch.equal(seen[0].detach().cpu(), seen[1].detach().cpu())


def waiting_is_counted() -> bool:
    """A number that is read waits for the device."""
    before = simulated.MODULE.synchronised
    X.sum().item()
    return simulated.MODULE.synchronised == before + 1


def a_copy_is_late() -> bool:
    """To the CPU without waiting: pinned memory, in which the numbers are once somebody has waited."""
    late = X.detach().to("cpu", non_blocking=True)
    into = torch.ones(2, 3).pin_memory()
    into.copy_(X.detach(), non_blocking=True)
    before = not late.any() and not into.any()
    torch.sim.synchronize()
    return before and late.is_pinned() and torch.equal(late, X.detach().cpu()) and torch.equal(into, late)


def pinned_memory_is_known() -> bool:
    """A copy, its views, what a loader pins; not the tensor that was copied, and nothing once it is freed."""
    plain = torch.randn(4, 3)
    pinned = plain.pin_memory()
    loaded = next(iter(torch.utils.data.DataLoader(plain, batch_size=2, pin_memory=True)))
    known = [one.is_pinned() for one in (plain, pinned, pinned[1:].T, loaded, pinned + 1, pinned.to("sim"))]
    equal = torch.equal(pinned, plain) and torch.equal(pinned.to("sim", non_blocking=True).cpu(), plain)
    del pinned, loaded
    return known == [False, True, True, True, False, False] and equal and not simulated.Pinned.places


def sums_are_in_order_when_told() -> bool:
    """Two runs give the same bits where deterministic kernels are asked for, and not without."""
    ids, values = torch.zeros(999, dtype=torch.long, device="sim"), torch.randn(999, device="sim")

    def total() -> float:
        return torch.zeros(1, device="sim").index_add_(0, ids, values).item()

    loose = {total() for _time in range(4)}
    devices.prepare("sim")
    strict = {total() for _time in range(4)}
    return (len(loose), len(strict)) == (2, 1)


def half_of_module() -> bool:
    """A module on the device in another dtype, while a graph of it is alive."""
    layer = nn.Linear(3, 3).to("sim")
    result = layer(X)
    return bool(layer.to(torch.float64).weight.dtype == torch.float64 and result.device.type == "sim")


ALLOWED: dict[str, Callable[[], Any]] = {
    "a number on the CPU in a sum": lambda: X * torch.tensor(2.0),
    "a number on the CPU for where": lambda: torch.where(X > 0, X, torch.tensor(0.0)),
    "a number on the CPU to fill with": lambda: X.masked_fill(X > 0, torch.tensor(0.0)),
    "indices on the CPU": lambda: X[torch.tensor([0])],
    "a copy from the CPU": lambda: torch.zeros(2, 3, device="sim").copy_(torch.ones(2, 3)),
    "without waiting": lambda: torch.ones(2).to("sim", non_blocking=True),
    "attention": lambda: F.scaled_dot_product_attention(X[None], X[None], X[None]),
    "an optimiser": lambda: torch.optim.AdamW([X]).step(),
    "a scaler": lambda: torch.amp.GradScaler("sim"),
    "a generator": lambda: torch.rand(2, device="sim", generator=torch.Generator("sim").manual_seed(1)),
    "a deep copy": lambda: copy.deepcopy(nn.Linear(2, 2).to("sim"))(torch.ones(1, 2, device="sim")),
    "a state dict": lambda: nn.Linear(3, 3).to("sim").load_state_dict(nn.Linear(3, 3).state_dict()),
    "as the default device": lambda: torch.device("sim").__enter__().__exit__(None, None, None),
    "inference mode": torch.inference_mode()(lambda: (X.view(-1) * 2).sum()),
    "complex numbers": lambda: torch.view_as_real(torch.view_as_complex(torch.ones(2, 2, device="sim")).conj()),
}
SAME_DEVICE = "Expected all tensors to be on the same device"
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a matrix on the CPU": (lambda: X @ torch.ones(3, 3), SAME_DEVICE),
    "a sum with the CPU": (lambda: X + torch.ones(2, 3), SAME_DEVICE),
    "a mask on the CPU": (lambda: X.masked_fill(torch.ones(2, 3).bool(), 0.0), SAME_DEVICE),
    "joined with the CPU": (lambda: torch.cat([X, torch.ones(2, 3)]), SAME_DEVICE),
    "ids on the CPU": (lambda: nn.Embedding(5, 3).to("sim")(torch.tensor([1])), SAME_DEVICE),
    "targets on the CPU": (lambda: F.cross_entropy(X, torch.tensor([0, 1])), SAME_DEVICE),
    "a tensor of the CPU indexed from the device": (lambda: torch.ones(3)[IDS], "indices should be either"),
    "a number of the device in the CPU's sum": (lambda: torch.ones(3) + X.sum(), SAME_DEVICE),
    "pinned on the device": (lambda: X.detach().pin_memory(), "only dense CPU tensors can be pinned"),
    "NumPy": (lambda: X.detach().numpy(), "can't convert sim:0 device type tensor to numpy"),
    "a generator of the CPU": (lambda: torch.rand(2, device="sim", generator=torch.Generator()), "device type"),
    "too much memory": (lambda: torch.empty(1 << 40, device="sim"), "out of memory"),
}
HOLD = (
    seeded_alike, tied_parameters_stay_one, memory_is_counted, apart_from_the_cpu, autocast_narrows_products,
    second_run_draws_the_same, waiting_is_counted, half_of_module, a_copy_is_late, pinned_memory_is_known,
    sums_are_in_order_when_told,
)  # fmt: skip


def main() -> None:
    """Prints what does not hold."""
    for rule in HOLD:
        if not rule():
            print(f"{rule.__name__} does not hold")
    for name, call in ALLOWED.items():
        try:
            call()
        except Exception as error:
            print(f"{name}: refused: {error!r}")
    for name, (call, words) in REFUSED.items():
        try:
            call()
            print(f"{name}: allowed")
        except Exception as error:
            if words not in str(error):
                print(f"{name}: refused in other words: {error!r}")
    print(end="", flush=True)
    os._exit(0)  # see `sweep`


if __name__ == "__main__":
    main()
