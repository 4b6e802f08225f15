"""The checks of step 22: decoder block, encoder-decoder model, and the greedy translation."""

from collections.abc import Callable

import torch
from torch import Tensor

from grader.checks.assertions import (
    GUARDED,
    Answer,
    Draw,
    Handle,
    Implementation,
    _,
    agree,
    exactly,
    fitting,
    holds,
    must_raise,
    on_meta,
    points,
    repeats,
    twins,
    unmodified,
    with_values,
)
from grader.checks.common import (
    columns_drop,
    is_at_home,
    of_shape,
    shapes,
    share_is,
    silent,
    sooner_end_first,
    telling,
    tells,
    until,
    with_layers,
    without_queries,
    written,
)
from grader.checks.regimes import NO_BIAS, OF_A_MODEL, AskedFunction, AskedModule, every_regime

BUILT_INS = ("transformer", "multi_head_attention")
OFF_LIMITS = {"DecoderBlock": BUILT_INS, "EncoderDecoderTransformer": BUILT_INS, "greedy_translate": BUILT_INS}

SOURCES, TARGETS = 9, 7  # sizes of the two vocabularies
EXACT_ENOUGH = 10**8  # `terms` beside numbers that a norm makes 0: what is left of them is rounding
WIDE = 32  # numbers per token where dropout is counted: that none or all of them fall is out of the question
ROWS = 300  # of each of two calls
SOME = 4  # of them show what is computed in eval mode
LAYERS = 6  # by default
BOS = 2
NEVER = TARGETS - 1  # an id that no model here writes: its logit is far below the others

NO_EFFECT, SOME_EFFECT = 1e-5, 1e-4  # of what is hidden, and of what is shown, where all weights are alike
ATTEMPTS = 20
# Norms shrink what is not large: words should depend on the source, on their position and on the words before.
LOUDER = {
    "decoder_embedding.weight": 2.0,
    "decoder_pos_embedding.weight": 3.0,
    "decoder_blocks.0.cross_attention.W_v.weight": 3.0,
    "decoder_blocks.0.self_attention.W_v.weight": 3.0,
    **{f"decoder_blocks.0.{kind}_attention.W_{part}.weight": 3.0 for kind in ("self", "cross") for part in "qk"},
    "output_projection.weight": 3.0,
}


# A fault costs the checks of its own class and those of the whole. What masks hide, and what the loop makes of a
# model, is asked of the learner's own block and model; sizes and errors are asked without blocks.


def streams(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor, ...]:
    return (
        draw.normal(*leading, tokens, 4), draw.normal(*leading, tokens + 1, 4),
        draw.mask(*leading, 1, tokens, tokens), draw.mask(*leading, 1, 1, tokens + 1),
    )  # fmt: skip


def ids_and_masks(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor, ...]:
    tgt_mask = draw.mask(*leading, 1, 1, tokens)
    tgt_mask[..., 0] = True  # so that no row of a causal mask is empty beside it
    return (
        draw.integers(0, SOURCES, *leading, tokens - 1), draw.integers(0, TARGETS, *leading, tokens),
        draw.mask(*leading, 1, 1, tokens - 1), tgt_mask,
    )  # fmt: skip


CALLS = {
    "DecoderBlock": AskedModule(lambda tokens: (4, 2, 8, 0.5), streams, terms=256, without=NO_BIAS),
    "EncoderDecoderTransformer": AskedModule(
        lambda tokens: (SOURCES, TARGETS, 4, 2, 1, 8, tokens, 0.5), ids_and_masks, terms=1024, without=NO_BIAS,
    ),
    "greedy_translate": AskedFunction(
        lambda draw, leading, tokens: (draw.integers(0, SOURCES, 3, 5), BOS, 1, 3, draw.mask(3, 1, 1, 5)), axes=(),
        without=OF_A_MODEL, model=("EncoderDecoderTransformer", SOURCES, TARGETS, 4, 2, 1, 8, 5, 0.5),
    ),
}  # fmt: skip


@points(0.5)
def test_block_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """DecoderBlock: one token of width 2 gives the output that you can work out by hand."""
    values = {name: torch.zeros_like(value) for name, value in reference.DecoderBlock(2, 1, 2).outline().items()}
    values |= {f"cross_attention.{name}.weight": torch.eye(2) for name in ("W_v", "W_o")}
    values |= {f"{name}.weight": torch.full((2,), 10.0) for name in ("ln1", "ln2")}
    values |= {"ln3.weight": torch.tensor([2.0, 4.0]), "ln3.bias": torch.tensor([0.0, 1.0])}
    values |= {
        "feed_forward.linear1.weight": torch.eye(2),
        "feed_forward.linear2.weight": torch.tensor([[-3.0, 3.0], [0.0, 0.0]]),
    }
    theirs = with_values(student, values, "DecoderBlock", 2, 1, 2)
    source = torch.tensor([[[60.0, 0.0], [20.0, 0.0]]])
    agree(theirs(torch.tensor([[[10.0, 30.0]]]), source), torch.tensor([[[-2.0, 5.0]]]), terms=4)


@points(1.5)
def test_block_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """DecoderBlock: fresh targets, sources and parameters give the right output and gradients."""
    for batch, tokens, positions, width, heads, hidden in ((2, 4, 5, 6, 3, 8), (3, 3, 3, 3, 1, 3)):
        theirs, ours = twins(student, reference, draw, "DecoderBlock", width, heads, hidden)
        target = draw.normal(tokens, batch, width, scale=2.0).transpose(0, 1)  # a view, not contiguous
        source = draw.normal(batch, positions, width, scale=2.0)
        got = theirs.using(gradients=True)(target, source)
        agree(got, ours.using(gradients=True)(target, source), terms=256)
        unmodified(got)


@points(0.5)
def test_block_hands_its_masks_on(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """DecoderBlock: tgt_mask hides in self-attention, src_mask in cross attention."""
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    for positions in (4, 6):
        theirs, _ours = twins(student, reference, draw, "DecoderBlock", 6, 3, 8, changed=without_queries)
        for tgt_mask, shown in (
            (causal, None), (None, draw.mask(2, positions)), (draw.mask(2, 1, 4, 4), draw.mask(2, positions))
        ):  # fmt: skip
            tgt, source = draw.normal(2, 4, 6, scale=2.0), draw.normal(2, positions, 6, scale=2.0)
            # All in one call, as sequences of one batch: what is given, then what is changed of it.
            targets, sources, heard = [tgt], [source], []
            for token in (0, 3):
                other = tgt.clone()
                other[:, token] = draw.normal(2, 6, scale=2.0)
                hearing = _everywhere(tgt_mask, 2, 4)[:, :, token]
                hearing[:, token] = True  # by its own stream
                targets, sources = [*targets, other], [*sources, source]
                heard.append((hearing, _("one token of the target")))
            other = draw.normal(2, positions, 6, scale=2.0)
            hearing = torch.ones(2, 4, dtype=torch.bool)
            targets, sources = [*targets, tgt], [*sources, other]
            heard.append((hearing, _("the source")))
            if shown is not None:
                targets, sources = [*targets, tgt], [*sources, torch.where(shown[..., None], source, other)]
                heard.append((~hearing, _("what src_mask hides of the source")))
            times = len(targets)
            masks = _repeated(tgt_mask, times), _repeated(None if shown is None else shown[:, None, None, :], times)
            answer = theirs(torch.cat(targets), torch.cat(sources), tgt_mask=masks[0], src_mask=masks[1])
            _are_heard(answer, (2, 4, 6), heard)


@points(1.5)
def test_model_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """EncoderDecoderTransformer: fresh ids and parameters give the right logits and gradients."""
    for batch, positions, tokens, layers, longest in ((2, 5, 4, 2, 7), (3, 3, 3, 1, 3)):
        theirs, ours = _models(student, reference, draw, layers, longest)
        src, tgt = draw.integers(0, SOURCES, batch, positions), draw.integers(0, TARGETS, batch, tokens)
        src[0, -1] = tgt[0, -1] = 0  # a word like any other
        got = theirs.using(gradients=True)(src, tgt)
        agree(got, ours.using(gradients=True)(src, tgt), terms=1024)
        unmodified(got)


@points(2)
def test_causal_mask_is_made_inside(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """EncoderDecoderTransformer: no target word sees a later one, whatever mask the caller gives."""
    theirs = _fitting(student, reference, draw, SOURCES, TARGETS, 6, 2, 2, 8, 6, 0.0)
    src, tgt = draw.integers(0, SOURCES, 3, 4), draw.integers(0, TARGETS, 3, 5)
    ours = reference.EncoderDecoderTransformer(SOURCES, TARGETS, 6, 2, 0, 8, 6)
    values = draw.parameters(ours.outline())
    values["output_projection.bias"] *= 0  # it has checks of its own: without it a model gives the same here
    ours.load_parameters(values, evaluating=True)
    bare = fitting(student, values, "EncoderDecoderTransformer", SOURCES, TARGETS, 6, 2, 0, 8, 6)
    agree(bare(src, tgt), ours(src, tgt), terms=1024)
    real, whole = _real(3, 5, draw)[:, None, None, :], torch.ones(5, 5, dtype=torch.bool)
    # Without dropout, both modes are alike. Rows of one batch: what is given, then what is changed of it.
    starts = 1, 4
    changed = [torch.cat([tgt[:, :start], (tgt[:, start:] + 1) % TARGETS], dim=1) for start in starts]
    sources, targets = src.repeat(3, 1), torch.cat([tgt, *changed])
    for mode, tgt_mask in (
        (theirs.eval, None), (theirs.train, None), (theirs.eval, real.repeat(3, 1, 1, 1)), (theirs.eval, whole)
    ):  # fmt: skip
        mode()

        def ask(mask: Tensor | None = tgt_mask) -> Answer:
            return theirs(sources, targets, tgt_mask=mask)

        got = repeats(ask) if tgt_mask is None else ask()
        before, *others = _in_eval(got, (9, 5, TARGETS)).split(3)
        for start, after in zip(starts, others, strict=True):
            moved = (after - before).abs().amax(dim=-1)  # (B, T)
            sentence = _(
                "Words {changed} and later of the target were changed, and logits of earlier words changed by up "
                "to {gap:.2g}: they see their future."
            )
            gap = float(moved[:, :start].max())
            holds(gap <= 1e-4, sentence.format(changed=start, gap=gap))
            sentence = _(
                "Words {changed} and later of the target were changed, and the logits of one of them stayed as they "
                "were."
            )
            holds(moved[:, start:].min() >= SOME_EFFECT, sentence.format(changed=start))


@points(0.5)
def test_masks_reach_every_block(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """EncoderDecoderTransformer: src_mask and tgt_mask hide at every place where they should."""
    for positions in (5, 4):
        given = SOURCES, TARGETS, 6, 2, 2, 8, 7
        theirs = _fitting(student, reference, draw, *given, changed=without_queries)
        src, tgt = draw.integers(0, SOURCES, 3, positions), draw.integers(0, TARGETS, 3, 4)
        other_src, other_tgt = (src + 1) % SOURCES, (tgt + 1) % TARGETS
        real_src, real_tgt = _real(3, positions, draw), _real(3, 4, draw)
        joined = real_tgt[:, None, None, :] & torch.ones(4, 4, dtype=torch.bool).tril()
        for src_mask, tgt_mask in (
            (real_src, None), (None, real_tgt[:, None, None, :]), (real_src, real_tgt[:, None, None, :]), (None, joined)
        ):  # fmt: skip
            # All in one call, as rows of one batch: what is given, then what is changed of it.
            everyone = torch.ones(3, 4, dtype=torch.bool)
            sources, targets, heard = [src, other_src], [tgt, tgt], [(everyone, _("the source"))]
            if src_mask is not None:
                sources, targets = [*sources, torch.where(src_mask, src, other_src)], [*targets, tgt]
                heard.append((~everyone, _("what src_mask hides of the source")))
            if tgt_mask is not None:
                sources, targets = [*sources, src], [*targets, torch.where(real_tgt, tgt, other_tgt)]
                # A hidden word has its own stream.
                heard.append((~real_tgt, _("what tgt_mask hides of the target")))
            shown = None if src_mask is None else src_mask[:, None, None, :]
            masks = [_repeated(mask, len(sources)) for mask in (shown, tgt_mask)]
            answer = theirs(torch.cat(sources), torch.cat(targets), src_mask=masks[0], tgt_mask=masks[1])
            _are_heard(answer, (3, 4, TARGETS), heard)


@points(0.25)
def test_too_long_is_an_error(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """EncoderDecoderTransformer: a source or a target longer than max_seq_len is an error."""
    theirs, ours = _models(student, reference, draw, 0, 4)
    src, tgt = draw.integers(0, SOURCES, 6, 5), draw.integers(0, TARGETS, 6, 5)
    agree(theirs(src[:, :4], tgt[:, :4]), ours(src[:, :4], tgt[:, :4]), terms=1024)
    reason = _("{what} = {count} is larger than max_seq_len = {longest}")
    must_raise(lambda: theirs(src, tgt[:, :4]), reason.format(what="S", count=5, longest=4))
    must_raise(lambda: theirs(src[:, :4], tgt), reason.format(what="T", count=5, longest=4))


@points(0.5)
def test_dtypes_and_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """EncoderDecoderTransformer: it works in float64 and bfloat16, and follows its device."""
    # A head's width is 4, so that a root taken in float32 is exact and passes in float64 too.
    given = SOURCES, TARGETS, 8, 2, 1, 8, 6
    theirs, ours = twins(student, reference, draw, "EncoderDecoderTransformer", *given)
    ids = draw.integers(0, SOURCES, 3, 5), draw.integers(0, TARGETS, 3, 4)
    masks = _real(3, 5, draw)[:, None, None, :], _real(3, 4, draw)[:, None, None, :]
    for dtype, terms in ((torch.float64, GUARDED), (torch.bfloat16, 256)):
        theirs.to(dtype=dtype)
        ours.to(dtype=dtype)
        for masked in ((), masks):
            expected = ours(*ids, *masked)
            agree(theirs(*ids, *masked), expected, terms=terms)
    note = _("The device `meta` has shapes and no values: what stays behind is found there.")
    agree(theirs.to(device="meta")(*ids), on_meta(expected), note=note)  # with masks it is asked in `test_any_regime`


@points(0.25)
def test_defaults(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """EncoderDecoderTransformer: it is made with the contract's sizes when it is not told any."""
    # On the device `meta`, where millions of parameters take no memory.
    placed, right = (side.using(made_on_meta=True, device="meta") for side in (student, reference))
    ours = right.EncoderDecoderTransformer(SOURCES, TARGETS, n_layers=1)
    got = shapes(placed.EncoderDecoderTransformer(SOURCES, TARGETS))
    expected = with_layers(shapes(ours), LAYERS)
    for parameter, shape in expected.items():
        sentence = _("Made with the two vocabularies alone, {parameter} has the shape {got}, expected {expected}.")
        if got.get(parameter) != shape:
            holds(False, sentence.format(parameter=parameter, got=got.get(parameter), expected=shape))
    others = ", ".join(sorted(set(got) - set(expected)))
    sentence = _("Made with the two vocabularies alone, it has other parameters than it should: {names}.")
    holds(not others, sentence.format(names=others))
    # Of the default width, and of one layer.
    theirs = placed.EncoderDecoderTransformer(SOURCES, TARGETS, n_layers=1)
    ids = draw.integers(0, TARGETS, 2, 3)
    agree(theirs(ids, ids), ours(ids, ids))
    # Defaults alone are worth nothing: a small one has to compute.
    sizes = {"d_model": 4, "n_heads": 2, "n_layers": 0, "d_ff": 8, "max_seq_len": 4}
    theirs, ours = twins(student, reference, draw, "EncoderDecoderTransformer", SOURCES, TARGETS, **sizes)
    agree(theirs(ids, ids), ours(ids, ids), terms=64)


@points(0.5)
def test_dropout(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """In training, and only then, dropout acts at every place that the contract names."""
    rate = draw.integer(30, 40) / 100
    _block_drops(student, reference, draw, rate)
    _model_drops(student, reference, draw, rate)


@points(0.5)
def test_greedy_takes_the_largest_logit(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """greedy_translate: bos_id comes first, then always the word with the largest logit."""
    src = draw.integers(0, SOURCES, 12, 4)
    theirs, free = _translator(student, reference, draw, src, 6)
    # No row ends: no right model writes the word that ends one. The decoder reads max_seq_len = 6 words at most.
    begin = torch.ones(len(src), 1, dtype=torch.int64)
    first = torch.cat([begin, _in_eval(theirs(src, begin), (len(src), 1, TARGETS)).argmax(dim=-1)], dim=1)
    for bos_id, count, expected in ((1, 1, first), (BOS, 6, free)):
        got = student.greedy_translate(theirs, src, bos_id, NEVER, count)
        exactly(got, until(expected, NEVER))
        unmodified(got)
    note = _("Here the CPU is not the default device: what is made without saying on which device is elsewhere.")
    if is_at_home(theirs, src, torch.full_like(src, BOS)):
        got = student.using(made_on_meta=True).greedy_translate(theirs, src, BOS, NEVER, 2)
        exactly(got, until(free[:, :3], NEVER), note=note)


@points(0.5)
def test_rows_end_by_themselves(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """greedy_translate: after its first eos_id a row holds eos_id only, while the others go on."""
    src = draw.integers(0, SOURCES, 12, 4)
    theirs, free = _translator(student, reference, draw, src, 6)
    # The row's own beginning may be the word that ends it, too.
    ending = telling(free, TARGETS, BOS)
    rows, words = (sooner_end_first(each, free, ending) for each in (src, free))
    for eos_id in (ending, BOS):
        got = student.greedy_translate(theirs, rows, BOS, eos_id, 6)
        note = _("bos_id is {bos_id} and eos_id is {eos_id} here.").format(bos_id=BOS, eos_id=eos_id)
        exactly(got, until(words, eos_id), note=note)
    # Every row may have ended long before the last step, and the shape is the same.
    alone = int(free[0, 1])
    got = student.greedy_translate(theirs, src[:1], BOS, alone, 5)
    exactly(got, until(free[:1, :6], alone))


@points(0.25)
def test_padding_of_the_source(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """greedy_translate: src_mask is handed to the model."""
    # Each row three times, with more and less of it hidden: one translation does not do for all.
    src = draw.integers(0, SOURCES, 4, 6).repeat(3, 1)
    src_mask = (torch.arange(6) < torch.tensor([1, 3, 6]).repeat_interleave(4)[:, None])[:, None, None, :]
    theirs, free = _translator(student, reference, draw, src, 6, src_mask=src_mask)
    # Once without an end, then with rows that end sooner than others, whose masks go with them.
    exactly(student.greedy_translate(theirs, src, BOS, NEVER, 6, src_mask=src_mask), until(free, NEVER))
    ending = telling(free, TARGETS, BOS)
    got = student.greedy_translate(theirs, src, BOS, ending, 6, src_mask=src_mask)
    exactly(got, until(free, ending))


@points(0.25)
def test_translates_in_eval_mode(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """greedy_translate: the model is evaluated in eval mode, and gets back the mode it had."""
    src = draw.integers(0, SOURCES, 12, 4)
    theirs, expected = _translator(student, reference, draw, src, 6, 0.5)
    theirs.train()
    note = _("The model was made with dropout = 0.5 and given in training mode.")
    exactly(student.greedy_translate(theirs, src, BOS, NEVER, 6), until(expected, NEVER), note=note)
    holds(
        theirs.is_training(),
        _("The model was given in training mode, and greedy_translate did not leave all of it in training mode."),
    )
    theirs.eval()
    student.greedy_translate(theirs, src, BOS, NEVER, 1)
    holds(
        theirs.is_evaluating(),
        _("The model was given in eval mode, and greedy_translate did not leave all of it in eval mode."),
    )


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, more than 1,024 tokens, a parent module and a switch of mode do no harm."""
    every_regime(student, reference, draw, CALLS)


def _models(
    student: Implementation, reference: Implementation, draw: Draw, layers: int, longest: int
) -> tuple[Handle, Handle]:
    # Two models with the same drawn parameters.
    given = SOURCES, TARGETS, 6, 2, layers, 8, longest
    return twins(student, reference, draw, "EncoderDecoderTransformer", *given)


def _fitting(
    student: Implementation, reference: Implementation, draw: Draw, *given: float,
    changed: Callable[[dict[str, Tensor]], dict[str, Tensor]] = dict,
) -> Handle:  # fmt: skip
    # A model of the learner's with drawn parameters, whatever else is wrong with it.
    values = draw.parameters(reference.EncoderDecoderTransformer(*given).outline())
    return fitting(student, changed(values), "EncoderDecoderTransformer", *given)


def _everywhere(mask: Tensor | None, batch: int, tokens: int) -> Tensor:
    # A mask of every sequence, of its own.
    seen = torch.ones(batch, tokens, tokens, dtype=torch.bool)
    return seen if mask is None else seen & mask.reshape(-1, tokens, tokens)


def _repeated(mask: Tensor | None, times: int) -> Tensor | None:
    # The mask of a batch that is so many times as large; one of all sequences is itself.
    return mask if mask is None or mask.dim() < 4 else mask.repeat(times, 1, 1, 1)


def _are_heard(answer: Answer, shape: tuple[int, ...], heard: list[tuple[Tensor, str]]) -> None:
    # Of an answer's batches of this shape, the first is of what was given, and each of the others of a change. Fails
    # unless the change moves the results at the positions that see it, (B, T), and at no others.
    batches, *rest = shape
    before, *others = _in_eval(answer, (batches * (1 + len(heard)), *rest)).split(batches)
    for after, (hearing, what) in zip(others, heard, strict=True):
        moved = (after - before).abs().amax(dim=-1)  # (B, T)
        gap = float(moved.masked_fill(hearing, 0.0).max())
        sentence = _("A change of {what} moved results by up to {gap:.2g} where it is hidden.")
        holds(gap <= NO_EFFECT, sentence.format(what=what, gap=gap))
        sentence = _("A change of {what} does not show at a position that may see it.")
        holds(float(moved.masked_fill(~hearing, torch.inf).min()) >= SOME_EFFECT, sentence.format(what=what))


def _in_eval(answer: Answer, shape: tuple[int, ...]) -> Tensor:
    got = answer.tensor()
    sentence = _("The result has shape {got}, and it should have {expected}.")
    holds(got.shape == shape, sentence.format(got=tuple(got.shape), expected=shape), about=answer)
    return got


def _translator(
    student: Implementation,
    reference: Implementation,
    draw: Draw,
    src: Tensor,
    longest: int,
    dropout: float = 0.0,
    src_mask: Tensor | None = None,
) -> tuple[Handle, Tensor]:
    # The learner's own model in float64, where the largest logit is the same in every order of summation, and what it
    # writes when nothing ends a row. Its parameters are drawn until these words differ enough from row to row, from
    # step to step, and with the mask: those of a right model, and then its own.
    given = SOURCES, TARGETS, 8, 2, 1, 8, longest, dropout
    ours = reference.EncoderDecoderTransformer(*given)
    initial = ours.outline()
    masks = (src_mask,) if src_mask is None else (src_mask, None)
    for attempt in range(ATTEMPTS):
        values = draw.parameters(initial)
        values |= {name: factor * values[name] for name, factor in LOUDER.items()}
        _silence(values, NEVER)
        ours.load_parameters(values, evaluating=True)
        ours.to(dtype=torch.float64)
        right = [reference.greedy_translate(ours, src, BOS, NEVER, longest, mask).tensor() for mask in masks]
        if attempt < ATTEMPTS - 1 and not tells(right[0], *right[1:], words=TARGETS, bos_id=BOS):
            continue
        theirs = fitting(student, values, "EncoderDecoderTransformer", *given).to(dtype=torch.float64)
        free = _written(theirs, src, right[0], src_mask)
        if free is right[0] or tells(
            free, *(_written(theirs, src, each) for each in right[1:]), words=TARGETS, bos_id=BOS
        ):
            break
    sentence = _("The model writes the same word in every place, whatever the source: nothing can be seen of the loop.")
    holds(len(free[:, 1:].unique()) > 1, sentence)
    return theirs, free


def _silence(values: dict[str, Tensor], word: int) -> None:
    # The word's logit lies far below the others, whether there is a bias or not: a column behind the last norm is 1.
    values["ln_final.weight"][0], values["ln_final.bias"][0] = 0.0, 1.0
    values["output_projection.weight"][:, 0] = 0.0
    values["output_projection.weight"][word, 0] = -1e6


def _written(model: Handle, src: Tensor, expected: Tensor, src_mask: Tensor | None = None) -> Tensor:
    # What the learner's own model says word by word if nothing ends a row: the loop is asked, and not the model.
    def logits_of(ids: Tensor) -> Tensor:
        return _in_eval(model(src, ids, src_mask=src_mask), (*ids.shape, TARGETS))

    return written(logits_of, expected)


def _real(batch: int, tokens: int, draw: Draw) -> Tensor:
    # A mask in which the first token is always shown, so that no row of a causal mask is empty beside it.
    mask = draw.mask(batch, tokens)
    mask[:, 0], mask[0, tokens - 1] = True, False
    return mask


# In the following a part of the model adds the same number to each of a token's WIDE columns, or drops it. A norm
# takes away what all columns share: a column that was dropped comes out below 0, the others above it, and a token of
# which all was kept, or all was dropped, as zeros. So what drops whole tokens (an attention weight where there is one
# token, a hidden number of the feed-forward where there is one) shows as zeros, what drops columns as numbers below 0.


def _block_drops(student: Implementation, reference: Implementation, draw: Draw, rate: float) -> None:
    theirs, ours = twins(student, reference, draw, "DecoderBlock", 6, 3, 8, rate)
    given = draw.normal(2, 3, 6), draw.normal(2, 4, 6)
    agree(theirs(*given), ours(*given), terms=256)  # where this is wrong, no rate says anything
    mute = silent(reference.DecoderBlock(WIDE, 1, 1).outline())
    x = torch.ones(ROWS, 1, WIDE)
    some = x[:SOME]
    weights = _("the attention weights")
    theirs = student.DecoderBlock(WIDE, 1, 1, rate)
    for heard, what, inner in (
        (_attention("self_attention"), _("what self-attention adds"), weights),
        (_attention("cross_attention") | _zeros("ln1"), _("what cross attention adds"), weights),
        (_feed_forward("") | _zeros("ln2"), _("what the feed-forward adds"), _("the feed-forward's hidden numbers")),
    ):
        theirs.load_parameters(mute | heard, evaluating=True)
        # A norm takes away what all columns share. Where this is wrong, no rate says anything.
        agree(theirs(some, some), torch.zeros(SOME, 1, WIDE), terms=EXACT_ENOUGH)
        theirs.train()
        first, second = (of_shape(theirs.using(seed=draw.seed())(x, x).tensor(), (ROWS, 1, WIDE)) for _call in range(2))
        columns_drop(first, second, rate, what, inner)


def _model_drops(student: Implementation, reference: Implementation, draw: Draw, rate: float) -> None:
    theirs, ours = _models(student, reference, draw, 1, 4)
    src, tgt = draw.integers(0, SOURCES, 2, 3), draw.integers(0, TARGETS, 2, 4)
    agree(theirs(src, tgt), ours(src, tgt), terms=1024)  # where this is wrong, no rate says anything
    given = 2, WIDE, WIDE, 1, 1, 1, 1
    mute = silent(reference.EncoderDecoderTransformer(*given).outline())
    mute["output_projection.weight"] = torch.eye(WIDE)
    ids = torch.zeros(ROWS, 1, dtype=torch.int64)
    some = ids[:SOME]
    # Of the embeddings it is the sum that is a one: whoever drops from one of them, or from each, leaves others.
    summands = {
        "decoder_embedding.weight": torch.full((WIDE, WIDE), -10.0),
        "decoder_pos_embedding.weight": torch.full((1, WIDE), 11.0),
    }
    block = _feed_forward("decoder_blocks.0.") | _zeros("decoder_blocks.0.ln2")
    theirs = student.EncoderDecoderTransformer(*given, rate)
    for heard, what, inner in (
        (summands, _("the sum of the target's embeddings"), ""),
        (block, _("what the feed-forward of a block adds"), _("the hidden numbers of the feed-forward of a block")),
    ):
        theirs.load_parameters(mute | heard, evaluating=True)
        agree(theirs(some, some), torch.zeros(SOME, 1, WIDE), terms=EXACT_ENOUGH)
        theirs.train()
        first, second = (
            of_shape(theirs.using(seed=draw.seed())(ids, ids).tensor(), (ROWS, 1, WIDE)) for _call in range(2)
        )
        columns_drop(first, second, rate, what, inner)
    # The encoder's embeddings, as cross attention brings them: what was dropped there, and is kept here, is the lowest.
    summands = {
        "encoder.token_embedding.weight": torch.full((2, WIDE), -10.0),
        "encoder.position_embedding.weight": torch.full((1, WIDE), 11.0),
    } | _attention("decoder_blocks.0.cross_attention")
    theirs.load_parameters(mute | summands)
    theirs.train()
    logits = of_shape(theirs.using(seed=draw.seed())(ids, ids).tensor(), (ROWS, 1, WIDE))
    heard_rows = logits[(logits.abs() > 1e-3).any(dim=-1)]
    lowest = heard_rows <= heard_rows.amin(dim=-1, keepdim=True) + 1e-2
    share_is(lowest, rate * (1 - rate), rate, _("the encoder's embeddings, as they reach the decoder,"))
    agree(theirs.eval()(some, some), torch.zeros(SOME, 1, WIDE), terms=64)


def _zeros(norm: str) -> dict[str, Tensor]:
    # Nothing passes the norm.
    return {f"{norm}.weight": torch.zeros(WIDE)}


def _attention(path: str) -> dict[str, Tensor]:
    # The attention adds the values it finds.
    return {f"{path}.{name}.weight": torch.eye(WIDE) for name in ("W_v", "W_o")}


def _feed_forward(block: str) -> dict[str, Tensor]:
    # The block's feed-forward has one hidden number, and adds it to every column.
    path = f"{block}feed_forward.linear"
    return {f"{path}1.bias": torch.ones(1), f"{path}2.weight": torch.ones(WIDE, 1)}
