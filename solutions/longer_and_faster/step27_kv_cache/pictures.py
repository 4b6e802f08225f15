"""Which rows are new at each token, and what a cache of shared heads takes, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.report.pictures import Bars, Grid, Matrices, Picture, Slider, rounded

PROMPT, TOKENS = 3, 8
HEADS, GROUPS = 8, (8, 4, 2, 1)
LENGTHS = [1024, 8192, 32768]
MIB = 2**20


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    return {"rows": rows(reference), "bytes": groups(reference)}


def rows(reference: ModuleType) -> Slider:
    """What is computed for each further token, and what the cache holds by then."""
    cache = reference.KVCache(TOKENS)
    frames, before, spent = [], 0, [0.0, 0.0]
    steps = range(PROMPT, TOKENS + 1)
    for length in steps:
        new = torch.zeros(1, 1, length - before, 1)
        keys, _values = cache.update(new, new)
        made: Grid = [[column <= row if row < length else None for column in range(keys.shape[-2])]
                      for row in range(before, length)]  # fmt: skip
        whole: Grid = [[column <= row for column in range(length)] for row in range(length)]
        spent = [spent[0] + length, spent[1] + length - before]
        before = length
        labels = [N_("without a cache"), N_("with a cache")]
        frames.append(
            [Matrices(panels=[(N_("without a cache"), whole)]),
             Matrices(panels=[(N_("with a cache"), made)], rows=[f"{row}" for row in range(length)][-len(made) :]),
             Bars(panels=[(N_("tokens through the model so far"), [list(spent)])], labels=labels, most=40.0)]
        )  # fmt: skip
    return Slider(label=N_("tokens of the text"), values=[f"{length}" for length in steps], frames=frames, at=1)


def groups(reference: ModuleType) -> Slider:
    """The bytes of a model of 32 layers with 8 heads of width 128 in half precision."""
    frames = []
    labels = [f"{length:,}" for length in LENGTHS]
    for kept in GROUPS:
        sizes = [reference.kv_cache_bytes(32, 1, length, kept, 128) / MIB for length in LENGTHS]
        most = reference.kv_cache_bytes(32, 1, LENGTHS[-1], HEADS, 128) / MIB
        frames.append([Bars(panels=[(N_("MiB of cache, by tokens"), [rounded(sizes)])], labels=labels, most=most)])
    return Slider(label=N_("heads of keys and values"), values=[f"{kept}" for kept in GROUPS], frames=frames)
