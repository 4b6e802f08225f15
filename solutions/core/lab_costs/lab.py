"""One recurrent layer, one convolution, one of attention: time, memory, reach, and steps that wait for each other."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from grader.base.language import gettext as _
from grader.labs import plot as lab_plot
from grader.labs.judged import LabVerdict
from grader.labs.lab import Bench, Plot, Results, Table
from grader.labs.parts import Need

from ...capstone.lab_common import model
from ...capstone.lab_common.memory import peak_bytes, timed, warm_up

SECONDS = 20.0
LENGTHS = (64, 128, 256, 512, 1024, 2048)
WIDTH, HEADS, KERNEL = 64, 4, 3
REPEATS, ENOUGH = 3, 0.3  # calls, or seconds of them, for one figure


class Simple:
    """In place of step 9."""

    @staticmethod
    def CausalSelfAttention(n_embd: int, n_head: int, block_size: int) -> nn.Module:  # noqa: N802
        """The kit's own attention layer."""
        return model.Attention(n_embd, n_head, causal=True)


NEEDS = (Need("step09_fused_qkv", ("CausalSelfAttention",), Simple),)


class Recurrent(nn.Module):
    """A loop over the tokens: each step needs the state that the step before it has left."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.RNNCell(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, T, WIDTH) -> the same shape."""
        state, states = x.new_zeros(len(x), WIDTH), []
        for token in x.unbind(1):
            state = self.cell(token, state)
            states.append(state)
        return torch.stack(states, 1)


class Convolution(nn.Module):
    """Each token with the two before it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL - 1)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, T, WIDTH) -> the same shape."""
        return self.layer(x.mT)[..., : x.shape[1]].mT


def measure(bench: Bench) -> None:
    """From short to long."""
    warm_up()
    bench.begin()
    torch.manual_seed(bench.seed)
    attention = bench.part("step09_fused_qkv").CausalSelfAttention(WIDTH, HEADS, max(LENGTHS))
    layers: dict[str, nn.Module] = {
        _("recurrent"): Recurrent(),
        _("convolution"): Convolution(),
        _("attention"): attention,
    }
    layers = {name: layer.to(bench.device).eval() for name, layer in layers.items()}
    # The steps that wait for each other, on the way from the first token to the last.
    steps: dict[str, Callable[[int], int]] = {
        _("recurrent"): lambda length: length,
        _("convolution"): lambda length: math.ceil((length - 1) / (KERNEL - 1)),
        _("attention"): lambda length: 1,
    }
    first = next(iter(layers))
    for number, length in enumerate(LENGTHS):
        x = torch.randn(1, length, WIDTH, device=bench.device)
        for name, layer in layers.items():
            if bench.left < 0 and name == first:
                return  # whole lengths: what is compared is measured for all three
            bench.tell(f"{name}, T = {length}", number / len(LENGTHS))
            _measure_one(bench, name, layer, x, steps[name](length))


def _measure_one(bench: Bench, name: str, layer: nn.Module, x: Tensor, steps: int) -> None:
    with torch.no_grad():
        call: Callable[[], Tensor] = lambda: layer(x)  # noqa: E731
        peak = peak_bytes(call, bench.device)
        times: list[float] = []
        while len(times) < 2 or (len(times) < REPEATS and sum(times) < ENOUGH):
            times.append(timed(call, bench.device)[0])
    bench.results.add(
        name=name, T=x.shape[1], ms=1000 * min(times), slowest=1000 * max(times), MiB=peak / (1 << 20),
        reach=reach(layer, x), steps=steps,
    )  # fmt: skip


def reach(layer: nn.Module, x: Tensor) -> int:
    """How many tokens the last output of one layer depends on: those where its gradient is not 0. Measured."""
    asked = (
        x[:, -min(x.shape[1], 64) :].clone().requires_grad_()
    )  # a window: a gradient that has died out is not 0 reach
    layer(asked)[0, -1].sum().backward()
    assert asked.grad is not None
    seen = int((asked.grad[0].abs().amax(-1) > 0).sum())
    return x.shape[1] if seen == asked.shape[1] else seen


# --- what is shown ---


def _shown() -> dict[str, str]:
    return {
        "steps": _("Steps that wait for each other, first token to last"),
        "ms": _("Time of a forward pass"),
        "MiB": _("Peak memory"),
    }


def slope(results: Results, name: str, figure: str) -> float:
    """How a figure grows over the last two doublings: 1 with the length, 2 with its square."""
    rows = results.where(name=name)[-3:]
    return math.log2(rows[-1][figure] / rows[0][figure]) / math.log2(rows[-1]["T"] / rows[0]["T"])


def tables(results: Results) -> list[Table]:
    """One table per figure, and the reach of one layer."""
    lengths = [str(length) for length in results.distinct("T")]
    made = []
    for figure, title in (*_shown().items(), ("reach", _("Tokens that one layer's last output depends on"))):
        form = "{:.2f}" if figure in ("ms", "MiB") else "{}"
        rows = [
            (name, *(form.format(row[figure]) for row in results.where(name=name))) for name in results.distinct("name")
        ]
        made.append(Table(title, (_("T ="), *lengths), [(*row, *[""] * (len(lengths) + 1 - len(row))) for row in rows]))
    return made


def pictures(results: Results) -> list[Plot]:
    """Three figures, on logarithmic axes."""
    made = []
    for figure, title in _shown().items():
        with lab_plot.drawing() as drawing:
            for number, name in enumerate(results.distinct("name")):
                rows = results.where(name=name)
                drawing.axes.plot(
                    [r["T"] for r in rows], [r[figure] for r in rows], label=name, **lab_plot.style(number)
                )
            drawing.axes.set_xscale("log", base=2)
            drawing.axes.set_yscale("log")
            drawing.axes.set_xticks(results.distinct("T"), [str(length) for length in results.distinct("T")])
            drawing.axes.set_xlabel(_("length T"))
            drawing.axes.set_ylabel({"steps": _("steps"), "ms": _("milliseconds"), "MiB": "MiB"}[figure])
            drawing.legend()
        made.append(Plot(title, drawing.svg, " ".join(findings(results))))
    return made


def findings(results: Results) -> list[str]:
    """The last length."""
    said = []
    for name in results.distinct("name"):
        row = results.where(name=name)[-1]
        said.append(
            _("{name}, T = {length}: {ms:.1f} ms, {steps} dependent steps, and one layer sees {reach} tokens.").format(
                name=name, length=row["T"], ms=row["ms"], steps=row["steps"], reach=row["reach"]
            )
        )
    return said


def judged(results: Results) -> LabVerdict:
    """Which is fastest at the length that the question asks for."""
    names = results.distinct("name")
    last = {name: results.where(name=name)[-1] for name in names}
    if len(names) < 3 or any(row["T"] < LENGTHS[-1] for row in last.values()):
        return LabVerdict()
    times = [last[name]["ms"] for name in names]
    fastest, second = sorted(times)[:2]
    first = names[times.index(fastest)]
    recurrent, convolution, attention = names
    is_clear = last[first]["slowest"] < second  # farther apart than calls of one layer are
    shows = {
        "slow": last[attention]["ms"] > 2 * last[first]["slowest"], "square": slope(results, attention, "MiB") > 1.6,
        "convolution": convolution == first and is_clear, "linear": slope(results, recurrent, "ms") < 1.4,
    }  # fmt: skip
    because = _("At T = {length}: {figures}.").format(
        length=LENGTHS[-1], figures=", ".join(f"{name} {last[name]['ms']:.1f} ms" for name in names)
    )
    return LabVerdict(names.index(first) + 1 if is_clear else 0, because, shows)
