"""The course proves itself: stubs empty, references right, wrong ways refused, other right ways passed."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from grader.checks.backends import LocalBackend
from grader.checks.catalogue import Misconception, Variant
from grader.checks.trial import Verdict, run_check
from grader.course import stubs
from grader.course.choice import CORE, match_step
from grader.oracle.cache import CachedOracle
from grader.oracle.live import Solution, solutions
from grader.oracle.told import name_of
from grader.sandbox import preload
from tests.clinic import Clinic
from tests.whole import SAMPLED, THOROUGH, WHOLE, sample

# `make prove STEP=4` looks at one step only, also while its neighbours are being written.
preload.meta_below_python()
ONLY = os.environ.get("KIT_ONLY", "")
CHOSEN = match_step(ONLY, [step.name for step in solutions()])
STEPS = [step for step in solutions() if not ONLY or step.name == CHOSEN]
SEEDS = range(1, 21) if WHOLE or ONLY else range(1, 3)
FEW_SEEDS = (1, 2, 3) if WHOLE or ONLY else (1,)
SLOW = 10.0  # seconds: a check of ours takes a hundredth of it, and grading waits for each

WITH_ALL_IT_NEEDS = [step for step in STEPS if not step.lacking]  # of the others the stub is all that can be looked at
# Every form of every mistake in CI and in `make prove`; the same ones of each step in `make test`.
REFUSED = {
    step.name: step.misconceptions if THOROUGH or ONLY else step.misconceptions[::SAMPLED] for step in WITH_ALL_IT_NEEDS
}
TRIED = {
    step.name: step.variants if ONLY else sample(step.variants, 4 if THOROUGH else 8) for step in WITH_ALL_IT_NEEDS
}

NO_TENSORS = ("step14_numpy", "step15_costs", "step28_training")


def of_steps(steps: Sequence[Solution]) -> pytest.MarkDecorator:
    """A test for each of these steps; those that lack what they need are skipped."""
    params = [
        pytest.param(step, marks=pytest.mark.skipif(bool(step.lacking), reason=f"{step.lacking} is not installed"))
        for step in steps
    ]
    return pytest.mark.parametrize("step", params, ids=lambda step: step.name)


every_step = of_steps(STEPS)
# `make test` asks what takes longer of every third step.
some_steps = of_steps(STEPS if THOROUGH or ONLY else STEPS[::3])


@functools.cache
def reference_of(step: Solution) -> CachedOracle:
    """The step's reference, asked once for each seed."""
    return CachedOracle(step.oracle())


def verdicts(step: Solution, seed: int, replaced: dict[str, object] | None = None) -> dict[str, Verdict]:
    """Every check of the step, asked of the reference with some of its names replaced."""
    student = LocalBackend(step.responder(replaced, watched=True))
    return {check.name: run_check(check.function, student, reference_of(step), seed=seed) for check in step.checks}


def refusals(step: Solution, seed: int, replaced: dict[str, object] | None = None) -> dict[str, str]:
    """The message of every check that was not passed."""
    return {
        name: f"{v.status}: {v.message}" for name, v in verdicts(step, seed, replaced).items() if v.status != "pass"
    }


def say(*lines: str) -> None:
    """Fails with these lines and no more: they are for the author of the step."""
    pytest.fail("\n".join(lines), pytrace=False)


def require_full_marks(
    step: Solution, seed: int, replaced: dict[str, object] | None = None, who: str = "reference"
) -> None:
    """Fails with what each refusing check says."""
    refused = refusals(step, seed, replaced)
    if refused:
        said = [f"{name}: {message}" for name, message in refused.items()]
        say(f"The {who} of {step.name} is refused under seed {seed}. Fix it, or the check:", *said)


@every_step
def test_stub_is_untouched(step: Solution) -> None:
    """The generated stub does nothing yet, and compiles."""
    compile(step.stub(), step.name, "exec")
    assert stubs.is_untouched(step.stub())
    assert not stubs.is_untouched(step.solved())


def test_answer_from_a_file_beside_is_no_stub() -> None:
    """A file that imports its answers from another of the learner's is one that was written; imports alone are not."""
    assert not stubs.is_untouched("from exercises.mine import softmax\n")
    assert not stubs.is_untouched("from .mine import *\n")
    assert stubs.is_untouched("import torch\nfrom torch import Tensor, nn\nfrom exercises.step01_scores import *\n")


@every_step
def test_reference_has_full_marks(step: Solution) -> None:
    """The reference passes every check, under twenty seeds where everything is tried."""
    for seed in SEEDS:
        require_full_marks(step, seed)


@some_steps
def test_no_check_is_slow(step: Solution) -> None:
    """A check takes far less than the seconds in which a learner may wait for it."""
    for check in step.checks:
        student, reference = LocalBackend(step.responder()), LocalBackend(step.responder())
        start = time.process_time()
        run_check(check.function, student, reference, seed=1)
        if (seconds := time.process_time() - start) > SLOW:
            say(f"{step.name}, {check.name}: it took {seconds:.0f} s. Give it smaller inputs or fewer cases.")


@pytest.mark.parametrize(
    ("step", "wrong"),
    [
        pytest.param(step, wrong, id=f"{step.name}-{wrong.name}")
        for step in WITH_ALL_IT_NEEDS
        for wrong in REFUSED[step.name]
    ],
)
def test_misconception_is_refused(step: Solution, wrong: Misconception) -> None:
    """A wrong way fails the check that it names, whatever the seed."""
    check = next(check for check in step.checks if check.name == wrong.caught_by)
    student = LocalBackend(step.responder(wrong.replaced, watched=True))
    for seed in FEW_SEEDS:
        verdict = run_check(check.function, student, reference_of(step), seed=seed)
        if verdict.status != "fail":
            others = ", ".join(refusals(step, seed, wrong.replaced)) or "no check"
            say(
                f"{step.name}, {wrong.name}: {check.name} says “{verdict.status}” under seed {seed} and should refuse "
                f"it. It is refused by {others}. Fix the check, or caught_by.",
                verdict.message,
            )


@pytest.mark.parametrize(
    ("step", "other"),
    [
        pytest.param(step, other, id=f"{step.name}-{other.name}")
        for step in WITH_ALL_IT_NEEDS
        for other in TRIED[step.name]
    ],
)
def test_variant_has_full_marks(step: Solution, other: Variant) -> None:
    """Another right way passes every check."""
    for seed in FEW_SEEDS:
        require_full_marks(step, seed, other.replaced, f"variant {other.name}")


def _told_apart(named: dict[str, list[Misconception]], pair: Misconception) -> bool:
    """Whether both parts are named, or one part stops the check of the other before it gets there: a check of what is
    random looks first whether the values without it are right."""
    groups = {check: {wrong.called for wrong in group} for check, group in named.items()}
    one, other = pair.parts
    if {one.called, other.called} <= set().union(*groups.values()):  # both are told, each by a check of its own
        return True
    return any(first.called in groups.get(second.caught_by, ()) for first, second in ((one, other), (other, one)))


@some_steps
def test_pairs_are_named(step: Solution) -> None:
    """Two wrong ways made together are refused by a check of one of them, and a check that meets both names both."""
    clinic = Clinic(step)
    for pair in step.pairs if ONLY else sample(step.pairs, 18):
        named = clinic.diagnosis(pair.replaced, FEW_SEEDS[0])
        assert pair.refused_by & named.keys(), pair.name
        # A check that calls only one of two public names shows only what is wrong in that one.
        given = {check: name_of(group) for check, group in named.items()}
        shown = any(pair.name in [wrong.name for wrong in group] for group in named.values())
        assert shown or _told_apart(named, pair), f"{pair.name}: {given}"
        true = {pair.called, *(part.called for part in pair.parts)}
        # Another form of a part has its name in reports; a part that replaces two names may be named for one of them.
        true |= {wrong.called for wrong in step.misconceptions if wrong.replaced.items() <= pair.replaced.items()}
        assert all(true & {wrong.called for wrong in group} for group in named.values()), f"{pair.name}: {given}"


@some_steps
def test_a_right_answer_is_never_diagnosed(step: Solution) -> None:
    """Nor is another right way."""
    clinic = Clinic(step)
    for replaced in ({}, *(other.replaced for other in step.variants)) if WHOLE or ONLY else ({},):
        assert clinic.diagnosis(replaced, 1) == {}


def nothing(tensor: Tensor) -> Tensor:
    """Zeros of a result's shape."""
    return tensor * 0


def noise(tensor: Tensor) -> Tensor:
    """Random numbers of a result's shape."""
    if not tensor.is_floating_point():
        return tensor.flip(-1) if tensor.dim() else tensor
    return torch.randn_like(tensor) + tensor * 0  # with a gradient


def zeros(tensor: Tensor) -> Tensor:
    """Zeros of a result's shape."""
    return tensor * 0 if tensor.is_floating_point() else torch.zeros_like(tensor)


def ones(tensor: Tensor) -> Tensor:
    """Ones of a result's shape."""
    return tensor * 0 + 1 if tensor.is_floating_point() else torch.ones_like(tensor)


def nonsense(step: Solution, garbled: Callable[[Tensor], Tensor] = nothing) -> dict[str, object]:
    """Every public name of the step, replaced by one that does none of its work: its results `garbled`, or with
    `nothing` its first tensor."""

    def spoilt_leaf(leaf: object) -> object:
        if isinstance(leaf, np.ndarray):
            return garbled(torch.from_numpy(leaf)).numpy()
        if isinstance(leaf, int | float):
            return type(leaf)(garbled(torch.tensor(float(leaf))).item())
        if isinstance(leaf, Iterator):
            return map(spoilt, leaf)
        return garbled(leaf) if isinstance(leaf, Tensor) else None

    def spoilt(result: object) -> object:
        return tree_map(spoilt_leaf, result)

    def first_tensor(*args: object, **kwargs: object) -> object:
        return next((value for value in [*args, *kwargs.values()] if isinstance(value, Tensor)), None)

    def silent_call(function: Callable[..., object]) -> Callable[..., object]:
        if garbled is nothing:
            return first_tensor

        @functools.wraps(function)
        def silent(*args: object, **kwargs: object) -> object:
            return spoilt(function(*args, **kwargs))

        return silent

    def silent(kind: type) -> type:
        if not issubclass(kind, nn.Module):
            idle = {
                name: silent_call(value)
                for name, value in vars(kind).items()
                if not name.startswith("_") and callable(value)
            }
            return type("Silent", (kind,), idle)

        class Silent(kind):  # type: ignore[misc, valid-type]
            def forward(self, *args: Tensor, **kwargs: Tensor) -> object:
                return spoilt(super().forward(*args, **kwargs))

        return Silent

    own = {
        name: value
        for name, value in vars(step.reference).items()
        if getattr(value, "__module__", "") == step.reference.__name__
    }
    return {name: silent(value) if isinstance(value, type) else silent_call(value) for name, value in own.items()}


@some_steps
@pytest.mark.parametrize("garbled", [nothing, noise, zeros, ones])
def test_nonsense_has_no_points(step: Solution, garbled: Callable[[Tensor], Tensor]) -> None:
    """No check gives points to code that does none of the work: not for leaving its input alone, not for refusing."""
    wrong = nonsense(step, garbled)
    passed = [name for name, verdict in verdicts(step, 1, wrong).items() if verdict.status == "pass"]
    if passed:
        say(f"{step.name}: code that does none of the work passes {', '.join(passed)}. Also compare values there.")


def by_heart(step: Solution, known: set[str], learning: bool) -> dict[str, object]:
    """The step's functions and modules: right where `learning`, which adds each call to `known`; else right for the
    known calls alone, and zeros for others."""

    def recited(name: str, function: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(function)
        def answer(*args: object, **kwargs: object) -> object:
            state = [list(arg.state_dict().values()) if isinstance(arg, nn.Module) else arg for arg in args]
            leaves = tree_leaves((name, state, kwargs))
            call = repr([leaf.tolist() if isinstance(leaf, Tensor) and not leaf.is_meta else leaf for leaf in leaves])
            if learning:
                known.add(call)
            result = function(*args, **kwargs)
            if call in known:
                return result
            return tree_map(lambda leaf: zeros(leaf) if isinstance(leaf, Tensor) else leaf, result)

        return answer

    def forward(kind: type) -> type:
        return type(kind.__name__, (kind,), {"forward": recited(kind.__name__, vars(kind)["forward"])})

    own = {
        name: value
        for name, value in vars(step.reference).items()
        if getattr(value, "__module__", "") == step.reference.__name__
    }
    return {
        name: forward(value) if isinstance(value, type) else recited(name, value)
        for name, value in own.items()
        if not isinstance(value, type) or "forward" in vars(value)
    }


@some_steps
def test_a_tape_that_is_replayed_earns_no_drawn_check(step: Solution) -> None:
    """Answers learned under one seed are worth what is the same under every other: the cases by hand."""
    if step.name in NO_TENSORS:
        pytest.skip("its answers are numbers, arrays or training")
    known: set[str] = set()
    refusals(step, 1, by_heart(step, known, learning=True))
    refused = refusals(step, 2, by_heart(step, known, learning=False))
    earned = sum(check.points for check in step.checks if check.name not in refused)
    assert earned <= step.points / 2, [check.name for check in step.checks if check.name not in refused]


@some_steps
def test_missing_the_point_costs_half(step: Solution) -> None:
    """A wrong way that misses the point of the step gets at most half of its points."""
    points = {check.name: check.points for check in step.checks}
    for wrong in step.misconceptions:
        if wrong.misses_the_point:
            refused = refusals(step, 1, wrong.replaced)
            earned = sum(mark for name, mark in points.items() if name not in refused)
            if earned > step.points / 2:
                passed = [name for name in points if name not in refused]
                say(f"{wrong.name} misses the point of {step.name} and gets {earned} of {step.points}:", *passed)


@every_step
def test_catalogue_is_large_enough(step: Solution) -> None:
    """Ten wrong ways or more, and three other right ways."""
    wrong, other = len(step.misconceptions), len(step.variants)
    if wrong < 10 or other < 3:
        say(f"{step.name}: {wrong} misconceptions and {other} variants. Write ten and three or more.")


@pytest.mark.skipif(bool(ONLY), reason="only some steps are looked at")
def test_points_add_up() -> None:
    """The core track is worth 100 points."""
    assert sum(step.points for step in STEPS if step.track == CORE) == 100
