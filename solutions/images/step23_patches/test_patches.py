"""The checks of step 23: patches and back, patch embedding, encoder block, Vision Transformer."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from grader.checks.assertions import (
    GUARDED,
    Draw,
    Implementation,
    _,
    agree,
    exactly,
    holds,
    must_raise,
    on_meta,
    points,
    twins,
    unmodified,
    with_values,
)
from grader.checks.common import draws_differ, of_shape, share_is
from grader.checks.regimes import NO_BIAS, NO_DROPOUT, AskedFunction, AskedModule, every_regime

BUILT_INS = ("transformer", "multi_head_attention")
OFF_LIMITS = {
    "patchify": ("patches", *BUILT_INS),
    "unpatchify": ("patches", *BUILT_INS),
    "PatchEmbedding": BUILT_INS,
    "EncoderBlock": BUILT_INS,
    "VisionTransformer": BUILT_INS,
}

WIDE = 32  # numbers per token where dropout is counted: that none or all of them fall is out of the question
ROWS = 300  # of each of two calls
SOME = 4  # of them show what is computed in eval mode
# Square and not, as many rows as columns and not, channels as many as a patch is wide and not, patches of one pixel.
SHAPES = (
    ((2, 3, 4, 6), 2),
    ((1, 2, 6, 4), 2),
    ((2, 1, 4, 4), 2),
    ((3, 4, 3, 9), 3),
    ((2, 3, 2, 2), 1),
    ((2, 3, 4, 4), 4),
    ((4, 2, 8, 8), 4),
)


def images_of(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor]:
    return (draw.normal(*leading, 3, 4, tokens),)  # half a row of patches for each token


CALLS = {
    "patchify": AskedFunction(
        lambda draw, leading, tokens: (draw.normal(*leading, 3, 4, tokens), 2), tokens=6, axes=(2,)
    ),
    "unpatchify": AskedFunction(
        lambda draw, leading, tokens: (draw.normal(*leading, tokens, 12), 2, 4, tokens), tokens=6, axes=(2,)
    ),
    "PatchEmbedding": AskedModule(lambda tokens: (2, 3, 4), images_of, terms=64, without=NO_BIAS | NO_DROPOUT),
    "EncoderBlock": AskedModule(
        lambda tokens: (4, 2, 0.5), lambda draw, leading, tokens: (draw.normal(*leading, tokens, 4),), terms=256,
        without=NO_BIAS,
    ),
    "VisionTransformer": AskedModule(
        lambda tokens: ((4, tokens), 2, 3, 5, 1, 2, 4, 0.5), images_of, terms=1024, without=NO_BIAS, exact=True
    ),
}  # fmt: skip


@points(1)
def test_patches_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """patchify: an image of two channels, two rows and four columns gives the two patches that you can write down."""
    image = torch.tensor([[[[1, 2, 3, 4], [5, 6, 7, 8]], [[11, 12, 13, 14], [15, 16, 17, 18]]]])
    patches = torch.tensor([[[1, 2, 5, 6, 11, 12, 15, 16], [3, 4, 7, 8, 13, 14, 17, 18]]])
    exactly(student.patchify(image, 2), patches)
    exactly(student.patchify(image.float(), 2), patches.float())


@points(1)
def test_patchify_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """patchify: fresh images of any shape, dtype and memory layout give the right patches and gradients."""
    for shape, side in SHAPES:
        images = draw.normal(*shape)
        got = student.using(gradients=True).patchify(images, side)
        exactly(got, reference.using(gradients=True).patchify(images, side))
        unmodified(got)
    pixels = draw.integers(0, 256, 2, 4, 6, 3).to(torch.uint8).permute(0, 3, 1, 2)  # channels last in memory
    for images in (
        pixels,
        pixels.transpose(2, 3),
        pixels > 127,
        pixels.to(torch.bfloat16),
        pixels[:, :2, :, ::2].long(),
    ):
        side = 1 if images.shape[-1] == 3 else 2
        exactly(student.patchify(images, side), reference.patchify(images, side))


@points(1)
def test_unpatchify_is_the_inverse(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """unpatchify: patches of any shape and dtype become the image again."""
    patches = torch.tensor([[[1, 2, 5, 6, 11, 12, 15, 16], [3, 4, 7, 8, 13, 14, 17, 18]]])
    image = torch.tensor([[[[1, 2, 3, 4], [5, 6, 7, 8]], [[11, 12, 13, 14], [15, 16, 17, 18]]]])
    exactly(student.unpatchify(patches, 2, 2, 4), image)
    for shape, side in SHAPES:
        images = draw.normal(*shape)
        patches = reference.patchify(images, side).tensor()
        got = student.using(gradients=True).unpatchify(patches, side, *shape[-2:])
        exactly(got, reference.using(gradients=True).unpatchify(patches, side, *shape[-2:]))
        unmodified(got)
    pixels = draw.integers(0, 256, 6, 2, 12).to(torch.uint8).transpose(0, 1)  # (2, 6, 12), not contiguous
    for given in (pixels, pixels > 127, pixels.to(torch.float64)):
        exactly(student.unpatchify(given, 2, height=4, width=6), reference.unpatchify(given, 2, 4, 6))
        exactly(student.unpatchify(given, 2, 6, 4), reference.unpatchify(given, 2, 6, 4))


@points(0.25)
def test_what_does_not_fit_is_an_error(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """patchify, unpatchify: a rest that fills no patch and patches that do not fill the image are errors."""
    for height, width in ((5, 4), (4, 5), (3, 9)):
        images = draw.normal(4, 3, height, width)
        exactly(student.patchify(images, 1), reference.patchify(images, 1))
        reason = _("an image of {height} × {width} can't be cut into patches of side {side}")
        must_raise(partial(student.patchify, images, 2), reason.format(height=height, width=width, side=2))
    patches = draw.normal(2, 6, 12)
    exactly(student.unpatchify(patches, 2, 4, 6), reference.unpatchify(patches, 2, 4, 6))
    # As many patches as fit beside a rest; too many; too few; and an image with another number of pixels in all.
    for height, width in ((5, 6), (4, 7), (4, 4), (8, 6), (4, 8), (2, 6)):
        reason = _("{count} patches of side {side} do not fill an image of {height} × {width}")
        said = reason.format(count=6, side=2, height=height, width=width)
        must_raise(partial(student.unpatchify, patches, 2, height, width), said)
    # As many numbers as an image of one channel less would have: no reshape notices the rest.
    for height, width in ((4, 7), (7, 4)):
        said = reason.format(count=6, side=2, height=height, width=width)
        must_raise(partial(student.unpatchify, draw.normal(2, 6, 28), 2, height, width), said)


@points(0.5)
def test_patch_embedding(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """PatchEmbedding: fresh images and parameters give the right vectors and gradients."""
    for shape, side in SHAPES:
        theirs, ours = twins(student, reference, draw, "PatchEmbedding", side, shape[1], 5)
        images = draw.normal(shape[0], shape[2], shape[3], shape[1], scale=2.0).permute(0, 3, 1, 2)
        got = theirs.using(gradients=True)(images)
        agree(got, ours.using(gradients=True)(images), terms=256)
        unmodified(got)


@points(1)
def test_block_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """EncoderBlock: fresh tokens and parameters give the right output, weights and gradients."""
    for batch, tokens, width, heads in ((2, 5, 6, 3), (3, 3, 3, 1), (2, 4, 8, 2), (1, 2, 4, 4)):
        theirs, ours = twins(student, reference, draw, "EncoderBlock", width, heads)
        x = draw.normal(tokens, batch, width, scale=2.0).transpose(0, 1)  # a view, not contiguous
        got = theirs.using(gradients=True)(x)
        agree(got, ours.using(gradients=True)(x), terms=256)
        unmodified(got)


@points(0.5)
def test_no_patch_comes_first(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """EncoderBlock: every token attends to every token, and their order means nothing."""
    theirs, ours = twins(student, reference, draw, "EncoderBlock", 8, 2)
    x = draw.normal(3, 6, 8, scale=2.0)
    got, expected = theirs(x), ours(x)
    value = got.value
    if isinstance(value, tuple) and len(value) == 2 and getattr(value[1], "shape", None) == (3, 2, 6, 6):
        hidden = (value[1] == 0).nonzero()
        if len(hidden):
            _b, _h, query, key = hidden[0].tolist()
            sentence = _(
                "Token {query} does not attend to token {key}: the weight is exactly 0. No part of an image is hidden "
                "from another."
            )
            holds(False, sentence.format(query=query, key=key))
    agree(got, expected, terms=256)
    order = torch.tensor([3, 5, 0, 2, 1, 4])
    output, weights = (part[:, order] if part.dim() == 3 else part[:, :, order][..., order] for part in expected.value)
    note = _("The same tokens as in the call before, in another order: the results should be in that order, too.")
    agree(theirs(x[:, order]), (output, weights), terms=256, note=note)


@points(1)
def test_model_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """VisionTransformer: fresh images and parameters give the right logits, every block's weights, and gradients."""
    for batch, channels, size, side, classes, layers in (
        (2, 3, (4, 6), 2, 5, 2),
        (3, 1, (4, 4), 2, 3, 1),
        (5, 2, (6, 3), 3, 4, 1),
    ):
        theirs, ours = twins(student, reference, draw, "VisionTransformer", size, side, channels, classes, layers, 2, 6)
        images = draw.normal(batch, *size, channels, scale=2.0).permute(0, 3, 1, 2)
        got = theirs.using(gradients=True)(images)
        agree(got, ours.using(gradients=True)(images), terms=1024)
        unmodified(got)


@points(0.25)
def test_another_size_is_an_error(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """VisionTransformer: images of another size, and a size that is no multiple of patch_size, are errors."""
    theirs, ours = twins(student, reference, draw, "VisionTransformer", (4, 6), 2, 3, 5, 1, 2, 6)
    right = draw.normal(2, 3, 4, 6)
    agree(theirs(right), ours(right), terms=1024)
    # (6, 4) and (2, 12) have as many patches, (4, 7) and (5, 6) a rest, (4, 4) and (2, 2) fewer patches.
    for size in ((4, 4), (2, 2), (6, 4), (2, 12), (4, 8), (4, 7), (5, 6)):
        images = draw.normal(2, 3, *size)
        reason = _("images of {size}, and image_size is {expected}")
        must_raise(partial(theirs, images), reason.format(size=size, expected=(4, 6)))
    for size in ((5, 6), (4, 7)):
        images = draw.normal(2, 3, *size)
        reason = _("image_size {size} is no multiple of patch_size = {side}").format(size=size, side=2)
        must_raise(partial(_made_and_called, student, size, images), reason)


@points(0.5)
def test_dtypes_and_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """All of them work in float64 and bfloat16, and follow their device."""
    # A head's width is 4, so that a root taken in float32 is exact and passes in float64 too.
    theirs, ours = twins(student, reference, draw, "VisionTransformer", (4, 6), 2, 3, 5, 1, 2, 8)
    images = draw.normal(2, 3, 4, 6, dtype=torch.float64)
    for dtype, terms in ((torch.float64, GUARDED), (torch.bfloat16, 256)):
        theirs.to(dtype=dtype)
        ours.to(dtype=dtype)
        expected = ours(images.to(dtype))
        agree(theirs(images.to(dtype)), expected, terms=terms)
    note = _("The device `meta` has shapes and no values: what stays behind is found there.")
    theirs.to(device="meta")
    agree(theirs(images.to(torch.bfloat16)), on_meta(expected), note=note)
    moved, expected = student.using(device="meta"), reference.using(device="meta")
    agree(moved.patchify(images, 2), expected.patchify(images, 2), note=note)
    agree(
        moved.unpatchify(draw.normal(2, 6, 12), 2, 4, 6), expected.unpatchify(draw.normal(2, 6, 12), 2, 4, 6), note=note
    )


@points(0.5)
def test_dropout(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """In training, and only then, dropout acts at every place that the contract names, and at no other."""
    rate = draw.integer(30, 40) / 100
    _block_drops(student, reference, draw, rate)
    _model_drops(student, reference, draw, rate)
    for name, given, shape in (
        ("EncoderBlock", (6, 2), (2, 4, 6)),
        ("VisionTransformer", ((4, 6), 2, 3, 5, 2, 2, 6), (2, 3, 4, 6)),
    ):
        theirs, ours = twins(student, reference, draw, name, *given)
        x = draw.normal(*shape)
        note = _("It was made without a dropout rate, and is in training mode: the rate is 0 then.")
        agree(theirs.train()(x), ours(x), terms=1024, note=note)


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, images of more than 1,024 patches, a parent module and a switch of mode do no harm."""
    every_regime(student, reference, draw, CALLS)


def _made_and_called(student: Implementation, size: tuple[int, int], images: Tensor) -> Any:
    return student.VisionTransformer(size, 2, 3, 5, 1, 2, 6)(images)


def _silent(initial: dict[str, Tensor]) -> dict[str, Tensor]:
    # Parameters of these names under which nothing adds anything.
    return {name: torch.zeros_like(value) for name, value in initial.items()}


def _attention(path: str) -> dict[str, Tensor]:
    # Each token's norm gives a ramp, and the attention adds what it finds.
    ramp = torch.arange(1.0, WIDE + 1)
    return {f"{path}ln_1.bias": ramp} | {f"{path}attn.{name}.weight": torch.eye(WIDE) for name in ("W_v", "W_o")}


def _mlp(path: str) -> dict[str, Tensor]:
    # One hidden number is 10, and the MLP adds a tenth of it to every column.
    return {
        f"{path}mlp.c_fc.bias": torch.eye(4 * WIDE)[0] * 10,
        f"{path}mlp.c_proj.weight": torch.eye(WIDE, 4 * WIDE)[:1].repeat(WIDE, 1) / 10,
    }


def _block_drops(student: Implementation, reference: Implementation, draw: Draw, rate: float) -> None:
    # One token, which is 0: the result is what the branches add.
    silent = _silent(reference.EncoderBlock(WIDE, 1).outline())
    x = torch.zeros(ROWS, 1, WIDE)
    theirs = with_values(student, silent | _attention(""), "EncoderBlock", WIDE, 1, rate)
    ramp = torch.arange(1.0, WIDE + 1)
    agree(theirs(x[:SOME]), (ramp.expand(SOME, 1, WIDE), torch.ones(SOME, 1, 1, 1)), terms=64)
    first, second = (
        of_shape(theirs.train().using(seed=draw.seed())(x).value, (ROWS, 1, WIDE)) / ramp for _call in range(2)
    )
    what = _("the attention weights")
    both = torch.cat([first, second])
    lost = (both == 0).all(dim=-1)
    share_is(lost, rate, rate, what)
    _scaled(both, 1 / (1 - rate), rate, what)
    draws_differ(first, second, what)
    sentence = _(
        "In training some columns of what attention adds were lost and others not. Dropout acts on its weights."
    )
    holds(torch.equal(lost, (both == 0).any(dim=-1)), sentence)

    theirs.load_parameters(silent | _mlp(""), evaluating=True)
    agree(theirs(x[:SOME]), (torch.ones(SOME, 1, WIDE), torch.ones(SOME, 1, 1, 1)), terms=64)
    first, second = (of_shape(theirs.train().using(seed=draw.seed())(x).value, (ROWS, 1, WIDE)) for _call in range(2))
    what = _("what the MLP adds")
    share_is(first == 0, rate, rate, what)
    _scaled(first, 1 / (1 - rate), rate, what)
    draws_differ(first, second, what)


def _model_drops(student: Implementation, reference: Implementation, draw: Draw, rate: float) -> None:
    # The logits are the class token behind `ln_f`: what lost a column lies below 0 there, what lost all is 0.
    given = (1, 1), 1, 1, WIDE, 1, 1, WIDE
    silent = _silent(reference.VisionTransformer(*given).outline())
    silent |= {"ln_f.weight": torch.ones(WIDE), "head.weight": torch.eye(WIDE)}
    images = torch.zeros(ROWS, 1, 1, 1)
    # It is the sum that is a one: whoever drops from one of its summands, or from each, leaves others.
    summands = {
        "cls_token": torch.full((1, 1, WIDE), -10.0),
        "position_embedding": torch.tensor([11.0, 0.0])[None, :, None].repeat(1, 1, WIDE),
    }
    theirs = student.VisionTransformer(*given, rate)
    for heard, what in (
        (summands, _("the sum of tokens and positions")),
        (_mlp("blocks.0."), _("what a block's MLP adds")),
    ):
        theirs.load_parameters(silent | heard, evaluating=True)
        agree(theirs(images[:SOME]), (torch.zeros(SOME, WIDE), (torch.full((SOME, 1, 2, 2), 0.5),)), terms=64)
        first, second = (
            of_shape(theirs.train().using(seed=draw.seed())(images).value, (ROWS, WIDE)) for _call in range(2)
        )
        share_is(first < -1e-3, rate, rate, what)
        draws_differ(first, second, what)
    theirs.load_parameters(silent | _attention("blocks.0."))
    theirs.train()
    both = [of_shape(theirs.using(seed=draw.seed())(images).value, (ROWS, WIDE)) for _call in range(2)]
    lost = (torch.cat(both).abs() < 1e-3).all(dim=-1)
    # The class token attends to itself and to one patch: both weights have to fall.
    share_is(lost, rate**2, rate, _("the pairs of attention weights in a block"))


def _scaled(got: Tensor, expected: float, rate: float, what: str) -> None:
    kept = got[got != 0]
    sentence = _("What dropout keeps of {what} should be divided by 1 - {rate:.2f}, and it was not.")
    holds(torch.allclose(kept, torch.full_like(kept, expected), rtol=1e-4), sentence.format(what=what, rate=rate))
