"""From text to tokens to the next token: a small GPT is trained for some seconds and goes on with a text."""

from __future__ import annotations

import torch
from torch import nn

from grader.base import language
from grader.base.language import gettext as _
from grader.labs import plot as lab_plot
from grader.labs.judged import LabVerdict
from grader.labs.lab import Bench, Plot, Results, Table
from grader.labs.parts import Need, StepCode, Stop

from ...capstone.lab_common import programs, training
from . import vocabulary
from .vocabulary import Vocabulary

SECONDS = 20.0
# Tried out so that some seconds on one core are enough to pick up the text's phrases. With GPT-2's vocabulary a step
# takes 15 times as long.
SIZES = {"block_size": 64, "n_layer": 2, "n_head": 4, "n_embd": 64, "batch_size": 4, "learning_rate": 4e-3}
STEPS, STEPS_WITH_GPT2S_VOCABULARY = 400, 30
LEAST = 100  # steps, however slow the machine: before them it draws bytes that are no character
NEW_TOKENS, TEMPERATURE, TOP_K, SHOWN = 24, 0.5, 20, 5
TOKEN_WIDTH = 24
PROMPTS = {"en": "The model looks at", "ko": "모델은 모든 토큰을"}
NEEDS: tuple[Need, ...] = programs.GPT_NEEDS


def measure(bench: Bench, most_steps: int | None = None) -> None:
    """Trains on the kit's own text in the language of the prompt, then asks for what comes next."""
    text = PROMPTS[language.current()] if bench.text is None else bench.text
    words = vocabulary.load()
    ids = words.encoding.encode(text, disallowed_special=())
    if not ids:
        raise Stop(_("The text is empty. Type: make demo TEXT='{text}'").format(text=PROMPTS[language.current()]))
    bench.results.extra |= {"words": words, "text": text, "ids": ids}
    sample = vocabulary.sample_text(programs.language_of(text, language.current()))
    bench.results.extra["sample"] = sample
    gpt = bench.part("step12_gpt")
    run = training.Run(
        training.Shape(words.size, **SIZES), torch.tensor(words.encoding.encode(sample)), gpt.GPT,
        gpt.next_token_batches, bench.seed, bench.device,
    )  # fmt: skip
    steps = STEPS_WITH_GPT2S_VOCABULARY if words.is_gpt2 else STEPS
    try:
        while run.progress.step < (steps if most_steps is None else most_steps):
            if bench.left < 0 and run.progress.step >= min(LEAST, steps):
                break
            bench.results.add(step=run.progress.step + 1, loss=run.advance())
            bench.tell(_("step {step}").format(step=run.progress.step), run.progress.step / steps)
    finally:
        bench.results.extra |= _asked(gpt, run.model, ids, bench)


def _asked(gpt: StepCode, model: nn.Module, ids: list[int], bench: Bench) -> dict[str, object]:
    """The likeliest next tokens with their probabilities, and what step 12's `generate` appends."""
    held = torch.tensor([ids], device=bench.device)
    model.eval()
    with torch.no_grad():
        logits = model(held[:, -int(SIZES["block_size"]) :])[0][0, -1].float().cpu()
    chances, tokens = logits.softmax(-1).topk(SHOWN)
    torch.manual_seed(bench.seed)
    added = gpt.generate(model, held, NEW_TOKENS, TEMPERATURE, TOP_K)[0, len(ids) :].tolist()
    return {"likely": list(zip(tokens.tolist(), chances.tolist())), "added": added}


# --- what is shown ---


def shown(words: Vocabulary, token: int) -> str:
    """A token with what is invisible written out; bytes that are only part of a character as numbers."""
    raw = words.encoding.decode_single_token_bytes(token)
    try:
        characters = raw.decode()
    except UnicodeDecodeError:
        return _("bytes {numbers}").format(numbers=raw.hex(" "))
    return "".join("␣" if one == " " else one if one.isprintable() else repr(one)[1:-1] for one in characters)[
        :TOKEN_WIDTH
    ]


def tables(results: Results) -> list[Table]:
    """The text as tokens, and what comes next."""
    words: Vocabulary = results.extra["words"]
    seen = results.extra["ids"][-int(SIZES["block_size"]) :]
    tokens = [(str(place), shown(words, token), str(token)) for place, token in enumerate(seen)]
    likely = [(shown(words, token), str(token), f"{chance:.1%}") for token, chance in results.extra["likely"]]
    return [
        Table(_("The text as tokens"), ("#", _("token"), _("id")), tokens),
        Table(_("What comes next"), (_("token"), _("id"), _("probability")), likely),
    ]


def pictures(results: Results) -> list[Plot]:
    """The probabilities, and the loss."""
    words: Vocabulary = results.extra["words"]
    likely = results.extra["likely"]
    with lab_plot.drawing(lab_plot.NARROW) as drawing:
        names = [shown(words, token) for token, _chance in likely]
        drawing.axes.barh(range(len(names)), [chance for _token, chance in likely], color=lab_plot.SERIES[0])
        drawing.axes.set_yticks(range(len(names)), names)
        drawing.axes.invert_yaxis()
        drawing.axes.set_xlabel(_("probability"))
    made = [Plot(_("What comes next"), drawing.svg, ", ".join(names))]
    with lab_plot.drawing(lab_plot.NARROW) as drawing:
        steps, losses = [row["step"] for row in results.rows], [row["loss"] for row in results.rows]
        drawing.axes.plot(steps, losses, **lab_plot.line(0))
        drawing.axes.set_ylim(bottom=0)
        drawing.axes.set_xlabel(_("step"))
        drawing.axes.set_ylabel(_("loss (nats per token)"))
    said = _("From {first:.2f} to {last:.2f} in {steps} steps.").format(
        first=losses[0], last=losses[-1], steps=len(losses)
    )
    return [*made, Plot(_("Loss while it trains"), drawing.svg, said)]


def findings(results: Results) -> list[str]:
    """Which vocabulary, what the training did, and how the text goes on."""
    words: Vocabulary = results.extra["words"]
    if words.is_gpt2:
        said = [_("Vocabulary: GPT-2's own, {size:,} tokens.").format(size=words.size)]
    else:
        said = [
            _(
                "Vocabulary: the small one that comes with the kit, {size:,} tokens. To have GPT-2's own, type: "
                "{command}"
            ).format(size=words.size, command=f"python -m {vocabulary.__name__} download")
        ]
    losses = [row["loss"] for row in results.rows]
    said.append(
        _(
            "Trained just now on the kit's own text, {steps} steps, and it knows nothing else. Loss: {first:.2f} at "
            "first, {last:.2f} now (guessing: {blind:.2f})."
        ).format(steps=len(losses), first=losses[0], last=losses[-1], blind=training.blind_loss(words.size))
    )
    going_on = words.encoding.decode(results.extra["ids"] + results.extra["added"])
    return [*said, _("It goes on, at temperature {temperature}: {text}").format(temperature=TEMPERATURE, text=going_on)]


def judged(results: Results) -> LabVerdict:
    """How many of the words that it wrote are in the text that it has read."""
    if "added" not in results.extra:
        return LabVerdict()
    words: Vocabulary = results.extra["words"]
    written = words.encoding.decode(results.extra["added"]).split()[1:-1]  # whole words
    read = set(results.extra["sample"].split())
    if len(written) < 4:
        return LabVerdict()
    share = sum(word in read for word in written) / len(written)
    losses = [row["loss"] for row in results.rows]
    chances = sum(chance for _token, chance in results.extra["likely"])
    learned = losses[-1] < 0.5 * losses[0]  # else what it writes tells of too little training
    shows = {"words": share > 0.6, "sure": chances > 0.3 and losses[-1] < 0.7 * losses[0]}
    because = _("{share:.0%} of the words that it wrote are in the text that it has read.").format(share=share)
    return LabVerdict(2 if share > 0.6 else 1 if learned and share < 0.25 else 0, because, shows)
