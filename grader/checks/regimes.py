"""The regimes that every function and module of a step is asked in: views, lengths, axes, modes, memory.

A step says once, in its check file, with which arguments each public name is called, and which regimes do not apply:

    CALLS = {"softmax": AskedFunction(lambda draw, leading, tokens: (draw.normal(*leading, 4, tokens),), terms=8)}

    @points(0.5)
    def test_any_regime(student, reference, draw):
        every_regime(student, reference, draw, CALLS)

A call is made in several regimes at once, since each call costs. Only where it fails, one after the other tells which.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from grader.base.errors import CheckFailed
from grader.base.language import gettext as _
from grader.checks.assertions import agree, holds, twins, unmodified, with_values
from grader.checks.draws import Draw
from grader.checks.implementation import Answer, Handle, Implementation, OffLimits

LONG = 1030  # tokens, beyond the 1,024 that a fixed buffer often has
AXES = (2, 1, 3)

# Each regime, and a pattern that the stub has to hold (without regard to case) where a check asks for it.
REGIMES: dict[str, str] = {
    "views": r"\bviews?\b",
    "length": r"1,024",
    "axes": r"\.\.\.|any shape|leading",
    "no_grad": r"no_grad",
    "modes": r"back and forth",
    "parent": r"parent",
    "seed": r"manual_seed",
    "names": r"no other parameters?",
    "bias": r"bias",
    "unmodified": r"unmodified|not modified",
    "memory": r"earlier results?",
}
OF_MODULES = frozenset({"modes", "parent", "seed", "names", "bias"})

Returned = TypeVar("Returned")
Inputs = Callable[[Any, tuple[int, ...], int], tuple[Any, ...]]


@dataclass(frozen=True)
class AskedFunction:
    """How a function is called: `inputs(draw, leading, tokens)` gives its arguments, `options` those by name.

    `terms` as for `agree`, or `judged(got, inputs)` in its place where the answer is random. `model` names a class and
    its arguments: an object of it, in float64, is the first argument. `without`: regimes that do not apply.
    """

    inputs: Inputs
    options: Mapping[str, Any] = field(default_factory=dict)
    terms: int = 1
    tokens: int = 5
    axes: tuple[int, ...] = AXES
    without: Collection[str] = ()
    judged: Callable[[Answer, tuple[Any, ...]], None] | None = None
    model: tuple[Any, ...] = ()

    @property
    def regimes(self) -> list[str]:
        """The regimes that apply."""
        few = ("axes",) if len(self.axes) < len(AXES) else ()
        return [name for name in REGIMES if name not in OF_MODULES and name not in (*self.without, *few)]


@dataclass(frozen=True)
class AskedModule:
    """How a module is made, `made(tokens)` gives its arguments, and called: `inputs(draw, leading, tokens)`.

    It is made with dropout of one half where it has any, else `without` names NO_DROPOUT; and with the arguments by
    name in `unbiased`, which leave out every bias. {} goes with `bias` in `without`. `grows`: the shape of a parameter
    follows the number of tokens.
    """

    made: Callable[[int], tuple[Any, ...]]
    inputs: Inputs
    unbiased: Mapping[str, Any] = field(default_factory=dict)
    terms: int = 1
    tokens: int = 8
    axes: tuple[int, ...] = (2,)
    without: Collection[str] = ()
    grows: bool = False

    @property
    def regimes(self) -> list[str]:
        """The regimes that apply."""
        few = ("axes",) if len(self.axes) < len(AXES) else ()
        return [name for name in REGIMES if name not in (*self.without, *few)]

    @property
    def drops(self) -> bool:
        """Whether it has dropout."""
        return "modes" not in self.without


NO_DROPOUT = ("modes", "parent", "seed")


class _Shapes:
    """Draws shapes only: tensors on `meta`."""

    def normal(self, *shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    def uniform(self, *shape: int, low: float = -1.0, high: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.int64, device="meta")

    def mask(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.bool, device="meta")


def every_regime(
    student: Implementation, reference: Implementation, draw: Draw, calls: Mapping[str, AskedFunction | AskedModule]
) -> None:
    """Asks every public name in `calls` in every regime that applies."""
    for name, how in calls.items():
        if isinstance(how, AskedModule):
            _module(student, reference, draw, name, how)
            continue
        if set(how.regimes) - {"length"}:
            _function(student, reference, draw, name, how)
        if "length" in how.regimes:
            theirs, ours = (getattr(side.using(device="meta"), name) for side in (student, reference))
            _long(partial(theirs, **how.options), partial(ours, **how.options), how)


def _function(student: Implementation, reference: Implementation, draw: Draw, name: str, how: AskedFunction) -> None:
    inputs = how.inputs(draw, how.axes, how.tokens)
    # In float64, where two right ways agree on which of two logits is the larger one.
    models = (
        [model.to(dtype=torch.float64) for model in twins(student, reference, draw, *how.model)] if how.model else []
    )
    expected = None if how.judged else getattr(reference, name)(*models[1:], *inputs, **how.options)

    def asked(regimes: Iterable[str]) -> None:
        got = getattr(student.using(**_options(regimes)), name)(*models[:1], *inputs, **how.options)
        unmodified(got)  # first: memory that is used again makes the values wrong as well
        if how.judged:
            how.judged(got, inputs)
        else:
            agree(got, expected, terms=how.terms)

    _singled_out(asked, how, any(isinstance(value, np.ndarray) for value in inputs))


def _options(regimes: Iterable[str]) -> dict[str, Any]:
    names = {"views": "strided", "no_grad": "no_grad", "memory": "again"}
    return {names[regime]: True for regime in regimes if regime in names}


def _singled_out(
    asked: Callable[[Iterable[str]], None], how: AskedFunction | AskedModule, of_arrays: bool = False
) -> None:
    """Asks in all regimes at once; where that fails, in none of them, then in each, to say which it was."""
    try:
        asked(how.regimes)
        return
    except CheckFailed as failure:
        if failure.status != "fail" or isinstance(failure, OffLimits):
            raise
        together = failure
    _with_note(lambda: asked(()), _axes_were(how))
    views = arrays_were_views if of_arrays else inputs_were_views
    notes = {"no_grad": no_grad_was_on, "views": views, "memory": lambda: "", "parent": parent_was_switched}
    for regime, note in notes.items():
        if regime in how.regimes:
            _with_note(partial(asked, [regime]), note())
    raise together


def _with_note(asked: Callable[[], Returned], note: str) -> Returned:
    try:
        return asked()
    except CheckFailed as failure:
        failure.message += "\n" + note if note else ""
        raise


def _axes_were(how: AskedFunction | AskedModule) -> str:
    if "axes" not in how.regimes:
        return ""
    return _("The inputs have {count} leading batch dimensions here.").format(count=len(how.axes))


def no_grad_was_on() -> str:
    """What is said of a call that fails only under `no_grad`."""
    return _("The call was made under `torch.no_grad()`; outside of it the same call is right.")


def inputs_were_views() -> str:
    """What is said of a call that fails only on views."""
    return _(
        "The inputs are views here, transposed and sliced, which do not lie in memory in one piece; on copies that do "
        "the same call is right. `view` needs memory in one piece, and `reshape` copies where it has to."
    )


def arrays_were_views() -> str:
    """What is said of a call that fails only on views of NumPy arrays."""
    return _(
        "The arrays are views here, transposed, sliced and reversed, with negative strides; on copies that lie in "
        "memory in one piece the same call is right."
    )


def _long(theirs: Callable[..., Answer], ours: Callable[..., Answer], how: AskedFunction | AskedModule) -> None:
    """On `meta`, where a length costs nothing."""
    inputs = how.inputs(_Shapes(), how.axes[:1] if len(how.axes) < len(AXES) else (), LONG)
    expected = ours(*inputs)
    note = _("{count} tokens were given, on the device `meta`, which has shapes but no values.").format(count=LONG)
    _with_note(lambda: agree(theirs(*inputs), expected), note)


def _module(student: Implementation, reference: Implementation, draw: Draw, name: str, how: AskedModule) -> None:
    ours = getattr(reference, name)(*how.made(how.tokens), **how.unbiased)
    values = draw.parameters(ours.outline())
    ours.load_parameters(values, evaluating=True)
    fresh = partial(with_values, student, values, name, *how.made(how.tokens), **how.unbiased)
    theirs = fresh()
    inputs = how.inputs(draw, how.axes, how.tokens)
    expected = ours(*inputs)

    def asked(regimes: Iterable[str]) -> None:
        module = theirs.nested("eval") if "parent" in regimes else theirs.eval()
        if not how.drops:
            module = theirs.train()  # which makes no difference, unless something drops where nothing should
        got = module.using(**_options(regimes))(*inputs)
        unmodified(got)
        agree(got, expected, terms=how.terms, note="" if how.drops else in_training_mode())

    _singled_out(asked, how)
    if how.drops:  # last: two right ways may draw other numbers, and a mistake should show before that
        seed = draw.seed()
        first = theirs.nested("train").using(seed=seed, no_grad=True)(*inputs)
        last = theirs.eval().train().using(seed=seed)(*inputs)
        _drops(_Dropping(theirs, inputs, expected, how.terms, seed, fresh), first, last)
    if how.made(LONG) != how.made(how.tokens):
        # Made on the CPU, and filled where it can be: a lazy layer is lost when it moves before it has its width.
        theirs, ours = (side._make(name, how.made(LONG), dict(how.unbiased)) for side in (student, reference))
        for module in (theirs, ours) if not how.grows else ():
            module.load_parameters(values)
    _long(theirs.eval().to(device="meta"), ours.eval().to(device="meta"), how)


def in_training_mode() -> str:
    """What is said of a module without dropout, whose mode makes no difference."""
    return _("The module is in training mode here. It has no dropout, so that the mode makes no difference.")


def parent_was_switched() -> str:
    """What is said of a module that only its own `train()` and `eval()` reach."""
    return _(
        "The module is part of another one here, whose `train()` or `eval()` was called. That sets `training` of its "
        "parts and calls their `train(mode)`, but no `eval()` of theirs."
    )


@dataclass(frozen=True)
class _Dropping:
    """A module with dropout, what it is called with, and what it gives in eval mode."""

    module: Handle
    inputs: tuple[Any, ...]
    expected: Answer
    terms: int
    seed: int | None
    fresh: Callable[[], Handle]

    def alike(self, first: Answer, second: Answer) -> bool:
        try:
            agree(first, second, terms=self.terms)
        except CheckFailed:
            return False
        return True

    def dropped(self, module: Handle, **how: Any) -> bool:
        return not self.alike(module.using(seed=self.seed, **how)(*self.inputs), self.expected)

    def again(self) -> Answer:
        return self.module.using(seed=self.seed)(*self.inputs)


def _drops(those: _Dropping, first: Answer, last: Answer) -> None:
    """Fails unless dropout acted at first, in a parent and under `no_grad`, and in the same way after eval mode."""
    if those.alike(first, those.expected):
        module = those.module
        holds(
            not those.dropped(module.nested("train")), _("Under `torch.no_grad()` nothing is dropped in training mode.")
        )
        sentence = _("Nothing is dropped in training mode.") + "\n" + parent_was_switched()
        holds(not those.dropped(module.train()), sentence)
        holds(
            not those.dropped(those.fresh().train()),
            _("After `train()`, a call, `eval()`, a call and `train()` again nothing is dropped any more."),
        )
        holds(False, _("Nothing is dropped in training mode."))
    if those.alike(last, first):
        return
    sentence = _(
        "Two calls in training mode, each right after `torch.manual_seed` with the same seed, gave different results."
    )
    holds(those.alike(those.again(), last), sentence)
    holds(
        not those.alike(last, those.expected),
        _("After `train()`, a call, `eval()`, a call and `train()` again nothing is dropped any more."),
    )
    holds(
        False,
        _(
            "After `eval()` and `train()` again, or outside of `torch.no_grad()`, the same seed drops other numbers "
            "than before."
        ),
    )
