"""The checks of step 11: LayerNorm, gelu, MLP and Block."""

import torch
from torch import Tensor

from grader.checks.assertions import (
    GUARDED,
    Draw,
    Implementation,
    _,
    agree,
    binomial_bound,
    future_has_no_effect,
    holds,
    points,
    twins,
    unmodified,
)
from grader.checks.regimes import AXES, NO_DROPOUT, AskedFunction, AskedModule, every_regime

FAMILIES = ("layer_norm", "norms", "gelu", "transformer")
OFF_LIMITS: dict[str, tuple[str, ...]] = {"LayerNorm": FAMILIES, "gelu": FAMILIES, "MLP": FAMILIES, "Block": FAMILIES}

# Around 3000 a float32 is known to 3000 roundings, and so is its distance from the mean: sqrt(terms) = 3000.
FAR_FROM_ZERO = 3000.0
FAR_TERMS = int(FAR_FROM_ZERO) ** 2
# gelu's constant is right when it was rounded to float32 as well. In float64 that leaves 1e-8: sqrt(terms) = 3e6.
ROUNDED_CONSTANT = 9 * 10**12
# A value that was normed and scaled back is 0 or 1 up to its rounding.
ROUNDED_TOKEN = 1e-5


def stream(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor]:
    return (draw.normal(*leading, tokens, 4),)


CALLS = {
    "LayerNorm": AskedModule(lambda tokens: (4,), stream, {"bias": False}, terms=8, axes=AXES, without=NO_DROPOUT),
    "gelu": AskedFunction(stream, terms=4),
    "MLP": AskedModule(lambda tokens: (4, 0.5), stream, {"bias": False}, terms=16, axes=AXES),
    "Block": AskedModule(lambda tokens: (4, 2, tokens, 0.5), stream, {"bias": False}, terms=64),
}


@points(0.75)
def test_layer_norm_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """LayerNorm of (0, 6) with eps = 16 gives the numbers found by hand."""
    norm = student.LayerNorm(2, eps=16.0)
    norm.load_parameters({"weight": torch.tensor([1.0, 1.0]), "bias": torch.tensor([0.0, 0.0])})
    agree(norm(torch.tensor([0.0, 6.0])), torch.tensor([-0.6, 0.6]), terms=2)
    norm.load_parameters({"weight": torch.tensor([10.0, 5.0]), "bias": torch.tensor([1.0, 2.0])})
    agree(norm(torch.tensor([[0.0, 6.0], [5.0, 5.0]])), torch.tensor([[-5.0, 5.0], [1.0, 2.0]]), terms=2)


@points(0.75)
def test_layer_norm(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Every vector gets mean 0 and variance 1, then weight and bias."""
    for bias, shape, scale in ((True, (8,), 1.0), (False, (3, 8), 3.0), (True, (2, 3, 4, 8), 0.003)):
        theirs, ours = twins(student, reference, draw, "LayerNorm", 8, bias=bias)
        x = draw.normal(*shape, scale=scale)
        got = theirs.using(gradients=True)(x)
        agree(got, ours.using(gradients=True)(x), terms=8)
        unmodified(got)


@points(0.75)
def test_layer_norm_far_from_zero(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Vectors far from zero, and vectors of equal numbers, are normed too."""
    theirs, ours = twins(student, reference, draw, "LayerNorm", 16)
    equal = torch.full((2, 16), 0.5)
    # A way that scales first and shifts then, x * s + (b - mean * s), rounds 0.5 * s, and s is 316 here.
    agree(theirs.using(gradients=True)(equal), ours.using(gradients=True)(equal), terms=256)
    x = draw.normal(12, 16) + FAR_FROM_ZERO
    agree(theirs(x), ours(x), terms=FAR_TERMS)


@points(0.75)
def test_gelu(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """gelu is GPT-2's tanh form."""
    agree(student.gelu(torch.tensor([0.0, 1.0, -1.0])), torch.tensor([0.0, 0.841192, -0.158808]))
    agree(student.gelu(torch.tensor([30.0, -30.0])), torch.tensor([30.0, 0.0]))
    for shape, low, dtype, terms in (
        ((), 1.0, torch.float32, 4),
        ((64,), -5.0, torch.float32, 4),
        ((2, 3, 40), -5.0, torch.float64, ROUNDED_CONSTANT),
    ):
        x = draw.uniform(*shape, low=low, high=5.0, dtype=dtype)
        agree(student.using(gradients=True).gelu(x), reference.using(gradients=True).gelu(x), terms=terms)


@points(1)
def test_mlp(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The MLP is c_fc, gelu, c_proj, four times wider in between."""
    for bias, shape in ((True, (2, 3, 4)), (False, (5, 4)), (True, (4,))):
        theirs, ours = twins(student, reference, draw, "MLP", 4, bias=bias)
        if bias:
            theirs.train()  # with the rate 0, which is the default, the mode makes no difference
        x = draw.normal(*shape, scale=2.0)
        got = theirs.using(gradients=True)(x)
        agree(got, ours.using(gradients=True)(x), terms=16)
        unmodified(got)


@points(2)
def test_block(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The block adds attention, then the MLP, to the stream it reads."""
    theirs, ours = twins(student, reference, draw, "Block", 6, 2, 5)
    theirs.train()  # with the rate 0, which is the default, the mode makes no difference
    for shape in ((1, 1, 6), (2, 5, 6)):
        x = draw.normal(*shape, scale=2.0)
        agree(theirs.using(gradients=True)(x), ours.using(gradients=True)(x), terms=64)
    future_has_no_effect(theirs, draw.normal(2, 5, 6))
    theirs, ours = twins(student, reference, draw, "Block", 4, 2, 8, bias=False)
    x = draw.normal(2, 3, 4)
    agree(theirs.using(gradients=True)(x), ours.using(gradients=True)(x), terms=64)  # in eval mode, too


@points(0.75)
def test_dropout(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """In training, and only then, both branches drop from what they add."""
    rate = draw.integer(20, 35) / 100
    x = draw.normal(4, 12, 16)
    theirs, ours = twins(student, reference, draw, "MLP", 16, dropout=rate)
    expected = ours(x)
    theirs.train()
    got, again = theirs(x).tensor(), theirs(x).tensor()
    # Asked before they are judged: who mistakes one mode for the other is told apart from who drops always, or never.
    agree(theirs.eval()(x), expected, terms=64)
    require_dropped("MLP", got, again, expected.tensor(), rate)

    theirs, ours = twins(student, reference, draw, "Block", 16, 2, 12, dropout=rate)
    agree(theirs(x), ours(x), terms=64)
    theirs.train()
    values = {name: value.clone() for name, value in ours.parameters().items()}
    for silent, heard in (("attn", "mlp"), ("mlp", "attn")):
        muted = {name: value * (not name.startswith(f"{silent}.c_proj")) for name, value in values.items()}
        ours.load_parameters(muted)
        theirs.load_parameters(muted)
        expected = ours(x)
        got, again = theirs(x).tensor(), theirs(x).tensor()
        # Attention also drops weights, so what it adds has no expected value: only its zeros are counted.
        added = expected.tensor() - x if heard == "mlp" else None
        require_dropped(f"Block.{heard}", got - x, again - x, added, rate)

    # The values are a token each, side by side for both heads, and what follows them passes them on: attention adds its
    # weights themselves. Dropout leaves 0 of a weight or all of it, divided by 1 - rate twice, for weight and output.
    tokens, width = 8, 16
    values |= {name: torch.zeros_like(value) for name, value in values.items() if name.startswith(("attn", "mlp"))}
    norm = torch.eye(tokens).repeat(1, 2)  # (8, 16)
    spread = float(norm[0].var(unbiased=False) + 1e-5) ** 0.5
    weight = torch.cat([draw.normal(2 * width, width, scale=0.5), spread * torch.eye(width)])
    bias = torch.cat([draw.normal(2 * width), torch.full((width,), float(norm[0].mean()))])
    values |= {"ln_1.weight": torch.ones(width), "ln_1.bias": torch.zeros(width)}
    values |= {"attn.c_attn.weight": weight, "attn.c_attn.bias": bias, "attn.c_proj.weight": torch.eye(width)}
    ours.load_parameters(values)
    theirs.load_parameters(values)
    theirs.train()
    x = norm.repeat(32, 1, 1)  # (32, 8, 16)
    kept = (ours(x).tensor() - x) / (1 - rate) ** 2
    got = theirs(x).tensor() - x
    dropped = got.abs() <= ROUNDED_TOKEN
    holds(
        (dropped | torch.isclose(got, kept, rtol=1e-3, atol=ROUNDED_TOKEN)).all(),
        _(
            "With values of one token each and dropout {rate:.2f} attention adds 0 or the weight that it has without "
            "dropout, divided by (1 - {rate:.2f}) squared, and here it added something else. Is something dropped "
            "besides weights and output?"
        ).format(rate=rate),
    )
    seen = kept > 100 * ROUNDED_TOKEN
    observed, due = float(dropped[seen].double().mean()), 1 - (1 - rate) ** 2
    holds(
        abs(observed - due) <= binomial_bound(int(seen.sum()), due),
        _("With dropout {rate:.2f}, in training, {observed:.3f} of what {branch} adds was dropped.").format(
            rate=due, observed=observed, branch="Block.attn"
        ),
    )


def require_dropped(branch: str, got: Tensor, again: Tensor, expected: Tensor | None, rate: float) -> None:
    """Fails unless `got` has zeros at the rate of dropout, each by itself, and elsewhere what is due over 1 - rate."""
    dropped = got == 0
    observed = float(dropped.float().mean())
    holds(
        abs(observed - rate) <= binomial_bound(got.numel(), rate),
        _("With dropout {rate:.2f}, in training, {observed:.3f} of what {branch} adds was dropped.").format(
            rate=rate, observed=observed, branch=branch
        ),
    )
    holds(
        not any(bool((dropped == dropped.narrow(dim, 0, 1)).all()) for dim in range(dropped.dim())),
        _(
            "Of what {branch} adds, whole rows or columns were dropped together. "
            "Each number should have its own chance."
        ).format(branch=branch),
    )
    holds(
        not torch.equal(got == 0, again == 0),
        _("Two calls in training dropped the same numbers of what {branch} adds. Each call should draw anew.").format(
            branch=branch
        ),
    )
    holds(
        expected is None or torch.allclose(got[~dropped], expected[~dropped] / (1 - rate), rtol=1e-3, atol=1e-4),
        _("What dropout keeps of what {branch} adds should be divided by 1 - {rate:.2f}, and it was not.").format(
            branch=branch, rate=rate
        ),
    )


@points(0.75)
def test_dtypes_meta_and_inputs(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Every dtype, any device, and inputs left as they were."""
    modules = {
        "LayerNorm": twins(student, reference, draw, "LayerNorm", 4),
        "LayerNorm without bias": twins(student, reference, draw, "LayerNorm", 4, bias=False),
        "Block": twins(student, reference, draw, "Block", 4, 2, 6),
    }
    x = draw.normal(2, 5, 4, dtype=torch.float64)  # with more digits than a float32 holds
    for theirs, _ours in modules.values():
        unmodified(theirs(x.float()))
    unmodified(student.gelu(x.float()))
    for dtype in (torch.float64, torch.bfloat16):
        given = x.to(dtype)
        agree(student.gelu(given), reference.gelu(given), terms=ROUNDED_CONSTANT if dtype == torch.float64 else 4)
        for name, (theirs, ours) in modules.items():
            theirs.to(dtype=dtype)
            ours.to(dtype=dtype)
            # A guard beside a root, which is small where four numbers lie near each other.
            exact = ROUNDED_CONSTANT if name == "Block" else 1000 * GUARDED
            terms = exact if dtype == torch.float64 else 64
            agree(theirs(given), ours(given), terms=terms)
    agree(student.using(device="meta").gelu(x), reference.using(device="meta").gelu(x))
    for theirs, ours in modules.values():
        theirs.to(device="meta")
        ours.to(device="meta")
        agree(theirs(given), ours(given))


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, lengths, parents and a change of mode do no harm."""
    every_regime(student, reference, draw, CALLS)
