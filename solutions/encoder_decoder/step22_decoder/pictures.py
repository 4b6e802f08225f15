"""Which target and source words reach a logit, by its gradient, for the lesson's page."""

from types import ModuleType

import torch

from grader.base.language import N_
from grader.base.language import gettext as _
from grader.report.pictures import Grid, Matrices, Picture, Slider

SOURCE, TARGET = N_("the cat sleeps ."), N_("<bos> le chat dort")
WORDS, WIDTH = 12, 16


def pictures(reference: ModuleType) -> dict[str, Picture]:
    """By name."""
    from_words, to_words = _(SOURCE).split(), _(TARGET).split()
    model = reference.EncoderDecoderTransformer(WORDS, WORDS, WIDTH, 2, 1, 32, 16, 0.0).eval()
    counts = range(len(from_words) - 1)
    frames = []
    for count in counts:
        seen = torch.tensor([place < len(from_words) - count for place in range(len(from_words))])
        target, source = reach(model, seen, len(to_words))
        words = [word if kept else "<pad>" for word, kept in zip(from_words, seen.tolist(), strict=True)]
        titles = N_("target words that it knows"), N_("source words that it knows")
        axes = {"rows": to_words, "row": N_("logits")}
        frames.append(
            [Matrices(panels=[(titles[0], target)], columns=to_words, column=N_("target"), **axes),
             Matrices(panels=[(titles[1], source)], columns=words, column=N_("source"), **axes)]
        )  # fmt: skip
    return {"reach": Slider(label=N_("padding"), values=[f"{count}" for count in counts], frames=frames, at=1)}


@torch.enable_grad()
def reach(model: torch.nn.Module, seen: torch.Tensor, size: int) -> tuple[Grid, Grid]:
    """Whether the logits at each place have a gradient with respect to each word of the target and of the source."""
    made: dict[torch.nn.Module, torch.Tensor] = {}
    layers = model.decoder_embedding, model.encoder.token_embedding
    hooks = [
        layer.register_forward_hook(lambda layer, _inputs, output: made.update({layer: output})) for layer in layers
    ]
    logits = model(torch.arange(1, len(seen) + 1)[None], torch.arange(size)[None], seen[None, None, None])[0]
    for hook in hooks:
        hook.remove()
    grids: list[Grid] = []
    for layer in layers:
        rows = [torch.autograd.grad(row.square().sum(), made[layer], retain_graph=True)[0][0] for row in logits]
        grids.append([(gradient.abs().sum(-1) > 0).tolist() for gradient in rows])
    return grids[0], grids[1]
