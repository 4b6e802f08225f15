"""Step 1: is every query dotted with every key, and is the scale the root of the width?"""

import torch

from grader.checks.assertions import GUARDED, Draw, Implementation, agree, points, unmodified
from grader.checks.regimes import AskedFunction, every_regime

OFF_LIMITS: dict[str, tuple[str, ...]] = {
    "dot_product_scores": ("scaled_dot_product_attention", "multi_head_attention"),
    "scaled_scores": ("scaled_dot_product_attention", "multi_head_attention"),
}

# Worked out in the lesson: two queries and three keys of width 4.
QUERY = torch.tensor([[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 1.0, 2.0]])
KEY = torch.tensor([[1.0, 1.0, 0.0, 1.0], [2.0, 0.0, 1.0, 0.0], [0.0, 3.0, 1.0, 1.0]])
SCORES = torch.tensor([[2.0, 4.0, 3.0], [3.0, 1.0, 6.0]])
SCALED = torch.tensor([[1.0, 2.0, 1.5], [1.5, 0.5, 3.0]])

# A loop over all pairs is right and slow: few queries meet the many keys.
PAIR = AskedFunction(
    lambda draw, leading, tokens: (draw.normal(*leading, 2, 4), draw.normal(*leading, tokens, 4)), terms=4, long_terms=4
)
CALLS = {"dot_product_scores": PAIR, "scaled_scores": PAIR}


@points(1)
def test_scores_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Every query is dotted with every key."""
    agree(student.dot_product_scores(QUERY, KEY), SCORES, terms=4)


@points(1)
def test_scaled_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The scaled scores are the scores divided by the root of d."""
    agree(student.scaled_scores(QUERY, KEY), SCALED, terms=4)


@points(1)
def test_batches(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Each batch entry is scored by itself, for any batch dimensions."""
    # The last scores are in the tens of thousands, of more tokens than a fixed length might hold.
    for leading, num_queries, num_keys, d, size in [
        ((), 1, 1, 1, 1),
        ((), 4, 3, 5, 1),
        ((9,), 2, 5, 5, 1),
        ((2, 3), 4, 1, 6, 1),
        ((2, 1, 3), 66, 4, 3, 300),
    ]:
        query = draw.normal(*leading, num_queries, d, scale=size)
        key = draw.normal(*leading, num_keys, d, scale=size)
        agree(student.dot_product_scores(query, key), reference.dot_product_scores(query, key), terms=d)


@points(1)
def test_widths(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The scale follows the width d and nothing else."""
    for leading, num_queries, num_keys, d, size in [
        ((), 4, 5, 3, 1),
        ((), 1, 3, 2, 1),
        ((3,), 4, 7, 7, 1),
        ((2, 3), 5, 4, 130, 1),
        ((2, 1, 3), 2, 66, 3, 300),
    ]:
        query = draw.normal(*leading, num_queries, d, scale=size)
        key = draw.normal(*leading, num_keys, d, scale=size)
        agree(student.scaled_scores(query, key), reference.scaled_scores(query, key), terms=d)


@points(0.25)
def test_gradients(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The gradient reaches every query and every key."""
    theirs, ours = student.using(gradients=True), reference.using(gradients=True)
    for leading in [(), (2,)]:
        query, key = draw.normal(*leading, 3, 5), draw.normal(*leading, 2, 5)
        agree(theirs.dot_product_scores(query, key), ours.dot_product_scores(query, key), terms=5)
        agree(theirs.scaled_scores(query, key), ours.scaled_scores(query, key), terms=5)


@points(0.5)
def test_dtypes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The scores keep the dtype of the inputs, and its accuracy."""
    # The width is 4, so that a root taken in float32 is exact and passes in float64 too.
    for dtype in (torch.float64, torch.bfloat16):
        query, key = draw.normal(2, 3, 4, dtype=dtype), draw.normal(2, 5, 4, dtype=dtype)
        scores, scaled = student.dot_product_scores(query, key), student.scaled_scores(query, key)
        agree(scores, reference.dot_product_scores(query, key), terms=4)
        # A guard of 1e-10 beside the root is right.
        agree(scaled, reference.scaled_scores(query, key), terms=GUARDED if dtype == torch.float64 else 4)
        # A conversion to the dtype that is there already makes no copy to write over.
        unmodified(scores)
        unmodified(scaled)


@points(0.5)
def test_device(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The scores are on the device of the inputs."""
    query, key = draw.normal(2, 3, 5), draw.normal(2, 4, 5)
    agree(student.dot_product_scores(query, key), reference.dot_product_scores(query, key), terms=5)
    agree(student.scaled_scores(query, key), reference.scaled_scores(query, key), terms=5)
    theirs, ours = student.using(device="meta"), reference.using(device="meta")
    agree(theirs.dot_product_scores(query, key), ours.dot_product_scores(query, key))
    agree(theirs.scaled_scores(query, key), ours.scaled_scores(query, key))


@points(0.25)
def test_inputs_unmodified(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The query and the key are left as they were."""
    query, key = draw.normal(2, 3, 5), draw.normal(2, 4, 5)
    scores, scaled = student.dot_product_scores(query, key), student.scaled_scores(query, key)
    unmodified(scores)
    unmodified(scaled)
    agree(scores, reference.dot_product_scores(query, key), terms=5)
    agree(scaled, reference.scaled_scores(query, key), terms=5)


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, long inputs and `no_grad` change nothing, and results stay as they are."""
    every_regime(student, reference, draw, CALLS)
