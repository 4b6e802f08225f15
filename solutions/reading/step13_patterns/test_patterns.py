"""The checks of step 13: five patterns of attention, and what can be read off weights."""

import math

import torch
from torch import Tensor

from grader.checks.assertions import (
    Answer,
    Draw,
    Implementation,
    _,
    agree,
    exactly,
    gradients_arrive,
    holds,
    points,
    sums_to_one,
    unmodified,
)
from grader.checks.regimes import AskedFunction, every_regime, not_asked

PATTERNS = ("attention_diagonal", "attention_uniform", "attention_first", "attention_causal", "attention_local")
INF, NAN = float("inf"), float("nan")
# The contract's 1e-5 as `terms`, which count roundings: those of float32 and of float64.
WITHIN_1E5 = {torch.float32: 64, torch.float64: 10**19, torch.bfloat16: 16}


def weights(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor, ...]:
    # No weight is 0, whose logarithm would leave nothing to compare.
    drawn = draw.uniform(*leading, 3, tokens, low=0.05)
    return (drawn / drawn.sum(dim=-1, keepdim=True),)


# A pattern takes no tensor, which leaves the length alone; and a million entries, filled in one by one by a loop, which
# is right, take longer than a call may.
NO_REGIME = not_asked(
    "it takes no tensor; a long one, filled by a loop, is slow", lambda draw, leading, tokens: (tokens,)
)
CALLS = {
    **dict.fromkeys(PATTERNS, NO_REGIME),
    "validate_attention": AskedFunction(weights),
    "top_attended": AskedFunction(weights, {"k": 2}),
    "attention_entropy": AskedFunction(weights, terms=64),
    "attention_distance": AskedFunction(weights, {"offset": 2}, terms=64),
}


@points(1)
def test_fixed_patterns_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Three tokens attend to themselves, to all alike, and to the first, as you can draw by hand."""
    agree(student.attention_diagonal(3), torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    agree(student.attention_uniform(4), torch.full((4, 4), 0.25))
    agree(student.attention_first(3), torch.tensor([[1.0, 0.0, 0.0]]).repeat(3, 1))
    for name in ("attention_diagonal", "attention_uniform", "attention_first"):
        as_many_as_drawn(student, reference, draw, name)


@points(0.5)
def test_causal_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Each of four tokens attends alike to itself and to every earlier one."""
    third = 1 / 3
    expected = [[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [third, third, third, 0.0], [0.25, 0.25, 0.25, 0.25]]
    agree(student.attention_causal(4), torch.tensor(expected))
    as_many_as_drawn(student, reference, draw, "attention_causal")


@points(1)
def test_local_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Each of four tokens attends alike to itself and its neighbours, and the edge rows sum to 1 too."""
    third = 1 / 3
    expected = [[0.5, 0.5, 0.0, 0.0], [third, third, third, 0.0], [0.0, third, third, third], [0.0, 0.0, 0.5, 0.5]]
    agree(student.attention_local(4), torch.tensor(expected))
    as_many_as_drawn(student, reference, draw, "attention_local")


def as_many_as_drawn(student: Implementation, reference: Implementation, draw: Draw, name: str) -> None:
    """The pattern of a number of tokens that nobody can look up: each pattern counts by itself."""
    num_tokens = draw.integer(10, 40)
    agree(getattr(student, name)(num_tokens), getattr(reference, name)(num_tokens))


@points(1.25)
def test_patterns_of_any_size(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The patterns are right for any number of tokens and any radius, and each row sums to 1."""
    for tokens, radius in ((7, 3), (9, 2), (1, 0), (draw.integer(6, 9), 0), (5, 4), (4, 4), (3, 5), (40, 12), (2, 100)):
        got = student.attention_local(tokens, radius)
        agree(got, reference.attention_local(tokens, radius))
        sums_to_one(got.tensor())
    for num_tokens in (1, 2, draw.integer(5, 9), draw.integer(130, 150)):
        for name in PATTERNS:
            got = getattr(student, name)(num_tokens)
            agree(got, getattr(reference, name)(num_tokens))
            sums_to_one(got.tensor())
    agree(student.attention_local(6, radius=2), reference.attention_local(6, radius=2))


@points(0.25)
def test_patterns_on_their_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The patterns are made on the device that is asked for."""
    for name in PATTERNS:
        for device in ("cpu", "meta"):
            agree(getattr(student, name)(4, device=device), getattr(reference, name)(4, device=device))


@points(0.5)
def test_validate_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Each row of weights is reported with its own faults, and no other."""
    weights = torch.tensor([[0.25, 0.75, 0.0], [0.5, 0.25, 0.0], [-0.25, 0.75, 0.5], [1.5, -0.5, 0.0], [0.0, NAN, 1.0]])
    expected = {
        "not_finite": torch.tensor([False, False, False, False, True]),
        "negative": torch.tensor([False, False, True, True, False]),
        "above_one": torch.tensor([False, False, False, True, False]),
        "sum": torch.tensor([False, True, False, False, True]),
    }
    exactly(student.validate_attention(weights), expected)


@points(0.5)
def test_validate_each_fault(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Faults are found in any shape and dtype, each by itself, an infinity by its sign."""
    # Rows without a fault first: one verdict for all rows is right there, and a mean in place of the sum is not.
    for tokens in (1, 300):
        weights = draw.normal(2, 3, tokens).softmax(dim=-1)
        exactly(student.validate_attention(weights), reference.validate_attention(weights))
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        weights = _faulty_rows(draw, dtype)
        for given in (
            weights,
            weights[:, 0],
            weights[0, 0],
            weights[..., :6, :].mT,
            weights.unflatten(2, (3, 4)),
        ):
            got = student.validate_attention(given)
            exactly(got, reference.validate_attention(given))
            unmodified(got)


@points(0.5)
def test_validate_tolerance(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The tolerance counts where it should, and the sum is taken in float32 at least."""
    off = torch.tensor([0.0, 0.8, -0.8, 1.25, -1.25, 3.0, -3.0])
    for tolerance in (1e-5, 1e-3, 0.05):
        for dtype in (torch.float32, torch.float64):
            one_key = torch.zeros(7, 3, dtype=dtype)
            one_key[:, draw.integer(0, 2)] = 1 + tolerance * off.to(dtype)  # a single weight is around 1
            shared = torch.full((7, 4), 0.25, dtype=dtype)
            shared[:, draw.integer(0, 3)] += tolerance * off.to(dtype)  # only the sum is
            below = torch.zeros(7, 3, dtype=dtype)
            below[:, 1], below[:, 2] = 1.0, 0.4 * tolerance * off.to(dtype)  # a little below 0 is below 0
            for weights in (one_key, shared, below):
                got = student.validate_attention(weights, tolerance)
                exactly(got, reference.validate_attention(weights, tolerance))
    for keys in (3, 6, 7, 11):  # in bfloat16 these shares sum to 1 only when the sum is rounded as well
        weights = torch.full((2, keys), 1 / keys, dtype=torch.bfloat16)
        for tolerance in (1e-5, 0.1):
            got = student.validate_attention(weights, tolerance=tolerance)
            exactly(got, reference.validate_attention(weights, tolerance=tolerance))


@points(0.25)
def test_top_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The two strongest keys of two queries, largest first, in any shape."""
    weights = torch.tensor([[0.1, 0.2, 0.4, 0.3], [0.7, 0.1, 0.05, 0.15]])
    expected = (torch.tensor([[0.4, 0.3], [0.7, 0.15]]), torch.tensor([[2, 3], [0, 3]]))
    exactly(student.top_attended(weights, 2), expected)
    for shape, k in (((3, 3), 2), ((2, 3, 5), 1), ((2, 4, 2, 6), 3), ((5, 2), 2), ((2, 3, 7), 6)):
        weights = draw.normal(*shape).softmax(dim=-1)
        for given in (weights, weights.mT):
            got = student.top_attended(given, k)
            exactly(got, reference.top_attended(given, k))
            unmodified(got)


@points(0.5)
def test_top_of_equals(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Of equal weights the earlier key comes first, and a k larger than the number of keys gives them all."""
    tokens = draw.integer(50, 70)
    alike = reference.attention_causal(tokens).tensor()
    for weights, k in (
        (draw.normal(1, 1), 2),  # first, where no two weights are equal
        (alike, tokens),
        (alike, 5),
        (draw.integers(0, 4, 2, 3, 60) / 4, 40),
        (draw.integers(0, 3, 2, 2, 3, 5) / 4, 9),
    ):
        exactly(student.top_attended(weights, k), reference.top_attended(weights, k))


@points(0.5)
def test_entropy(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A weight of 1 has entropy 0, four equal ones have ln 4, and fresh weights have theirs."""
    weights = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.0, 0.5, 0.0]])
    _near(student.attention_entropy(weights), torch.tensor([0.0, math.log(4), math.log(2)]))
    for shape in ((4, 4), (2, 3), (3, 2, 5), (2, 3, 4, 70), (1, 1)):
        weights = draw.normal(*shape, scale=2.0, dtype=torch.float64).softmax(dim=-1)
        hidden = weights.where(draw.mask(*shape), 0.0)
        hidden = hidden / hidden.sum(dim=-1, keepdim=True)
        for given in (weights, weights.float(), hidden, hidden.mT.float().contiguous().mT):
            got = student.attention_entropy(given)
            _near(got, reference.attention_entropy(given))
            unmodified(got)


@points(0.5)
def test_distance(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The mean distance of two queries to three keys, and of fresh weights with any offset."""
    weights = torch.tensor([[0.5, 0.0, 0.5], [0.0, 0.25, 0.75]])  # distances: 0.5 * 2 = 1, and 0.75 * 1
    agree(student.attention_distance(weights), torch.tensor(0.875), terms=3)
    agree(student.attention_distance(weights, 2), torch.tensor((1.0 + 1.25) / 2), terms=3)
    for shape, offset in (
        ((4, 4), 0),
        ((2, 3, 5), 0),
        ((3, 3, 3), 2),
        ((2, 3, 1, 6), 5),
        ((2, 2, 4, 40), 36),
    ):
        weights = draw.normal(*shape, scale=2.0).softmax(dim=-1)
        for given in (weights, weights.mT):
            got = student.attention_distance(given, offset=offset)
            agree(got, reference.attention_distance(given, offset=offset), terms=max(shape) ** 2)
            unmodified(got)


@points(0.25)
def test_dtypes_gradients_and_devices(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """What is read off the weights keeps their dtype and device, and lets gradients through."""
    note = _("The device `meta` has shapes and no values: what is made elsewhere, or looks at values, fails there.")
    for name, arguments in (("top_attended", (2,)), ("attention_entropy", ()), ("attention_distance", (1,))):
        for dtype in (torch.bfloat16, torch.float64):
            weights = draw.normal(2, 3, 5, dtype=dtype).softmax(dim=-1)
            got, expected = (getattr(side, name)(weights, *arguments) for side in (student, reference))
            agree(got, expected, terms=WITHIN_1E5[dtype] if name == "attention_entropy" else 15)
        # Not halves: weights near 0 have large logarithms.
        weights = draw.uniform(2, 3, 5, low=0.1, high=1.0)
        # Rows that do not sum to 1 show where a row was divided; the entropy is that of rows that do.
        weights = weights / weights.sum(dim=-1, keepdim=True) if name == "attention_entropy" else weights
        got, expected = (
            getattr(side.using(gradients=True), name)(weights, *arguments) for side in (student, reference)
        )
        if name == "attention_entropy":
            _same_slopes_within_rows(got, expected)
        else:
            agree(got, expected, terms=64)
        got, expected = (getattr(side.using(device="meta"), name)(weights, *arguments) for side in (student, reference))
        agree(got, expected, note=note)


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, long inputs and `no_grad` change nothing, and results stay as they are."""
    every_regime(student, reference, draw, CALLS)


def _same_slopes_within_rows(got: Answer, expected: Answer) -> None:
    """Rows that sum to 1 can only move such that they still do: what a gradient adds to a whole row says nothing."""
    gradients_arrive(got)
    agree(got, expected.tensor(), terms=64)
    mine, wanted = got.gradients["0"], expected.gradients["0"]
    assert mine is not None and wanted is not None
    if mine.shape == wanted.shape:
        apart = ((mine - mine.mean(-1, keepdim=True)) - (wanted - wanted.mean(-1, keepdim=True))).abs().max()
        sentence = _("Within a row the gradient of the entropy is off by up to {gap:.2g}.")
        holds(apart <= 1e-4, sentence.format(gap=float(apart)))


def _near(got: Answer, expected: Answer | Tensor) -> None:
    dtype = got.tensor().dtype
    largest = float((expected if isinstance(expected, Tensor) else expected.tensor()).abs().max())
    # Beside an entropy of 0 alone 1e-5 is more roundings than beside one of about 1.
    finer = max(1.0, 1 / max(largest, 1e-3))
    agree(got, expected, terms=int(WITHIN_1E5.get(dtype, 1) * finer**2))


# Rows without a fault, with one and with several, in every order of faults: `(2, 2, 12, 4)`.
def _faulty_rows(draw: Draw, dtype: torch.dtype) -> Tensor:
    rows = [
        [0.5, 0.25, 0.125, 0.125], [0.0, 1.0, 0.0, 0.0], [0.5, 0.25, 0.0, 0.125], [0.5, 0.5, 0.25, 0.5],
        [-0.5, 0.5, 0.5, 0.5], [1.5, -0.5, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0], [-0.25, 0.25, 0.25, 0.25],
        [NAN, 0.5, 0.5, 0.0], [INF, 0.0, 0.0, 0.0], [-INF, 0.5, 0.5, 1.0], [INF, -INF, 1.0, 0.0],
        [NAN, -0.5, 1.5, 0.0], [NAN, INF, 0.0, 0.0],
    ]  # fmt: skip
    table = torch.tensor(rows, dtype=dtype)
    picked = torch.stack([draw.permutation(len(rows))[:12] for _row in range(4)])
    return table[picked][..., draw.permutation(4)].unflatten(0, (2, 2))
