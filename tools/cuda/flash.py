"""Attention in several ways: time and peak memory against the length, forward alone and with the backward pass."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from grader.calls import devices
from solutions.capstone.lab_common.memory import peak_bytes, warm_up
from solutions.core.step10_flash.reference import flash_attention

HEADS, WIDTH, BLOCK = 8, 64, 64
REPEATS, ENOUGH = 10, 0.3  # calls, or seconds of them, for one figure
GROWTH = 4.5  # twice the length takes at most so many times as long
CALLS = 4  # of them for one figure at the least: a warm-up, the memory, two for the time

Compute = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Contestant:
    """One way to compute causal attention."""

    name: str
    compute: Compute
    differentiable: bool = True


def measure(device: str, lengths: tuple[int, ...], deadline: float, tell: Callable[[str], None]) -> dict[str, Any]:
    """Rows with milliseconds and MiB, and what each contestant's results are off by; from short to long."""
    dtype = torch.float32 if device == devices.CPU else torch.float16  # a CPU is slow in float16
    if device == "cpu":
        warm_up()
    rows: list[dict[str, Any]] = []
    errors: dict[str, float | str] = {}
    took: dict[tuple[str, bool], float] = {}
    for length in lengths:
        torch.manual_seed(length)
        inputs = [torch.randn(1, HEADS, length, WIDTH, device=device).to(dtype) for _input in range(3)]
        for contestant in contestants(device):
            name = contestant.name
            if length == lengths[0]:
                errors[name] = _error(contestant, inputs)
            for backward in (False, True)[: 1 + contestant.differentiable]:
                expected = CALLS * GROWTH * took.get((name, backward), 0.0)
                if isinstance(errors[name], str) or time.monotonic() + expected > deadline:
                    continue
                tell(f"{name}, T = {length}" + ", forward and backward" * backward)
                row = {"name": name, "T": length, "backward": backward}
                rows.append(row | _measured(contestant, inputs, device, backward))
                if "failed" in rows[-1]:
                    errors[name] = rows[-1]["failed"]
                took[name, backward] = rows[-1].get("ms", math.inf) / 1000
    return {"dtype": str(dtype).removeprefix("torch."), "heads": HEADS, "width": WIDTH, "rows": rows, "errors": errors}


def contestants(device: str) -> Iterator[Contestant]:
    """The naive way, step 10's blocks in Python, step 29's kernel where there is Triton, the built-in by backend."""
    yield Contestant("naive", _naive)
    yield Contestant(f"step 10, blocks of {BLOCK}", lambda q, k, v: flash_attention(q, k, v, True, BLOCK))
    if importlib.util.find_spec("triton"):
        kernel = importlib.import_module("solutions.longer_and_faster.step29_triton.reference").flash_forward
        yield Contestant("step 29", lambda q, k, v: kernel(q, k, v, True)[0], differentiable=False)
        if device == "cuda":  # more queries per program; keys are read half as often
            yield Contestant("step 29, 128 queries", lambda q, k, v: kernel(q, k, v, True, 128, 64)[0], False)
    backends = {"math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION}
    if device == "cuda":
        backends |= {"efficient": SDPBackend.EFFICIENT_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    for name, backend in backends.items():
        yield Contestant(f"SDPA, {name}", _built_in(backend))


def _built_in(backend: SDPBackend) -> Compute:
    def compute(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(query, key, value, is_causal=True)

    return compute


def _naive(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The whole T x T matrix at once."""
    scores = query @ key.mT * query.shape[-1] ** -0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).triu(1)
    return torch.softmax(scores.masked_fill(later, -math.inf), dim=-1) @ value


def _error(contestant: Contestant, inputs: list[Tensor]) -> float | str:
    """The largest difference from the naive way in float32; or why there is no result here."""
    try:
        got = contestant.compute(*inputs).float()
    except (
        Exception
    ) as error:  # a backend that this machine does not have, a compiler without Python.h, a driver too old
        return in_a_line(error)
    return (got - _naive(*(x.float() for x in inputs))).abs().max().item()


def _measured(contestant: Contestant, inputs: list[Tensor], device: str, backward: bool) -> dict[str, Any]:
    call = _with_backward(contestant.compute, inputs) if backward else _forward(contestant.compute, inputs)
    try:
        call()  # compiles, picks an algorithm, fills the allocator
        peak = peak_bytes(call, device)
        times: list[float] = []
        while len(times) < 2 or (len(times) < REPEATS and sum(times) < ENOUGH):
            times.append(_seconds(call, device))
    except torch.OutOfMemoryError:
        with contextlib.suppress(Exception):
            torch.get_device_module(device).empty_cache()
        return {"out_of_memory": True}
    except Exception as error:
        return {"failed": in_a_line(error)}
    return {"ms": 1000 * statistics.median(times), "MiB": peak / (1 << 20)}


def in_a_line(error: Exception) -> str:
    """The first line of what an error says."""
    return next(iter(str(error).strip().splitlines()), "")[:200] or type(error).__name__


def _forward(compute: Compute, inputs: list[Tensor]) -> Callable[[], object]:
    def call() -> object:
        with torch.no_grad():
            return compute(*inputs)

    return call


def _with_backward(compute: Compute, inputs: list[Tensor]) -> Callable[[], object]:
    leaves = [x.detach().requires_grad_() for x in inputs]
    given = torch.ones_like(inputs[2])

    def call() -> object:
        return torch.autograd.grad(compute(*leaves), leaves, given)

    return call


def _seconds(call: Callable[[], object], device: str) -> float:
    """Seconds until it is done: by the GPU's own clock, or on a CPU the process's, since other programs run too."""
    if device != "cuda":
        clock = time.process_time if device == devices.CPU else time.perf_counter
        devices.synchronise(device)
        began = clock()
        call()
        devices.synchronise(device)
        return clock() - began
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1000


def goals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The two goals: None where what they compare was not measured.

    `kernel`: how many times as long as SDPA's flash backend step 29 takes at 4,096 tokens, forward (at most 1.3).
    `memory`: the largest ratio of step 10's peak to the naive one's from 1,024 tokens on (below 1).
    """
    at = {(row["name"], row["T"]): row for row in rows if not row["backward"] and "ms" in row}
    kernels = [at[name, 4096]["ms"] for name in ("step 29", "step 29, 128 queries") if (name, 4096) in at]
    built_in = at.get(("SDPA, flash", 4096))
    blocks = f"step 10, blocks of {BLOCK}"
    ratios = [
        at[blocks, length]["MiB"] / row["MiB"]
        for (name, length), row in at.items()
        if name == "naive" and length >= 1024 and (blocks, length) in at
    ]
    return {
        "kernel": min(kernels) / built_in["ms"] if kernels and built_in else None,
        "memory": max(ratios, default=None),
    }
