"""The checks of step 21: feed-forward, block, encoder, and a classifier that padding has no say in."""

import torch
from torch import Tensor

from grader.checks.assertions import (
    GUARDED,
    Draw,
    Implementation,
    _,
    agree,
    holds,
    must_raise,
    on_meta,
    points,
    twins,
    unmodified,
    with_values,
)
from grader.checks.common import columns_drop, of_shape, shapes, share_is, silent, with_layers, without_queries
from grader.checks.regimes import AXES, NO_BIAS, AskedModule, every_regime

BUILT_INS = ("transformer", "multi_head_attention")
OFF_LIMITS = {
    "FeedForward": BUILT_INS,
    "TransformerBlock": BUILT_INS,
    "SimpleTransformer": BUILT_INS,
    "SentimentAnalyzer": BUILT_INS,
}

VOCABULARY = 11
LAYERS = {"SimpleTransformer": 6, "SentimentAnalyzer": 4}  # by default
EXACT_ENOUGH = 10**8  # `terms` beside numbers that a norm makes 0: what is left of them is rounding
WIDE = 32  # numbers per token where dropout is counted: that none or all of them fall is out of the question
ROWS = 300  # of each of two calls
SOME = 4  # of them show what is computed in eval mode
LIFT = 20.0  # so far above 0, an activation leaves a number as it is


def stream(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor]:
    return (draw.normal(*leading, tokens, 4),)


def masked_stream(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor, Tensor]:
    return draw.normal(*leading, tokens, 4), draw.mask(*leading, 1, 1, tokens)


def ids_and_padding(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor, Tensor]:
    return draw.integers(0, VOCABULARY, *leading, tokens), draw.mask(*leading, 1, 1, tokens)


def ids_and_mask(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor, Tensor]:
    return draw.integers(0, VOCABULARY, *leading, tokens), draw.mask(*leading, tokens)


CALLS = {
    "FeedForward": AskedModule(lambda tokens: (4, 8, 0.5), stream, terms=64, axes=AXES, without=NO_BIAS),
    "TransformerBlock": AskedModule(lambda tokens: (4, 2, 8, 0.5), masked_stream, terms=256, without=NO_BIAS),
    "SimpleTransformer": AskedModule(
        lambda tokens: (VOCABULARY, 4, 2, 1, 8, tokens, 0.5), ids_and_padding, terms=1024, without=NO_BIAS
    ),
    "SentimentAnalyzer": AskedModule(
        lambda tokens: (VOCABULARY, 4, 2, 1, 3, 8, tokens, 0.5), ids_and_mask, terms=1024, without=NO_BIAS
    ),
}


# A fault costs the checks of its own class and those of the whole. Others keep out what they are not about: the hidden
# numbers of the feed-forwards are far above 0, where any activation leaves them as they are (`_lifted`), the weights of
# attention depend on the mask alone (`without_queries`), or there are no blocks at all.


@points(0.5)
def test_feed_forward(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """FeedForward widens each token, keeps what is above 0, and comes back."""
    values = {
        "linear1.weight": torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
        "linear1.bias": torch.tensor([0.0, 0.0, 1.0]),
        "linear2.weight": torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]),
        "linear2.bias": torch.tensor([10.0, 20.0]),
    }
    theirs = with_values(student, values, "FeedForward", 2, 3)
    agree(theirs(torch.tensor([[2.0, -1.0], [-3.0, 1.0]])), torch.tensor([[12.0, 24.0], [11.0, 20.0]]), terms=4)
    for shape in ((4,), (3, 4), (2, 3, 4), (2, 1, 3, 4)):
        theirs, ours = twins(student, reference, draw, "FeedForward", 4, 6)
        x = draw.normal(*shape, scale=2.0)
        got = theirs.using(gradients=True)(x)
        agree(got, ours.using(gradients=True)(x), terms=64)
        unmodified(got)


@points(0.5)
def test_block_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """TransformerBlock: two tokens of width 2 give the output that you can work out by hand."""
    nothing, one = torch.zeros(2, 2), torch.eye(2)
    values = {
        "attention.W_q.weight": nothing,
        "attention.W_k.weight": nothing,
        "attention.W_v.weight": one,
        "attention.W_o.weight": one,
        "feed_forward.linear1.weight": torch.tensor([[0.0, 1.0]]),
        "feed_forward.linear1.bias": torch.zeros(1),
        "feed_forward.linear2.weight": torch.tensor([[-3.0], [0.0]]),
        "feed_forward.linear2.bias": torch.zeros(2),
        "ln1.weight": torch.full((2,), 10.0),
        "ln1.bias": torch.zeros(2),
        "ln2.weight": torch.tensor([2.0, 4.0]),
        "ln2.bias": torch.tensor([0.0, 1.0]),
    }
    theirs = with_values(student, values, "TransformerBlock", 2, 1, 1)
    expected = torch.tensor([[[2.0, -3.0], [-2.0, 5.0]]]), torch.full((1, 1, 2, 2), 0.5)
    agree(theirs(torch.tensor([[[30.0, 10.0], [-50.0, -30.0]]])), expected, terms=4)


@points(2.5)
def test_block_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """TransformerBlock: fresh tokens and parameters give the right output, weights and gradients."""
    for batch, tokens, width, heads, hidden in ((2, 5, 6, 3, 8), (3, 3, 3, 1, 3), (1, 1, 4, 2, 5)):
        theirs, ours = twins(student, reference, draw, "TransformerBlock", width, heads, hidden)
        x = draw.normal(tokens, batch, width, scale=2.0).transpose(0, 1)  # a view, not contiguous
        got = theirs.using(gradients=tokens > 1)(x)
        agree(got, ours.using(gradients=tokens > 1)(x), terms=256)
        unmodified(got)


@points(0.5)
def test_block_hands_its_mask_on(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """TransformerBlock: the mask hides keys from its attention."""
    theirs, ours = twins(student, reference, draw, "TransformerBlock", 6, 3, 8, changed=without_queries)
    x = draw.normal(2, 4, 6, scale=2.0)
    for mask in (draw.mask(2, 4)[:, None, None, :], torch.ones(4, 4, dtype=torch.bool).tril(), None):
        agree(theirs.using(part=1)(x, mask), ours.using(part=1)(x, mask), terms=256)


@points(0.5)
def test_encoder_without_blocks(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """SimpleTransformer: without blocks it is the norm of the sum of the embeddings."""
    for batch, tokens, longest in ((2, 5, 7), (4, 4, 4), (3, 1, 2)):
        theirs, ours = twins(student, reference, draw, "SimpleTransformer", VOCABULARY, 6, 2, 0, 8, longest)
        ids = draw.integers(0, VOCABULARY, batch, tokens)
        ids[0, -1] = 0  # a word like any other
        agree(theirs.using(gradients=True)(ids), ours.using(gradients=True)(ids), terms=64)


@points(1)
def test_encoder_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """SimpleTransformer: fresh ids and parameters give the right output, and the weights of every block."""
    for batch, tokens, layers, longest in ((2, 5, 2, 7), (4, 4, 1, 4), (3, 1, 1, 2), (1, 2, 1, 3)):
        given = VOCABULARY, 6, 2, layers, 8, longest
        theirs, ours = twins(student, reference, draw, "SimpleTransformer", *given, changed=_lifted)
        ids = draw.integers(0, VOCABULARY, batch, tokens)
        ids[0, -1] = 0  # a word like any other
        got = theirs.using(gradients=tokens > 1)(ids)
        agree(got, ours.using(gradients=tokens > 1)(ids), terms=1024)
        unmodified(got)


@points(0.5)
def test_mask_reaches_every_block(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """SimpleTransformer: the mask hides keys in every block."""
    given = VOCABULARY, 6, 2, 2, 8, 7
    theirs, ours = twins(student, reference, draw, "SimpleTransformer", *given, changed=without_queries)
    ids = draw.integers(0, VOCABULARY, 3, 5)
    for mask in (draw.mask(3, 5)[:, None, None, :], torch.ones(5, 5, dtype=torch.bool).tril()):
        agree(theirs.using(part=1)(ids, mask=mask), ours.using(part=1)(ids, mask=mask), terms=1024)


@points(0.5)
def test_too_long_is_an_error(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """SimpleTransformer: more tokens than max_seq_len are an error."""
    theirs, ours = twins(student, reference, draw, "SimpleTransformer", VOCABULARY, 4, 2, 0, 8, 4)
    ids = draw.integers(0, VOCABULARY, 6, 5)  # more rows than max_seq_len, too: only T is compared with it
    agree(theirs(ids[:, :4]), ours(ids[:, :4]), terms=1024)
    reason = _("T = {num_tokens} is larger than max_seq_len = {longest}")
    must_raise(lambda: theirs(ids), reason.format(num_tokens=5, longest=4))


@points(0.5)
def test_classifier_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """SentimentAnalyzer: fresh ids and parameters give the right logits and gradients."""
    for batch, tokens, classes in ((2, 5, 3), (3, 3, 2), (1, 4, 3)):
        theirs, ours = twins(student, reference, draw, "SentimentAnalyzer", VOCABULARY, 6, 2, 0, classes, 8, 7)
        ids = draw.integers(0, VOCABULARY, batch, tokens)
        ids[0, -1] = 0  # a word like any other
        got = theirs.using(gradients=True)(ids)
        agree(got, ours.using(gradients=True)(ids), terms=1024)
        unmodified(got)


@points(1)
def test_padding_has_no_effect(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """SentimentAnalyzer: neither the ids nor the number of the padding change the logits."""
    bare, ours = twins(student, reference, draw, "SentimentAnalyzer", VOCABULARY, 6, 2, 0, 3, 8, 9)
    theirs, _ours = twins(student, reference, draw, "SentimentAnalyzer", VOCABULARY, 6, 2, 2, 3, 8, 9)
    lengths = torch.tensor([[2], [5], [4]])
    for tokens, mask in ((5, torch.arange(5) < lengths), (5, draw.mask(3, 5)), (3, draw.mask(3, 3))):
        ids = draw.integers(0, VOCABULARY, 3, tokens)
        agree(bare(ids, mask), ours(ids, mask), terms=1024)
        got = theirs(ids, mask)
        unmodified(got)
        expected = got.tensor()
        other_ids = torch.where(mask, ids, (ids + 1 + draw.integers(0, VOCABULARY - 1, 3, tokens)) % VOCABULARY)
        note = _("Only ids of the padding were changed since the call before.")
        agree(theirs(other_ids, mask), expected, terms=1024, note=note)
        longer = torch.cat([ids, draw.integers(0, VOCABULARY, 3, 3)], dim=1)
        shown = torch.cat([mask, torch.zeros(3, 3, dtype=torch.bool)], dim=1)
        note = _("The same sentences as before, with 3 tokens more of padding.")
        agree(theirs(longer, mask=shown), expected, terms=1024, note=note)


@points(0.5)
def test_dtypes_and_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Encoder and classifier work in float64 and bfloat16, and follow their device."""
    ids, mask = draw.integers(0, VOCABULARY, 3, 5), draw.mask(3, 5)
    note = _("The device `meta` has shapes and no values: what stays behind is found there.")
    # A head's width is 4, so that a root taken in float32 is exact and passes in float64 too.
    for name, layers, masks in (
        ("SimpleTransformer", (2,), (None, mask[:, None, None, :])),
        ("SentimentAnalyzer", (1, 3), (None, mask)),
    ):
        theirs, ours = twins(student, reference, draw, name, VOCABULARY, 8, 2, *layers, 8, 7)
        for dtype, terms in ((torch.float64, GUARDED), (torch.bfloat16, 256)):
            theirs.to(dtype=dtype)
            ours.to(dtype=dtype)
            for given in masks:
                expected = ours(ids, given)
                agree(theirs(ids, given), expected, terms=terms)
        # With masks it is asked in `test_any_regime`.
        agree(theirs.to(device="meta")(ids), on_meta(expected), note=note)


@points(0.5)
def test_defaults(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Encoder and classifier are made with the contract's sizes when they are not told any."""
    for name, layers in LAYERS.items():
        # On the device `meta`, where millions of parameters take no memory.
        placed, right = (getattr(side.using(made_on_meta=True, device="meta"), name) for side in (student, reference))
        ours = right(VOCABULARY, n_layers=1)
        got, expected = shapes(placed(VOCABULARY)), with_layers(shapes(ours), layers)
        for parameter, shape in expected.items():
            sentence = _("Made as {name}({vocabulary}), {parameter} has the shape {got}, expected {expected}.")
            said = {"name": name, "vocabulary": VOCABULARY, "parameter": parameter}
            if got.get(parameter) != shape:
                holds(False, sentence.format(got=got.get(parameter), expected=shape, **said))
        missing = _("Made as {name}({vocabulary}), it has other parameters than it should: {names}.")
        others = ", ".join(sorted(set(got) - set(expected)))
        holds(not others, missing.format(name=name, vocabulary=VOCABULARY, names=others))
        # Of the default width, and of one layer, which shows the heads.
        theirs = placed(VOCABULARY, n_layers=1)
        ids = draw.integers(0, VOCABULARY, 2, 3)
        agree(theirs(ids), ours(ids))
        # Defaults alone are worth nothing: a small one has to compute.
        sizes = {"d_model": 4, "n_heads": 2, "n_layers": 0, "d_ff": 8, "max_seq_len": 4}
        theirs, ours = twins(student, reference, draw, name, VOCABULARY, **sizes)
        agree(theirs(ids), ours(ids), terms=64)


@points(0.5)
def test_dropout(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """In training, and only then, dropout acts at every place that the contract names."""
    rate = draw.integer(30, 40) / 100
    _feed_forward_drops(student, draw, rate)
    _branches_drop(student, reference, draw, rate)
    _encoder_drops(student, reference, draw, rate)
    _classifier_drops(student, reference, draw, rate)


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, more than 1,024 tokens, a parent module and a switch of mode do no harm."""
    every_regime(student, reference, draw, CALLS)


def _lifted(values: dict[str, Tensor]) -> dict[str, Tensor]:
    # The feed-forwards add what they would add if there was no activation.
    for name in [name for name in values if name.endswith("linear1.bias")]:
        second = name.replace("linear1.bias", "linear2.")
        values[name] = values[name] + LIFT
        values[f"{second}bias"] = values[f"{second}bias"] - LIFT * values[f"{second}weight"].sum(dim=1)
    return values


def _feed_forward_drops(student: Implementation, draw: Draw, rate: float) -> None:
    # All hidden numbers are the same, and each shows in two columns of the output, as a one.
    values = {
        "linear1.weight": torch.zeros(WIDE, 2 * WIDE),
        "linear1.bias": torch.full((WIDE,), LIFT),
        "linear2.weight": torch.eye(WIDE).repeat(2, 1) / LIFT,
        "linear2.bias": torch.zeros(2 * WIDE),
    }
    theirs = with_values(student, values, "FeedForward", 2 * WIDE, WIDE, rate)
    x = torch.zeros(ROWS, 2 * WIDE)
    agree(theirs(x[:SOME]), torch.ones(SOME, 2 * WIDE))
    got = of_shape(theirs.train().using(seed=draw.seed())(x).tensor(), (ROWS, 2 * WIDE))
    what = _("the hidden numbers of the feed-forward")
    holds(
        torch.equal(got[:, :WIDE], got[:, WIDE:]),
        _("Two equal rows of linear2 gave different results in training. Dropout belongs in front of linear2."),
    )
    share_is(got == 0, rate, rate, what)
    kept = got[got != 0]
    holds(
        torch.allclose(kept, torch.full_like(kept, 1 / (1 - rate)), rtol=1e-4),
        _("What dropout keeps of {what} should be divided by 1 - {rate:.2f}, and it was not.").format(
            what=what, rate=rate
        ),
    )
    # Each hidden number is a mean of the input's ones, and shows as no one where some of them were dropped.
    values |= {"linear1.weight": torch.full((WIDE, 2 * WIDE), 0.5 * LIFT / WIDE), "linear1.bias": torch.zeros(WIDE)}
    theirs.load_parameters(values, evaluating=True)
    x = torch.ones(ROWS, 2 * WIDE)
    agree(theirs(x[:SOME]), x[:SOME])
    got = of_shape(theirs.train().using(seed=draw.seed())(x).tensor(), (ROWS, 2 * WIDE))
    kept = got[got != 0]
    holds(
        torch.allclose(kept, torch.full_like(kept, 1 / (1 - rate)), rtol=1e-4),
        _("In training the hidden numbers that were kept had other values: something was dropped before `linear1`."),
    )


# In the following a part of the model adds the same number to each of a token's WIDE columns, or drops it. A norm
# takes away what all columns share: a column that was dropped comes out below 0, the others above it, and a token of
# which all was kept, or all was dropped, as zeros. So what drops whole tokens (an attention weight where there is one
# token, a hidden number of the feed-forward where there is one) shows as zeros, what drops columns as numbers below 0.


def _branches_drop(student: Implementation, reference: Implementation, draw: Draw, rate: float) -> None:
    theirs, ours = twins(student, reference, draw, "TransformerBlock", 6, 3, 8, rate, changed=_lifted)
    x = draw.normal(2, 3, 6)
    agree(theirs(x), ours(x), terms=256)  # where this is wrong, no rate says anything
    mute = silent(reference.TransformerBlock(WIDE, 1, 1).outline())
    x = torch.ones(ROWS, 1, WIDE)
    theirs = student.TransformerBlock(WIDE, 1, 1, rate)
    for heard, what, inner in (
        (_attention(""), _("what attention adds"), _("the attention weights")),
        (_feed_forward(""), _("what the feed-forward adds"), _("the hidden numbers of the feed-forward")),
    ):
        theirs.load_parameters(mute | heard, evaluating=True)
        # Where this is wrong, no rate says anything.
        agree(theirs(x[:SOME]), (torch.zeros(SOME, 1, WIDE), torch.ones(SOME, 1, 1, 1)), terms=EXACT_ENOUGH)
        theirs.train()
        first, second = (theirs.using(seed=draw.seed())(x).value for _call in range(2))
        columns_drop(_first(first, (ROWS, 1, WIDE)), _first(second, (ROWS, 1, WIDE)), rate, what, inner)


def _encoder_drops(student: Implementation, reference: Implementation, draw: Draw, rate: float) -> None:
    given = VOCABULARY, 6, 2, 1, 8, 7, rate
    theirs, ours = twins(student, reference, draw, "SimpleTransformer", *given, changed=_lifted)
    ids = draw.integers(0, VOCABULARY, 2, 5)
    agree(theirs(ids), ours(ids), terms=1024)  # where this is wrong, no rate says anything
    mute = silent(reference.SimpleTransformer(2, WIDE, 1, 1, 1, 1).outline())
    ids = torch.zeros(ROWS, 1, dtype=torch.int64)
    # Of the embeddings it is the sum that is a one: whoever drops from one of them, or from each, leaves others.
    summands = {
        "token_embedding.weight": torch.full((2, WIDE), -10.0),
        "position_embedding.weight": torch.full((1, WIDE), 11.0),
    }
    block = _feed_forward("transformer_blocks.0.")
    theirs = student.SimpleTransformer(2, WIDE, 1, 1, 1, 1, rate)
    for heard, what, inner in (
        (summands, _("the sum of the embeddings"), ""),
        (block, _("what the feed-forward of a block adds"), _("the hidden numbers of the feed-forward of a block")),
    ):
        theirs.load_parameters(mute | heard, evaluating=True)
        # Where this is wrong, no rate says anything.
        agree(theirs(ids[:SOME]), (torch.zeros(SOME, 1, WIDE), (torch.ones(SOME, 1, 1, 1),)), terms=EXACT_ENOUGH)
        theirs.train()
        first, second = (theirs.using(seed=draw.seed())(ids).value for _call in range(2))
        columns_drop(_first(first, (ROWS, 1, WIDE)), _first(second, (ROWS, 1, WIDE)), rate, what, inner)


def _classifier_drops(student: Implementation, reference: Implementation, draw: Draw, rate: float) -> None:
    # The logits are the hidden numbers of the classifier: first all of them ones, then ones where the sum of the
    # embeddings was dropped.
    given = (2, WIDE, 1, 1, WIDE, 1, 1)
    mute = silent(reference.SentimentAnalyzer(*given).outline())
    shown = torch.eye(WIDE, 128)
    mute["classifier.3.weight"] = shown
    ids = torch.zeros(ROWS, 1, dtype=torch.int64)
    values = mute | {"classifier.0.bias": torch.ones(128)}
    theirs = with_values(student, values, "SentimentAnalyzer", *given, rate)
    agree(theirs(ids[:SOME]), torch.ones(SOME, WIDE), terms=64)  # where this is wrong, no rate says anything
    theirs.train()
    logits = of_shape(theirs.using(seed=draw.seed())(ids).tensor(), (ROWS, WIDE))
    share_is(logits == 0, rate, rate, _("the hidden numbers of the classifier"))
    summands = {
        "transformer.token_embedding.weight": torch.full((2, WIDE), -10.0),
        "transformer.position_embedding.weight": torch.full((1, WIDE), 11.0),
        "classifier.0.weight": -shown.T,
    }
    theirs.load_parameters(mute | summands)
    theirs.train()
    logits = of_shape(theirs.using(seed=draw.seed())(ids).tensor(), (ROWS, WIDE))
    what = _("the sum of the embeddings, as it reaches the classifier's logits,")
    share_is(logits > 0, rate * (1 - rate), rate, what)
    agree(theirs.eval()(ids[:SOME]), torch.zeros(SOME, WIDE), terms=64)


def _attention(block: str) -> dict[str, Tensor]:
    # The block's attention adds what its norm, or the input, gives.
    return {f"{block}attention.{name}.weight": torch.eye(WIDE) for name in ("W_v", "W_o")}


def _feed_forward(block: str) -> dict[str, Tensor]:
    # The block's feed-forward has one hidden number, and adds it to every column.
    path = f"{block}feed_forward.linear"
    return {
        f"{block}ln1.weight": torch.zeros(WIDE),
        f"{path}1.bias": torch.full((1,), LIFT),
        f"{path}2.weight": torch.full((WIDE, 1), 1 / LIFT),
    }


def _first(value: object, shape: tuple[int, ...]) -> Tensor:
    # The first of the values that came, which should have this shape.
    first = value[0] if isinstance(value, tuple) and value else None
    holds(isinstance(first, Tensor), _("In training forward should return the same two values as in eval mode."))
    assert isinstance(first, Tensor)
    return of_shape(first, shape)
