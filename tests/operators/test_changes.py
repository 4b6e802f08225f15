"""Operators make Python of every reference, each change with a family and the words of its sentence."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from grader.base import language
from grader.base.paths import step_folders
from grader.operators.changes import WORDS, changes, families
from grader.oracle.live import solutions
from grader.oracle.wrong_ways import Text

ATTEND = """def attend(query: Tensor, key: Tensor, value: Tensor, rate: float = 0.5) -> Tensor:
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    for first in range(0, len(scores), 2):
        scores[first : first + 1] = rate * scores[first : first + 1]
    return scores.masked_fill(~visible, -torch.inf).softmax(dim=-1) @ value
"""


@pytest.mark.thorough
def test_each_change_of_each_reference_is_python_with_all_its_words() -> None:
    made: Counter[str] = Counter()
    for folder in step_folders():
        for name, text in Text(folder).definitions.items():
            for change in changes(name, text, name):
                ast.parse(change.text)
                assert change.text != text
                for line in families()[change.family]:
                    assert set(re.findall(r"{(\w+)}", line)) <= change.words.keys(), change.family
                made[change.family] += 1
    assert made.keys() == families().keys()


@pytest.mark.parametrize(
    ("family", "line"),
    [
        ("part_for_another", "query @ query.transpose(-2, -1)"),
        ("scores_scaled", "((query @ key.transpose(-2, -1)) * (0.5))"),
        ("last_round_left_out", "range(0, len(scores) - 1, 2)"),
        ("rest_left_out", "range(0, len(scores) - 2 + 1, 2)"),
        ("ends_one_late", "scores[first:first + 1 + 1] ="),
        ("mask_turned_round", "masked_fill(visible, -torch.inf)"),
        ("another_dimension", "softmax(dim=-2)"),
        ("division_left_out", "scores = (query @ key.transpose(-2, -1))\n"),
        ("argument_not_used", "= 0.5 * scores"),
    ],
)
def test_a_family_is_made(family: str, line: str) -> None:
    assert any(line in change.text for change in changes("attend", ATTEND, "attend") if change.family == family)


BLOCK = """class Block(nn.Module):
    def forward(self, x: Tensor, often: int) -> tuple[Tensor, Tensor]:
        attended, weights = self.attn(self.ln_1(x))
        x = x + self.dropout(attended)
        for part in self.parts:
            x = part(x)
            self.count += 1
        self.count = self.count * often
        return x / math.sqrt(2.0 * often), weights
"""


@pytest.mark.parametrize(
    ("family", "line"),
    [
        ("part_not_applied", "self.attn(x)"),
        ("part_not_added", "x = (x)\n"),
        ("part_replaces_the_stream", "x = (self.dropout(attended))\n"),
        ("results_exchanged", "return (weights), (x / math.sqrt(2.0 * often))"),
        ("earlier_value_used", "before_it = x\n        x = x + self.dropout(attended)\n"),
        ("earlier_value_used", "x = part(before_it)\n"),
        ("root_left_out", "x / 2.0 * often"),
        ("argument_not_counted", "self.count = (self.count)\n"),
        ("number_scaled", "(2.0 * 0.5) * often"),
        ("step_done_twice", "self.count += 1\n            self.count += 1\n"),
        ("done_after_the_loop", "x = part(x)\n        self.count += 1\n"),
        ("done_in_every_round", "            self.count = self.count * often\n        return"),
    ],
)
def test_a_family_is_made_of_a_module(family: str, line: str) -> None:
    assert any(line in change.text for change in changes("Block", BLOCK, "Block") if change.family == family)


def test_a_mistake_that_hides_a_whole_row_is_made_in_each_way_to_mask() -> None:
    """-inf makes NaN of such a row, a large finite number does not."""
    made = [change.text for change in changes("attend", ATTEND, "attend") if change.family == "another_dimension"]
    for way in ("masked_fill(~visible, -1e9)", "(scores + (~visible).to(scores.dtype) * -1e9)", ".nan_to_num(0.0)"):
        assert any(way in text and "dim=-2" in text for text in made), way


def test_every_sentence_is_there_in_korean() -> None:
    with language.use("ko"):
        for family in families().values():
            for line in family:
                assert language.gettext(line, **dict.fromkeys(WORDS, "x")) != line.format(**dict.fromkeys(WORDS, "x"))


def test_a_generated_mistake_replaces_one_public_name() -> None:
    step = next(step for step in solutions() if step.name == "step10_flash")
    made = step.generated("flash_attention")
    assert {tuple(wrong.replaced) for wrong in made} == {("flash_attention",)}
    assert any(wrong.called == "boundary_counted_in" for wrong in made)  # in a helper of the reference
    assert callable(made[0].replaced["flash_attention"])
    assert step.generated("future") == []  # a helper of the reference's own is no name of the step


KEPT = """class Model(nn.Module):
    def __init__(self, size: int, rate: float) -> None:
        self.size = size

    def forward(self, query: Tensor, key: Tensor, tolerance: float) -> Tensor:
        place = torch.arange(len(key))
        return (query @ key.mT)[(place - 1).abs() <= tolerance]
"""


def test_a_size_that_a_module_keeps_is_a_factor_and_a_modulus() -> None:
    made = [(change.family, change.text, change.words) for change in changes("Model", KEPT, "Model")]
    assert any(family == "counted_from_one" and "% self.size)" in text for family, text, _words in made)
    scaled = [words["factor"] for family, _text, words in made if family == "scores_scaled"]
    assert "√(d / size)" in scaled
    assert "√(d / rate)" not in scaled


def test_what_is_compared_with_a_number_that_is_no_place_is_not_one_place_off() -> None:
    """A tolerance of 1e-5 that is too large by 1 is no mistake of counting."""
    whole = KEPT.replace("tolerance: float", "tolerance: int")
    families_of = [{change.family for change in changes("Model", text, "Model")} for text in (KEPT, whole)]
    assert not families_of[0] & {"compared_one_off", "one_side_narrower"}
    assert families_of[1] >= {"compared_one_off", "one_side_narrower"}


def test_of_a_refusal_only_the_boundary_is_moved() -> None:
    """Another change of it would refuse right arguments, as any code does that raises an error of its own."""
    text = """def split(width: int, heads: int, most: int) -> int:
    if width % heads != 0:
        raise ValueError("not divisible")
    if width > most:
        raise ValueError("too wide")
    return width // heads
"""
    asked = {change.text.split("raise")[0].splitlines()[1].strip() for change in changes("split", text, "split")}
    assert asked == {"if width % heads != 0:", "if False:"}  # which leaves it out
    tested = {change.text.splitlines()[3].strip() for change in changes("split", text, "split")}
    assert {"if width >= most:", "if width > most:"} <= tested and "if width <= most:" not in tested
