"""Where the number of a cell comes from: found in the numbers alone, and only if every cell follows."""

from __future__ import annotations

import math

import pytest

from grader.base import paths
from grader.oracle import pictures
from grader.report import lesson_page, sums
from grader.report.pictures import Matrices

QUERY = [[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 1.0, 2.0]]
KEY = [[1.0, 1.0, 0.0, 1.0], [2.0, 0.0, 1.0, 0.0], [0.0, 3.0, 1.0, 1.0]]
PRODUCTS = [[2.0, 4.0, 3.0], [3.0, 1.0, 6.0]]
SCALED = [[1.0, 2.0, 1.5], [1.5, 0.5, 3.0]]
WEIGHTS = [[math.exp(value) / sum(map(math.exp, line)) for value in line] for line in SCALED]
VALUE = [[4.0, 0.0], [8.0, 4.0], [0.0, 1.0]]
SEEN = [[1.0, 2.0, -math.inf], [1.5, 0.5, 3.0], [-math.inf] * 3]  # the last query has met no block yet
CONTEXT = [[sum(w * v[c] for w, v in zip(line, VALUE, strict=True)) for c in (0, 1)] for line in WEIGHTS]


def text(how: sums.Sums | None, row: int, column: int) -> str:
    """The sum of a cell."""
    assert how is not None and (told := how(row, column)) is not None
    return told.text


def of(target: list[list[float]], *others: list[list[float]]) -> sums.Sums | None:
    """How a matrix arises from others."""
    return sums.explain([target, *others])[0]


@pytest.mark.parametrize(
    ("target", "others", "told"),
    [
        (PRODUCTS, (QUERY, KEY), "1·2 + 0·0 + 2·1 + 1·0 = 4"),
        (SCALED, (QUERY, KEY), "(1·2 + 0·0 + 2·1 + 1·0) / √4 = 4 / √4 = 2"),
        ([[value / 4 for value in line] for line in PRODUCTS], (QUERY, KEY), "(1·2 + 0·0 + 2·1 + 1·0) / 4 = 4 / 4 = 1"),
        (SCALED, (PRODUCTS,), "4 / √4 = 2"),
        (WEIGHTS, (SCALED,), "exp(2) / (exp(1) + exp(2) + exp(1.5)) = 7.39 / 14.6 = 0.506"),
        ([[0.2, 0.5, 0.3], [0.75, 0.0, 0.25]], ([[2.0, 5.0, 3.0], [6.0, 0.0, 2.0]],), "5 / (2 + 5 + 3) = 0.5"),
        (CONTEXT, (WEIGHTS, VALUE), "0.186·0 + 0.506·4 + 0.307·1 = 2.33"),
    ],
)
def test_a_cell_says_its_sum(target: list[list[float]], others: tuple[list[list[float]], ...], told: str) -> None:
    assert text(of(target, *others), 0, 1) == told


def test_what_dropout_leaves() -> None:
    """Dropped, or divided by 1 − p."""
    how = of([[0.0, 0.675, 0.409], [0.069, 0.0, 1.1]], [[0.186, 0.506, 0.307], [0.052, 0.1, 0.825]])
    assert text(how, 0, 1) == "0.506 / (1 − 0.25) = 0.675"
    assert how and how(1, 1) == sums.Sum("0.1 · 0 = 0", [(1, 1, 1)])


def test_large_scores_are_written_as_a_stable_softmax_takes_them() -> None:
    assert sums.share([900.0, 899.0], [0, 1], 0, 0.731) == (
        "exp(900 − 900) / (exp(900 − 900) + exp(899 − 900)) = 1 / 1.37 = 0.731"
    )


def test_one_wrong_cell_is_not_explained() -> None:
    """Nor anything else that only looks alike: a mask, one value, another size."""
    wrong = [line[:] for line in PRODUCTS]
    wrong[1][2] += 0.1
    assert of(wrong, QUERY, KEY) is None
    assert of([[0.25] * 4] * 4, [[1.0] * 4] * 4) is None
    assert sums.explain([[[True, False], [True, True]]], [QUERY, KEY]) == [None]
    assert of(PRODUCTS, QUERY) is None


def test_hidden_scores_are_no_part_of_it() -> None:
    """The weights of a masked softmax are those of what is seen."""
    scores = [[1.0, 2.0, 9.0], [2.0, 0.5, 1.0], [0.1, 0.2, 0.3]]
    weights = []
    for row, line in enumerate(scores):
        whole = sum(math.exp(score) for score in line[: row + 1])
        weights.append([math.exp(score) / whole if column <= row else 0.0 for column, score in enumerate(line)])
    how = of(weights, scores)
    assert how and (told := how(1, 0)) and told.of == [(1, 1, 0), (1, 1, 1)]
    assert "exp(1)" not in told.text
    assert text(how, 0, 2) == "exp(−∞) = 0"


def test_what_flash_attention_keeps() -> None:
    """A maximum, a denominator and a context of the keys that were seen; a query that saw none has no sums."""
    kept: list[list[float | bool | None]] = []
    for line in SEEN[:2]:
        powers = [math.exp(score - max(line)) for score in line]
        down = [sum(p * v[c] for p, v in zip(powers, VALUE, strict=True)) / sum(powers) for c in (0, 1)]
        kept.append([max(line), sum(powers), *down])
    shown = [[score if score > -math.inf else None for score in line] for line in SEEN]
    how, of_scores = sums.explain([[*kept, [None] * 4], shown], [VALUE])
    assert text(how, 0, 0) == "max(1, 2) = 2"
    assert text(how, 1, 1) == "exp(1.5 − 3) + exp(0.5 − 3) + exp(3 − 3) = 1.31"
    assert text(how, 0, 3) == "(exp(1 − 2)·0 + exp(2 − 2)·4) / 1.37 = 2.92"
    assert how and how(2, 0) is None and of_scores is None
    kept[0][1] = 1.4
    assert sums.explain([[*kept, [None] * 4], shown], [VALUE])[0] is None


def test_what_a_message_writes_out() -> None:
    """The matrices among the arguments, and what attention makes of the first two; a name of a tensor is none."""
    found = sums.in_call(f"attention({QUERY}, key={KEY}, value=float32 (3, 2), dim=-1)")
    assert found[:2] == [QUERY, KEY]
    assert of(found[2], QUERY, KEY) is not None
    assert of([list(line) for line in WEIGHTS], *found) is not None
    for odd in ("", "f(", "f([[1, 2], [3]])", "[[1]]", "__import__('os')", "f(" + "[" * 500 + "]" * 500 + ")"):
        assert sums.in_call(odd) == []


def test_a_picture_that_explains_nothing_has_no_buttons() -> None:
    """And one that does can be pressed, cell by cell, with one stop of the tabulator a matrix."""
    alone = lesson_page.figure(Matrices(panels=[("scores", PRODUCTS)]), "One.")
    assert "data-sum" not in alone and 'class="sum"' not in alone
    both = lesson_page.figure(Matrices(panels=[("query", QUERY), ("key", KEY), ("scores", PRODUCTS)]), "Three.")
    assert both.count("data-sum") == 6
    assert both.count('tabindex="0"') == 1
    assert 'class="sum"' in both
    behind = lesson_page.figure(Matrices(panels=[("scores", PRODUCTS)], behind=[QUERY, KEY]), "One.")
    assert behind.count("data-sum") == 6 == behind.count('data-of=""')  # what is not drawn can't be lit
    assert 'tabindex="0"' not in both.split("</svg>")[0]  # of the query
    hidden = lesson_page.figure(
        Matrices(panels=[("scores", [[None, 4.0, 3.0], [3.0, 1.0, 6.0]])], behind=[QUERY, KEY]), ""
    )
    assert hidden.count("data-sum") == 5 and hidden.index('tabindex="0"') < hidden.index('tabindex="-1"')


@pytest.mark.parametrize("number", [3, 4, 6, 8, 14, 20, 24, 26])
def test_weights_in_lessons_open_their_sum(number: int) -> None:
    """Their scores are behind them, or next to them."""
    folder = next(folder for folder in paths.step_folders() if folder.name.startswith(f"step{number:02d}"))
    shown = [lesson_page.figure(picture, "") for picture in pictures.pictures(folder).values()]
    assert any('data-sum="exp(' in figure for figure in shown)


def test_running_sums_and_likeness_open_theirs() -> None:
    """Flash attention's and linear attention's numbers, with a row of each that is no softmax."""
    folders = {folder.name[:6]: folder for folder in paths.step_folders()}
    running = lesson_page.figure(pictures.pictures(folders["step10"])["running"], "")
    assert all(f'data-sum="{said}' in running for said in ("max(", "exp(", "(exp(")) and "/ √2 = " in running
    flat = lesson_page.figure(pictures.pictures(folders["step26"])["sharpness"], "")
    assert flat.count('data-sum="') == 2 * flat.count('data-sum="exp(')
