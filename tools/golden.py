"""`python -m tools.golden OUT.json`: the verdicts of all references, variants, mistakes and examples under one seed.

`python -m tools.golden BEFORE.json AFTER.json` compares those of two versions and prints what differs: names, texts and
marks, but not the seconds. `--one-in 10` takes a tenth of the variants and mistakes, the same ones each time; `--steps`
those of a few steps, such as `1-12`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from grader.base.paths import ROOT
from grader.course import choice, submissions
from grader.course.submissions import Submission
from grader.judge.grader import Grader
from grader.oracle.live import Solution, solutions
from tests.hostile import PATIENT
from tools.soak import edited, written_as

SEED = 11
EXAMPLES = sorted((ROOT / "examples" / "course" / "submissions").iterdir())
Verdicts = dict[str, Any]


def ways_of(step: Solution, kind: str) -> Iterator[tuple[str, str]]:
    """The names and sources of a step's variants or mistakes, where they need no name that a submission does not
    have."""
    for way in step.variants if kind == "variants" else step.misconceptions:
        (name, made), *more = way.replaced.items()
        written = None
        if kind == "mistakes" and step.wrong_ways is not None:
            written = edited(step.wrong_ways, way.name)
        elif not more:
            written = written_as(made, name, vars(step.reference))
        if written:
            yield way.name, written


def with_way(sources: dict[str, str], step: Solution, way: str) -> Submission:
    """The references, with another way in one step."""
    there = sources | {step.name: f"{step.solved()}\n\n{way}\n"}
    return Submission("other", {name: (f"{name}.py", source) for name, source in there.items()})


def verdicts(grader: Grader, read: Submission, steps: list[str], seed: int = SEED) -> Any:
    """The report as JSON, but for the seconds that steps took."""
    report = grader.grade(read, steps, device="cpu", seed=seed)
    report.steps = [msgspec.structs.replace(step, seconds=0.0) for step in report.steps]
    return msgspec.json.decode(msgspec.json.encode(report))


def every(chosen: list[str], one_in: int) -> Iterator[tuple[str, Submission, list[str]]]:
    """The name of each submission, its files, and the steps to grade."""
    steps = [step for step in solutions() if not step.lacking]
    sources = {step.name: step.solved() for step in steps}
    for step in (step for step in steps if step.name in chosen):
        yield f"{step.name} reference", with_way(sources, step, ""), [step.name]
        for kind in ("variants", "mistakes"):
            for name, way in list(ways_of(step, kind))[::one_in]:
                yield f"{step.name} {kind} {name}", with_way(sources, step, way), [step.name]
    core = [name for name in choice.step_names(None, choice.CORE) if name in chosen]
    for folder in EXAMPLES if core else ():
        yield f"example {folder.name}", submissions.read(folder), core


def differences(before: Verdicts, after: Verdicts) -> Iterator[str]:
    """A line for each submission, and each check of it, that two versions don't judge alike."""
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            yield f"{name}: only {'after' if name in after else 'before'}"
        elif before[name] != after[name]:
            first, second = (
                {(step["name"], check["name"]): check for step in report["steps"] for check in step["checks"]}
                for report in (before[name], after[name])
            )
            checks = sorted(key for key in first.keys() | second.keys() if first.get(key) != second.get(key))
            yield f"{name}: {', '.join(' '.join(key) for key in checks) or 'apart from its checks'}"


def main() -> int:
    """Writes the verdicts, or compares two files of them; 1 if they differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--one-in", type=int, default=1)
    parser.add_argument("--steps")
    given = parser.parse_args()
    if len(given.files) > 1:
        found = list(differences(*(msgspec.json.decode(file.read_bytes()) for file in given.files[:2])))
        print("\n".join(found) or "the same verdicts")
        return 1 if found else 0
    chosen = choice.chosen([given.steps]) if given.steps else choice.step_names()
    with Grader(1, PATIENT) as grader:
        judged = {name: verdicts(grader, read, steps) for name, read, steps in every(chosen, given.one_in)}
    given.files[0].write_bytes(msgspec.json.encode(judged))
    print(f"{len(judged)} submissions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
