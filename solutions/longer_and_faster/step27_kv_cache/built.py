"""What a finished step shows: how many tokens go through the model for each one that it writes."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from grader.base.language import N_
from grader.report.pictures import Bars, Picture

from ...capstone.lab_common import pieces, programs, training

SAYS = N_(
    "The kit's small model continues your sentence by your generate_cached. Counted: how many tokens went through it "
    "for each one that it wrote. Without a cache it reads everything again each time."
)
WRITTEN = 10


def built(own: ModuleType, words: list[str]) -> Picture:
    """What was written, and what it took."""
    tensors, kept = training.read(programs.shipped(programs.language_of(" ".join(words), "en")))
    cut = pieces.read(kept)
    model = own.CachedGPT(*training.Shape(**kept["shape"]).sizes).eval()
    training.load_parameters(model, tensors)
    start = torch.tensor([cut.encode(" ".join(words))[-(model.block_size - WRITTEN) :]])

    def without() -> None:
        ids = start
        for _token in range(WRITTEN):
            ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], dim=1)

    with_cache, ids = counted(model, lambda: own.generate_cached(model, start, WRITTEN))
    again, _none = counted(model, without)
    labels = [cut.tokens[token].replace(" ", "␣") for token in ids[0, -WRITTEN:].tolist()]
    panel = (N_("tokens through the model"), [with_cache[:WRITTEN], again])
    return Bars(panels=[panel], labels=labels, names=[N_("with the cache"), N_("without a cache")])


def counted(model: Any, run: Callable[[], Any]) -> tuple[list[float | bool | None], Any]:
    """How many tokens each pass through the model was given, and what the run returned."""
    counts: list[float | bool | None] = []
    hook = model.wte.register_forward_hook(lambda _module, inputs, _output: counts.append(inputs[0].numel()))
    try:
        return counts, run()
    finally:
        hook.remove()
