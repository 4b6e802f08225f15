"""Scores with and without 1/sqrt(d): the entropy of the weights, and the gradient that gets through the softmax."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from grader.base.language import gettext as _
from grader.labs import plot as lab_plot
from grader.labs.judged import LabVerdict, first_that
from grader.labs.lab import Bench, Plot, Results, Table
from grader.labs.parts import Need

SECONDS = 20.0
WIDTHS = (4, 16, 64, 256, 1024)
TOKENS, SEQUENCES = 64, 16
MOST_ROUNDS = 20


class Simple:
    """In place of step 3, without masks."""

    @staticmethod
    def attention(query: Tensor, key: Tensor, value: Tensor, mask: None = None) -> tuple[Tensor, Tensor]:
        """(context, weights)."""
        weights = (query.mul(query.size(-1) ** -0.5) @ key.mT).softmax(2)
        return weights.matmul(value), weights


NEEDS = (Need("step03_attention", ("attention",), Simple),)


def measure(bench: Bench) -> None:
    """Each width with fresh draws, several times over, so that the figures are means."""
    draws = torch.Generator().manual_seed(bench.seed)
    share = bench.seconds / len(WIDTHS)
    for number, width in enumerate(WIDTHS):
        found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        for round_ in range(MOST_ROUNDS):
            bench.tell(f"d = {width}", (number + round_ / MOST_ROUNDS) / len(WIDTHS))
            query, key, value, upstream = torch.randn(4, SEQUENCES, TOKENS, width, generator=draws).to(bench.device)
            for scaled in found:
                found[scaled].append(_once(bench, query, key, value, upstream, scaled))
            if bench.elapsed > (number + 1) * share:
                break
        for scaled, figures in found.items():
            entropy, gradient = (sum(column) / len(figures) for column in zip(*figures))
            bench.results.add(scaled=scaled, d=width, entropy=entropy, gradient=gradient)


def _once(
    bench: Bench, query: Tensor, key: Tensor, value: Tensor, upstream: Tensor, scaled: bool
) -> tuple[float, float]:
    """Entropy in bits, and the size of the gradient at the scores.

    Attention divides by sqrt(d) itself, so a query that is sqrt(d) times as large has scores that were never divided.
    """
    width = query.shape[-1]
    with torch.no_grad():
        weights = bench.part("step03_attention").attention(query if scaled else query * math.sqrt(width), key, value)[1]
        entropy = -(weights * weights.clamp_min(1e-30).log2()).sum(-1)
        # The softmax's backward pass: what arrives at a weight, less its mean over the row, times the weight.
        arriving = upstream @ value.transpose(1, 2) / math.sqrt(width)
        through = weights * (arriving - (weights * arriving).sum(-1, keepdim=True))
    return float(entropy.mean()), float(through.norm(dim=-1).median())


# --- what is shown ---


def _rows(results: Results, scaled: bool) -> list[dict[str, float]]:
    return results.where(scaled=scaled)


def _names() -> dict[bool, str]:
    return {True: _("with 1/√d"), False: _("without 1/√d")}


def tables(results: Results) -> list[Table]:
    """Entropy and gradient, one row per width."""
    columns = (
        "d",
        _("entropy, with 1/√d"),
        _("entropy, without 1/√d"),
        _("gradient, with 1/√d"),
        _("gradient, without 1/√d"),
    )
    rows = [
        (str(one["d"]), *(f"{r['entropy']:.2f}" for r in (one, two)), *(f"{r['gradient']:.4f}" for r in (one, two)))
        for one, two in zip(_rows(results, True), _rows(results, False))
    ]  # fmt: skip
    return [
        Table(
            _("Entropy in bits ({most:.0f} at most), gradient at the scores").format(most=math.log2(TOKENS)),
            columns,
            rows,
        )
    ]


def pictures(results: Results) -> list[Plot]:
    """Both against d."""
    made = []
    for title, figure, unit, is_log in (
        (_("Entropy of the weights"), "entropy", _("bits"), False),
        (_("Gradient at the scores"), "gradient", _("length (median of the rows)"), True),
    ):
        with lab_plot.drawing() as drawing:
            for number, (scaled, name) in enumerate(_names().items()):
                rows = _rows(results, scaled)
                drawing.axes.plot(
                    [r["d"] for r in rows], [r[figure] for r in rows], label=name, **lab_plot.style(number)
                )
            drawing.axes.set_xscale("log", base=2)
            drawing.axes.set_xticks(results.distinct("d"), [str(width) for width in results.distinct("d")])
            if is_log:
                drawing.axes.set_yscale("log")
            else:
                drawing.axes.set_ylim(bottom=0)
            drawing.axes.set_xlabel(_("width d"))
            drawing.axes.set_ylabel(unit)
            drawing.legend()
        made.append(Plot(title, drawing.svg, " ".join(findings(results))))
    return made


def findings(results: Results) -> list[str]:
    """From the smallest width to the largest."""
    said = []
    for scaled, name in _names().items():
        rows = _rows(results, scaled)
        if len(rows) > 1:
            said.append(
                _(
                    "{name}: from d = {first} to {last} the entropy goes from {before:.1f} to {after:.1f} bits, the "
                    "gradient from {small:.2g} to {large:.2g}."
                ).format(
                    name=name,
                    first=rows[0]["d"],
                    last=rows[-1]["d"],
                    before=rows[0]["entropy"],
                    after=rows[-1]["entropy"],
                    small=rows[0]["gradient"],
                    large=rows[-1]["gradient"],
                )  # fmt: skip
            )
    return said


def judged(results: Results) -> LabVerdict:
    """What becomes of the gradient from the smallest width to the largest."""
    bare, scaled = _rows(results, False), _rows(results, True)
    if len(bare) < len(WIDTHS):
        return LabVerdict()
    rate = bare[-1]["gradient"] / bare[0]["gradient"]
    entropies = [row["entropy"] for row in scaled]
    shows = {
        "falls": bare[-1]["entropy"] < 0.5 * bare[0]["entropy"], "vanishes": rate < 0.3,
        "flat": max(entropies) < 1.3 * min(entropies), "small": bare[0]["gradient"] > scaled[0]["gradient"],
    }  # fmt: skip
    because = _("Without 1/√d the gradient at d = {last} is {rate:.2g} times that at d = {first}.").format(
        first=bare[0]["d"], last=bare[-1]["d"], rate=rate
    )
    return LabVerdict(first_that({1: rate > 4, 2: 0.5 < rate < 2, 3: rate < 0.3}), because, shows)
