"""Looks inside a GPT: the weights of every head, what is expected next, and both again with one thing changed.

What is read and what is changed rests on the contract of steps 9 to 12 alone (`wpe`, `h[i].attn`, its `c_attn` and
`c_proj`), so that it works whatever a learner's modules call the rest:

- weights: a hook on each `attn` sees its input; steps 7, 3 and 4 make heads, weights and context of it, and the context
  has to give what `attn` returned;
- a head is silenced by setting its columns of `c_proj` to 0, positions by setting `wpe` to 0;
- without a mask, with dropout on the weights, or with step 10 in place of step 9, `attn` is made of those steps.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.base.language import gettext as _
from grader.calls import devices
from grader.labs import parts

from ..lab_writing import generate
from . import code, flow, weights

MOST_KEPT = 256 << 20  # bytes of weights that are kept for the next question
THUMB = 48  # places a side of the small map of a head
SHOWN = 80  # next tokens that are told by name; the others by their logits alone
TOP = 3  # of what was expected at each place
FLASH_BLOCK = 16
MOST_UNKNOWN = 20  # characters that are named
AGREE = 1e-3
WIDE = 512  # from this width on more threads help; half of the processors, since waiting for a busy one costs most
FAR = 4  # tokens back from which a look is one into the past and not at a neighbour


Seen = dict[str, tuple[Any, Any]]  # by the name of a part: its input and its output


class View(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer that can be looked at: which text, whose code, which parameters, and what is changed."""

    text: str
    weights: str = "kit-en"
    code: str = "yours"  # or "kit": the reference, else the kit's own
    trained: bool = True
    mask: bool = True
    positions: bool = True
    flash: bool = False
    dropout: float = 0.0
    silenced: tuple[tuple[int, int], ...] = ()
    seed: int = 1  # of what is dropped


class Look(msgspec.Struct):
    """What one forward pass showed."""

    ids: list[int]
    cut: int  # tokens before those that fit
    maps: Tensor  # (layers, H, T, T), half precision
    streams: list[Tensor]  # the residual stream before each block, and after the last: (1, T, D)
    attended: list[tuple[Tensor, Tensor]]  # of each layer: the merged heads, and the output of `attn`, both (T, D)
    logits: Tensor  # (T, vocabulary)
    guesses: list[tuple[int, float]]  # after each layer, the likeliest next token
    agrees: bool  # whether the maps give what the model's own attention returned
    seconds: float
    answer: tuple[dict[str, Any], bytes] | None = None  # once it was asked for

    @property
    def nbytes(self) -> int:
        return (
            self.maps.nbytes + self.logits.nbytes + sum(x.nbytes for x in self.streams)
            + sum(merged.nbytes + out.nbytes for merged, out in self.attended)
        )  # fmt: skip


class Engine:
    """Answers questions about views on one device; models and the last looks are kept, what was seen on the CPU.
    `tell` hears what is being done (`code`, `weights`, `compute`), and which part of it is done.

    Raises Stop where the device is not there.
    """

    def __init__(
        self,
        folder: Path,
        right: frozenset[str],
        device: str = "cpu",
        tell: Callable[[str, float], None] = lambda _stage, _done: None,
    ) -> None:
        if not devices.is_there(device):
            said = _("There is no {device} device here. Type: python -m grader {command} --device cpu")
            raise parts.Stop(said.format(device=device, command="explore"))
        self.folder, self.device, self.tell = folder, device, tell
        tell("code", 0.0)
        self.codes = {"yours": code.chosen(folder, right)}
        self._weights: dict[tuple[str, float], weights.Weights] = {}
        self._models: dict[tuple[Any, ...], nn.Module] = {}
        self._looks: OrderedDict[View, Look] = OrderedDict()

    def code(self, name: str) -> code.Code:
        """The learner's code, or that of the kit alone."""
        if name not in self.codes:
            self.codes[name] = code.chosen(self.folder, frozenset())
        return self.codes[name]

    def read(self, name: str) -> weights.Weights:
        """A checkpoint, read once as long as its file is the same. Raises Stop."""
        file = weights.file_of(name)
        key = name, file.stat().st_mtime if file else 0.0
        if key not in self._weights:
            self._weights = {other: held for other, held in self._weights.items() if other[0] != name}
            self._models = {other: held for other, held in self._models.items() if other[0][0] != name}
            self._looks.clear()
            self.tell("weights", 0.0)
            self._weights[key] = weights.read(name)
        return self._weights[key]

    def model(self, view: View) -> nn.Module:
        """The model of a view, filled. Raises Stop."""
        read = self.read(view.weights)
        key = ((view.weights,), view.code, view.trained, view.dropout)
        if key not in self._models:
            with parts.blamed_on(self.folder):
                model = self.code(view.code).new_gpt(read.sizes, view.dropout)
                read.fill(model, view.trained)
                model.to(self.device)
            self._models[key] = model
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2) if read.sizes[4] >= WIDE else 1)
        return self._models[key]

    def ids(self, view: View) -> tuple[list[int], int]:
        """The ids of a view's text that fit the model, and how many were cut off before them. Raises Stop."""
        read = self.read(view.weights)
        ids = read.words.encode(view.text)
        if not ids:
            raise parts.Stop(_("The model can read no character of this text."))
        kept = ids[-read.sizes[1] :]
        return kept, len(ids) - len(kept)

    def look(self, view: View) -> Look:
        """One forward pass, read. Raises Stop."""
        model = self.model(view)
        if view in self._looks:
            self._looks.move_to_end(view)
            return self._looks[view]
        ids, cut = self.ids(view)
        watched = Watched(self.code(view.code), self.read(view.weights).sizes[3], self.tell)
        with parts.blamed_on(self.folder), torch.no_grad(), watched.reading(model, view):
            torch.manual_seed(view.seed)
            model.train(view.dropout > 0)
            began = time.perf_counter()
            logits = model(torch.tensor([ids], device=self.device))[0][0].float().cpu()
            seconds = time.perf_counter() - began
        if not watched.maps:
            raise parts.Stop(_("The blocks do not call their submodule `attn`, so no weights can be read."))
        guesses = self._guesses(model, watched.streams)
        maps = torch.stack(watched.maps)
        streams = [stream.cpu() for stream in watched.streams]
        found = Look(ids, cut, maps, streams, watched.attended, logits, guesses, watched.agrees, seconds)
        self._keep(view, found)
        return found

    def _keep(self, view: View, look: Look) -> None:
        self._looks[view] = look
        while len(self._looks) > 2 and sum(held.nbytes for held in self._looks.values()) > MOST_KEPT:
            self._looks.popitem(last=False)

    @torch.no_grad()
    def _guesses(self, model: nn.Module, streams: list[Tensor]) -> list[tuple[int, float]]:
        """What the head would make of the stream after each layer, at the last place."""
        norm, head = model.get_submodule("ln_f"), model.get_submodule("lm_head")
        with parts.blamed_on(self.folder):
            last = torch.stack([stream[0, -1] for stream in streams[1:]])  # (layers, D)
            chances = torch.softmax(head(norm(last)).float(), -1)  # (layers, vocabulary)
        return [(int(token), float(chance)) for chance, token in zip(*chances.cpu().max(-1))]

    def about(self) -> dict[str, Any]:
        """Whose code there is, and which parameters; a checkpoint that can't be read is a fault, and left out."""
        own = self.codes["yours"]
        faults, found = dict(own.faults), []
        for name in weights.available():
            try:
                found.append(weights.described(name))
            except parts.Stop as stop:
                faults[name] = str(stop)
        return {
            "whose": own.whose,
            "faults": faults,
            "device": devices.label(self.device),
            "flash": own.flash_attention is not None,
            "weights": found,
        }

    # --- answers: what a page is told, and bytes ---

    def looked(self, view: View) -> tuple[dict[str, Any], bytes]:
        """All but the maps of a view: the logits in falling order, float32, then a small map of each head, in bytes."""
        look = self.look(view)
        if look.answer is None:
            look.answer = self._answer(view, look)
        return look.answer

    def _answer(self, view: View, look: Look) -> tuple[dict[str, Any], bytes]:
        words = self.read(view.weights).words
        unknown = set(words.unknown(view.text))
        largest, order = look.logits[-1].sort(descending=True)
        whole = look.logits.logsumexp(-1, keepdim=True)  # (T, 1)
        top, expected = look.logits.topk(min(TOP, look.logits.shape[-1]), dim=-1)
        top = (top - whole).exp()
        loss = (
            whole[:-1] - look.logits[:-1].gather(1, torch.tensor(look.ids[1:], dtype=torch.long)[:, None])
        ).clamp_max(69)
        side = min(THUMB, len(look.ids))
        small = F.adaptive_max_pool2d(look.maps.float(), side).clamp(0, 1).mul(255).byte()
        header = {
            "tokens": [words.spelled(token) for token in look.ids], "cut": look.cut, "agrees": look.agrees,
            "unknown": sorted(unknown)[:MOST_UNKNOWN], "clearest": _clearest(look.maps), "side": side,
            "lost": sum(character in unknown for character in view.text), "typed": len(view.text),
            "seconds": look.seconds,
            "next": [words.spelled(token) for token in order[:SHOWN].tolist()], "ids": order[:SHOWN].tolist(),
            "expected": [
                [(words.spelled(int(token)), round(float(chance), 4)) for token, chance in zip(*row)]
                for row in zip(expected, top)
            ],
            "guesses": [(words.spelled(token), chance) for token, chance in look.guesses],
            "loss": [round(value, 4) for value in loss.flatten().tolist()],
        }  # fmt: skip
        return header, largest.numpy().tobytes() + small.numpy().tobytes()

    def layer(self, view: View, layer: int) -> tuple[dict[str, Any], bytes]:
        """The maps of one layer: float16, (H, T, T). Raises Stop."""
        maps = self.look(view).maps
        if not 0 <= layer < len(maps):
            raise parts.Stop(_("There is no layer {layer}.").format(layer=layer))
        return {"shape": list(maps[layer].shape)}, maps[layer].numpy().tobytes()

    def each(self, view: View, layer: int) -> tuple[dict[str, Any], bytes]:
        """What the likeliest next token gains when each head of a layer is silenced, one at a time. What lies below
        the layer is not computed again. Raises Stop."""
        model, look = self.model(view), self.look(view)
        blocks, heads = _blocks(model), self.read(view.weights).sizes[3]
        if not 0 <= layer < len(blocks):
            raise parts.Stop(_("There is no layer {layer}.").format(layer=layer))
        likeliest = int(look.logits[-1].argmax())
        before = look.logits[-1].softmax(-1)[likeliest]
        effects = []
        for head in range(heads):
            silenced = msgspec.structs.replace(view, silenced=(*view.silenced, (layer, head)))
            with parts.blamed_on(self.folder), torch.no_grad(), self.changed(model, silenced):
                torch.manual_seed(view.seed)
                x = look.streams[layer].to(self.device)
                for block in blocks[layer:]:
                    x = block(x)
                logits = model.get_submodule("lm_head")(model.get_submodule("ln_f")(x[:, -1]))[0].float().cpu()
            effects.append(round(float(logits.softmax(-1)[likeliest] - before), 4))
        return {"effects": effects}, b""

    def flow(
        self, view: View, layer: int, head: int, index: int, wanted: int | None = None
    ) -> tuple[dict[str, Any], bytes]:
        """The path of one token through one layer. Raises Stop."""
        return flow.flow(self, view, layer, head, index, wanted), b""

    def changed(self, model: nn.Module, view: View) -> AbstractContextManager[None]:
        """The model with what the view changes, until the context ends."""
        return Watched(self.code(view.code), self.read(view.weights).sizes[3]).changing(model, view)

    def following(
        self, view: View, ids: list[int], temperature: float, top_k: int, top_p: float
    ) -> tuple[dict[str, Any], bytes]:
        """One token more, drawn by step 12's `generate`, which knows no top-p: the model's logits are cut for it."""
        model, read = self.model(view), self.read(view.weights)
        held = torch.tensor([ids or self.ids(view)[0]], device=self.device)
        torch.manual_seed(view.seed + held.shape[1])
        with parts.blamed_on(self.folder), torch.no_grad(), self.changed(model, view):
            hook = model.register_forward_hook(partial(_nucleus, temperature, top_k, top_p))
            try:
                held = self.code(view.code).generate(model, held, 1, temperature, top_k or None)
            finally:
                hook.remove()
        drawn = held[0].tolist()
        (text,) = generate.spelled(read.words.decode, drawn[:-1], drawn[-1:])
        return {"ids": drawn[-read.sizes[1] :], "text": text}, b""


def _nucleus(temperature: float, top_k: int, top_p: float, _model: nn.Module, _inputs: Any, output: Any) -> Any:
    """Of the last place's likeliest tokens those whose chances sum up to `top_p`; the others get no chance."""
    logits = output[0]
    if top_p >= 1 or temperature == 0:
        return output
    order = logits[:, -1].sort(descending=True, dim=-1)
    chances = (order.values[:, : top_k or None].float() / temperature).softmax(-1)
    kept = int((chances.cumsum(-1) - chances < top_p).sum())
    cut = torch.full_like(logits, -torch.inf).scatter(
        -1, order.indices[:, None, :kept].expand(-1, logits.shape[1], -1), 0.0
    )
    return logits + cut, output[1]


class Watched:
    """A model whose attention is read, or made of other parts."""

    def __init__(
        self, made_of: code.Code, heads: int, tell: Callable[[str, float], None] = lambda _stage, _done: None
    ) -> None:
        self.code, self.heads, self.tell = made_of, heads, tell
        self.maps: list[Tensor] = []
        self.streams: list[Tensor] = []
        self.attended: list[tuple[Tensor, Tensor]] = []
        self.agrees = True

    @contextmanager
    def reading(self, model: nn.Module, view: View) -> Iterator[None]:
        """Notes the weights of each layer, and the stream after it at the last place."""
        with self.changing(model, view), ExitStack() as hooks:
            blocks = _blocks(model)
            for index, block in enumerate(blocks, 1):
                note = partial(self._note_stream, index / len(blocks))
                hooks.callback(block.register_forward_hook(note, with_kwargs=True).remove)
                if not _is_replaced(view):
                    attn, seen = block.get_submodule("attn"), {}
                    for name in ("c_attn", "c_proj"):
                        part = attn.get_submodule(name)
                        hooks.callback(part.register_forward_hook(partial(_note_call, seen, name)).remove)
                    noted = partial(self._note_weights, seen)
                    hooks.callback(attn.register_forward_hook(noted, with_kwargs=True).remove)
            yield

    @contextmanager
    def changing(self, model: nn.Module, view: View) -> Iterator[None]:
        """What the view changes, undone at the end."""
        with ExitStack() as undo:
            if not view.positions:
                undo.enter_context(_zeroed(model.get_parameter("wpe.weight"), slice(None)))
            blocks = _blocks(model)
            for layer, head in view.silenced:
                if layer < len(blocks) and head < self.heads:
                    weight = blocks[layer].get_parameter("attn.c_proj.weight")
                    width = weight.shape[1] // self.heads
                    undo.enter_context(_zeroed(weight, (slice(None), slice(head * width, (head + 1) * width))))
            if _is_replaced(view):
                for block in blocks:
                    attn = block.get_submodule("attn")
                    attn.forward = partial(self._attend, attn, view)  # type: ignore[method-assign]
                    undo.callback(attn.__dict__.pop, "forward")
            yield

    def _attend(self, attn: Any, view: View, x: Tensor) -> Tensor:
        """Attention of steps 7, 3, 4, 5 and 10 with the parameters of `attn`: (B, T, D) -> (B, T, D)."""
        query, key, value = self._heads_of(attn, x)
        mask = self.code.causal_mask(x.shape[1], x.device) if view.mask else None
        context, weights = self.code.attention(query, key, value, mask)  # (B, H, T, d), (B, H, T, T)
        if attn.training and view.dropout:
            weights = self.code.dropout(weights, view.dropout, True)
            context = weights.matmul(value)
        elif view.flash and self.code.flash_attention is not None:
            context = self.code.flash_attention(query, key, value, is_causal=view.mask, block_size=FLASH_BLOCK)
        merged = self.code.merge_heads(context)
        out: Tensor = self.code.dropout(attn.c_proj(merged), view.dropout, attn.training)
        self._note_attention(weights, merged, out)
        return out

    def _note_weights(self, seen: Seen, attn: Any, inputs: Any, named: dict[str, Any], output: Tensor) -> None:
        """What `c_attn` and `c_proj` were seen to do is not computed again; code may use their parameters alone."""
        x, made = _first(inputs, named), seen.pop("c_attn", (None, None))[1]
        context, weights = self.code.attention(
            *self._heads_of(attn, x, made), self.code.causal_mask(x.shape[1], x.device)
        )
        merged = self.code.merge_heads(context)
        given, projected = seen.pop("c_proj", (merged, None))
        if projected is None:
            projected = F.linear(merged, attn.c_proj.weight, attn.c_proj.bias)
        self.agrees &= _agree(merged, given) and _agree(projected, output)
        self._note_attention(weights, merged, output)

    def _note_attention(self, weights: Tensor, merged: Tensor, output: Tensor) -> None:
        self.maps.append(weights[0].half().cpu())
        self.attended.append((merged[0].cpu(), output[0].cpu()))

    def _note_stream(self, done: float, _block: nn.Module, inputs: Any, named: dict[str, Any], output: Tensor) -> None:
        if not self.streams:
            self.streams.append(_first(inputs, named))
        self.streams.append(output)
        self.tell("compute", done)

    def _heads_of(self, attn: Any, x: Tensor, made: Tensor | None = None) -> list[Tensor]:
        """Query, key and value of every head: each (B, H, T, d)."""
        if made is None:
            made = F.linear(x, attn.c_attn.weight, attn.c_attn.bias)  # (B, T, 3 * D)
        return [self.code.split_heads(part, self.heads) for part in made.chunk(3, -1)]


def _note_call(seen: Seen, name: str, _part: nn.Module, inputs: Any, output: Tensor) -> None:
    seen[name] = inputs[0], output


def _first(inputs: Any, named: dict[str, Any]) -> Tensor:
    first: Tensor = inputs[0] if inputs else next(iter(named.values()))
    return first


def _agree(again: Tensor, output: Tensor) -> bool:
    return again.shape == output.shape and bool((again - output).abs().max() <= AGREE * (1 + output.abs().max()))


def _clearest(maps: Tensor) -> list[int]:
    """The layer and the head whose last token attends most to one FAR tokens back or more."""
    far = maps[:, :, -1, : max(1, maps.shape[-1] - FAR)].amax(-1)  # (layers, H)
    return list(divmod(int(far.argmax()), maps.shape[1]))


def _blocks(model: nn.Module) -> list[nn.Module]:
    return list(model.get_submodule("h").children())


def _is_replaced(view: View) -> bool:
    return not view.mask or view.flash or view.dropout > 0


@contextmanager
def _zeroed(weight: Tensor, place: Any) -> Iterator[None]:
    """A part of a parameter set to 0, for a while."""
    with torch.no_grad():
        held = weight[place].clone()
        weight[place] = 0.0
        try:
            yield
        finally:
            weight[place] = held
