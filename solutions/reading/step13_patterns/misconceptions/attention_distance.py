"""What learners get wrong in `attention_distance`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step13_patterns import reference
from solutions.reading.step13_patterns.misconceptions.distances import apart, positions_apart


@misconception(replaces="attention_distance", caught_by="test_distance")
def distance_with_its_sign(weights: Tensor, offset: int = 0) -> Tensor:
    """Distances to the left and to the right cancel, because the sign was kept.

    How far away a key is does not depend on its side.

    What is missing around i + offset - j?
    """
    return (weights * apart(weights, offset)).sum(dim=-1).mean(dim=-1)


@misconception(replaces="attention_distance", caught_by="test_distance")
def sign_dropped_too_late(weights: Tensor, offset: int = 0) -> Tensor:
    """The absolute value was taken of the mean position's distance, after the sum over the keys.

    A query that looks far to both sides then seems to look at itself.

    On what does the absolute value act: on each distance, or on their sum?
    """
    return (weights * apart(weights, offset)).sum(dim=-1).abs().mean(dim=-1)


@misconception(replaces="attention_distance", caught_by="test_distance")
def distance_summed(weights: Tensor, offset: int = 0) -> Tensor:
    """The distances of the queries were summed, not averaged.

    The sum grows with the length of the text, and two texts cannot be compared.

    How many queries are there, and where do you divide by that?
    """
    return (weights * apart(weights, offset).abs()).sum(dim=(-2, -1))


@misconception(replaces="attention_distance", caught_by="test_distance")
def distance_mean_over_all(weights: Tensor, offset: int = 0) -> Tensor:
    """The mean was taken over the keys as well.

    The weights of a row sum to 1, so their sum is a mean already; only the queries are averaged.

    Which of the two dimensions is summed, and which is averaged?
    """
    return (weights * apart(weights, offset).abs()).mean(dim=(-2, -1))


@misconception(replaces="attention_distance", caught_by="test_distance")
def distance_per_query(weights: Tensor, offset: int = 0) -> Tensor:
    """One distance per query was returned.

    Asked for is one number per head: the mean over the queries.

    Which dimension is still to be averaged?
    """
    return (weights * apart(weights, offset).abs()).sum(dim=-1)


@misconception(replaces="attention_distance", caught_by="test_distance")
def heads_averaged_too(weights: Tensor, offset: int = 0) -> Tensor:
    """Heads, or heads and sequences, were averaged as well.

    Heads differ: one looks at its neighbour, the next one far back. Each has its own number.

    Which dimensions of `(B, H, T_q, T_k)` should be left?
    """
    return reference.attention_distance(weights, offset).mean()


@misconception(replaces="attention_distance", caught_by="test_distance")
def top_key_alone(weights: Tensor, offset: int = 0) -> Tensor:
    """Only the distance of the strongest key was counted.

    Every key counts, each with its weight.

    What happens to your result when the second strongest key moves away?
    """
    far = apart(weights, offset).abs().expand(weights.shape)
    return far.gather(-1, weights.argmax(dim=-1, keepdim=True)).squeeze(-1).to(weights.dtype).mean(dim=-1)


@misconception(replaces="attention_distance", caught_by="test_distance")
def offset_not_used(weights: Tensor, offset: int = 0) -> Tensor:
    """The offset was not used.

    When one new query looks back at many keys, it is not the query at position 0.

    At which position does row 0 stand?
    """
    return reference.attention_distance(weights)


@misconception(replaces="attention_distance", caught_by="test_distance")
def offset_on_the_keys(weights: Tensor, offset: int = 0) -> Tensor:
    """The offset was added to the positions of the keys, or subtracted from those of the queries.

    It is the position of the first query: query i stands at i + offset.

    With 6 keys and one query at offset 5, which key is at distance 0?
    """
    return reference.attention_distance(weights, -offset)


@misconception(replaces="attention_distance", caught_by="test_distance")
def distance_squared(weights: Tensor, offset: int = 0) -> Tensor:
    """The distances were squared.

    Then one far key outweighs many near ones; asked for is |i + offset - j|.

    Which power of the difference is the distance?
    """
    return (weights * apart(weights, offset) ** 2).sum(dim=-1).mean(dim=-1)


@misconception(replaces="attention_distance", caught_by="test_distance")
def distance_as_a_share(weights: Tensor, offset: int = 0) -> Tensor:
    """The distance was divided by the largest possible one.

    Asked for is a number of tokens, not a share of the length.

    What is the distance between neighbours?
    """
    return reference.attention_distance(weights, offset) / max(weights.shape[-1] - 1, 1)


@misconception(replaces="attention_distance", caught_by="test_distance")
def square_only(weights: Tensor, offset: int = 0) -> Tensor:
    """The distances were made for as many keys as there are queries.

    T_q and T_k may differ: one new query looks at all the keys before it.

    Which two sizes does the matrix of distances need?
    """
    length = weights.shape[-2]
    far = (positions_apart(length, weights.device) - offset).abs()
    return (weights * far).sum(dim=-1).mean(dim=-1)


@misconception(replaces="attention_distance", caught_by="test_distance")
def distance_transposed(weights: Tensor, offset: int = 0) -> Tensor:
    """Queries and keys changed places: the mean ran over the keys, and the sum over the queries.

    The weights of a row belong to one query; the mean is over the rows.

    Over which dimension do the weights sum to 1?
    """
    return (weights * apart(weights, offset).abs()).sum(dim=-2).mean(dim=-1)


@misconception(replaces="attention_distance", caught_by="test_dtypes_gradients_and_devices")
def distance_in_float32(weights: Tensor, offset: int = 0) -> Tensor:
    """The distances were made in float32, which the result took over.

    A float32 tensor beside one of bfloat16 makes a float32 result; whole numbers would not.

    Which dtype should the distances have?
    """
    return (weights * apart(weights, offset).abs().float()).sum(dim=-1).mean(dim=-1)


@misconception(replaces="attention_distance", caught_by="test_dtypes_gradients_and_devices")
def positions_on_the_cpu(weights: Tensor, offset: int = 0) -> Tensor:
    """The positions were made on the CPU, wherever the weights are.

    Weights on a GPU cannot be multiplied with them.

    From where can `torch.arange` take the device?
    """
    queries = torch.arange(weights.shape[-2]).unsqueeze(1) + offset
    return (weights * (queries - torch.arange(weights.shape[-1])).abs()).sum(dim=-1).mean(dim=-1)


@another_form(heads_averaged_too)
def heads_of_a_sequence_averaged(weights: Tensor, offset: int = 0) -> Tensor:
    return reference.attention_distance(weights, offset).mean(dim=-1)


@misconception(replaces="attention_distance", caught_by="test_distance")
def four_dimensions_expected(weights: Tensor, offset: int = 0) -> Tensor:
    """The shape was taken apart into four numbers, as if there were always sequences and heads.

    There may be any number of leading dimensions, none included.

    Which two sizes do you need, and from which end can you count them?
    """
    _batch, _heads, _queries, _keys = weights.shape
    return reference.attention_distance(weights, offset)
