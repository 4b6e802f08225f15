"""Attention four ways: time and peak memory against the length, forward only."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.base.language import gettext as _
from grader.labs import plot as lab_plot
from grader.labs.judged import LabVerdict, first_that
from grader.labs.lab import Bench, Plot, Results, Table
from grader.labs.parts import Need, StepCode

from ...capstone.lab_common.memory import peak_bytes, timed, warm_up

SECONDS = 60.0
LENGTHS = (256, 512, 1024, 2048, 4096)
HEADS, WIDTH, WINDOW = 4, 64, 256
BLOCKS = (64, 256)
REPEATS, ENOUGH = 3, 0.5  # calls, or seconds of them, for one figure
MEBI = 1 << 20

Compute = Callable[[Tensor, Tensor, Tensor], Tensor]


class Simple:
    """In place of step 10: blocks of queries alone, each against all keys. Memory grows with T, as step 10's does."""

    @staticmethod
    def flash_attention(
        query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
    ) -> Tensor:
        """The same numbers as step 10's."""
        done = []
        for first in range(0, query.shape[2], block_size):
            last = min(first + block_size, query.shape[2])
            seen = last if is_causal else key.shape[2]
            table = torch.matmul(query[:, :, first:last] / math.sqrt(query.shape[3]), key[:, :, :seen].mT)
            if is_causal:
                table += torch.full_like(table, -math.inf).triu(first + 1)
            done.append(table.softmax(3).matmul(value[:, :, :seen]))
        return torch.cat(done, 2)


NEEDS = (
    Need("step10_flash", ("flash_attention",), Simple),
    Need("step25_window", ("window_attention",), optional=True),
    Need("step29_triton", ("flash_forward",), optional=True, package="triton"),
)


def measure(bench: Bench) -> None:
    """From short to long, so that what there is when the time is over is whole up to a length."""
    warm_up()
    bench.begin()
    draws = torch.Generator().manual_seed(bench.seed)
    contestants = _contestants(bench)
    took: dict[str, float] = {}
    for length in LENGTHS:
        inputs = torch.randn(3, 1, HEADS, length, WIDTH, generator=draws).to(bench.device)
        for name, compute in contestants.items():
            if 12.0 * took.get(name, 0.0) > bench.left:
                continue  # twice the length takes four times as long, and is gone through some three times
            bench.tell(f"{name}, T = {length}", LENGTHS.index(length) / len(LENGTHS))
            with torch.no_grad():
                took[name] = _measure_one(bench, name, compute, inputs)


def _measure_one(bench: Bench, name: str, compute: Compute, inputs: Tensor) -> float:
    """One row; returns the seconds of one call."""
    call: Callable[[], Tensor] = lambda: compute(*inputs)  # noqa: E731
    peak = peak_bytes(call, bench.device)
    times = []
    while len(times) < REPEATS and sum(times) < ENOUGH:
        times.append(timed(call, bench.device)[0])
    bench.results.add(name=name, T=inputs.shape[-2], ms=1000 * min(times), MiB=peak / MEBI)
    return min(times)


def _contestants(bench: Bench) -> dict[str, Compute]:
    flash = bench.part("step10_flash").flash_attention
    found: dict[str, Compute] = {_("PyTorch's built-in"): _built_in}
    for block in BLOCKS:
        found[_("step 10, blocks of {size}").format(size=block)] = lambda q, k, v, block=block: flash(
            q, k, v, is_causal=True, block_size=block
        )
    window: StepCode | None = bench.parts.get("step25_window")
    if window is not None:
        found[_("step 25, a window of {size}").format(size=WINDOW)] = lambda q, k, v: window.window_attention(
            q, k, v, WINDOW
        )
    kernel: StepCode | None = bench.parts.get("step29_triton")
    if kernel is not None:
        found[_("step 29, a Triton kernel")] = lambda q, k, v: kernel.flash_forward(q, k, v, is_causal=True)[0]
    return found | {_("naive"): _naive}  # last: where the time does not reach, it is the one to be left out


_built_in: Compute = partial(F.scaled_dot_product_attention, is_causal=True)


def _naive(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The whole T x T table at once."""
    later = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).triu(1)
    table = torch.matmul(query, key.mT) / math.sqrt(WIDTH)
    return table.masked_fill(later, -math.inf).softmax(3).matmul(value)


# --- what is shown ---


def _all_names() -> list[str]:
    """Whoever may take part."""
    blocks = [_("step 10, blocks of {size}").format(size=block) for block in BLOCKS]
    window = _("step 25, a window of {size}").format(size=WINDOW)
    return [_("PyTorch's built-in"), *blocks, _("naive"), window, _("step 29, a Triton kernel")]


def slope(results: Results, name: str, figure: str) -> float | None:
    """How a figure grows over the last two doublings: 1 with the length, 2 with its square. None with fewer lengths."""
    rows = results.where(name=name)[-3:]
    if len(rows) < 3:
        return None
    return math.log2(rows[-1][figure] / rows[0][figure]) / math.log2(rows[-1]["T"] / rows[0]["T"])


def tables(results: Results) -> list[Table]:
    """Time and memory, one row per contestant, one column per length."""
    lengths = [str(length) for length in results.distinct("T")]
    made = []
    for title, figure in ((_("Milliseconds for one forward pass"), "ms"), (_("Peak memory in MiB"), "MiB")):
        rows = []
        for name in results.distinct("name"):
            by_length = {str(row["T"]): f"{row[figure]:.1f}" for row in results.where(name=name)}
            rows.append((name, *(by_length.get(length, "") for length in lengths)))
        made.append(Table(title, (_("T ="), *lengths), rows))
    return made


def pictures(results: Results) -> list[Plot]:
    """Both, on logarithmic axes, where a power of T is a straight line."""
    made = []
    for title, figure in ((_("Time of one forward pass"), "ms"), (_("Peak memory"), "MiB")):
        with lab_plot.drawing() as drawing:
            for name in results.distinct("name"):
                rows = results.where(name=name)
                number = _all_names().index(name)  # so that each has its colour, whoever takes part
                drawing.axes.plot(
                    [row["T"] for row in rows], [row[figure] for row in rows], label=name, **lab_plot.style(number)
                )
            drawing.axes.set_xscale("log", base=2)
            drawing.axes.set_yscale("log")
            drawing.axes.set_xticks(results.distinct("T"), [str(length) for length in results.distinct("T")])
            drawing.axes.set_xlabel(_("length T"))
            drawing.axes.set_ylabel(_("milliseconds") if figure == "ms" else "MiB")
            drawing.legend()
        made.append(Plot(title, drawing.svg, "; ".join(findings(results))))
    return made


def findings(results: Results) -> list[str]:
    """The slopes, and how much lies between the first and the last contestant at the longest length."""
    said = []
    for name in results.distinct("name"):
        power = slope(results, name, "MiB")
        if power is not None:
            said.append(_("{name}: memory grows as T to the power {power:.1f}.").format(name=name, power=power))
    naive, built_in = (results.where(name=name) for name in (_("naive"), _("PyTorch's built-in")))
    if naive and built_in and naive[-1]["T"] == built_in[-1]["T"]:
        said.append(
            _(
                "At T = {length} naive takes {time:.1f} times as long as the built-in, and {memory:.0f} times the "
                "memory."
            ).format(
                length=naive[-1]["T"],
                time=naive[-1]["ms"] / built_in[-1]["ms"],
                memory=naive[-1]["MiB"] / built_in[-1]["MiB"],
            )  # fmt: skip
        )
    return said


def judged(results: Results) -> LabVerdict:
    """How memory grows, naive and in blocks, and who is faster."""
    built_in, small, large, naive, *_more = _all_names()
    powers = {name: slope(results, name, "MiB") for name in (small, naive)}
    if None in powers.values():
        return LabVerdict()
    of_naive, of_blocks = float(powers[naive] or 0), float(powers[small] or 0)
    last = {name: results.where(name=name)[-1] for name in (built_in, small, large, naive)}
    ms = {name: row["ms"] for name, row in last.items()}
    far = results.where(name=naive)[-1]["T"]
    by_blocks = results.where(name=small, T=far)
    shows = {
        "memory": of_naive > 1.6 and of_blocks < 1.4,
        "larger": ms[large] < ms[small] and last[large]["T"] == last[small]["T"],
        "faster": far >= 1024 and bool(by_blocks) and by_blocks[0]["ms"] < ms[naive],
        "built_in": last[built_in]["T"] == last[small]["T"] and ms[built_in] < ms[small],
    }  # fmt: skip
    because = _("Memory grows as T to the power {naive:.1f} (naive) and {blocks:.1f} (step 10).").format(
        naive=of_naive, blocks=of_blocks
    )
    square, straight = of_naive > 1.6, 0.6 < of_naive < 1.4
    holds = {1: straight and 0.6 < of_blocks < 1.4, 2: square and 0.6 < of_blocks < 1.4, 3: square and of_blocks > 1.6,
             4: square and of_blocks < 0.4}  # fmt: skip
    return LabVerdict(first_that(holds), because, shows)
