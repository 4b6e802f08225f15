"""`make bench-diagnosis`: how often a shipped misconception is named, and how often a stranger is given a wrong name.

Each misconception is graded in the student's place under many seeds, and so is each pair of them, under a few.
Crossed are the same mistakes beside other code: each misconception with a variant (another one under each seed) in
place of the reference for the public names that it does not replace, and beside a second misconception of another
public name.
Strangers are wrong answers outside the catalogue: each misconception again, with its own name and the pairs that it is
part of taken out of the catalogue that diagnoses it. The same once more with what operators make: how many then have
no name at all, and how much processor time one diagnosis takes, on average and at most.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from statistics import mean

from grader.checks.catalogue import Misconception
from grader.oracle.live import solutions
from grader.sandbox import preload
from tests.clinic import Clinic

SEEDS = 50
PAIR_SEEDS = 3
CROSSED_SEEDS = 10


@dataclass
class NamingCount:
    """How often wrong ways were named: alone, as one of several, or not at all (by name)."""

    alone: int = 0
    among: int = 0
    missed: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, given: list[Misconception]) -> None:
        """Counts one diagnosis of the wrong way of this name."""
        names = {wrong.called for wrong in given}
        self.alone += names == {name}
        self.among += name in names and len(names) > 1
        self.missed[name] += name not in names

    @property
    def total(self) -> int:
        """How many diagnoses were counted."""
        return self.alone + self.among + self.missed.total()


@dataclass
class CrossingCount:
    """What the diagnoses of crossed files said: the mistake, nothing, or something else (by name)."""

    named: int = 0
    unnamed: int = 0
    misnamed: list[str] = field(default_factory=list)

    def add(self, made: Sequence[Misconception], beside: str, groups: Iterable[list[Misconception]]) -> None:
        """Counts the diagnoses of one file, in which the mistakes `made` were made.

        It is named where some check is put down to each of them, misnamed where a check is put down to none of them.
        """
        given = [{part.called for wrong in group for part in wrong.parts or (wrong,)} for group in groups]
        names = {wrong.called for wrong in made}
        if any(not group & names for group in given):
            said = " & ".join("|".join(sorted(group)) for group in given)
            self.misnamed.append(f"{' + '.join(sorted(names))} beside {beside} called {said}")
        elif all(any(name in group for group in given) for name in names):
            self.named += 1
        else:
            self.unnamed += 1

    @property
    def total(self) -> int:
        """How many files were diagnosed."""
        return self.named + self.unnamed + len(self.misnamed)


@dataclass
class Tally:
    """What became of one step's diagnoses."""

    step: str
    seeds: int
    singles: NamingCount = field(default_factory=NamingCount)
    pairs: NamingCount = field(default_factory=NamingCount)
    varied: CrossingCount = field(default_factory=CrossingCount)
    doubled: CrossingCount = field(default_factory=CrossingCount)
    strangers: int = 0
    wrong_names: list[str] = field(default_factory=list)
    nameless: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def tally(name: str, seeds: int) -> Tally:
    """One step's misconceptions, each diagnosed under `seeds` seeds, its pairs, and its strangers."""
    preload.load_torch()
    warnings.simplefilter("ignore")  # of torch's, about what wrong ways do
    step = next(step for step in solutions() if step.name == name)
    result = Tally(step.name, seeds)
    for seed in range(1, seeds + 1):
        clinic = Clinic(step)
        for wrong in step.misconceptions:
            result.singles.add(wrong.called, _first(clinic, wrong, seed))
        for pair in step.pairs if seed <= PAIR_SEEDS else ():
            result.pairs.add(pair.name, _first(clinic, pair, seed))
        for place, wrong in enumerate(step.misconceptions) if seed <= CROSSED_SEEDS else ():
            _cross(result, clinic, wrong, place + seed)
        for wrong in step.misconceptions if seed == 1 else ():
            result.strangers += 1
            given = _first(clinic, wrong, seed, without=wrong)
            if given:
                result.wrong_names.append(f"{wrong.name} called {' | '.join(other.called for other in given)}")
            started = time.process_time()
            if not clinic.diagnosis(wrong.replaced, seed, without=wrong, generated=True):
                result.nameless.append(wrong.name)
            result.seconds.append(time.process_time() - started)
    return result


def _cross(result: Tally, clinic: Clinic, wrong: Misconception, turn: int) -> None:
    """One mistake beside a variant, and beside a second mistake, of public names that it does not replace."""
    step, seed = clinic.step, turn
    variants = [one for one in step.variants if not one.replaced.keys() & wrong.replaced.keys()]
    others = [one for one in step.misconceptions if not one.replaced.keys() & wrong.replaced.keys()]
    if variants:
        variant = variants[turn % len(variants)]
        groups = clinic.diagnosis({**variant.replaced, **wrong.replaced}, seed).values()
        result.varied.add([wrong], variant.name, groups)
    if others:
        other = others[turn % len(others)]
        groups = clinic.diagnosis({**other.replaced, **wrong.replaced}, seed).values()
        result.doubled.add([wrong, other], "another", groups)


def _first(
    clinic: Clinic, wrong: Misconception, seed: int, without: Misconception | None = None
) -> list[Misconception]:
    """What the first failing check with a diagnosis is put down to."""
    return next(iter(clinic.diagnosis(wrong.replaced, seed, without).values()), [])


def main(seeds: int = SEEDS, only: str = "") -> int:
    """Prints one line a step; the exit code says whether every misconception was named."""
    print(
        f"{'step':26}{'wrong ways':>11}{'named':>8}{'among two':>11}{'missed':>8}{'pairs':>7}{'named':>8}"
        f"{'strangers named':>17}{'by operators too: no name, seconds, most':>42}"
        f"{'beside variants: named, unnamed, misnamed':>43}{'two mistakes: the same':>24}"
        f"   ({seeds} seeds)"
    )
    names = [step.name for step in solutions() if only in step.name and not step.lacking]
    processes = multiprocessing.get_context("spawn")  # torch does not survive a fork
    missed = 0
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), processes) as pool:
        for result in pool.map(tally, names, [seeds] * len(names)):
            _show(result)
            missed += result.singles.missed.total()
    return 1 if missed else 0


def _show(result: Tally) -> None:
    singles, pairs = result.singles, result.pairs
    print(
        f"{result.step:26}{singles.total // result.seeds:11}{singles.alone / singles.total:8.1%}"
        f"{singles.among / singles.total:11.1%}{singles.missed.total() / singles.total:8.1%}"
        f"{pairs.total // min(result.seeds, PAIR_SEEDS):7}"
        f"{(pairs.alone + pairs.among) / pairs.total if pairs.total else 1:8.1%}"
        f"{len(result.wrong_names):11} of {result.strangers}"
        f"{len(result.nameless):20} of {result.strangers}, {mean(result.seconds):.2f}, {max(result.seconds):.2f}"
        f"{_shares(result.varied):>43}{_shares(result.doubled):>24}"
    )
    for name, count in [*(+singles.missed).items(), *(+pairs.missed).items()]:
        print(f"    not named: {name} ({count})")
    for line in [*result.wrong_names, *result.varied.misnamed, *result.doubled.misnamed]:
        print(f"    {line}")
    sys.stdout.flush()


def _shares(crossed: CrossingCount) -> str:
    counts = crossed.named, crossed.unnamed, len(crossed.misnamed)
    return " ".join(f"{count / crossed.total:.1%}" for count in counts) if crossed.total else "-"


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS, sys.argv[2] if len(sys.argv) > 2 else ""))
