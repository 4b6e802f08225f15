"""The checks of step 19: Bahdanau's additive attention, and the short form of 2015."""

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
    holds,
    points,
    repeats,
    twins,
    unmodified,
    with_values,
)
from grader.checks.regimes import NO_BIAS, NO_DROPOUT, AskedModule, every_regime

LN_3 = 1.0986122886681098
FORMS = ("AdditiveAttention", "SingleHeadCrossAttention")

CALLS = {
    "AdditiveAttention": AskedModule(
        lambda tokens: (3, 2, 4),
        lambda draw, leading, tokens: (
            draw.normal(*leading, 3), draw.normal(*leading, tokens, 2), draw.mask(*leading, tokens)
        ),
        terms=64, without=NO_BIAS | NO_DROPOUT,
    ),
    "SingleHeadCrossAttention": AskedModule(
        lambda tokens: (2, 3),
        lambda draw, leading, tokens: (
            draw.normal(*leading, tokens, 2), draw.normal(*leading, 3), draw.mask(*leading, tokens)
        ),
        terms=64, without=NO_BIAS | NO_DROPOUT,
    ),
}  # fmt: skip


@points(1)
def test_additive_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """AdditiveAttention: two positions give the weights and the context that you can work out by hand."""
    values = {
        "W_a.weight": torch.tensor([[LN_3]]),
        "U_a.weight": torch.tensor([[-LN_3 / 2, 0.0]]),  # the tanh of ln 3 / 2 is 1 / 2
        "v_a.weight": torch.tensor([[2 * LN_3]]),
    }
    theirs = with_values(student, values, "AdditiveAttention", 1, 2, 1)
    keys = torch.tensor([[[1.0, 8.0], [2.0, 4.0]]])
    agree(theirs(torch.tensor([[1.0]]), keys), (torch.tensor([[1.25, 7.0]]), torch.tensor([[0.75, 0.25]])), terms=4)


@points(1)
def test_additive_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """AdditiveAttention: fresh states, keys and parameters give the right context and weights."""
    for batch, positions, query_dim, key_dim, hidden_dim in ((3, 5, 4, 2, 6), (3, 3, 3, 3, 3), (2, 1, 5, 4, 1)):
        theirs, ours = twins(student, reference, draw, "AdditiveAttention", query_dim, key_dim, hidden_dim)
        query, keys = draw.normal(batch, query_dim, scale=2), draw.normal(batch, positions, key_dim, scale=2)
        got = theirs(query, keys)
        agree(got, ours(query, keys), terms=query_dim + key_dim + hidden_dim + positions)
        unmodified(got)


@points(0.75)
def test_state_moves_additive_weights(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """AdditiveAttention: another decoder state looks elsewhere."""
    theirs, ours = twins(student, reference, draw, "AdditiveAttention", 3, 4, 8)
    keys = draw.normal(1, 6, 4).expand(2, -1, -1)
    query = draw.normal(1, 3, scale=2) * torch.tensor([[1.0], [-1.0]])
    got, expected = theirs(query, keys), ours(query, keys)
    if (weights := _weights(got)).shape == (2, 6):
        holds(
            not torch.allclose(weights[0], weights[1], atol=1e-5),
            _(
                "Two opposite decoder states gave the same weights over the same keys. The tanh is there to let the "
                "state decide which keys count."
            ),
        )
    agree(got, expected, terms=3 + 4 + 8 + 6)


@points(0.75)
def test_additive_mask(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """AdditiveAttention: hidden positions get weight 0, and the others share what is left."""
    for batch, positions in ((3, 5), (4, 4)):
        theirs, ours = twins(student, reference, draw, "AdditiveAttention", 2, 3, 4)
        query, keys = draw.normal(batch, 2, scale=2), draw.normal(batch, positions, 3, scale=2)
        _agree_under_masks(theirs, ours, (query, keys), draw.mask(batch, positions))


@points(0.5)
def test_additive_gradients(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """AdditiveAttention: the gradients of the state, the keys and every parameter are right."""
    theirs, ours = twins(student, reference, draw, "AdditiveAttention", 3, 2, 4)
    query, keys = draw.normal(3, 2).T, draw.normal(5, 2, 2).transpose(0, 1)  # views, not contiguous
    mask = draw.mask(2, 5)
    for given in ((query, keys), (query, keys, mask)):
        agree(theirs.using(gradients=True)(*given), ours.using(gradients=True)(*given), terms=2 * 5 * 8)


@points(0.5)
def test_single_head_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """SingleHeadCrossAttention: two positions give the weights and the context that you can work out by hand."""
    values = {
        "attention_layer.weight": torch.tensor([[LN_3, 0.0, 5.0]]),
        "attention_layer.bias": torch.tensor([1.0]),
    }
    theirs = with_values(student, values, "SingleHeadCrossAttention", 2, 1)
    outputs, state = torch.tensor([[[1.0, 8.0], [0.0, 4.0]]]), torch.tensor([[2.0]])
    agree(theirs(outputs, state), (torch.tensor([[0.75, 7.0]]), torch.tensor([[0.75, 0.25]])), terms=4)


@points(1)
def test_single_head_agrees_with_fresh_draws(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """SingleHeadCrossAttention: fresh outputs and parameters give the right context, weights and gradients."""
    for batch, positions, encoder_dim, decoder_dim in ((3, 5, 4, 2), (3, 3, 3, 3), (2, 1, 2, 5)):
        theirs, ours = twins(student, reference, draw, "SingleHeadCrossAttention", encoder_dim, decoder_dim)
        # A view that is not contiguous.
        outputs = draw.normal(positions, batch, encoder_dim, scale=2).transpose(0, 1)
        state = draw.normal(batch, decoder_dim)
        got = theirs(outputs, state)
        agree(got, ours(outputs, state), terms=encoder_dim + decoder_dim + positions)
        unmodified(got)
        if positions > 1:
            agree(theirs.using(gradients=True)(outputs, state), ours.using(gradients=True)(outputs, state), terms=256)


@points(0.5)
def test_state_cancels_in_single_head(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """SingleHeadCrossAttention: another decoder state changes nothing, as the lesson says."""
    theirs, ours = twins(student, reference, draw, "SingleHeadCrossAttention", 3, 4)
    outputs = draw.normal(1, 6, 3, scale=2).expand(2, -1, -1)
    state = draw.normal(1, 4, scale=2) * torch.tensor([[1.0], [-1.0]])
    got, expected = repeats(lambda: theirs(outputs, state)), ours(outputs, state)
    if (weights := _weights(got)).shape == (2, 6):
        holds(
            torch.allclose(weights[0], weights[1], atol=1e-4),
            _(
                "Two decoder states gave two rows of weights over the same encoder outputs. One linear layer adds the "
                "same number to the score of every position, and the softmax cancels it."
            ),
        )
    agree(got, expected, terms=64)


@points(0.5)
def test_single_head_mask(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """SingleHeadCrossAttention: hidden positions get weight 0, and the others share what is left."""
    for batch, positions in ((3, 5), (4, 4)):
        theirs, ours = twins(student, reference, draw, "SingleHeadCrossAttention", 3, 2)
        outputs, state = draw.normal(batch, positions, 3, scale=2), draw.normal(batch, 2)
        _agree_under_masks(theirs, ours, (outputs, state), draw.mask(batch, positions))


@points(0.5)
def test_other_dtypes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Both modules work in float64 and bfloat16, also after other calls."""
    for name in FORMS:
        theirs, ours = twins(student, reference, draw, name, *_dims(name))
        for dtype, terms in ((torch.float32, 64), (torch.float64, GUARDED), (torch.bfloat16, 64)):
            theirs.to(dtype=dtype)
            ours.to(dtype=dtype)
            given = _inputs(name, draw, dtype)
            agree(theirs(*given), ours(*given), terms=terms)


@points(0.5)
def test_follows_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Everything the modules need moves with them to another device."""
    note = _("The device `meta` has shapes and no values: what stays behind is found there.")
    for name in FORMS:
        theirs, ours = twins(student, reference, draw, name, *_dims(name))
        given = _inputs(name, draw, torch.float32)
        agree(theirs(*given), ours(*given), terms=64)
        for module in (theirs, ours):
            module.to(device="meta")
        for shown in (given, given[:2]):  # a mask that is made where none was given has to be made there, too
            agree(theirs(*shown), ours(*shown), note=note)


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Both modules: views, more than 1,024 positions and a switch of mode do no harm."""
    every_regime(student, reference, draw, CALLS)


def _dims(name: str) -> tuple[int, ...]:
    # The sizes that the class is made with.
    return (3, 2, 4) if name == "AdditiveAttention" else (2, 3)


def _inputs(name: str, draw: Draw, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    # One decoder state for each of two sequences, their keys and a mask, in the order of the class.
    state, keys, mask = draw.normal(2, 3, dtype=dtype), draw.normal(2, 5, 2, dtype=dtype), draw.mask(2, 5)
    return (state, keys, mask) if name == "AdditiveAttention" else (keys, state, mask)


def _weights(answer: Answer) -> Tensor:
    # The second of the two values.
    return answer.tensors(2)[1]


def _agree_under_masks(theirs: Handle, ours: Handle, given: tuple[Tensor, Tensor], drawn: Tensor) -> None:
    # A mask that was drawn, one with a single True in each row, and one that hides nothing.
    lonely = torch.zeros_like(drawn)
    lonely[:, 1] = True
    for mask in (drawn, lonely, torch.ones_like(drawn)):
        got = theirs(*given, mask=mask)
        agree(got, ours(*given, mask=mask), terms=64)
        hidden = _weights(got)[~mask]
        holds(
            bool((hidden == 0).all()),
            _("A hidden position got the weight {got:.2g}, and it should be exactly 0.").format(
                got=float(hidden.abs().max()) if hidden.numel() else 0.0
            ),
        )
        unmodified(got)
