"""The regimes that every function and module of a step is asked in: views, lengths, axes, modes, memory.

A step says once, in its check file, with which arguments each public name is called, and which regimes do not apply:

    CALLS = {"softmax": AskedFunction(lambda draw, leading, tokens: (draw.normal(*leading, 4, tokens),), terms=8)}

    @points(0.5)
    def test_any_regime(student, reference, draw):
        every_regime(student, reference, draw, CALLS)

A call is made in several regimes at once, since each call costs. Only if it fails, one after the other tells which.
What does not apply to a name has its reason in `without`; `make prove` prints the table of names and regimes.
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
from grader.checks.assertions import agree, holds, on_meta, twins, unmodified
from grader.checks.draws import Draw, Shapes
from grader.checks.implementation import Answer, Handle, Implementation, OffLimits
from grader.checks.lazy import at_once

LONG = 1030  # tokens, beyond the 1,024 that a fixed buffer often has
AXES = (2, 3, 2)  # none of size 1, which would let `view` merge it with its neighbour

# Each regime, and a pattern that the stub has to hold (in any case) if a check asks for it.
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
    "device": r"device",
}
OF_MODULES = frozenset({"modes", "parent", "seed", "names", "bias"})

Returned = TypeVar("Returned")
Inputs = Callable[[Any, tuple[int, ...], int], tuple[Any, ...]]
Ask = Callable[[Collection[str]], None]  # makes a call in some regimes at once, and compares


class _RegimeRequest:
    """The part of `AskedFunction` and `AskedModule` that says which regimes apply."""

    axes: tuple[int, ...]
    without: Mapping[str, str]

    @property
    def gaps(self) -> dict[str, str]:
        """The regimes that do not apply, with the reasons."""
        few = {} if len(self.axes) == len(AXES) else {"axes": "the contract fixes the number of dimensions"}
        function = {} if isinstance(self, AskedModule) else dict.fromkeys(OF_MODULES, "a function")
        return function | few | dict(self.without)

    @property
    def regimes(self) -> list[str]:
        """The regimes that apply."""
        return [name for name in REGIMES if name not in self.gaps]


@dataclass(frozen=True)
class AskedFunction(_RegimeRequest):
    """The way to call a function: `inputs(draw, leading, tokens)` gives its arguments, `options` those by name.

    `terms` as for `agree`, or `judged(got, inputs)` in its place if the answer is random. `long_terms` are those of a
    call with LONG tokens, if it costs little on the CPU as well; 0: on `meta` alone. `model` names a class and its
    arguments: an object of it, in float64, is the first argument. `without`: the regimes that do not apply, each with
    the reason.
    """

    inputs: Inputs
    options: Mapping[str, Any] = field(default_factory=dict)
    terms: int = 1
    long_terms: int = 0
    tokens: int = 5
    axes: tuple[int, ...] = AXES
    without: Mapping[str, str] = field(default_factory=dict)
    judged: Callable[[Answer, tuple[Any, ...]], None] | None = None
    model: tuple[Any, ...] = ()


@dataclass(frozen=True)
class AskedModule(_RegimeRequest):
    """The way to make a module, `made(tokens)` gives its arguments, and to call it: `inputs(draw, leading, tokens)`.

    It is made with dropout of one half if it has any, else `without` names NO_DROPOUT; and with the arguments by name
    in `unbiased`, which leave out every bias. {} goes with `bias` in `without`. `exact`: it takes no fewer tokens than
    it was made for.
    """

    made: Callable[[int], tuple[Any, ...]]
    inputs: Inputs
    unbiased: Mapping[str, Any] = field(default_factory=dict)
    terms: int = 1
    tokens: int = 8
    axes: tuple[int, ...] = (2,)
    without: Mapping[str, str] = field(default_factory=dict)
    exact: bool = False

    @property
    def drops(self) -> bool:
        """Whether the module has dropout."""
        return "modes" not in self.without


nothing: Inputs = lambda draw, leading, tokens: ()  # noqa: E731  # the inputs of a name that has no small cases


def not_asked(reason: str, inputs: Inputs = nothing) -> AskedFunction:
    """A name to which no regime applies. `inputs` are for its small cases, if it has any."""
    return AskedFunction(inputs, without=dict.fromkeys(REGIMES, reason))


NO_DROPOUT = dict.fromkeys(("modes", "parent", "seed"), "it drops nothing")
NO_BIAS = {"bias": "no argument leaves a bias out"}
NO_TENSOR = dict.fromkeys(("views", "axes", "no_grad", "unmodified", "memory", "device"), "it takes no tensor")
OF_A_MODEL = {"length": "its model is asked", "device": "it may read its ids, so that it need not run on `meta`"}
NUMBERS = not_asked("numbers in, numbers out")


def every_regime(
    student: Implementation, reference: Implementation, draw: Draw, calls: Mapping[str, AskedFunction | AskedModule]
) -> None:
    """Fails unless each public name in `calls` is right in each way of calling it (`REGIMES`) that applies."""
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
    """Fails unless a function is right in all ways of calling it (`REGIMES`) that apply, but for `length`."""
    inputs = how.inputs(draw, how.axes, how.tokens)
    # In float64, in which two right ways agree on the larger of two logits.
    models = [m.to(dtype=torch.float64) for m in (twins(student, reference, draw, *how.model) if how.model else ())]
    expected = None if how.judged else getattr(reference, name)(*models[1:], *inputs, **how.options)

    def ask(regimes: Collection[str]) -> None:
        """Fails unless a call in all these regimes is right."""
        got = getattr(student.using(**_options(regimes)), name)(*models[:1], *inputs, **how.options)
        unmodified(got)  # first: memory that is used again makes the values wrong as well
        if how.judged:
            how.judged(got, inputs)
        else:
            agree(got, expected, terms=how.terms, note=_remembered_note(regimes))

    _single_out(ask, how, any(isinstance(value, np.ndarray) for value in inputs))
    if "unmodified" in how.regimes:  # of a view, which would be copied first, nothing is overwritten
        unmodified(getattr(student, name)(*models[:1], *inputs, **how.options))
    if "device" in how.regimes:
        got = getattr(student.using(device="meta"), name)(*inputs, **how.options)
        expected = expected or getattr(reference, name)(*inputs, **how.options)
        agree(got, on_meta(expected), note=moved())
    if how.long_terms:
        inputs = how.inputs(draw, (), LONG)
        theirs, ours = (getattr(side, name)(*inputs, **how.options) for side in (student, reference))
        agree(theirs, ours, terms=how.long_terms, note=_("{count} tokens were given.").format(count=LONG))


def _options(regimes: Iterable[str]) -> dict[str, Any]:
    """The options for `using` that these of the `REGIMES` need, if any."""
    names = {"views": "strided", "no_grad": "no_grad", "memory": "again"}
    return {names[regime]: True for regime in regimes if regime in names}


def _single_out(ask: Ask, how: AskedFunction | AskedModule, of_arrays: bool = False, first: Ask | None = None) -> None:
    """Calls in all `REGIMES` that apply at once, by `first` if given. If that fails, calls in none of them, then in
    each, and fails with a sentence on the one that it was. `of_arrays`: NumPy arrays are passed."""
    try:
        (first or ask)(how.regimes)
        return
    except CheckFailed as failure:
        if failure.status != "fail" or isinstance(failure, OffLimits):
            raise
        together = failure
    _with_note(lambda: ask(()), _axes_were(how))
    views = arrays_were_views if of_arrays else inputs_were_views
    notes = {"no_grad": no_grad_was_on, "views": views, "memory": lambda: "", "parent": parent_was_switched}
    for regime, note in notes.items():
        if regime in how.regimes:
            _with_note(partial(ask, [regime]), note())
    raise together


def _with_note(ask: Callable[[], Returned], note: str) -> Returned:
    """The result of `ask`; a failure gets the note as a last line."""
    try:
        return ask()
    except CheckFailed as failure:
        failure.message += "\n" + note if note else ""
        raise


def _remembered_note(regimes: Collection[str]) -> str:
    """A sentence if only the regime "memory" failed; else empty."""
    if set(regimes) != {"memory"}:
        return ""
    return _(
        "The same tensors were given before, with other values in them: which tensor it is says nothing about its "
        "values."
    )


def moved() -> str:
    """The sentence about a call on another device than that of the calls before."""
    return _(
        "The calls before were on the CPU, this one is on the device `meta`, which has shapes but no values: what is "
        "kept from one call to the next has to fit the device as well."
    )


def _axes_were(how: AskedFunction | AskedModule) -> str:
    """A sentence on the number of leading axes; empty if the contract fixes it."""
    if "axes" not in how.regimes:
        return ""
    return _("The inputs have {count} leading batch dimensions here.").format(count=len(how.axes))


def no_grad_was_on() -> str:
    """The sentence about a call that fails only under `no_grad`."""
    return _("The call was made under `torch.no_grad()`; outside of it the same call is right.")


def inputs_were_views() -> str:
    """The sentence about a call that fails only on views."""
    return _(
        "The inputs are views here, transposed and sliced, which do not lie in memory in one piece; on copies that do "
        "the same call is right. `view` needs memory in one piece, and `reshape` copies if it has to."
    )


def arrays_were_views() -> str:
    """The sentence about a call that fails only on views of NumPy arrays."""
    return _(
        "The arrays are views here, transposed, sliced and reversed, with negative strides; on copies that lie in "
        "memory in one piece the same call is right."
    )


def _long(theirs: Callable[..., Answer], ours: Callable[..., Answer], how: AskedFunction | AskedModule) -> None:
    """Fails unless both agree for many tokens on `meta`, on which a length costs nothing; each is a callable there."""
    inputs = how.inputs(Shapes(), how.axes[:1] if len(how.axes) < len(AXES) else (), LONG)
    expected = ours(*inputs)
    note = _("{count} tokens were given, on the device `meta`, which has shapes but no values.").format(count=LONG)
    _with_note(lambda: agree(theirs(*inputs), expected), note)


def _module(student: Implementation, reference: Implementation, draw: Draw, name: str, how: AskedModule) -> None:
    """Fails unless a module is right in all ways of calling it (`REGIMES`) that apply."""
    made = how.made(LONG if "length" in how.regimes and not how.exact else how.tokens)  # one module does for all
    ours = getattr(reference, name)(*made, **how.unbiased)
    values = draw.parameters(ours.outline())
    ours.load_parameters(values, evaluating=True)

    fresh = partial(_fresh, student, name, made, how, values)
    theirs = fresh()
    inputs = how.inputs(draw, how.axes, how.tokens)
    expected = ours(*inputs)

    def ask(regimes: Collection[str], module: Handle | None = None) -> None:
        """Fails unless a call of the module, or of a new one, in all these regimes is right."""
        module = module or fresh()
        module = module.nested("eval") if "parent" in regimes else module.eval()
        if not how.drops:
            module = module.train()  # which makes no difference, unless something drops if nothing should
        got = module.using(**_options(regimes))(*inputs)
        unmodified(got)
        agree(got, expected, terms=how.terms, note=_remembered_note(regimes) if how.drops else in_training_mode())

    _single_out(ask, how, first=partial(ask, module=theirs))
    if how.drops:  # last: two right ways may draw other numbers, and a mistake should show before that
        _modes(_Dropping(theirs, inputs, expected, how.terms, draw.seed(), fresh))
    else:
        unmodified(theirs(*inputs))  # of a view, which would be copied first, nothing is overwritten
    for module in (theirs, ours):
        module.eval().to(device="meta")
    if "device" in how.regimes:
        agree(theirs(*inputs), on_meta(expected), note=moved())
    if "length" in how.regimes and how.exact:  # it could not be filled: a parameter's shape follows the tokens
        longer = (side._make(name, how.made(LONG), dict(how.unbiased)) for side in (student, reference))
        theirs, ours = (module.eval().to(device="meta") for module in longer)
    if "length" in how.regimes:
        _long(theirs, ours, how)


def _fresh(
    student: Implementation, name: str, made: tuple[Any, ...], how: AskedModule, values: dict[str, Tensor]
) -> Handle:
    """A new module of the student's with these parameters, without a mode set yet."""
    instance = student._make(name, made, dict(how.unbiased))
    instance.load_parameters(values)
    return instance


def in_training_mode() -> str:
    """The sentence about a module without dropout, in which the mode makes no difference."""
    return _("The module is in training mode here. It has no dropout, so that the mode makes no difference.")


def parent_was_switched() -> str:
    """The sentence about a module that only its own `train()` and `eval()` reach."""
    return _(
        "The module is part of another one here, whose `train()` or `eval()` was called. That sets `training` of its "
        "parts and calls their `train(mode)`, but no `eval()` of theirs."
    )


@dataclass(frozen=True)
class _Dropping:
    """A module with dropout, the arguments of its calls, and its answer in eval mode."""

    module: Handle
    inputs: tuple[Any, ...]
    expected: Answer
    terms: int
    seed: int | None
    fresh: Callable[[], Handle]

    def alike(self, first: Answer, second: Answer) -> bool:
        """Whether two answers agree, up to rounding."""
        try:
            with at_once():
                agree(first, second, terms=self.terms)
        except CheckFailed:
            return False
        return True

    def dropped(self, module: Handle, **how: Any) -> bool:
        """Whether the module, called under the seed, gives something else than in eval mode."""
        return not self.alike(module.using(seed=self.seed, **how)(*self.inputs), self.expected)

    def again(self) -> Answer:
        """The answer to one more call under the seed, in the mode that is set."""
        return self.module.using(seed=self.seed)(*self.inputs)


def _modes(those: _Dropping) -> None:
    """Fails unless dropout acts in training mode, inside a parent module, and otherwise in a second call; and not in
    eval mode, set on the parent."""
    first = those.module.nested("train").using(seed=those.seed, no_grad=True)(*those.inputs)
    second = those.module.using(going_on=True, no_grad=True)(*those.inputs)
    evaluated = those.module.nested("eval")(*those.inputs)
    last = those.module.eval().train().using(seed=those.seed)(*those.inputs)
    _drops(those, first, last)
    sentence = _(
        "Two calls in training mode, one right after the other and with no seed between them, dropped the same numbers."
    )
    holds(not those.alike(first, second), sentence, about=second)
    agree(evaluated, those.expected, terms=those.terms, note=parent_was_switched())
    unmodified(evaluated)


def _drops(those: _Dropping, first: Answer, last: Answer) -> None:
    """Fails unless dropout acted at first, in a parent and under `no_grad`, and in the same way after eval mode."""
    not_again = _("After `train()`, a call, `eval()`, a call and `train()` again nothing is dropped any more.")
    if those.alike(first, those.expected):
        module, under_no_grad = those.module, _("Under `torch.no_grad()` nothing is dropped in training mode.")
        holds(not those.dropped(module.nested("train")), under_no_grad)
        sentence = _("Nothing is dropped in training mode.") + "\n" + parent_was_switched()
        holds(not those.dropped(module.train()), sentence)
        holds(not those.dropped(those.fresh().train()), not_again)
        holds(False, _("Nothing is dropped in training mode."))
    if those.alike(last, first):
        return
    sentence = _(
        "Two calls in training mode, each right after `torch.manual_seed` with the same seed, gave different results."
    )
    holds(those.alike(those.again(), last), sentence)
    holds(not those.alike(last, those.expected), not_again)
    sentence = _(
        "After `eval()` and `train()` again, or outside of `torch.no_grad()`, the same seed drops other numbers than "
        "before."
    )
    holds(False, sentence)
