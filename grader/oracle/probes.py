"""Names computed from a wrong answer itself: how it relates to the right one, and whether a call repeats.

A probe looks at a failing check that no known mistake explains. It needs the right answer and the student's, not the
reference, so that it works on a tape too. What it says holds in every failing check of the same name that can be looked
at, and in one more draw.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from msgspec.structs import replace
from torch import Tensor

from grader.calls.call import Call, Outcome
from grader.calls.values import HandleId, leaves, numbers_of
from grader.checks.backends import Backend, Exchange, Oracle
from grader.checks.catalogue import Misconception
from grader.checks.trial import Verdict, run_check
from grader.operators.changes import families
from grader.operators.probes import PROBES

ROOM = 1e-3  # relative: how near two numbers are that are said to be the same
FEWEST = 2  # numbers that must tell
MOST_EXACT, LEAST_EXACT = 5e-9, 1e-5  # of its size: an answer in float64 this far off has the digits of float32
HIGHEST_POWER, MOST_FACTORS, MOST_TIMES = 2, 7, 24  # of a term that a whole number lacks


TERMS = ("term_missing", "term_too_many")
REPEATED = ("random_answer", "answer_depends_on_earlier_calls")
# How an answer relates to the right one: a probe's name, and the words for its sentence, by their name in it.
Relation = tuple[str, tuple[tuple[str, str], ...]]


def relations_in(verdict: Verdict) -> list[Relation] | None:
    """The relations of the student's answer to the right one that hold in all values that differ, the most telling
    first; None if it can't be compared."""
    about, pairs = verdict.failure.about, list(_leaves(verdict))
    each: list[list[Relation]] = []
    for mine, right in pairs:
        if type(mine) is type(right) is int:
            each += [list(_of_whole_numbers(mine, right, about))] if mine != right else []
            continue
        theirs, wanted = _as_numbers(mine), _as_numbers(right)
        if theirs is not None and wanted is not None and _differ(theirs, wanted):
            each.append([*_of_bools(mine, right), *_relations(theirs, wanted, about)])
    if not each:
        return [("digits_lost", ())] if any(_lost_digits(*pair) for pair in pairs) else None
    return [found for found in each[0] if all(found in other for other in each)]


def _leaves(verdict: Verdict) -> Iterator[tuple[Any, Any]]:
    """Yields the values of the refused answer, each with the right one; nothing if they can't be compared."""
    about, due = verdict.failure.about, verdict.failure.due
    if about is None or about.outcome is None or about.outcome.raised or due is None or due.wanted is None or due.part:
        return
    mine, right = list(leaves(about.outcome.value)), list(leaves(due.wanted))
    if len(mine) == len(right):
        yield from zip(mine, right, strict=True)


def _differ(mine: Tensor, right: Tensor) -> bool:
    """True if two tensors can be compared, and differ by more than rounding."""
    if not right.numel() or not mine.numel() or mine.ndim != right.ndim:
        return False
    if not bool(mine.isfinite().all() and right.isfinite().all()):
        return False
    return mine.shape != right.shape or not torch.allclose(mine, right, rtol=ROOM, atol=1e-9, equal_nan=True)


def _lost_digits(mine: object, right: object) -> bool:
    """True if an answer in float64 is about as exact as one in float32."""
    one, other = numbers_of(mine), numbers_of(right)
    if one is None or other is None or one.shape != other.shape or one.is_meta or not one.numel():
        return False
    if one.dtype != torch.float64 or other.dtype != torch.float64 or not bool(one.isfinite().all()):
        return False
    apart = float((one - other).abs().max())
    return MOST_EXACT * _size(other) < apart < LEAST_EXACT * _size(other)


def _as_numbers(leaf: object) -> Tensor | None:
    """A value as a tensor of float64; None if it has no numbers."""
    if isinstance(leaf, float):
        return torch.tensor([float(leaf)], dtype=torch.float64)
    tensor = numbers_of(leaf)
    return None if tensor is None or tensor.device.type == "meta" else tensor.detach().double()


def _relations(mine: Tensor, right: Tensor, about: Exchange | None) -> Iterator[Relation]:
    """Yields the relations between a tensor and the right one, by shape, position, scale and rows."""
    if mine.shape != right.shape:
        if all(0 < own <= due for own, due in zip(mine.shape, right.shape, strict=True)):
            part = right[tuple(slice(0, own) for own in mine.shape)]
            if _same(mine, part) and mine.numel() >= FEWEST:
                yield "rows_short", ()
        yield from _exchanged(mine, right)
        return
    yield from _places(mine, right)
    yield from _scales(mine, right, about)


def _of_whole_numbers(mine: int, right: int, about: Exchange | None) -> Iterator[Relation]:
    """Yields the relations between two whole numbers, which are exact: a sign, a factor, a term."""
    if mine == -right:
        yield "sign_of_the_answer", ()
    sizes = {"2": 2, "3": 3, "4": 4, "10": 10} | (_whole_numbers(about) if about else {})
    for text, size in [each for name, value in sizes.items() for each in ((name, value), (f"({name})²", value**2))]:
        if mine == right * size or mine * size == right:
            yield "answer_scaled", (("factor", text if abs(mine) > abs(right) else f"1/{text}"),)
    if about is not None:
        yield from _terms(right - mine, about)


def _terms(lacking: int, about: Exchange) -> Iterator[Relation]:
    """Yields the terms that a whole number lacks, or has too many if `lacking` is negative: products of a few of the
    call's whole numbers, the simplest first."""
    name = "term_missing" if lacking > 0 else "term_too_many"
    sizes = _whole_numbers(about)
    found: list[tuple[int, int, str]] = []
    for powers in itertools.product(range(HIGHEST_POWER + 1), repeat=min(len(sizes), MOST_FACTORS)):
        each = list(zip(sizes.items(), powers, strict=False))
        product = math.prod(size**power for (_name, size), power in each)
        often, rest = divmod(abs(lacking), product)
        if not rest and 0 < often <= MOST_TIMES:
            shown = [factor + "²" * (power - 1) for (factor, _size), power in each if power]
            text = " · ".join([*([str(often)] if often > 1 or not shown else []), *shown])
            found.append((sum(powers), often, text))
    for _degree, _often, text in sorted(found):
        yield name, (("term", text),)


def _whole_numbers(about: Exchange) -> dict[str, int]:
    """The call's whole numbers above 1, by `args[INDEX]` or keyword."""
    given = {f"args[{index}]": value for index, value in enumerate(about.call.args)} | about.call.kwargs
    return {name: value for name, value in given.items() if type(value) is int and value > 1}


def _same(mine: Tensor, right: Tensor) -> bool:
    """True if two tensors are equal up to rounding."""
    return mine.shape == right.shape and torch.allclose(mine, right, rtol=ROOM, atol=ROOM * _size(right))


def _size(tensor: Tensor) -> float:
    """The largest absolute value; 0 for an empty tensor."""
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def _exchanged(mine: Tensor, right: Tensor) -> Iterator[Relation]:
    """Yields each pair of dimensions that are exchanged, as a relation."""
    for one in range(right.ndim):
        for other in range(one + 1, right.ndim):
            if right.shape[one] > 1 and right.shape[other] > 1 and _same(mine, right.transpose(one, other)):
                yield "answer_transposed", (("dim", str(one)), ("other", str(other)))


def _places(mine: Tensor, right: Tensor) -> Iterator[Relation]:
    """Yields the relations in which the right numbers are in the wrong positions."""
    yield from _exchanged(mine, right)
    if len(right.unique()) <= FEWEST:  # a mask, say, of which much is the same
        square = right.ndim == FEWEST and right.shape[0] == right.shape[1] > 1
        for dim in range(right.ndim) if square else ():
            if _same(mine, right.flip(dim)):
                yield "answer_reversed", (("dim", str(dim)),)
        return
    yield from _left_zero(mine, right)
    for dim in range(right.ndim):
        words, length = (("dim", str(dim)),), right.shape[dim]
        if length < FEWEST + 1:
            continue
        if _same(mine, right.flip(dim)):
            yield "answer_reversed", words
        front, back = (0, length - 1), (1, length - 1)
        if _same(mine.narrow(dim, *front), right.narrow(dim, *back)) or _same(
            mine.narrow(dim, *back), right.narrow(dim, *front)
        ):
            yield "answer_shifted", words
    for dim in range(right.ndim):
        first = right.narrow(dim, 0, 1).expand_as(right)
        if right.shape[dim] < FEWEST or _same(right, first):
            continue
        if _same(mine, first):
            yield "answer_of_the_first", (("dim", str(dim)),)
        if _same(mine, right.mean(dim, keepdim=True).expand_as(right)):
            yield "answer_averaged", (("dim", str(dim)),)


def _left_zero(mine: Tensor, right: Tensor) -> Iterator[Relation]:
    """Yields the dimension along which the last entries are 0, and most others right."""
    for dim in range(right.ndim):
        rows = mine.transpose(0, dim)
        zero = rows.reshape(len(rows), -1).eq(0).all(-1)
        written = len(rows) - int(zero.sum())
        first = _same(mine.narrow(dim, 0, written), right.narrow(dim, 0, written))
        if first and bool(zero[written:].all()) and len(rows) <= 2 * written < 2 * len(rows):
            yield "rows_left_zero", (("dim", str(dim)),)


def _of_bools(mine: object, right: object) -> Iterator[Relation]:
    """Yields the relation in which `any` or `all` over some dimensions stands for each entry."""
    one, other = numbers_of(mine), numbers_of(right)
    if one is None or other is None or one.shape != other.shape or not one.dtype == other.dtype == torch.bool:
        return
    for dims in [*((dim,) for dim in range(other.ndim)), *([tuple(range(other.ndim))] if other.ndim > 1 else [])]:
        either, both = (found(other, dims, keepdim=True) for found in (torch.any, torch.all))
        if not torch.equal(either, both) and any(torch.equal(one, each.expand_as(other)) for each in (either, both)):
            yield "one_answer_for_all", ()


def _scales(mine: Tensor, right: Tensor, about: Exchange | None) -> Iterator[Relation]:
    """Yields the relations by a factor: one of the whole answer, as a formula of sizes, or one of each row."""
    large = right.abs() > ROOM * _size(right)
    if int(large.sum()) == 0 or not bool((mine[~large].abs() <= ROOM * max(_size(mine), 1e-30)).all()):
        return
    ratios = mine[large] / right[large]
    factor = float(ratios.median())
    if factor and bool(((ratios - factor).abs() <= ROOM * abs(factor)).all()):
        if math.isclose(factor, -1.0, rel_tol=ROOM):
            yield "sign_of_the_answer", ()
        else:
            for formula in _formulas(factor, about):
                yield "answer_scaled", (("factor", formula),)
    elif right.ndim > 1 and right.shape[-1] >= FEWEST and len(ratios) > right.shape[-1]:
        scale = (mine * right).sum(-1, keepdim=True) / (right * right).sum(-1, keepdim=True).clamp_min(1e-300)
        if bool((scale > 0).all()) and _same(mine, right * scale):
            yield "rows_scaled", ()


def _formulas(factor: float, about: Exchange | None) -> Iterator[str]:
    """Yields the formulas that give this factor, as text: small numbers, and sizes of the arguments or their roots."""
    sizes = {"2": 2.0, "3": 3.0, "4": 4.0, "10": 10.0} | (_sizes(about) if about else {})
    for name, size in sizes.items():
        for text, value in ((name, size), (f"√({name})", math.sqrt(size)), (f"({name})²", size * size)):
            for shown, result in ((text, value), (f"1/{text}", 1 / value)):
                if value > 1 and math.isclose(factor, result, rel_tol=ROOM):
                    yield shown


def _sizes(about: Exchange) -> dict[str, float]:
    """The sizes of the call's tensors, from the last dimension on, and its whole numbers, by the expression that gives
    them."""
    sizes: dict[str, float] = {}
    for index, argument in enumerate(about.call.args):
        tensor = numbers_of(argument)
        if tensor is not None:
            for dim in range(1, tensor.ndim + 1):
                sizes[f"args[{index}].shape[-{dim}]"] = float(tensor.shape[-dim])
        elif isinstance(argument, int) and not isinstance(argument, bool) and argument > 1:
            sizes[f"args[{index}]"] = float(argument)
    return sizes


class Failing(NamedTuple):
    """A failing check without a diagnosis, and the public name with the answer that failed it."""

    function: str
    check: Callable[..., None]
    verdict: Verdict


def diagnoses(
    failing: list[Failing],
    student: Backend,
    oracle: Oracle,
    seeds: tuple[int, int],
    device: str,
    shows_values: bool,
    arguments: Mapping[str, Sequence[str]] = {},
) -> dict[str, list[Misconception]]:
    """The probes' diagnoses of failing checks, by the check's name; a check of which no probe says anything is missing.
    The second seed is that of one more draw. Unless values are shown, nothing is said that relates an answer to the
    right one. `arguments` are the names of each public name's arguments."""
    said = dict(_accepted(failing))
    failing = [each for each in failing if each.check.__name__ not in said]
    for function in dict.fromkeys(each.function for each in failing):
        related = [each for each in failing if each.function == function]
        check = related[0].check

        def again(check: Callable[..., None] = check) -> Verdict:
            return run_check(check, student, oracle, seed=seeds[1], device=device)

        relation = agreed([each.verdict for each in related], again) if shows_values else None
        if relation is None and (name := unrepeatable(check, student, oracle, seeds[0], device)):
            relation = name, ()
        if relation is not None:
            name = relation[0]
            named = arguments.get(function) or arguments.get(f"{function}.forward") or ()
            words = {"function": function, **{word: _with_names(text, named) for word, text in relation[1]}}
            diagnosis = Misconception(name, "", {function: None}, *PROBES[name], words=words)
            said |= {
                each.check.__name__: [diagnosis]
                for each in related
                if name in REPEATED or holds_in(relation, each.verdict)
            }
    return said


def _accepted(failing: list[Failing]) -> Iterator[tuple[str, list[Misconception]]]:
    """Yields the name of each check in which a wrong argument gave an answer in place of an error, with this
    diagnosis."""
    name = "error_not_raised"
    for each in failing:
        about = each.verdict.failure.about
        if about is None or not about.due_error or about.outcome is None or about.outcome.raised:
            continue
        if name in families():
            words = {"function": each.function}
            yield each.check.__name__, [Misconception(name, "", {each.function: None}, *families()[name], words=words)]


def _with_names(text: str, names: Sequence[str]) -> str:
    """A formula with the names of arguments in place of their indices."""
    return re.sub(r"args\[(\d+)\]", lambda found: dict(enumerate(names)).get(int(found[1]), found[0]), text)


def agreed(verdicts: list[Verdict], again: Callable[[], Verdict | None]) -> Relation | None:
    """The relation that holds in all comparable verdicts: in two at least, or in one and in that of `again`, under
    another draw. None if there is no such relation."""
    every = [found for found in map(relations_in, verdicts) if found is not None]
    if not every:
        return None
    of_a_term = any(name in TERMS for name, _words in every[0])  # two calls may agree in one of several formulas
    if len(every) < FEWEST or of_a_term:
        further = again()
        every += [found for found in [relations_in(further) if further else None] if found is not None]
    return next((each for each in every[0] if all(each in other for other in every)), None)


def holds_in(relation: Relation, verdict: Verdict) -> bool:
    """True if the relation holds in a verdict, or the verdict can't be compared."""
    found = relations_in(verdict)
    return found is None or relation in found


class Twice:
    """A backend that makes each call of the author's code twice, and once more with a seed if the answers differ."""

    def __init__(self, backend: Backend) -> None:
        """Asks this backend."""
        self._backend = backend
        self.differing: dict[str, str] = {}  # by the public name or method called last, what was found

    def begin_check(self, seed: int) -> None:
        """Starts a check on the backend: drops its modules, seeds its random stream."""
        self._backend.begin_check(seed)

    def ask(self, call: Call) -> Outcome:
        """The backend's first answer; notes in `differing` if a second one is another."""
        outcome = self._backend.ask(call)
        values = [*leaves(call.args), *leaves(call.kwargs), *leaves(outcome.value)]
        if not call.is_authors or outcome.raised or any(isinstance(leaf, HandleId) for leaf in values):
            return outcome  # what it may change, as a cache, differs rightly
        if not self._alike(outcome, self._backend.ask(replace(call, first=()))):
            seeded = replace(call, first=(), options=replace(call.options, seed=1))
            seed_tells = self._alike(self._backend.ask(seeded), self._backend.ask(seeded))
            self.differing[call.name] = "random_answer" if seed_tells else "answer_depends_on_earlier_calls"
        return outcome

    @staticmethod
    def _alike(one: Outcome, other: Outcome) -> bool:
        """Whether two answers are the same, as far as they have the same shapes."""
        if one.raised or other.raised:
            return True
        pairs = zip(leaves(one.value), leaves(other.value), strict=False)
        numbers = [(_as_numbers(mine), _as_numbers(theirs)) for mine, theirs in pairs]
        return all(
            mine is None or theirs is None or mine.shape != theirs.shape or torch.allclose(mine, theirs, equal_nan=True)
            for mine, theirs in numbers
        )


def unrepeatable(check: Callable[..., None], student: Backend, oracle: Oracle, seed: int, device: str) -> str:
    """The name of the probe for a call of a failing check that is random, or changed by an earlier call, unlike the
    reference's; empty if there is no such call, or no reference to ask."""
    right = oracle.again()
    if right is None:
        return ""
    of_student, of_reference = Twice(student), Twice(right)
    run_check(check, of_student, oracle, seed=seed, device=device)
    if not of_student.differing:
        return ""
    run_check(check, of_reference, oracle, seed=seed, device=device)
    return next((found for name, found in of_student.differing.items() if name not in of_reference.differing), "")
