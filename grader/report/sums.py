"""Explains a picture's numbers: a row of products, an exponential over a sum of them, a part of a sum, a weighted sum,
the running sums of flash attention.

Found in the numbers alone: a matrix is explained by others of the same picture only if every one of its cells follows
from them. So authors write nothing next to a picture, and what is shown is true of what is drawn.
"""

from __future__ import annotations

import ast
import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product

from grader.report.heat_map import Matrix

MOST_CELLS, MOST_TERMS = 12, 64  # rows or columns of an explained matrix; terms of a sum that is looked for
WIDEST = 4096  # head, the root of its width divides scores
SHOWN = 6  # terms of a sum that are written out
NEAR = 0.006  # pictures hold hundredths
LARGEST = 50.0  # score, of those with an exponential that is written as it is

Rows = list[list[float]]
Cell = tuple[int, int, int]  # panel, row, column


@dataclass(frozen=True)
class Sum:
    """A cell's sum in a line, and the cells that it is made of."""

    text: str
    of: list[Cell]


Explained = Callable[[int, int], Sum]
Sums = Callable[[int, int], Sum | None]  # None for a cell without a number


def explain(panels: Sequence[Matrix], operands: Sequence[Matrix] = ()) -> list[Sums | None]:
    """For each panel, a function of row and column that returns the sum by which the cell follows from the other panels
    and from the `operands`, which are not drawn; None for a panel that doesn't follow from them."""
    every = [_numbers(matrix) for matrix in [*panels, *operands]]

    def of_drawn(index: int, how: Explained) -> Sums:
        """A function of row and column: the Sum that `how` gives for a cell of this panel, without the operands' cells
        in `of`, as these are not drawn; None for a cell without a number."""

        def explained(row: int, column: int) -> Sum | None:
            """The sum of the cell in this row and column; None if the cell has no number."""
            if panels[index][row][column] is None:
                return None
            whole = how(row, column)
            return Sum(whole.text, [cell for cell in whole.of if cell[0] < len(panels)])

        return explained

    found = (_explanation(index, every) for index in range(len(panels)))
    return [of_drawn(index, how) if how else None for index, how in enumerate(found)]


def in_call(call: str) -> list[Matrix]:
    """The matrices among the arguments of a call, written as Python source, and what attention makes of the first two:
    their scaled products, and the softmax of those. Empty if it isn't a call."""
    try:
        called = ast.parse(call.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    arguments = [*called.args, *(named.value for named in called.keywords)] if isinstance(called, ast.Call) else []
    found: list[Matrix] = []
    for argument in arguments:
        with contextlib.suppress(ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            value = ast.literal_eval(argument)
            if _is_matrix(value):
                found.append(value)
    rows = [numbers for matrix in found if (numbers := _numbers(matrix)) is not None]
    if len(rows) > 1 and len(rows[0][0]) == len(rows[1][0]):
        root = math.sqrt(len(rows[0][0]))
        scores = [[_dot(row, other) / root for other in rows[1]] for row in rows[0]]
        weights = [_softmax(line, [1.0] * len(line)) for line in scores]
        found += [[list(line) for line in matrix] for matrix in (scores, weights)]
    return found


def _is_matrix(value: object) -> bool:
    """Whether the value is a list of equally long, non-empty lists of numbers."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(line, list) and line and len(line) == len(value[0]) for line in value)
        and all(isinstance(number, int | float) for line in value for number in line)
    )


def _numbers(matrix: Matrix) -> Rows | None:
    """The matrix as floats, None as minus infinity (hidden before a softmax); None for the whole if it is empty or has
    booleans."""
    if not matrix or not matrix[0] or any(isinstance(value, bool) for line in matrix for value in line):
        return None
    return [[-math.inf if value is None else float(value) for value in line] for line in matrix]


def _explanation(index: int, matrices: Sequence[Rows | None]) -> Explained | None:
    """The explanation of matrix `index` by the others; None if it has none, is too large, or has fewer than three
    different numbers."""
    target = matrices[index]
    if target is None or max(len(target), len(target[0])) > MOST_CELLS or len({*chain(*target)} - {-math.inf}) < 3:
        return None
    others = [(number, rows) for number, rows in enumerate(matrices) if rows is not None and number != index]
    return next(_explanations(target, others), None)


def _explanations(target: Rows, others: Sequence[tuple[int, Rows]]) -> Iterator[Explained]:
    """Yields every way in which a matrix follows from one or two of the others, which come with their index."""
    for first, second in product(others, others):
        yield from _as_products(target, first, second)
    for scores in others:
        if _size(scores[1]) == _size(target):
            yield from _as_shares(target, scores)
            yield from _as_parts(target, scores)
            yield from _as_dropped(target, scores)
    for weights, values in product(others, others):
        yield from _as_weighted(target, weights, values)
        yield from _as_running(target, weights, values)


def _as_products(target: Rows, first: tuple[int, Rows], second: tuple[int, Rows]) -> Iterator[Explained]:
    """Yields the matrix's explanation as scaled products of the rows of two others, each with its index, if it is
    that."""
    (_one, left), (_two, right) = first, second
    if len(left[0]) != len(right[0]) or len(left[0]) > MOST_TERMS or (len(left), len(right)) != _size(target):
        return
    whole = [[_dot(row, other) for other in right] for row in left]
    width = len(left[0])
    for divisor, written in ((1.0, ""), (math.sqrt(width), f"√{width}"), (float(width), f"{width}")):
        if _holds(target, [[value / divisor for value in line] for line in whole]):
            yield _products(target, first, second, written)


def _as_shares(target: Rows, scores: tuple[int, Rows]) -> Iterator[Explained]:
    """Yields the matrix's explanation as a softmax of scores, or as scores over a root, if it is that."""
    rows = scores[1]
    vary = any(
        len({score for score, weight in zip(line, weights, strict=True) if weight > 0}) > 1
        for line, weights in zip(rows, target, strict=True)
    )
    if vary and _holds(target, [_softmax(line, weights) for line, weights in zip(rows, target, strict=True)]):
        yield _exponentials(target, scores)
    pairs = [pair for pair in zip(chain(*rows), chain(*target), strict=True) if math.isfinite(pair[1])]
    score, quotient = max(pairs, key=lambda pair: abs(pair[1]))
    width = round((score / quotient) ** 2) if quotient and math.isfinite(score) else 0
    if 1 < width <= WIDEST and _holds(target, [[score / math.sqrt(width) for score in line] for line in rows]):
        yield _quotients(target, scores, f"√{width}")


def _as_parts(target: Rows, whole: tuple[int, Rows]) -> Iterator[Explained]:
    """Yields the matrix's explanation as parts of the sums of the rows of `whole`, if it is that and the sums are not 1
    already."""
    sums = [sum(line) for line in whole[1]]
    if any(not math.isfinite(total) or total <= 0 for total in sums) or max(sums) - min(sums) < NEAR:
        return
    if _holds(target, [[value / total for value in line] for line, total in zip(whole[1], sums, strict=True)]):
        yield _parts(target, whole)


def _as_dropped(target: Rows, weights: tuple[int, Rows]) -> Iterator[Explained]:
    """Yields the matrix's explanation as weights after dropout, if it is that: entries are zero or scaled up by the
    rate."""
    pairs = [pair for lines in zip(target, weights[1], strict=True) for pair in zip(*lines, strict=True)]
    after, before = (sum(pair[side] for pair in pairs if pair[0] > 0) for side in (0, 1))
    rate = round(20 * (1 - before / after)) / 20 if after > before > 0 else 0.0
    is_cut = any(number == 0 < weight for number, weight in pairs)
    if is_cut and _holds([[number for number, _weight in pairs]], [[number and w / (1 - rate) for number, w in pairs]]):
        yield _dropped(target, weights, rate)


def _as_weighted(target: Rows, weights: tuple[int, Rows], values: tuple[int, Rows]) -> Iterator[Explained]:
    """Yields the matrix's explanation as weighted sums of the rows of `values`, if it is that."""
    (_one, left), (_two, right) = weights, values
    if len(left[0]) == len(right) <= MOST_TERMS and (len(left), len(right[0])) == _size(target):
        columns = list(zip(*right, strict=True))
        if _holds(target, [[_dot(row, column) for column in columns] for row in left]):
            yield _weighted(target, weights, values)


def _as_running(target: Rows, scores: tuple[int, Rows], values: tuple[int, Rows]) -> Iterator[Explained]:
    """Yields the matrix's explanation as what flash attention keeps of each query, if it is that: a maximum, a
    denominator, a context."""
    (_one, rows), (_two, down) = scores, values
    fit = len(rows) == len(target) and len(rows[0]) == len(down) <= MOST_TERMS and len(target[0]) == len(down[0]) + 2
    if fit and _holds(target, [_running_values(line, down) for line in rows]):
        yield _running(target, scores, values)


def _holds(target: Rows, due: Rows) -> bool:
    """True if every cell with a number equals the expected one, up to the digits that a picture keeps."""
    pairs = [pair for lines in zip(target, due, strict=True) for pair in zip(*lines, strict=True)]
    pairs = [pair for pair in pairs if pair[0] > -math.inf]
    return all(math.isfinite(value) and abs(shown - value) <= NEAR + NEAR * abs(value) for shown, value in pairs)


def _products(target: Rows, first: tuple[int, Rows], second: tuple[int, Rows], divisor: str) -> Explained:
    """Explains each cell as a product of two rows, over a `divisor`."""

    def explained(row: int, column: int) -> Sum:
        """The sum of the cell in this row and column."""
        left, right = first[1][row], second[1][column]
        text = products(left, right, divisor, target[row][column])
        return Sum(text, _row(first[0], row, left) + _row(second[0], column, right))

    return explained


def _exponentials(target: Rows, scores: tuple[int, Rows]) -> Explained:
    """Explains each cell as an exponential over the sum of its row's."""

    def explained(row: int, column: int) -> Sum:
        """The sum of the cell in this row and column."""
        line, weights = scores[1][row], target[row]
        seen = [number for number, weight in enumerate(weights) if weight > 0]
        cells = [(scores[0], row, number) for number in (seen if weights[column] else [column])]
        return Sum(share(line, seen, column, weights[column]), cells)

    return explained


def _parts(target: Rows, whole: tuple[int, Rows]) -> Explained:
    """Explains each cell as a part of its row's sum."""

    def explained(row: int, column: int) -> Sum:
        """The sum of the cell in this row and column."""
        line = whole[1][row]
        text = f"{_short(line[column])} / ({_terms(list(map(_short, line)))}) = {_short(target[row][column])}"
        return Sum(text, _row(whole[0], row, line))

    return explained


def _running(target: Rows, scores: tuple[int, Rows], values: tuple[int, Rows]) -> Explained:
    """Explains each cell as a maximum of scores, a sum of exponentials, or their weighted sum over that."""

    def explained(row: int, column: int) -> Sum:
        """The sum of the cell in this row and column."""
        line = scores[1][row]
        seen = [number for number, score in enumerate(line) if score > -math.inf]
        most, result = max(line), _short(target[row][column])
        powers = [f"exp({_short(line[number])} − {_short(most)})" for number in seen]
        cells = [(scores[0], row, number) for number in seen]
        if column == 0:
            return Sum(f"max({', '.join(_short(line[number]) for number in seen)}) = {result}", cells)
        if column == 1:
            return Sum(f"{_terms(powers)} = {result}", cells)
        down = [values[1][number][column - 2] for number in seen]
        text = _terms([f"{power}·{_short(value)}" for power, value in zip(powers, down, strict=True)])
        cells += [(values[0], number, column - 2) for number in seen]
        return Sum(f"({text}) / {_short(_running_values(line, values[1])[1])} = {result}", cells)

    return explained


def _quotients(target: Rows, scores: tuple[int, Rows], root: str) -> Explained:
    """Explains each cell as a score over a root."""

    def explained(row: int, column: int) -> Sum:
        """The sum of the cell in this row and column."""
        text = f"{_short(scores[1][row][column])} / {root} = {_short(target[row][column])}"
        return Sum(text, [(scores[0], row, column)])

    return explained


def _dropped(target: Rows, weights: tuple[int, Rows], rate: float) -> Explained:
    """Explains each cell as a weight after dropout."""

    def explained(row: int, column: int) -> Sum:
        """The sum of the cell in this row and column."""
        return Sum(dropped(weights[1][row][column], rate, target[row][column]), [(weights[0], row, column)])

    return explained


def _weighted(target: Rows, weights: tuple[int, Rows], values: tuple[int, Rows]) -> Explained:
    """Explains each cell as a weighted sum of a column of values."""

    def explained(row: int, column: int) -> Sum:
        """The sum of the cell in this row and column."""
        line, down = weights[1][row], [each[column] for each in values[1]]
        cells = [(values[0], number, column) for number in range(len(down))]
        return Sum(products(line, down, "", target[row][column]), _row(weights[0], row, line) + cells)

    return explained


# --- one sum, in a line ---


def products(left: Sequence[float], right: Sequence[float], divisor: str, result: float) -> str:
    """The text of a score's row of products over `divisor` (text, empty for none), or of the weighted sum of a column
    of values."""
    text = _terms([f"{_short(a)}·{_short(b)}" for a, b in zip(left, right, strict=True)])
    if divisor:
        text = f"({text}) / {divisor} = {_short(_dot(left, right))} / {divisor}"
    return f"{text} = {_short(result)}"


def share(scores: Sequence[float], seen: Sequence[int], column: int, result: float) -> str:
    """The text of a softmax weight: the exponential of the score at `column` over the sum of those at the indices in
    `seen`."""
    if column not in seen:
        return "exp(−∞) = 0"
    most = max(scores[number] for number in seen)
    less = most if most > LARGEST else 0.0  # as a stable softmax does

    def written(number: int) -> str:
        return f"exp({_short(scores[number])}{f' − {_short(less)}' if less else ''})"

    one, every = math.exp(scores[column] - less), sum(math.exp(scores[number] - less) for number in seen)
    terms = _terms([written(number) for number in seen])
    return f"{written(column)} / ({terms}) = {_short(one)} / {_short(every)} = {_short(result)}"


def dropped(weight: float, rate: float, result: float) -> str:
    """The text of a weight after dropout."""
    return f"{_short(weight)} · 0 = 0" if not result else f"{_short(weight)} / (1 − {_short(rate)}) = {_short(result)}"


def _softmax(scores: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The softmax of the scores that have a weight; the others have the weight 0."""
    seen = [score for score, weight in zip(scores, weights, strict=True) if weight > 0]
    if not seen or not all(map(math.isfinite, seen)):
        return [math.nan] * len(scores)
    exponentials = [
        math.exp(score - max(seen)) if weight > 0 else 0.0 for score, weight in zip(scores, weights, strict=True)
    ]
    return [value / sum(exponentials) for value in exponentials]


def _running_values(scores: Sequence[float], values: Rows) -> list[float]:
    """The numbers that flash attention keeps of a query: its largest score, the denominator, and the context."""
    most = max(scores)
    powers = [math.exp(score - most) for score in scores] if most > -math.inf else [math.nan] * len(scores)
    return [most, sum(powers), *(_dot(powers, column) / sum(powers) for column in zip(*values, strict=True))]


def _dot(first: Sequence[float], second: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(first, second, strict=True))


def _row(panel: int, row: int, line: Sequence[float]) -> list[Cell]:
    """The cells of one row of a panel that is as long as `line`."""
    return [(panel, row, column) for column in range(len(line))]


def _size(rows: Rows) -> tuple[int, int]:
    return len(rows), len(rows[0])


def _terms(terms: list[str]) -> str:
    """A sum of terms as text, the middle of a long one left out."""
    return " + ".join(terms if len(terms) <= SHOWN + 1 else [*terms[: SHOWN - 1], "…", terms[-1]])


def _short(value: float) -> str:
    """A number with three digits."""
    return f"{value:.3g}".replace("-", "−").replace("−inf", "−∞")
