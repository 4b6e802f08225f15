"""What learners get wrong in `relative_positions`, each with the check that catches it."""

from collections.abc import Callable

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.positions.step17_relative import reference
from solutions.positions.step17_relative.misconceptions.pieces import Device, Names, Pieces, distances

POSITIONS = ("relative_positions", "RelativeSelfAttention")


def everywhere(rows: Callable[..., Tensor]) -> Names:
    """Both names of a file whose attention uses these relative positions."""
    module = type("RelativeSelfAttention", (Pieces,), {"rows": staticmethod(rows)})
    return {"relative_positions": rows, "RelativeSelfAttention": module}


def in_the_module_alone(wrong: Callable[[], Names]) -> Callable[..., object]:
    """The same mistake in a module that makes its own index, beside a function that is right."""
    module = wrong()["RelativeSelfAttention"]
    module.__doc__ = wrong.__doc__  # type: ignore[attr-defined]  # a class has one
    return misconception(replaces="RelativeSelfAttention", caught_by="test_agrees_with_fresh_draws")(module)  # type: ignore[arg-type]


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def query_minus_key() -> Names:
    """The distance was i - j, the query's position minus the key's.

    Before and after change places then. Shaw counts from the query: a key further on has a positive distance.

    For query 0 and key 1, which sign does j - i have, and which one has your distance?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return reference.relative_positions(num_tokens, max_distance, device).T

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def not_clipped() -> Names:
    """The distances were not clipped.

    The table has only 2k + 1 rows. Distances beyond k find none there, or leave it on the other side.

    How far apart are the first and the last of many tokens, and how many rows has the table?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device) + max_distance

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def not_shifted() -> Names:
    """The distances from -k to k were not shifted by k.

    A table has no row of a negative number: row 0 belongs to the distance -k.

    Which number has to be added to -k so that it becomes 0?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device).clamp(-max_distance, max_distance)

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def clipped_after_the_shift() -> Names:
    """The distances were shifted first, and then clipped at k.

    Everything beyond row k falls on row k then: keys after the query cannot be told apart.

    Between which two numbers do the distances lie once k was added to them?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return (distances(num_tokens, device) + max_distance).clamp(-max_distance, max_distance)

    return everywhere(rows)


@another_form(clipped_after_the_shift)
def clipped_to_the_lower_half() -> Names:
    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return (distances(num_tokens, device) + max_distance).clamp(0, max_distance)

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def clipped_on_one_side() -> Names:
    """The distances were clipped on one side only: those before, or those after the query.

    On the other side they leave the table, which has 2k + 1 rows.

    How many bounds has your `clamp`, and how many ends has the table?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device).clamp(max=max_distance) + max_distance

    return everywhere(rows)


@another_form(clipped_on_one_side)
def clipped_before_alone() -> Names:
    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device).clamp(min=-max_distance) + max_distance

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def shifted_one_too_far() -> Names:
    """The distances were shifted by k + 1 or k - 1, and not by k.

    Row 0 belongs to the distance -k, row k to a token's distance to itself, and row 2k to the distance k.

    Which row does your code give to the distance -k?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device).clamp(-max_distance, max_distance) + max_distance + 1

    return everywhere(rows)


@another_form(shifted_one_too_far)
def shifted_one_too_little() -> Names:
    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device).clamp(-max_distance, max_distance) + max_distance - 1

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def left_and_right_alike() -> Names:
    """The distance lost its sign, and then k was added: a key before and a key after shared a vector.

    Whether a token stands before or after another one is half of what a relative position says.

    Which of your operations takes the sign away?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device).abs().clamp(max=max_distance) + max_distance

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand", misses_the_point=True)
def distance_without_sign() -> Names:
    """The distance without its sign, from 0 to k, was the row.

    A key before and a key after share a vector then, and the upper half of the table is never used.

    Which of your operations takes the sign away?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device).abs().clamp(max=max_distance)

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def clipped_one_too_early() -> Names:
    """The distances were clipped at k - 1, one below the largest one.

    Distances up to k have a vector of their own.

    Is the largest distance that stays what it is k, or one less?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        most = max(max_distance - 1, 0)
        return distances(num_tokens, device).clamp(-most, most) + max_distance

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def upper_side_one_short() -> Names:
    """The distances were clipped to -k to k - 1.

    Distances have no end that is left out, unlike ranges in Python: both -k and k have a row.

    How many rows are there from -k to k, 0 included?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device).clamp(-max_distance, max(max_distance - 1, 0)) + max_distance

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand")
def shifted_by_the_tokens() -> Names:
    """The distances were shifted by T - 1 and not by k.

    That would fit a table with a row for every distance there can be. This one has 2k + 1 rows.

    Which row of the table belongs to a token's distance to itself?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        return distances(num_tokens, device).clamp(-max_distance, max_distance) + num_tokens - 1

    return everywhere(rows)


@misconception(replaces=POSITIONS, caught_by="test_positions_by_hand", misses_the_point=True)
def position_of_the_key() -> Names:
    """The row was chosen by the position of the key alone.

    That is an absolute position. A relative one depends on the query, too.

    Are the rows of your T × T matrix all alike?
    """

    def rows(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
        position = torch.arange(num_tokens, device=device).clamp(max=2 * max_distance)
        return position.expand(num_tokens, num_tokens)

    return everywhere(rows)


@misconception(replaces="relative_positions", caught_by="test_positions_by_hand")
def positions_as_floats(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
    """The relative positions were floating-point numbers.

    They count the rows of a table, and an index is a whole number: int64.

    Which of your calls makes floats of whole numbers?
    """
    return reference.relative_positions(num_tokens, max_distance, device).float()


@misconception(replaces="relative_positions", caught_by="test_positions_by_hand")
def positions_as_int32(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
    """The relative positions were int32.

    torch's own dtype for an index is int64, and that is asked for.

    Which dtype does `torch.arange` have if you say nothing?
    """
    return reference.relative_positions(num_tokens, max_distance, device).int()


@misconception(replaces="relative_positions", caught_by="test_positions_on_their_device")
def positions_on_the_cpu(num_tokens: int, max_distance: int, device: Device = None) -> Tensor:
    """The relative positions were made on the CPU, whatever `device` said.

    A table on a GPU can be asked for them only there.

    Which of your calls that make new tensors take a `device`?
    """
    return reference.relative_positions(num_tokens, max_distance)


# A module that makes its own index, wrong beside a function that is right.
query_minus_key_in_the_module = in_the_module_alone(query_minus_key)
not_clipped_in_the_module = in_the_module_alone(not_clipped)
alike_in_the_module = in_the_module_alone(left_and_right_alike)
not_shifted_in_the_module = in_the_module_alone(not_shifted)
