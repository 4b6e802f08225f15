"""What the heads of a small trained GPT look at: a map per layer and head, and what each token attends to most."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor, nn

from grader.base import language
from grader.base.language import gettext as _
from grader.labs import plot as lab_plot
from grader.labs.judged import LabVerdict
from grader.labs.lab import Bench, Plot, Results, Table
from grader.labs.parts import Need, Stop

from ...capstone.lab_common import pieces, programs, training

SECONDS = 10.0
FAR = 4  # tokens back from which a look is one into the past and not at a neighbour
MOST_TOKENS = 48  # of a longer text its end is shown
TOP = 3
NEEDS: tuple[Need, ...] = programs.GPT_NEEDS
PLACES = ("box", "상자")  # of the ball in the kit's texts
TEXTS = {
    "en": "Mina had a red ball. Mina put the ball in the box. Jun asked Mina: where is the ball? "
    "Mina said: the ball is in the box. They looked in the box, and there was the",
    "ko": "민아는 빨간 공을 찾았습니다. 민아는 공을 상자에 넣었습니다. 준서는 민아에게 물었습니다. 공은 어디에 있어? "
    "민아는 말했습니다. 공은 상자에 있어. 두 사람이 상자를 보니 빨간",
}


def measure(bench: Bench, checkpoint: Path | None = None) -> None:
    """One forward pass; each head's query and key are read where `c_attn` makes them."""
    text = bench.text or TEXTS[language.current()]
    own = programs.CHECKPOINT
    file = checkpoint or (own if own.is_file() else programs.shipped(programs.language_of(text, language.current())))
    try:
        tensors, kept = training.read(file)
        words, shape = pieces.read(kept), training.Shape(**kept["shape"])
        model = bench.part("step12_gpt").GPT(*shape.sizes).to(bench.device).eval()
        training.load_parameters(model, tensors)
    except (OSError, training.Unfit, KeyError, TypeError) as error:
        raise Stop(_("{file} can't be used ({reason}). Type: make train").format(file=file, reason=error)) from None
    ids = words.encode(text)[-min(MOST_TOKENS, shape.block_size) :]
    if len(ids) < 3:
        raise Stop(
            _("The text is too short for a map: {count} tokens that it knows. Type: make lab NAME=maps").format(
                count=len(ids)
            )
        )
    bench.tell(_("reading the maps"))
    maps = attention_maps(model, torch.tensor([ids], device=bench.device), shape.n_head)
    bench.results.extra |= {"maps": maps, "tokens": [words.tokens[token] for token in ids]}
    for layer, heads in enumerate(maps):
        for head, weights in enumerate(heads):
            bench.results.add(layer=layer, head=head, **figures(weights))


@torch.no_grad()
def attention_maps(model: nn.Module, ids: Tensor, heads: int) -> Tensor:
    """The weights of every head: (layers, H, T, T), from a model of step 12's form and one text of shape (1, T)."""
    made: list[Tensor] = []
    layers = [module for name, module in model.named_modules() if name.endswith(".c_attn")]
    hooks = [layer.register_forward_hook(lambda _module, _inputs, output: made.append(output[0])) for layer in layers]
    try:
        model(ids)
    finally:
        for hook in hooks:
            hook.remove()
    maps = []
    for output in made:  # (T, 3 * D)
        query, key, _value = output.unflatten(-1, (3, heads, -1)).permute(1, 2, 0, 3)  # each (H, T, d)
        table = query.matmul(key.mT) * query.shape[-1] ** -0.5
        maps.append((table + torch.full_like(table, -math.inf).triu(1)).softmax(2))
    return torch.stack(maps).cpu()


def figures(weights: Tensor) -> dict[str, float]:
    """What a head does, over the queries after the first ones, which have little choice.

    Entropy in bits; the mean distance to what it attends to; the share of the weight on the token before and on
    the first token; and its strongest look back over FAR tokens or more: from where, to where, and how much.
    """
    length = len(weights)
    rows = weights[2:]
    query, key = torch.arange(2, length)[:, None], torch.arange(length)[None]
    bits = -(rows * rows.clamp_min(1e-12).log2()).sum(-1).mean()
    far = weights.tril(-FAR)
    place = int(far.argmax())
    return {
        "entropy": float(bits), "distance": float((rows * (query - key).clamp_min(0)).sum(-1).mean()),
        "before": float(rows[key == query - 1].mean()), "first": float(rows[:, 0].mean()),
        "look": float(far.max()), "query": place // length, "key": place % length,
    }  # fmt: skip


# --- what is shown ---


def _number(row: dict[str, float]) -> str:
    """`2.0` for layer 2, head 0."""
    return f"{row['layer']:.0f}.{row['head']:.0f}"


def _shown_token(token: str) -> str:
    return token.replace("\n", "⏎").replace(" ", "␣")


def _look(row: dict[str, float], tokens: list[str]) -> str:
    """`␣the → ␣box (18 back, 95%)`."""
    query, key = int(row["query"]), int(row["key"])
    return _("{query} → {key} ({distance} back, {part:.0%})").format(
        query=_shown_token(tokens[query]), key=_shown_token(tokens[key]), distance=query - key, part=row["look"]
    )


def tables(results: Results) -> list[Table]:
    """One row per head; and what each token attends to most, over all heads of the last layer."""
    columns = (
        _("layer.head"), _("entropy (bits)"), _("mean distance"), _("on the token before"), _("on the first token"),
        _("strongest look back"),
    )  # fmt: skip
    rows = [
        (
            _number(row), f"{row['entropy']:.2f}", f"{row['distance']:.1f}", f"{row['before']:.0%}",
            f"{row['first']:.0%}", _look(row, results.extra["tokens"]),
        )
        for row in results.rows
    ]  # fmt: skip
    made = [Table(_("What each head does"), columns, rows)]
    tokens: list[str] = results.extra["tokens"]
    mean = results.extra["maps"][-1].mean(0)
    listed = []
    for place, token in enumerate(tokens):
        weights, places = mean[place, : place + 1].topk(min(TOP, place + 1))
        most = (f"{_shown_token(tokens[int(at)])} {float(weight):.0%}" for weight, at in zip(weights, places))
        listed.append((str(place), _shown_token(token), *most, *[""] * (TOP - min(TOP, place + 1))))
    titles = tuple(_("{rank}. most").format(rank=rank) for rank in range(1, TOP + 1))
    title = _("What each token attends to most (mean of the last layer's heads)")
    return [*made, Table(title, ("#", _("token"), *titles), listed)]


def pictures(results: Results) -> list[Plot]:
    """All maps in a grid; then the clearest of them, with the tokens."""
    maps, tokens = results.extra["maps"], results.extra["tokens"]
    layers, heads = maps.shape[:2]
    with lab_plot.drawing((7.2, 1.9 * layers), layers, heads, sharex=True, sharey=True, squeeze=False) as drawing:
        for layer in range(layers):
            for head in range(heads):
                axes = drawing.axes[layer][head]
                lab_plot.shade(axes, maps[layer][head].tolist(), largest=1.0)
                axes.set_title(f"{layer}.{head}", fontsize=9)
                axes.set_xticks([])
                axes.set_yticks([])
        drawing.colour_bar(drawing.axes, _("weight"))
    grid = Plot(
        _("Every head (layer.head): a row for each query, a column for each key"),
        drawing.svg,
        " ".join(findings(results)),
    )
    asked = _asked_for(results)
    with lab_plot.drawing((7.2, 7.2)) as drawing:
        lab_plot.shade(drawing.axes, maps[int(asked["layer"])][int(asked["head"])].tolist(), largest=1.0)
        drawing.colour_bar(drawing.axes, _("weight"))
        names = [_shown_token(token) for token in tokens]
        labelled = slice(None, None, lab_plot.every(len(names), 22))
        drawing.axes.set_xticks(range(len(names))[labelled], names[labelled], rotation=90, fontsize=8)
        drawing.axes.set_yticks(range(len(names))[labelled], names[labelled], fontsize=8)
        drawing.axes.set_xlabel(_("key"))
        drawing.axes.set_ylabel(_("query"))
    title = _("Head {number}, the one that the question asks for: {look}").format(
        number=_number(asked), look=_look(asked, tokens)
    )
    return [grid, Plot(title, drawing.svg, title)]


def findings(results: Results) -> list[str]:
    """The strongest looks back, and how sharp the heads are."""
    tokens = results.extra["tokens"]
    strongest = sorted(results.rows, key=lambda row: -row["look"])[:TOP]
    sentence = _("Head {number}, strongest look back: {look}.")
    said = [sentence.format(number=_number(row), look=_look(row, tokens)) for row in strongest]
    before = max(results.rows, key=lambda row: row["before"])
    sentence = _("Head {number} puts {part:.0%} of its weight on the token before, more than any other.")
    said.append(sentence.format(number=_number(before), part=before["before"]))
    sharp, broad = (choose(results.rows, key=lambda row: row["entropy"]) for choose in (min, max))
    said.append(
        _("The entropy goes from {low:.1f} bits (head {sharp}) to {high:.1f} bits (head {broad}).").format(
            low=sharp["entropy"], sharp=_number(sharp), high=broad["entropy"], broad=_number(broad)
        )
    )
    return said


def _asked_for(results: Results) -> dict[str, float]:
    """The head that the question is about: from the token before the place is named again it looks most at where the
    place was named, FAR back or more. In a text that names none, the head with the strongest look back."""
    maps: Tensor = results.extra["maps"]
    named = [place for place, token in enumerate(results.extra["tokens"]) if any(one in token for one in PLACES)]
    due = [(again - 1, before) for again in named for before in named if again - 1 - before >= FAR]
    if not due:
        return max(results.rows, key=lambda row: row["look"])
    looks = torch.stack([maps[:, :, query, key] for query, key in due])  # (pairs, layers, H)
    pair, layer, head = (int(place) for place in torch.unravel_index(looks.argmax(), looks.shape))
    return {"layer": layer, "head": head, "query": due[pair][0], "key": due[pair][1], "look": float(looks.max())}


def judged(results: Results) -> LabVerdict:
    """What the token at which the place is due looks at."""
    if "maps" not in results.extra or len(results.extra["tokens"]) <= 2 * FAR:
        return LabVerdict()
    tokens, asked = results.extra["tokens"], _asked_for(results)
    query = int(asked["query"])
    first, before = (float(results.extra["maps"][:, :, query, key].max()) for key in (0, query - 1))
    shows = {"far": max(row["look"] for row in results.rows) > 0.6, "box": asked["look"] > 0.5,
             "broad": max(row["entropy"] for row in results.rows) > 2}  # fmt: skip
    because = _("Head {number}: {look}.").format(number=_number(asked), look=_look(asked, tokens))
    return LabVerdict(3 if asked["look"] > 0.5 else 2 if first > 0.5 else 1 if before > 0.5 else 0, because, shows)
