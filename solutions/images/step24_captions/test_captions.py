"""The checks of step 24: the loss of a caption, the model, and the greedy caption."""

import math
from functools import partial

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
    draws_differ,
    first_tensor,
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
    written,
)
from grader.checks.regimes import NO_BIAS, OF_A_MODEL, AskedFunction, AskedModule, every_regime

BUILT_INS = ("transformer", "multi_head_attention")
OFF_LIMITS = {"ImageCaptioning": BUILT_INS, "caption_loss": BUILT_INS, "greedy_caption": BUILT_INS}

WORDS = 7  # size of the vocabulary
FEATURES = 5
WIDE = 32  # numbers per word where dropout is counted: that none or all of them fall is out of the question
ROWS = 500  # of each of two calls
SOME = 4  # of them show what is computed in eval mode
LAYERS = 6  # by default
BOS = 2
NEVER = WORDS - 1  # an id that no model here writes: its logit is far below the others

ATTEMPTS = 20
# Norms shrink what is not large: words should depend on the image, on their position and on the words before.
LOUDER = {
    "text_decoder.token_embedding.weight": 2.0,
    "text_decoder.position_embedding.weight": 3.0,
    "image_encoder.weight": 2.0,
    "cross_attention.W_v.weight": 3.0,
    "output_projection.weight": 3.0,
}

CALLS = {
    "ImageCaptioning": AskedModule(
        lambda tokens: (WORDS, 4, 2, 1, 8, FEATURES, tokens, 0.5),
        lambda draw, leading, tokens: (
            draw.normal(*leading, tokens + 1, FEATURES), draw.integers(0, WORDS, *leading, tokens),
            draw.mask(*leading, tokens + 1),
        ),
        terms=1024, without=NO_BIAS,
    ),
    "caption_loss": AskedFunction(
        lambda draw, leading, tokens: (draw.normal(2, tokens, WORDS), draw.integers(0, WORDS, 2, tokens), 3),
        terms=256, axes=(),
        without=dict.fromkeys(("length", "device"), "on `meta` torch's cross-entropy imports its compiler"),
    ),
    "greedy_caption": AskedFunction(
        lambda draw, leading, tokens: (draw.normal(3, 5, FEATURES, dtype=torch.float64), BOS, 1, 3, draw.mask(3, 5)),
        axes=(), without=OF_A_MODEL, model=("ImageCaptioning", WORDS, 4, 2, 1, 8, FEATURES, 5, 0.5),
    ),
}  # fmt: skip


@points(0.5)
def test_loss_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """caption_loss: three words of probability 1/2, 1/4 and 1/8 give 2 ln 2, and padding gives nothing."""
    chances = torch.tensor([[[0.25, 0.5, 0.25], [0.2, 0.2, 0.6]], [[0.25, 0.375, 0.375], [0.5, 0.125, 0.375]]])
    got = student.caption_loss(chances.log(), torch.tensor([[1, 2], [0, 1]]), 2)
    agree(got, torch.tensor(2 * math.log(2)), terms=16)
    unmodified(got)


@points(0.75)
def test_loss_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """caption_loss: fresh logits and targets give the right mean and gradients, whatever the padding's id."""
    for batch, words, vocabulary, scale in ((3, 5, 7, 1.0), (4, 4, 4, 2.0), (2, 6, 3, 1000.0), (5, 1, 4, 1.0)):
        logits = draw.normal(words, batch, vocabulary, scale=scale).transpose(0, 1)  # a view, not contiguous
        targets = draw.integers(0, vocabulary, batch, words)
        # Captions of different lengths, so that a mean of their means is another number; and not all of them end.
        for pad_id in (0, vocabulary - 1, int(targets[0, 0] + 1) % vocabulary):
            kept = targets.clone()
            kept[1, (1 if words > 1 else 0) :] = pad_id
            kept[0, 0] = (pad_id + 1) % vocabulary
            got = student.using(gradients=True).caption_loss(logits, kept, pad_id)
            agree(got, reference.using(gradients=True).caption_loss(logits, kept, pad_id), terms=256)
            unmodified(got)
    logits, targets = draw.normal(3, 5, 7, dtype=torch.float64), draw.integers(1, 7, 3, 5)
    targets[0, 3:], targets[2, 1:] = 3, 3
    targets[1, 0] = 4
    for dtype, terms in ((torch.float64, GUARDED), (torch.bfloat16, 64)):
        expected = reference.caption_loss(logits.to(dtype), targets, 3)
        agree(student.caption_loss(logits.to(dtype), targets, 3), expected, terms=terms)
    # Not on the device `meta`: there torch's cross-entropy imports its compiler, which takes many seconds.
    note = _("Here the CPU is not the default device: what is made without saying on which device is elsewhere.")
    expected = reference.caption_loss(logits, targets, 3)
    agree(student.using(made_on_meta=True).caption_loss(logits, targets, 3), expected, terms=GUARDED, note=note)


@points(1)
def test_model_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """ImageCaptioning: fresh regions, ids and parameters give the right logits, weights and gradients."""
    for batch, regions, words, layers in ((2, 5, 4, 2), (3, 3, 3, 1), (2, 1, 5, 1), (4, 6, 2, 1)):
        theirs, ours = _models(student, reference, draw, layers, 6)
        features = draw.normal(regions, batch, FEATURES, scale=2.0).transpose(0, 1)
        ids = draw.integers(0, WORDS, batch, words)
        got = theirs.using(gradients=True)(features, ids)
        agree(got, ours.using(gradients=True)(features, ids), terms=1024)
        unmodified(got)


@points(1.5)
def test_no_word_sees_the_next(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """ImageCaptioning: no word of the caption sees a later one; each sees itself and all before it."""
    given = WORDS, 6, 2, 2, 8, FEATURES, 6, 0.0
    ours = reference.ImageCaptioning(*given)
    # Biases of the projections have checks of their own: without one a model gives the same here.
    values = {
        name: value * 0 if name in ("image_encoder.bias", "output_projection.bias") else value
        for name, value in draw.parameters(ours.outline()).items()
    }
    ours.load_parameters(values, evaluating=True)
    theirs = fitting(student, values, "ImageCaptioning", *given)
    for regions, mode in ((4, theirs.train), (5, theirs.eval)):
        mode()  # without dropout they are alike
        features, ids = draw.normal(3, regions, FEATURES, scale=2.0), draw.integers(0, WORDS, 3, 5)
        # Rows of one batch: what is given, then what is changed of it.
        starts = 1, 4
        changed = [torch.cat([ids[:, :start], (ids[:, start:] + 1) % WORDS], dim=1) for start in starts]
        batch = features.repeat(3, 1, 1), torch.cat([ids, *changed])
        got = repeats(lambda asked=batch: theirs(*asked))
        before, *others = _in_eval(got, (9, 5, WORDS)).split(3)
        for start, after in zip(starts, others, strict=True):
            moved = (after - before).abs().amax(dim=-1)  # (B, T)
            sentence = _(
                "Words {changed} and later of the caption were changed, and logits of earlier words changed by up "
                "to {gap:.2g}: they see the words that they are to write."
            )
            gap = float(moved[:, :start].max())
            holds(gap <= 1e-4, sentence.format(changed=start, gap=gap))
        agree(got, ours(*batch), terms=1024)


@points(0.5)
def test_regions_are_a_set(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """ImageCaptioning: every word sees every region that is there, in any order, and none that is not."""
    for regions in (5, 4):
        theirs, ours = _models(student, reference, draw, 1, 6)
        features, ids = draw.normal(3, regions, FEATURES, scale=2.0), draw.integers(0, WORDS, 3, 4)
        for mask in (draw.mask(3, regions), torch.arange(regions) < torch.tensor([[1], [3], [regions]])):
            expected = ours(features, ids, mask)
            got = theirs(features, ids, region_mask=mask)
            agree(got, expected, terms=1024)
            unmodified(got)
            note = _("Only regions that region_mask hides were changed since the call before.")
            other = torch.where(mask[..., None], features, 3 - 2 * features)
            agree(theirs(other, ids, mask), expected, terms=1024, note=note)
        order = draw.permutation(regions)
        logits, weights = ours(features, ids).value
        note = _(
            "The regions come in another order here: the logits should not change, and the weights only their order."
        )
        agree(theirs(features[:, order], ids), (logits, weights[..., order]), terms=1024, note=note)


@points(0.25)
def test_sizes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """ImageCaptioning: its default sizes are the contract's, and a text longer than max_seq_len is an error."""
    theirs, ours = _models(student, reference, draw, 1, 4)
    features, ids = draw.normal(6, 5, FEATURES), draw.integers(0, WORDS, 6, 5)
    agree(theirs(features, ids[:, :4]), ours(features, ids[:, :4]), terms=1024)
    reason = _("T = {count} is larger than max_seq_len = {longest}")
    must_raise(partial(theirs, features, ids), reason.format(count=5, longest=4))
    # On the device `meta`, where millions of parameters take no memory.
    placed, right = (side.using(made_on_meta=True, device="meta") for side in (student, reference))
    ours = right.ImageCaptioning(WORDS, n_layers=1)
    got, expected = shapes(placed.ImageCaptioning(WORDS)), with_layers(shapes(ours), LAYERS)
    for parameter, shape in expected.items():
        sentence = _("Made with the vocabulary alone, {parameter} has the shape {got}, expected {expected}.")
        if got.get(parameter) != shape:
            holds(False, sentence.format(parameter=parameter, got=got.get(parameter), expected=shape))
    others = ", ".join(sorted(set(got) - set(expected)))
    sentence = _("Made with the vocabulary alone, it has other parameters than it should: {names}.")
    holds(not others, sentence.format(names=others))
    # Of the default width, and of one layer, whose shapes show the heads.
    theirs = placed.ImageCaptioning(WORDS, n_layers=1)
    features = draw.normal(2, 3, 2048)
    agree(theirs(features, ids[:2]), ours(features, ids[:2]))


@points(0.5)
def test_dtypes_and_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """ImageCaptioning: it works in float64 and bfloat16, and follows its device."""
    # A head's width is 4, so that a root taken in float32 is exact and passes in float64 too.
    theirs, ours = twins(student, reference, draw, "ImageCaptioning", WORDS, 8, 2, 1, 8, FEATURES, 6)
    features, ids = draw.normal(3, 5, FEATURES, dtype=torch.float64), draw.integers(0, WORDS, 3, 4)
    masks = (None, draw.mask(3, 5))
    for dtype, terms in ((torch.float64, GUARDED), (torch.bfloat16, 256)):
        theirs.to(dtype=dtype)
        ours.to(dtype=dtype)
        for mask in masks:
            expected = ours(features.to(dtype), ids, mask)
            agree(theirs(features.to(dtype), ids, mask), expected, terms=terms)
    note = _("The device `meta` has shapes and no values: what stays behind is found there.")
    # With a mask it is asked in `test_any_regime`.
    agree(theirs.to(device="meta")(features.to(torch.bfloat16), ids), on_meta(expected), note=note)


@points(0.5)
def test_dropout(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """ImageCaptioning: in training only, dropout acts in the text decoder and on cross attention's weights."""
    rate = draw.integer(30, 40) / 100
    given = WIDE, WIDE, 1, 1, 1, 1, 1
    mute = silent(reference.ImageCaptioning(*given).outline())
    mute["output_projection.weight"] = torch.eye(WIDE)
    features, ids = torch.zeros(ROWS, 1, 1), torch.zeros(ROWS, 1, dtype=torch.int64)
    # The region is all ones, the text all zeros: the logits are what cross attention gives.
    image = {"image_encoder.bias": torch.ones(WIDE), "text_decoder.ln_final.weight": torch.zeros(WIDE)}
    image |= {f"cross_attention.{name}.weight": torch.eye(WIDE) for name in ("W_v", "W_o")}
    theirs = with_values(student, mute | image, "ImageCaptioning", *given, rate)
    agree(theirs(features[:SOME], ids[:SOME]), (torch.ones(SOME, 1, WIDE), torch.ones(SOME, 1, 1, 1)), terms=64)
    first, second = (
        of_shape(theirs.train().using(seed=draw.seed())(features, ids).value, (ROWS, 1, WIDE)) for _call in range(2)
    )
    what = _("the weights of cross attention")
    both = torch.cat([first, second])
    lost = (both == 0).all(dim=-1)
    share_is(lost, rate, rate, what)
    kept = both[~lost]
    sentence = _("What dropout keeps of {what} should be divided by 1 - {rate:.2f}, and it was not.")
    holds(torch.allclose(kept, torch.full_like(kept, 1 / (1 - rate)), rtol=1e-4), sentence.format(what=what, rate=rate))
    draws_differ(first, second, what)
    # The sum of the text's embeddings is a one: a column that was dropped lies below 0 behind the norm.
    summands = {
        "text_decoder.token_embedding.weight": torch.full((WIDE, WIDE), -10.0),
        "text_decoder.position_embedding.weight": torch.full((1, WIDE), 11.0),
    }
    theirs.load_parameters(mute | summands, evaluating=True)
    agree(theirs(features[:SOME], ids[:SOME]), (torch.zeros(SOME, 1, WIDE), torch.ones(SOME, 1, 1, 1)), terms=64)
    first, second = (
        of_shape(theirs.train().using(seed=draw.seed())(features, ids).value, (ROWS, 1, WIDE)) for _call in range(2)
    )
    what = _("the sum of the text's embeddings")
    share_is(first < -1e-3, rate, rate, what)
    draws_differ(first, second, what)


@points(0.5)
def test_greedy_takes_the_largest_logit(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """greedy_caption: bos_id comes first, then always the word with the largest logit."""
    images = draw.normal(8, 4, FEATURES, scale=2.0, dtype=torch.float64)
    theirs, free = _captioner(student, reference, draw, images, 6)
    # No row ends: no right model writes the word that ends one. The model reads max_seq_len = 6 words at most.
    begin = torch.ones(len(images), 1, dtype=torch.int64)
    first = torch.cat([begin, _in_eval(theirs(images, begin), (len(images), 1, WORDS)).argmax(dim=-1)], dim=1)
    for bos_id, count, expected in ((1, 1, first), (BOS, 6, free)):
        got = student.greedy_caption(theirs, images, bos_id, NEVER, count)
        exactly(got, until(expected, NEVER))
        unmodified(got)
    note = _("Here the CPU is not the default device: what is made without saying on which device is elsewhere.")
    if is_at_home(theirs, images, torch.full((len(images), 1), BOS)):
        got = student.using(made_on_meta=True).greedy_caption(theirs, images, BOS, NEVER, 2)
        exactly(got, until(free[:, :3], NEVER), note=note)


@points(0.5)
def test_rows_end_by_themselves(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """greedy_caption: after its first eos_id a row holds eos_id only, while the others go on."""
    images = draw.normal(8, 4, FEATURES, scale=2.0, dtype=torch.float64)
    theirs, free = _captioner(student, reference, draw, images, 6)
    # The row's own beginning may be the word that ends it, too.
    ending = telling(free, WORDS, BOS)
    rows, words = (sooner_end_first(each, free, ending) for each in (images, free))
    for eos_id in (ending, BOS):
        got = student.greedy_caption(theirs, rows, BOS, eos_id, 6)
        note = _("bos_id is {bos_id} and eos_id is {eos_id} here.").format(bos_id=BOS, eos_id=eos_id)
        exactly(got, until(words, eos_id), note=note)
    # Every row may have ended long before the last step, and the shape is the same.
    alone = int(free[0, 1])
    got = student.greedy_caption(theirs, images[:1], BOS, alone, 5)
    exactly(got, until(free[:1, :6], alone))


@points(0.5)
def test_regions_that_are_not_there(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """greedy_caption: region_mask is handed to the model."""
    # Each image three times, with more and less of it hidden: one caption does not do for all.
    images = draw.normal(4, 6, FEATURES, scale=2.0, dtype=torch.float64).repeat(3, 1, 1)
    mask = torch.arange(6) < torch.tensor([1, 3, 6]).repeat_interleave(4)[:, None]
    theirs, free = _captioner(student, reference, draw, images, 6, region_mask=mask)
    # Once without an end, then with rows that end sooner than others, whose masks go with them.
    ending = telling(free, WORDS, BOS)
    for eos_id, expected in ((NEVER, until(free, NEVER)), (ending, until(free, ending))):
        exactly(student.greedy_caption(theirs, images, BOS, eos_id, 6, region_mask=mask), expected)


@points(0.5)
def test_captions_in_eval_mode(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """greedy_caption: the model is evaluated in eval mode, and gets back the mode it had."""
    images = draw.normal(8, 4, FEATURES, scale=2.0, dtype=torch.float64)
    theirs, expected = _captioner(student, reference, draw, images, 6, 0.5)
    theirs.train()
    note = _("The model was made with dropout = 0.5 and given in training mode.")
    exactly(student.greedy_caption(theirs, images, BOS, NEVER, 6), until(expected, NEVER), note=note)
    holds(
        theirs.is_training(),
        _("The model was given in training mode, and greedy_caption did not leave all of it in training mode."),
    )
    theirs.eval()
    student.greedy_caption(theirs, images, BOS, NEVER, 1)
    holds(
        theirs.is_evaluating(),
        _("The model was given in eval mode, and greedy_caption did not leave all of it in eval mode."),
    )


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, more than 1,024 words, a parent module and a switch of mode do no harm."""
    every_regime(student, reference, draw, CALLS)


def _models(
    student: Implementation, reference: Implementation, draw: Draw, layers: int, longest: int
) -> tuple[Handle, Handle]:
    # Two models with the same drawn parameters.
    return twins(student, reference, draw, "ImageCaptioning", WORDS, 6, 2, layers, 8, FEATURES, longest)


def _in_eval(answer: Answer, shape: tuple[int, ...]) -> Tensor:
    # The logits, of a shape that is known.
    got = first_tensor(answer.value)
    sentence = _("The result has shape {got}, and it should have {expected}.")
    holds(got is not None and got.shape == shape, sentence.format(got=tuple(getattr(got, "shape", ())), expected=shape))
    assert got is not None
    return got


def _captioner(
    student: Implementation,
    reference: Implementation,
    draw: Draw,
    images: Tensor,
    longest: int,
    dropout: float = 0.0,
    region_mask: Tensor | None = None,
) -> tuple[Handle, Tensor]:
    # The learner's own model in float64, where the largest logit is the same in every order of summation, and what it
    # writes when nothing ends a row. Its parameters are drawn until these words differ enough from row to row, from
    # step to step, and with the mask: those of a right model, and then its own.
    given = WORDS, 8, 2, 1, 8, FEATURES, longest, dropout
    ours = reference.ImageCaptioning(*given)
    initial = ours.outline()
    masks = (region_mask,) if region_mask is None else (region_mask, None)
    for attempt in range(ATTEMPTS):
        values = draw.parameters(initial)
        values |= {name: factor * values[name] for name, factor in LOUDER.items()}
        # Each logit a tenth: the largest stays where it is, and a word that is drawn by chance is often another one.
        values |= {name: value / 10 for name, value in values.items() if name.startswith("output_projection.")}
        _silence(values, NEVER)
        ours.load_parameters(values, evaluating=True)
        ours.to(dtype=torch.float64)
        right = [reference.greedy_caption(ours, images, BOS, NEVER, longest, mask).tensor() for mask in masks]
        if attempt < ATTEMPTS - 1 and not tells(right[0], *right[1:], words=WORDS, bos_id=BOS):
            continue
        theirs = fitting(student, values, "ImageCaptioning", *given).to(dtype=torch.float64)
        free = _written(theirs, images, right[0], region_mask)
        if free is right[0] or tells(
            free, *(_written(theirs, images, each) for each in right[1:]), words=WORDS, bos_id=BOS
        ):
            break
    sentence = _("The model writes the same word in every place, whatever the image: nothing can be seen of the loop.")
    holds(len(free[:, 1:].unique()) > 1, sentence)
    return theirs, free


def _silence(values: dict[str, Tensor], word: int) -> None:
    # The word's logit lies far below the others, whether there is a bias or not: a column of text and attended is 1.
    values["text_decoder.ln_final.weight"][0], values["text_decoder.ln_final.bias"][0] = 0.0, 1.0
    values["cross_attention.W_o.weight"][0] = 0.0
    values["output_projection.weight"][:, 0] = 0.0
    values["output_projection.weight"][word, 0] = -1e6


def _written(model: Handle, images: Tensor, expected: Tensor, region_mask: Tensor | None = None) -> Tensor:
    # What the learner's own model says word by word if nothing ends a row: the loop is asked, and not the model.
    def logits_of(ids: Tensor) -> Tensor:
        return _in_eval(model(images, ids, region_mask), (*ids.shape, WORDS))

    return written(logits_of, expected)
