"""Milliseconds for one more token, with a cache of keys and values and without, against the length of the text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from grader.base.language import gettext as _
from grader.labs import plot as lab_plot
from grader.labs.judged import LabVerdict, first_that
from grader.labs.lab import Bench, Plot, Results, Table
from grader.labs.parts import Need

from ...capstone.lab_common import memory, model, programs

SECONDS = 30.0
LENGTHS = (64, 128, 256, 512, 1024)
KINDS, WIDTH, LAYERS, HEADS = 128, 128, 4, 4
REPEATS = 5  # tokens that are timed at each length
WITH, WITHOUT = "with", "without"
FEWER_HEADS = (HEADS, 2, 1)  # of keys and values: of their own, shared by two, shared by all
MEBI = 1 << 20


class Cache:
    """Keys and values so far, one tensor each."""

    def __init__(self, max_length: int) -> None:
        self.longest, self.kept = max_length, None

    @property
    def length(self) -> int:
        """Tokens kept."""
        return 0 if self.kept is None else self.kept[0].shape[2]

    def extend(self, *new: Tensor) -> Sequence[Tensor]:
        """All keys and values, the new ones last."""
        self.kept = new if self.kept is None else [torch.cat(both, 2) for both in zip(self.kept, new)]
        return self.kept


class Writer(model.GPT):
    """The kit's GPT, with caches."""

    def forward(self, idx: Tensor, caches: Sequence[Cache] = ()) -> Tensor:
        """idx: (B, t) -> logits (B, t, vocab_size)."""
        past = next((cache.length for cache in caches), 0)
        stream = self.wte(idx) + self.wpe.weight[past : past + idx.shape[1]]
        for layer, cache in zip(self.h, caches or [Cache(0)] * len(self.h)):
            attention = layer.attn
            parts = attention.c_attn(layer.ln_1(stream)).unflatten(-1, (3, attention.heads, -1)).permute(2, 0, 3, 1, 4)
            key, value = cache.extend(parts[1], parts[2]) if caches else parts[1:]
            later = torch.full((idx.shape[1], key.shape[2]), -math.inf).triu(past + 1)
            table = torch.matmul(parts[0], key.mT) / math.sqrt(key.shape[3])
            context = (table + later.to(table)).softmax(3).matmul(value)
            stream = stream.add(attention.c_proj(context.transpose(1, 2).flatten(2)))
            inner = nn.functional.gelu(layer.mlp["c_fc"](layer.ln_2(stream)), approximate="tanh")
            stream = stream.add(layer.mlp["c_proj"](inner))
        return self.lm_head(self.ln_f(stream))


class Simple:
    """In place of step 27."""

    CachedGPT, KVCache = Writer, Cache

    @staticmethod
    def kv_cache_bytes(
        n_layer: int, batch_size: int, num_tokens: int, n_kv_heads: int, head_dim: int, bytes_per_element: int = 2
    ) -> int:
        """Two tensors in each layer."""
        return math.prod((2, n_layer, batch_size, n_kv_heads, num_tokens, head_dim, bytes_per_element))


NEEDS = (
    Need("step27_kv_cache", ("CachedGPT", "KVCache", "kv_cache_bytes"), Simple),
    *(Need(need.step, need.names, need.own, graded_only=True) for need in programs.GPT_NEEDS),
)


@torch.no_grad()
def measure(bench: Bench) -> None:
    """From short to long: a few tokens, one after the other, at each length."""
    memory.warm_up()
    bench.begin()
    part = bench.part("step27_kv_cache")
    torch.manual_seed(bench.seed)
    longest = LENGTHS[-1] + REPEATS
    writer = part.CachedGPT(KINDS, longest, LAYERS, HEADS, WIDTH, **_no_dropout(part.CachedGPT)).to(bench.device).eval()
    ids = torch.randint(KINDS, (1, longest), generator=torch.Generator().manual_seed(bench.seed)).to(bench.device)
    for number, length in enumerate(LENGTHS):
        bench.tell(f"T = {length}", number / len(LENGTHS))
        caches = [part.KVCache(length + REPEATS) for _layer in range(LAYERS)]
        writer(ids[:, : length - 1], caches)
        took: dict[str, list[float]] = {WITH: [], WITHOUT: []}
        for end in range(length, length + REPEATS):
            seconds, one = memory.timed(partial(writer, ids[:, end - 1 : end], caches), bench.device)
            took[WITH].append(seconds)
            seconds, whole = memory.timed(partial(writer, ids[:, :end]), bench.device)
            took[WITHOUT].append(seconds)
        apart = float((_logits(one)[:, -1] - _logits(whole)[:, -1]).abs().max())
        for way, seconds_each in took.items():
            bench.results.add(way=way, T=length, ms=1000 * statistics.median(seconds_each), apart=apart)
        for heads in FEWER_HEADS:
            size = part.kv_cache_bytes(LAYERS, 1, length, heads, WIDTH // HEADS, 4)
            bench.results.add(heads=heads, T=length, MiB=size / MEBI)
        if bench.left < 0:
            return


def _no_dropout(gpt: Callable[..., object]) -> dict[str, Any]:
    """Step 12's GPT takes a dropout, the kit's own does not."""
    return {} if issubclass(gpt, model.GPT) else {"dropout": 0.0}  # type: ignore[arg-type]


def _logits(answer: Any) -> Tensor:
    """Of a GPT that gives the loss too, the first."""
    return answer[0] if isinstance(answer, tuple) else answer


# --- what is shown ---


def _names() -> dict[str, str]:
    return {WITHOUT: _("without a cache"), WITH: _("with a cache")}


def growth(results: Results, way: str) -> float:
    """How many times as long a token takes at the longest text as at the shortest."""
    rows = results.where(way=way)
    return float(rows[-1]["ms"] / rows[0]["ms"])


def tables(results: Results) -> list[Table]:
    """Milliseconds, and the bytes of the cache by the number of heads that have keys of their own."""
    lengths = results.distinct("T")
    columns = (_("T ="), *(str(length) for length in lengths))
    times = [(name, *(f"{row['ms']:.2f}" for row in results.where(way=way))) for way, name in _names().items()]
    sizes = [
        (_("{count} heads of keys and values").format(count=heads) if heads > 1 else _("one head for all queries"),
         *(f"{row['MiB']:.2f}" for row in results.where(heads=heads)))
        for heads in FEWER_HEADS
    ]  # fmt: skip
    return [
        Table(_("Milliseconds for one more token"), columns, times),
        Table(_("The cache in MiB, by heads of keys and values"), columns, sizes),
    ]


def pictures(results: Results) -> list[Plot]:
    """Both against the length, on logarithmic axes."""
    made = []
    for title, figure, lines in (
        (_("Time for one more token"), "ms", [(name, {"way": way}) for way, name in _names().items()]),
        (_("The size of the cache"), "MiB",
         [(_("heads of keys and values: {count}").format(count=heads), {"heads": heads}) for heads in FEWER_HEADS]),
    ):  # fmt: skip
        with lab_plot.drawing() as drawing:
            for number, (name, wanted) in enumerate(lines):
                rows = results.where(**wanted)
                drawing.axes.plot(
                    [row["T"] for row in rows], [row[figure] for row in rows], label=name, **lab_plot.style(number)
                )
            drawing.axes.set_xscale("log", base=2)
            drawing.axes.set_yscale("log")
            drawing.axes.set_xticks(results.distinct("T"), [str(length) for length in results.distinct("T")])
            drawing.axes.set_xlabel(_("tokens before it, T"))
            drawing.axes.set_ylabel(_("milliseconds") if figure == "ms" else "MiB")
            drawing.legend()
        made.append(Plot(title, drawing.svg, " ".join(findings(results))))
    return made


def findings(results: Results) -> list[str]:
    """From the shortest text to the longest, and that both ways say the same."""
    said = []
    for way, name in _names().items():
        rows = results.where(way=way)
        if len(rows) > 1:
            said.append(
                _("{name}: a token takes {before:.1f} ms at T = {first} and {after:.1f} ms at T = {last}.").format(
                    name=name, before=rows[0]["ms"], after=rows[-1]["ms"], first=rows[0]["T"], last=rows[-1]["T"]
                )
            )
    rows = results.where(way=WITH)
    if rows:
        apart = max(row["apart"] for row in rows)
        said.append(
            _("The logits of both ways differ by at most {apart:.0e}: it is the same model.").format(apart=apart)
        )
    return said


def judged(results: Results) -> LabVerdict:
    """How a token's time grows from the shortest text to the longest, both ways."""
    if not all(results.where(way=way, T=LENGTHS[-1]) for way in (WITH, WITHOUT)):
        return LabVerdict()
    without, kept = growth(results, WITHOUT), growth(results, WITH)
    most = LENGTHS[-1] / LENGTHS[0]
    shows = {
        "grows": without > 0.6 * most, "flat": kept < 0.25 * most,
        "same": max(row["apart"] for row in results.where(way=WITH)) < 1e-3,
    }  # fmt: skip
    because = _("From {first} to {last} tokens: {without:.1f} times without a cache, {kept:.1f} times with it.").format(
        first=LENGTHS[0], last=LENGTHS[-1], without=without, kept=kept
    )
    climbs = shows["grows"]
    answers = {1: climbs and shows["flat"], 2: climbs and kept > 0.75 * most,
               3: climbs and 0.3 * most < kept < 0.7 * most, 4: without < 2 and kept < 2}  # fmt: skip
    return LabVerdict(first_that(answers), because, shows)
