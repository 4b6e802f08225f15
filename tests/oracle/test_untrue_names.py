"""What is said of a wrong file is true of it: of what it raises itself, and of rates where values are wrong as well."""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from grader.base import paths
from grader.base.results import CheckResult, StepResult, leading
from grader.course import stubs, submissions
from grader.judge.grader import Grader
from grader.oracle.live import Solution, solutions
from grader.report import terminal
from tests.clinic import Clinic

FOLDERS = {folder.name: folder for folder in paths.SOLUTIONS.glob("*/step*")}


def graded(grader: Grader, number: int, *changes: tuple[str, str], seed: int = 3) -> StepResult:
    """A step's result, its reference changed in some places and the steps before it right."""
    name = next(name for name in FOLDERS if name.startswith(f"step{number:02}_"))
    solved = {
        before: stubs.solved_of((folder / "reference.py").read_text(encoding="utf-8"))
        for before, folder in FOLDERS.items()
        if before <= name
    }
    for right, wrong in changes:
        assert right in solved[name], "the reference has changed"
        solved[name] = solved[name].replace(right, wrong)
    sources = {before: (f"{before}.py", source) for before, source in solved.items()}
    (step,) = grader.grade(submissions.Submission("wrong", sources), [name], device="cpu", seed=seed).steps
    return step


def told(step: StepResult) -> CheckResult:
    check = leading(step.checks)
    assert check is not None
    return check


def named(step: StepResult) -> set[str]:
    return {name for check in step.checks for name in (check.misconception or "").split(" | ") if name}


def test_too_many_tokens_refused_one_too_early(grader: Grader) -> None:
    """It was never given more than block_size tokens: `generate` cuts the text off, and the model refuses what fits."""
    step = graded(grader, 12, ("num_tokens > self.block_size", "num_tokens >= self.block_size"))
    assert "context_not_cropped" not in named(step)
    said = "\n".join(check.message for check in step.checks)
    assert "also when there were more than block_size" not in said
    assert "raise ValueError" in said


def test_a_context_that_is_not_cropped_keeps_its_name(grader: Grader) -> None:
    """Though what is raised on purpose is raised by the model, beneath."""
    step = graded(grader, 12, ("idx[:, -block_size:]  #", "idx  #"))
    assert "context_not_cropped" in named(step)


def test_an_assertion_on_square_images(grader: Grader) -> None:
    """Width and height were not taken for each other."""
    source = next(folder for name, folder in FOLDERS.items() if "step23" in name) / "reference.py"
    line = next(text + "\n" for text in source.read_text(encoding="utf-8").splitlines() if "= images.shape" in text)
    step = graded(grader, 23, (line, line + "    assert images.shape[-1] == images.shape[-2]\n"))
    assert not {name for name in named(step) if "height" in name or "width" in name}, named(step)
    assert any("assert images.shape" in check.message for check in step.checks)


def test_whole_rows_dropped_is_no_repeated_draw(grader: Grader) -> None:
    """Of many rows two calls drop others."""
    whole = "kept = torch.bernoulli(torch.full(x.shape[:-1], 1 - p, device=x.device))[..., None].bool().expand_as(x)"
    step = graded(grader, 5, ("kept = torch.rand(x.shape, device=x.device) >= p", whole))
    said = "\n".join(check.message for check in step.checks)
    assert "depend on each other" in said
    assert "Each call has to draw anew" not in said


@pytest.mark.parametrize(
    ("number", "right", "wrong"),
    [
        (8, "self.W_query(x)", "self.W_value(x)"),
        (21, "self.ln1(x + self.dropout(attended))", "self.dropout(self.ln1(x + attended))"),
    ],
)
def test_no_rates_of_wrong_values(grader: Grader, number: int, right: str, wrong: str) -> None:
    step = graded(grader, number, (right, wrong))
    said = "\n".join(check.message for check in step.checks)
    assert "share of 1.000" not in said


def test_a_norm_in_another_place_is_no_missing_dropout(grader: Grader) -> None:
    """What is dropped there does not show, since the norm is behind the numbers that the check makes alike."""
    embeddings = "self.dropout(self.token_embedding(x) + self.position_embedding(positions))"
    normed = embeddings.replace("(self.token", "(self.ln_final(self.token").replace("(positions))", "(positions)))")
    step = graded(grader, 21, (embeddings, normed), ("return self.ln_final(stream)", "return stream"))
    assert named(step) == {"norm_before_the_blocks"}


def test_room_that_is_left_is_no_head_too_many(grader: Grader) -> None:
    """Each answer of the attention is right: what its cache holds then belongs to the cache."""
    step = graded(
        grader, 27, ("return self.keys[..., :stop, :], self.values[..., :stop, :]", "return self.keys, self.values"),
        (".new_empty(", ".new_zeros("), ("    n_rep, past =", "    n_rep, _all ="),
        ("    if cache is not None:\n", "    past = cache.length if cache else 0\n    if cache:\n"),
    )  # fmt: skip
    assert named(step) == {"empty_places_too"}


def whole_numbers(step: Solution) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions of a step that take whole numbers alone."""
    for name, function in vars(step.reference).items():
        if inspect.isfunction(function) and function.__module__ == step.reference.__name__ and name in step.stub():
            kinds = {argument.annotation for argument in inspect.signature(function).parameters.values()}
            if kinds == {int}:
                yield name, function


def answer(function: Callable[..., Any], numbers: list[int]) -> Any:
    try:
        return function(*numbers)
    except (ValueError, ZeroDivisionError) as error:
        return type(error)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("step", "name", "right"),
    [pytest.param(step, name, right, id=f"{step.name}-{name}") for step in solutions() if not step.lacking
     for name, right in whole_numbers(step)],
)  # fmt: skip
def test_an_argument_that_is_not_looked_at(step: Solution, name: str, right: Callable[..., Any]) -> None:
    """A constant in its place is told only what is true of it: the same for any other numbers."""
    signature = inspect.signature(right)
    clinic = Clinic(step)
    for argument, constant in itertools.product(signature.parameters, (1, 2, 4)):

        def wrong(*given: int, _said: str = argument, _constant: int = constant, **more: int) -> Any:
            bound = signature.bind(*given, **more)
            bound.apply_defaults()
            return right(**{**bound.arguments, _said: _constant})

        for group in clinic.diagnosis({name: wrong}, 1).values():
            for told_of_it in group:
                others = [[random.choice((3, 5, 7, 11, 13)) for _number in signature.parameters] for _draw in range(9)]
                named_way = told_of_it.replaced[name]
                same = [answer(named_way, numbers) == answer(wrong, numbers) for numbers in others]
                assert any(same), (argument, constant, told_of_it.name)


OWN_DROPOUT = """

class Dropout(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training:
            return x
        drawn = torch.rand(x.shape[::-1]).permute(*reversed(range(x.dim())))
        return x * (drawn >= self.p) / (1 - self.p)
"""


@pytest.mark.parametrize(
    ("wrong", "called"),
    [
        ("sum(head(x) for head in self.heads)", "heads_summed"),
        ("torch.cat([head(x) for head in self.heads], dim=1)", "another_dimension"),
    ],
)
def test_a_dropout_of_ones_own_hides_no_name(grader: Grader, wrong: str, called: str) -> None:
    """Random numbers drawn in another order say nothing against a name."""
    names = [name for name in FOLDERS if "step08" in name or "step06" in name or "step07" in name]
    solved = {name: stubs.solved_of((FOLDERS[name] / "reference.py").read_text(encoding="utf-8")) for name in names}
    six, eight = sorted(names)[0], sorted(names)[-1]
    solved[six] = solved[six].replace("nn.Dropout(dropout)", "Dropout(dropout)") + OWN_DROPOUT
    right = next(line.strip() for line in solved[eight].splitlines() if "for head in self.heads]" in line)
    solved[eight] = solved[eight].replace(right, f"return {wrong}")
    sources = {name: (f"{name}.py", source) for name, source in solved.items()}
    (step,) = grader.grade(submissions.Submission("wrong", sources), [eight], device="cpu", seed=3).steps
    assert called in named(step), {check.name: check.misconception for check in step.checks}


@pytest.mark.thorough
def test_the_line_of_parts_accuses_nothing_that_is_only_used(grader: Grader) -> None:
    """The cache is right, and what is wrong is made of it; what the file imports is no part of the step."""
    unwritten = (
        "return 2 * n_layer * batch_size * num_tokens",
        "raise NotImplementedError\n    return 2 * n_layer * num_tokens",
    )
    wrong = ("self.o_proj(attend(query, key, value, cache))", "self.o_proj(attend(query, key, -value, cache))")
    said = terminal.parts(graded(grader, 27, wrong, unwritten))
    assert "KVCache ✓" in said
    assert "GroupedQueryAttention ✗" in said
    assert "kv_cache_bytes: not written yet" in said
    step = graded(
        grader,
        28,
        ("from torch.amp import GradScaler\n", "from typing import Any as Scaler\n"),
        ("GradScaler | None", "Scaler | None"),
        ("    if step < warmup_steps:", "    raise NotImplementedError\n    if step:"),
    )
    said = terminal.parts(step)
    assert "learning_rate: not written yet" in said
    assert "GPT ✗" not in said.replace("CheckpointedGPT", "")
    assert "GradScaler" not in said
