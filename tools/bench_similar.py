"""`python -m tools.bench_similar 120 360 1000`: seconds of a processor for the pairs of classes of these sizes, three
steps each. Every student's text is of its own: statements drawn at random stand in the references."""

from __future__ import annotations

import random
import sys
import time

from grader.course import steps as course
from grader.feedback import similarity

POOL = 400  # statements, of which each student writes some


def made(count: int, seed: int = 1) -> similarity.Sources:
    """A class that somebody drew."""
    draw = random.Random(seed)
    steps = [step for step in course.steps() if step.number in (1, 2, 3)]
    texts = {step.name: step.solved() for step in steps}
    statement = "x = [item * {} + {} for item in range({}) if item % {} == {} and item ** {} > {}]"
    pool = [statement.format(*(draw.randint(2, 99) for _hole in range(7))) for _statement in range(POOL)]
    return {
        f"s{number:04}": {name: "\n".join([text, *draw.sample(pool, 8)]) for name, text in texts.items()}
        for number in range(count)
    }


def main() -> None:
    """Measures and prints."""
    stubs = {step.name: step.stub() for step in course.steps() if step.number in (1, 2, 3)}
    for count in map(int, sys.argv[1:] or ("120", "360", "1000")):
        students = made(count)
        similarity.passages.cache_clear()
        began = time.process_time()
        pairs = similarity.pairs(students, stubs)
        groups = similarity.same_files(students, stubs)
        took = time.process_time() - began
        print(f"{count:6} students: {took:6.1f} s, {len(pairs)} pairs, {len(groups)} groups", flush=True)


if __name__ == "__main__":
    main()
