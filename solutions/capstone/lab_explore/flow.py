"""The path of one token through one layer, box by box, and how much each part adds to the token that comes next.

Each box is the work of one step: its numbers come from the learner's code if that step is right. The parts of a logit
are exact: the residual stream is a sum, and the last norm is linear once its mean and deviation are fixed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.base.language import gettext as _
from grader.labs import parts
from grader.report import sums

if TYPE_CHECKING:
    from .engine import Engine, Look, View

MOST = 64  # numbers of a strip; a longer vector shows its first ones
SUM_AGREES = 1e-2  # how far the parts of a logit may be from it, relative to the largest part


class Box(msgspec.Struct):
    """One box of the picture: what is computed, in which step, by whose code, and its numbers."""

    name: str
    step: int
    whose: str
    shape: list[int]
    values: list[float]
    of_tokens: bool = False  # one number for each token
    before: str = ""  # the box that it is computed from, if not the one above


def flow(engine: Engine, view: View, layer: int, head: int, index: int, wanted: int | None) -> dict[str, Any]:
    """The boxes of the token at `index` in a layer and head, and the parts of the logit of `wanted`: by default the
    likeliest next token. Raises Stop."""
    model, look, read = engine.model(view), engine.look(view), engine.read(view.weights)
    _check(look, (layer, head, index))
    boxes = _boxes(engine, view, look, model, (layer, head, index))
    likeliest = int(look.logits[index].argmax())
    token = likeliest if wanted is None or not 0 <= wanted < look.logits.shape[1] else wanted
    return {
        "boxes": [msgspec.to_builtins(box) for box in boxes],
        "token": read.words.spelled(token),
        "id": token,
        "parts": contributions(model, look, index, token),
        "layers": len(look.maps),
    }


def summed(engine: Engine, view: View, at: tuple[int, int, int], of: str, number: int) -> list[str]:
    """The sums behind one number of a box, a line each: the row of products of a score, the exponential over its sum
    of a weight and its score's products, the weighted sum of a number of the context. Raises Stop."""
    model, look = engine.model(view), engine.look(view)
    _check(look, at)
    row_of = _head(engine, view, look, model, at)
    query, keys, values = (part[0].float().cpu() for part in (row_of.query, row_of.key, row_of.value))
    row = row_of.used.tolist()
    if not 0 <= number < (values.shape[1] if of == "context" else len(row)):
        raise parts.Stop(_("There is no such layer, head or token in this text."))
    if of == "context":
        column = values[:, number].tolist()
        shown = [place for place, weight in enumerate(row) if weight or len(row) <= sums.SHOWN]
        return [sums.products([row[p] for p in shown], [column[p] for p in shown], "", float(row_of.context[number]))]
    scores, seen = row_of.scores.tolist(), torch.where(row_of.visible)[0].tolist()
    score = sums.products(query[at[2]].tolist(), keys[number].tolist(), f"√{query.shape[1]}", scores[number])
    if of == "scores":
        return [score]
    weight = float(row_of.weights[number])
    lines = [sums.share(scores, seen, number, weight)]
    if view.dropout and number in seen:
        lines.append(sums.dropped(weight, view.dropout, row[number]))
    return [*lines, score]


def _check(look: Look, at: tuple[int, int, int]) -> None:
    sizes = *look.maps.shape[:2], len(look.ids)
    if not all(0 <= number < size for number, size in zip(at, sizes, strict=True)):
        raise parts.Stop(_("There is no such layer, head or token in this text."))


class Head(NamedTuple):
    """What one head makes of the text, and its row of one token; `used` are the weights after dropout."""

    normed: Tensor  # (1, T, D)
    query: Tensor  # (1, T, d)
    key: Tensor
    value: Tensor
    scores: Tensor  # (T,)
    visible: Tensor
    weights: Tensor
    used: Tensor
    context: Tensor  # (d,)
    norm_again: Tensor | None  # (1, T, D)


def _head(engine: Engine, view: View, look: Look, model: nn.Module, at: tuple[int, int, int]) -> Head:
    layer, head, index = at
    code = engine.code(view.code)
    block = list(model.get_submodule("h").children())[layer]
    seen: dict[str, Tensor] = {}
    x = look.streams[layer].to(engine.device)  # (1, T, D)
    with parts.blamed_on(engine.folder), torch.no_grad(), engine.changed(model, view):
        hooks = [_note(block, name, seen) for name in ("ln_1", "attn.c_attn", "ln_2")]
        try:
            torch.manual_seed(view.seed)
            block(x)
        finally:
            for hook in hooks:
                hook.remove()
        normed = seen.get("ln_1", x)
        made = seen.get("attn.c_attn")
        if made is None:
            made = F.linear(normed, block.get_parameter("attn.c_attn.weight"), _parameter(block, "attn.c_attn.bias"))
        query, key, value = (code.split_heads(part, look.maps.shape[1])[:, head] for part in made.chunk(3, -1))
        scores = code.scaled_scores(query[:, index : index + 1], key)[0, 0]  # (T,)
        visible = code.causal_mask(len(look.ids), x.device)[index] if view.mask else torch.ones_like(scores).bool()
        weights = code.softmax(scores.masked_fill(~visible, -torch.inf), -1)  # (T,)
    used = look.maps[layer, head, index].to(value) if view.dropout else weights
    return Head(normed, query, key, value, scores, visible, weights, used, used @ value[0], seen.get("ln_2"))


def _boxes(engine: Engine, view: View, look: Look, model: nn.Module, at: tuple[int, int, int]) -> list[Box]:
    layer, _number, index = at
    code, head = engine.code(view.code), _head(engine, view, look, model, at)
    with torch.no_grad():
        position = model.get_parameter("wpe.weight")[index] * float(view.positions)
        token = model.get_parameter("wte.weight")[look.ids[index]]
    merged, attended = look.attended[layer]
    after, left = look.streams[layer + 1][0, index], look.streams[layer][0, index]
    middle = left + attended[index]  # after attention
    last = model.get_submodule("ln_f")
    with parts.blamed_on(engine.folder), torch.no_grad():
        final = last(look.streams[-1][:, index].to(engine.device))[0]

    def box(name: str, step: int, numbers: Tensor, of_tokens: bool = False, before: str = "") -> Box:
        whose = next((of for known, of in code.whose.items() if known.startswith(f"step{step:02d}")), "kit")
        shown = numbers.detach().float().cpu().flatten()
        values = [round(number, 4) for number in (shown if of_tokens else shown[:MOST]).nan_to_num(0.0).tolist()]
        return Box(name, step, whose, list(shown.shape), values, of_tokens, before)

    return [
        box("token", 12, token), box("position", 12, position), box("stream", 12 if layer == 0 else 11, left),
        box("norm", 11, head.normed[0, index]),
        box("query", 9, head.query[0, index]), box("key", 9, head.key[0, index], before="norm"),
        box("value", 9, head.value[0, index], before="norm"),
        box("scores", 1, head.scores, of_tokens=True), box("mask", 4, head.visible.float(), of_tokens=True),
        box("weights", 2, head.weights, of_tokens=True), box("context", 3, head.context),
        box("merged", 7, merged[index]), box("attention", 9, attended[index]), box("added", 11, middle),
        box("norm again", 11, middle if head.norm_again is None else head.norm_again[0, index]),
        box("MLP", 11, after - middle), box("output", 11, after), box("last norm", 12, final),
        box("logits", 12, look.logits[index].topk(min(MOST, look.logits.shape[1])).values),
    ]  # fmt: skip


def contributions(model: nn.Module, look: Look, index: int, token: int) -> dict[str, Any]:
    """How much the embeddings, each head and each MLP add to the logit of `token` at `index`, compared with the mean
    logit of all tokens; `sum` is that logit, and `agrees` says that the parts add up to it."""
    with torch.no_grad():
        table = model.get_parameter("lm_head.weight").float().cpu()
        towards = table[token] - table.mean(0)  # (D,)
        stream = look.streams[-1][0, index].float()  # (D,)
        deviation = (stream.var(correction=0) + 1e-5).sqrt()
        scale = model.get_parameter("ln_f.weight").float().cpu()
        direction = towards * scale
        direction = (direction - direction.mean()) / deviation

        def added(part: Tensor) -> float:
            return round(float(part.float() @ direction), 4)

        layers = []
        blocks = list(model.get_submodule("h").children())
        for layer, block in enumerate(blocks):
            merged, attended = look.attended[layer]
            weight = block.get_parameter("attn.c_proj.weight").float().cpu()
            heads = look.maps.shape[1]
            width = weight.shape[1] // heads
            by_head = [
                added(weight[:, h * width : (h + 1) * width] @ merged[index, h * width : (h + 1) * width].float())
                for h in range(heads)
            ]
            before, after = look.streams[layer][0, index], look.streams[layer + 1][0, index]
            layers.append({
                "heads": by_head, "bias": round(added(attended[index]) - sum(by_head), 4),
                "mlp": added(after - before - attended[index]),
            })  # fmt: skip
        bias = _parameter(model, "ln_f.bias")
        shift = 0.0 if bias is None else round(float(bias.float().cpu() @ towards), 4)
        start = added(look.streams[0][0, index])
        logit = float(look.logits[index, token] - look.logits[index].mean())
    every = [start, shift, *(part for each in layers for part in (*each["heads"], each["bias"], each["mlp"]))]
    return {
        "embedding": start, "layers": layers, "last": shift, "sum": round(logit, 4),
        "agrees": abs(sum(every) - logit) <= SUM_AGREES * max(1.0, *map(abs, every)),
    }  # fmt: skip


def _note(block: nn.Module, name: str, seen: dict[str, Tensor]) -> Any:
    """A hook that keeps the output of a part of a block, which a learner's code may call or not."""

    def note(name: str, _part: nn.Module, _inputs: Any, output: Tensor) -> None:
        seen[name] = output

    return block.get_submodule(name).register_forward_hook(partial(note, name))


def _parameter(module: nn.Module, name: str) -> Tensor | None:
    return dict(module.named_parameters(remove_duplicate=False)).get(name)
