"""What learners get wrong in step 13, each with the check that catches it."""

import math

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.reading.step13_patterns import reference

Device = torch.device | str | None


def positions_apart(num_tokens: int, device: Device = None) -> Tensor:
    """How far each key (column) lies from each query (row), later ones positive: `(T, T)`."""
    positions = torch.arange(num_tokens, device=device)
    return positions - positions.unsqueeze(1)


# --- the patterns -----------------------------------------------------------------------------------------------------


@misconception(replaces="attention_diagonal", caught_by="test_fixed_patterns_by_hand")
def diagonal_from_the_other_corner(num_tokens: int, device: Device = None) -> Tensor:
    """The diagonal runs from the upper right corner to the lower left one.

    Then the first token attends to the last. Row i is query i and column j is key j, both counted from 0.

    At which columns of row 0 and row 1 does a token find itself?
    """
    return torch.eye(num_tokens, device=device).flip(1)


@misconception(replaces="attention_diagonal", caught_by="test_fixed_patterns_by_hand")
def previous_token(num_tokens: int, device: Device = None) -> Tensor:
    """Each token attends to the one before it, and the first token to itself.

    That is a pattern of real heads too, but the diagonal is the own token.

    Which column of row 2 should hold the 1?
    """
    keys = (torch.arange(num_tokens, device=device) - 1).clamp(min=0)
    return torch.eye(num_tokens, device=device)[keys]


@misconception(replaces="attention_uniform", caught_by="test_fixed_patterns_by_hand")
def ones_not_divided(num_tokens: int, device: Device = None) -> Tensor:
    """Every weight is 1.

    The weights of a query are shares: those of a row sum to 1, not to the number of tokens.

    How large is each share when T keys get the same?
    """
    return torch.ones(num_tokens, num_tokens, device=device)


@misconception(replaces="attention_uniform", caught_by="test_fixed_patterns_by_hand")
def divided_by_all_pairs(num_tokens: int, device: Device = None) -> Tensor:
    """Every weight is 1 / T², so that the whole matrix sums to 1.

    Each query has a weight of 1 to give away for itself: it is each row that sums to 1.

    How many keys share the weight of one query?
    """
    return torch.full((num_tokens, num_tokens), 1 / num_tokens**2, device=device)


@misconception(replaces="attention_first", caught_by="test_fixed_patterns_by_hand")
def first_row(num_tokens: int, device: Device = None) -> Tensor:
    """The first row is filled with ones, not the first column.

    Rows are queries. The first row full of ones says that the first token attends to every token, with a total of T.

    Every query attends to the first key: which index stays the same all the way down?
    """
    weights = torch.zeros(num_tokens, num_tokens, device=device)
    weights[0] = 1.0
    return weights


@misconception(replaces="attention_first", caught_by="test_fixed_patterns_by_hand")
def only_the_first_query(num_tokens: int, device: Device = None) -> Tensor:
    """Only the first query attends to the first token; the other rows are empty.

    Every query gives away a weight of 1, and here every one of them gives it to the first key.

    What do rows 1 and 2 sum to?
    """
    weights = torch.zeros(num_tokens, num_tokens, device=device)
    weights[0, 0] = 1.0
    return weights


@misconception(replaces="attention_first", caught_by="test_fixed_patterns_by_hand")
def last_token_attended(num_tokens: int, device: Device = None) -> Tensor:
    """Each token attends to the last token, or the columns are counted from 1.

    Index 0 is the first key.

    Which column holds the ones when you print the matrix for three tokens?
    """
    weights = torch.zeros(num_tokens, num_tokens, device=device)
    weights[:, -1] = 1.0
    return weights


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def causal_divided_by_all_tokens(num_tokens: int, device: Device = None) -> Tensor:
    """Every causal weight is 1 / T.

    Query i sees only i + 1 keys, so the first rows sum to less than 1.

    How many keys does the first token see, and what is its weight on each?
    """
    return torch.ones(num_tokens, num_tokens, device=device).tril() / num_tokens


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def later_tokens(num_tokens: int, device: Device = None) -> Tensor:
    """Each token attends to itself and to every later one.

    Causal means that nothing comes from the future. Right of the diagonal the key comes after the query.

    Which triangle stays when the first token sees only itself?
    """
    return torch.ones(num_tokens, num_tokens, device=device).tril().flip(0, 1) / torch.arange(
        num_tokens, 0, -1, device=device
    ).unsqueeze(1)


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def causal_not_divided(num_tokens: int, device: Device = None) -> Tensor:
    """Every visible weight is 1: that is the mask, not the weights.

    A mask says what may be seen. Weights say how much, and those of a row sum to 1.

    By what does each row have to be divided?
    """
    return torch.ones(num_tokens, num_tokens, device=device).tril()


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def causal_divided_by_columns(num_tokens: int, device: Device = None) -> Tensor:
    """Each weight was divided by the sum of its column.

    A column holds what all queries give to one key. The rows should sum to 1, and that takes one divisor per row.

    Over which dimension does your sum run?
    """
    visible = torch.ones(num_tokens, num_tokens, device=device).tril()
    return visible / visible.sum(dim=0)


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def causal_row_sums_lie_flat(num_tokens: int, device: Device = None) -> Tensor:
    """The row sums, of shape `(T,)`, were divided into the columns.

    Broadcasting lines up the last dimensions, so column j was divided by the sum of row j.

    What does `keepdim=True` do to the shape of the sums?
    """
    visible = torch.ones(num_tokens, num_tokens, device=device).tril()
    return visible / visible.sum(dim=-1)


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def softmax_of_the_mask(num_tokens: int, device: Device = None) -> Tensor:
    """The softmax was taken of the ones and zeros themselves.

    A score of 0 is an ordinary score: exp(0) is 1, so what should be hidden still gets weight.

    Which score has an exponential of exactly 0?
    """
    return torch.ones(num_tokens, num_tokens, device=device).tril().softmax(dim=-1)


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def own_token_left_out(num_tokens: int, device: Device = None) -> Tensor:
    """The own token was left out of the causal pattern.

    Each token attends to itself and to every earlier one. Without itself the first token has nothing to attend to.

    From which diagonal on is your triangle filled?
    """
    visible = torch.ones(num_tokens, num_tokens, device=device).tril(-1)
    return visible / visible.sum(dim=-1, keepdim=True).clamp(min=1)


@misconception(replaces="attention_causal", caught_by="test_causal_by_hand")
def own_token_left_out_but_for_the_first(num_tokens: int, device: Device = None) -> Tensor:
    """The own token was left out of the causal pattern, and only the first token attends to itself.

    Every token attends to itself too: the second one has two tokens to attend to, and not one.

    How many weights does row i have that are not 0?
    """
    visible = torch.ones(num_tokens, num_tokens, device=device).tril(-1)
    visible[0, 0] = 1.0
    return visible / visible.sum(dim=-1, keepdim=True)


@misconception(replaces="attention_local", caught_by="test_local_by_hand")
def divided_by_the_window(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """Every weight is 1 / (2 · radius + 1), at the edges too.

    The first and the last tokens have neighbours on one side only, so their rows sum to less than 1.

    How many keys does the first token see with radius 1?
    """
    return (positions_apart(num_tokens, device).abs() <= radius).float() / (2 * radius + 1)


@misconception(replaces="attention_local", caught_by="test_local_by_hand")
def radius_taken_for_the_width(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """The radius was taken for the width of the whole window.

    A radius counts to one side: with radius 1 a token sees its left neighbour, itself and its right neighbour.

    How far apart may query and key be?
    """
    return reference.attention_local(num_tokens, radius // 2, device)


@misconception(replaces="attention_local", caught_by="test_local_by_hand")
def radius_not_reached(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """Keys exactly `radius` away were left out.

    "At most `radius` away" includes the distance `radius` itself.

    Is your comparison `<` or `<=`, and where does your range end?
    """
    visible = positions_apart(num_tokens, device).abs() < max(radius, 1)
    return visible.float() / visible.sum(dim=-1, keepdim=True)


@misconception(replaces="attention_local", caught_by="test_local_by_hand")
def neighbours_wrap_around(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """Neighbours beyond one edge were taken from the other edge.

    A sequence is no ring: the first token has no left neighbour. A negative index counts from the end without an error.

    Which key does index -1 give?
    """
    apart = positions_apart(num_tokens, device).abs()
    visible = torch.minimum(apart, num_tokens - apart) <= radius
    return visible.float() / visible.sum(dim=-1, keepdim=True)


@misconception(replaces="attention_local", caught_by="test_local_by_hand")
def neighbours_clamped_to_the_edge(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """Neighbours beyond the edge were counted as the token at the edge, which so gets several shares.

    A neighbour that does not exist gets no share: those that exist share the weight alike.

    What weight does your first token give itself, and what its only neighbour?
    """
    steps = torch.arange(-radius, radius + 1, device=device)
    keys = (torch.arange(num_tokens, device=device).unsqueeze(1) + steps).clamp(0, num_tokens - 1)
    weights = torch.zeros(num_tokens, num_tokens, device=device)
    return weights.scatter_add(1, keys, torch.full(keys.shape, 1 / (2 * radius + 1), device=device))


@misconception(replaces="attention_local", caught_by="test_local_by_hand")
def only_neighbours_before(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """Only neighbours on the left were seen.

    The neighbourhood reaches `radius` tokens to either side; nothing is causal here.

    Does your comparison look at the distance, or at the signed difference?
    """
    apart = positions_apart(num_tokens, device)
    visible = (apart <= 0) & (apart >= -radius)
    return visible.float() / visible.sum(dim=-1, keepdim=True)


@misconception(replaces="attention_local", caught_by="test_local_by_hand")
def own_token_not_a_neighbour(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """The own token was left out of its neighbourhood.

    It is at distance 0, which is at most `radius`.

    With radius 0, whom does a token attend to?
    """
    apart = positions_apart(num_tokens, device).abs()
    visible = (apart <= radius) & (apart > 0)
    return visible.float() / visible.sum(dim=-1, keepdim=True)


@misconception(replaces="attention_local", caught_by="test_local_by_hand")
def local_not_divided(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """Every visible weight is 1: that is the mask of the neighbourhood, not its weights.

    The weights of each query are shares of 1.

    By what does each row have to be divided?
    """
    return (positions_apart(num_tokens, device).abs() <= radius).float()


@misconception(replaces="attention_local", caught_by="test_local_by_hand")
def local_divided_by_columns(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """Each weight was divided by the sum of its column, or by the row sums without a dimension kept for them.

    The neighbourhood is symmetric, so both look nearly right, but rows next to the edge do not sum to 1.

    Which shape must the row sums have, so that each of them divides its own row?
    """
    visible = (positions_apart(num_tokens, device).abs() <= radius).float()
    return visible / visible.sum(dim=-1)


@misconception(replaces="attention_local", caught_by="test_patterns_of_any_size")
def radius_ignored(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """The neighbourhood always reaches one token to either side.

    How far it reaches is what the argument `radius` says.

    Where does your code use `radius`?
    """
    return reference.attention_local(num_tokens, 1, device)


@misconception(replaces="attention_local", caught_by="test_patterns_of_any_size")
def radius_larger_than_the_text(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """The pattern was put together from diagonals of length T - distance, which fails once the radius reaches T.

    A radius of T - 1 or more sees everything, and there are no diagonals beyond that.

    Up to which distance does a matrix of T rows have diagonals?
    """
    weights = torch.eye(num_tokens, device=device)
    for distance in range(1, radius + 1):
        side = torch.ones(num_tokens - distance, device=device)
        weights = weights + torch.diag(side, distance) + torch.diag(side, -distance)
    return weights / weights.sum(dim=-1, keepdim=True)


def _on_the_cpu(name: str):
    return lambda num_tokens, *radius, device=None, **named: getattr(reference, name)(num_tokens, *radius, **named)


@misconception(
    replaces=(
        "attention_diagonal", "attention_uniform", "attention_first", "attention_causal", "attention_local",
    ),
    caught_by="test_patterns_on_their_device",
)  # fmt: skip
def patterns_stay_on_the_cpu() -> dict[str, object]:
    """The pattern was made on the CPU, whatever device was asked for.

    It can then not be combined with weights that lie on a GPU.

    What do `torch.eye`, `torch.zeros` and `torch.arange` do with an argument `device`?
    """
    names = ("diagonal", "uniform", "first", "causal", "local")
    return {f"attention_{name}": _on_the_cpu(f"attention_{name}") for name in names}


# --- what is wrong with weights ---------------------------------------------------------------------------------------


def faults(weights: Tensor, tolerance: float = 1e-5, **others: Tensor) -> dict[str, Tensor]:
    """The reference's answer, but for the `others`."""
    return {**reference.validate_attention(weights, tolerance), **others}


def row_sums(weights: Tensor) -> Tensor:
    """The sums of rows in float32 at least."""
    return weights.sum(dim=-1, dtype=torch.promote_types(weights.dtype, torch.float32))


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def nan_sum_passes(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """A sum that is NaN was not reported.

    Every comparison with NaN is False: `abs(nan - 1) > tolerance` as well.

    Can you ask whether the sum is within the tolerance, and then turn the answer round?
    """
    return faults(weights, tolerance, sum=(row_sums(weights) - 1).abs() > tolerance)


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def columns_validated(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """The columns were looked at, not the rows.

    It is the weights of one query that sum to 1, and a query is a row: its weights lie along the last dimension.

    Over which dimension does your sum run, and which one is left?
    """
    return reference.validate_attention(weights.transpose(-2, -1), tolerance)


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def one_verdict_for_all(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Each fault was reported once for the whole tensor.

    Then nobody knows which query of which head is broken.

    Over which single dimension should `any` run?
    """
    return {name: found.any() for name, found in reference.validate_attention(weights, tolerance).items()}


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def true_where_it_is_right(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """True was given where the row is right.

    Each entry is named for a fault, and says True where the row has it.

    What should a row without a fault say four times?
    """
    return {name: ~found for name, found in reference.validate_attention(weights, tolerance).items()}


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def conditions_that_hold(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Each entry said whether a condition holds: all finite, none negative, none above 1, the sum within the tolerance.

    Each entry is named for a fault, and says True where the row has it.

    What should a row without a fault say four times?
    """
    return {
        "not_finite": weights.isfinite().all(dim=-1),
        "negative": (weights >= 0).all(dim=-1),
        "above_one": (weights <= 1 + tolerance).all(dim=-1),
        "sum": (row_sums(weights) - 1).abs() <= tolerance,
    }


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def sum_inverted(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """`"sum"` was True where the sum is right.

    Like the other three it names a fault: True where the sum is NOT within the tolerance of 1.

    What should a proper row say?
    """
    return faults(weights, tolerance, sum=(row_sums(weights) - 1).abs() <= tolerance)


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def raises_at_a_fault(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """A fault raised an error.

    The function reports, so that a plot can mark the rows; what follows from a fault is up to the caller.

    Can you return what you found out instead?
    """
    found = reference.validate_attention(weights, tolerance)
    if any(bool(fault.any()) for fault in found.values()):
        raise ValueError("these are no attention weights")
    return found


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def raises_where_not_finite(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Weights that are not finite raised an error.

    NaN and infinities are faults like the others: the function says where they are, and goes on.

    Can you return what you found out instead?
    """
    if weights.device.type != "meta" and not weights.isfinite().all():
        raise ValueError("the weights are not finite")
    return reference.validate_attention(weights, tolerance)


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def faults_printed(weights: Tensor, tolerance: float = 1e-5) -> None:
    """The faults were printed, and nothing was returned.

    A print can be read once by a person; the dict can be counted, plotted and tested.

    What does the function hand back to its caller?
    """
    reference.validate_attention(
        weights, tolerance
    )  # without the print, which would show up in the grader's own output


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def every_weight_judged(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Each single weight got a verdict, not each row.

    A row has the fault when at least one of its entries has it.

    What turns `(..., T_q, T_k)` answers into `(..., T_q)`?
    """
    alone = {"not_finite": ~weights.isfinite(), "negative": weights < 0, "above_one": weights > 1 + tolerance}
    return faults(weights, tolerance, **alone)


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def all_entries_at_fault(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """A row was reported only when all of its entries have the fault.

    One negative weight, or one NaN, is enough to spoil a row.

    Which of `any` and `all` asks for at least one?
    """
    negative, above = (weights < 0).all(dim=-1), (weights > 1 + tolerance).all(dim=-1)
    return faults(weights, tolerance, not_finite=~weights.isfinite().any(dim=-1), negative=negative, above_one=above)


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def dimension_kept(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """The verdicts kept a last dimension of size 1.

    One boolean per query has the shape `(..., T_q)`.

    Is `keepdim=True` needed where nothing is divided?
    """
    return {name: found.unsqueeze(-1) for name, found in reference.validate_attention(weights, tolerance).items()}


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def verdicts_as_numbers(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """The verdicts were given as the number of faulty entries, or as 0 and 1.

    A verdict is boolean: only so can it pick rows and be inverted.

    What does `any` give that `sum` does not?
    """
    return {name: found.long() for name, found in reference.validate_attention(weights, tolerance).items()}


@misconception(replaces="validate_attention", caught_by="test_validate_each_fault")
def infinity_not_looked_for(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Only NaN counted as not finite.

    An infinity is no weight either, and a sum with it is none.

    Which function of torch asks for both at once?
    """
    return faults(weights, tolerance, not_finite=weights.isnan().any(dim=-1))


@misconception(replaces="validate_attention", caught_by="test_validate_each_fault")
def only_infinity_looked_for(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Only infinities counted as not finite, not NaN.

    NaN is what a softmax gives for a row in which everything is hidden: the fault that is met most.

    Which function of torch asks for both at once?
    """
    return faults(weights, tolerance, not_finite=weights.isinf().any(dim=-1))


@misconception(replaces="validate_attention", caught_by="test_validate_each_fault")
def infinities_not_judged_by_sign(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Entries that are not finite were left out before the other faults were looked for.

    Each fault is judged by itself: minus infinity is below 0, and infinity is above 1.

    What do `weights < 0` and `weights > 1` say of an infinity when you simply ask?
    """
    cleaned = weights.where(weights.isfinite(), 0.0)
    negative, above = (cleaned < 0).any(dim=-1), (cleaned > 1 + tolerance).any(dim=-1)
    return faults(weights, tolerance, negative=negative, above_one=above)


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def nan_taken_for_zero(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """The sum was taken as if NaN were 0.

    A row with NaN has no sum. When the rest happens to sum to 1, the fault disappears.

    Does the sum have to be protected from NaN at all?
    """
    sums = row_sums(weights.where(weights.isfinite(), 0.0))
    return faults(weights, tolerance, sum=~((sums - 1).abs() <= tolerance))


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def sum_too_large_not_seen(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Only one side of 1 was looked at: a sum that is too small, or one that is too large, passed.

    Within the tolerance of 1 means neither further below nor further above.

    Where does your comparison take the absolute value?
    """
    return faults(weights, tolerance, sum=~(row_sums(weights) - 1 <= tolerance))


@misconception(replaces="validate_attention", caught_by="test_validate_tolerance")
def half_precision_sums(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """The sums were rounded to the weights' own dtype.

    In bfloat16 the numbers next to 1 are 0.996 and 1.008: sums between them look like 1.

    How do you tell `sum` to add up, and answer, in float32?
    """
    return faults(weights, tolerance, sum=~((weights.sum(dim=-1) - 1).abs() <= tolerance))


@misconception(replaces="validate_attention", caught_by="test_validate_tolerance")
def tolerance_not_used(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """A tolerance of its own was used, whatever the argument said.

    Weights in half precision need another one than those in float32; that is why it is an argument.

    Where does your code use `tolerance`?
    """
    return reference.validate_attention(weights, 1e-5)


@misconception(replaces="validate_attention", caught_by="test_validate_tolerance")
def above_one_without_tolerance(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Every weight above exactly 1 was reported.

    A softmax may round to a little more than 1; only what is above 1 + tolerance is a fault.

    What should a weight of 1.000004 get with a tolerance of 0.00001?
    """
    return faults(weights, tolerance, above_one=(weights > 1).any(dim=-1))


@misconception(replaces="validate_attention", caught_by="test_validate_tolerance")
def negative_with_tolerance(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """Weights a little below 0 were let through.

    An exponential is never negative and rounds to nothing below 0, so there is no room to give.

    Where in the list of faults does the tolerance stand, and where does it not?
    """
    return faults(weights, tolerance, negative=(weights < -tolerance).any(dim=-1))


@misconception(replaces="validate_attention", caught_by="test_validate_each_fault")
def weights_cleaned_in_place(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """What is not finite was replaced in the caller's own tensor.

    Whoever has the weights checked and then plots them sees numbers that were never there.

    Which of your calls end in `_`, or write into `weights[...]`?
    """
    found = reference.validate_attention(weights, tolerance)
    if weights.device.type != "meta":
        weights[~weights.isfinite()] = 0.0
    return found


@misconception(replaces="validate_attention", caught_by="test_validate_by_hand")
def verdicts_of_python(weights: Tensor, tolerance: float = 1e-5) -> dict[str, bool]:
    """Each fault was reported by one Python bool.

    Then nobody knows which query of which head is broken.

    Over which single dimension should `any` run, and does its result have to become a `bool`?
    """
    return {name: bool(found.any()) for name, found in reference.validate_attention(weights, tolerance).items()}


@misconception(replaces="validate_attention", caught_by="test_validate_each_fault")
def nan_hides_the_others(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """In a row with NaN no other fault was found: the smallest and the largest entry were compared, and both are NaN.

    Each fault is judged by itself: a row may hold NaN and a negative weight.

    What if every entry is compared first, and `any` asked afterwards?
    """
    negative, above = weights.amin(dim=-1) < 0, weights.amax(dim=-1) > 1 + tolerance
    return faults(weights, tolerance, negative=negative, above_one=above)


@misconception(replaces="validate_attention", caught_by="test_validate_tolerance")
def relative_tolerance_too(weights: Tensor, tolerance: float = 1e-5) -> dict[str, Tensor]:
    """The sum was allowed more than `tolerance`: `isclose` adds a relative tolerance of its own, 1e-5.

    Around 1 a relative tolerance of 1e-5 is as large as the absolute one, so twice as much is let through.

    Which argument of `isclose` turns it off?
    """
    sums = row_sums(weights)
    return faults(weights, tolerance, sum=~torch.isclose(sums, torch.ones_like(sums), atol=tolerance))


# --- the largest weights ----------------------------------------------------------------------------------------------


@misconception(replaces="top_attended", caught_by="test_top_of_equals")
def equals_left_to_topk(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The order of equal weights was left to `topk`, or to a sort that is not stable.

    Both may give equal entries in any order, and do so once a row is long. Here the earlier key comes first.

    Which argument of `sort` keeps equal entries in the order in which they stood?
    """
    values, indices = weights.topk(min(k, weights.shape[-1]), dim=-1)
    return values, indices


@misconception(replaces="top_attended", caught_by="test_top_of_equals")
def sort_not_stable(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Sorting left the order of equal weights open: the sort was not stable.

    On short rows it happens to look right; from 17 keys on torch may give equal entries in any order.

    Which argument of `sort` and `argsort` keeps equal entries in the order in which they stood?
    """
    values, indices = weights.sort(dim=-1, descending=True)
    return values[..., :k], indices[..., :k]


@misconception(replaces="top_attended", caught_by="test_top_of_equals")
def later_key_first(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Of equal weights the later key came first.

    A stable ascending sort that is turned round is stable no more: equal entries are turned round with the rest.

    Can the sort itself go downwards?
    """
    values, indices = weights.sort(dim=-1, stable=True)
    return values.flip(-1)[..., :k], indices.flip(-1)[..., :k]


@misconception(replaces="top_attended", caught_by="test_top_of_equals")
def more_than_there_are(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """A k larger than the number of keys raised an error.

    Then all keys are given: the result has `min(k, T_k)` columns.

    What does `topk` say when k is 9 and there are 5 keys?
    """
    if k > weights.shape[-1]:
        weights.topk(k, dim=-1)  # which raises
    return reference.top_attended(weights, k)


@misconception(replaces="top_attended", caught_by="test_top_of_equals")
def larger_k_refused(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """A k larger than the number of keys was refused on purpose.

    It is allowed: all keys are given then, and the result has `min(k, T_k)` columns.

    What should the caller get who asks for 9 of 5 keys?
    """
    if k > weights.shape[-1]:
        raise ValueError("k is larger than the number of keys")
    return reference.top_attended(weights, k)


@misconception(replaces="top_attended", caught_by="test_top_by_hand")
def smallest_first(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest weights were given with the smallest of them first.

    The strongest key stands first.

    In which direction does your sort go, and from which end do you take?
    """
    values, indices = reference.top_attended(weights, k)
    return values.flip(-1), indices.flip(-1)


@misconception(replaces="top_attended", caught_by="test_top_by_hand")
def smallest_weights(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k smallest weights were given.

    A sort goes upwards unless it is told otherwise.

    Which end of the sorted row holds the largest weight?
    """
    values, indices = weights.sort(dim=-1, stable=True)
    return values[..., :k], indices[..., :k]


@misconception(replaces="top_attended", caught_by="test_top_by_hand")
def keys_in_reading_order(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest weights were given in the order of their keys.

    The order says which key is the strongest: largest first.

    Did a second sort, by index, undo the first?
    """
    kept = reference.top_attended(weights, k)[1].sort(dim=-1).values
    return weights.gather(-1, kept), kept


@misconception(replaces="top_attended", caught_by="test_top_by_hand")
def pair_exchanged(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The indices were returned first, and the values second.

    The pair is `(values, indices)`, as `sort` and `topk` give it.

    Which of the two is named first in the docstring?
    """
    values, indices = reference.top_attended(weights, k)
    return indices, values


@misconception(replaces="top_attended", caught_by="test_top_by_hand")
def queries_of_each_key(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The largest weights were looked for down the columns.

    A column holds what all queries give to one key. The keys of one query stand in a row.

    Along which dimension do you sort?
    """
    values, indices = weights.sort(dim=-2, descending=True, stable=True)
    return values[..., :k, :], indices[..., :k, :]


@misconception(replaces="top_attended", caught_by="test_top_by_hand")
def whole_row_returned(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """All weights were sorted and returned, not only the first k.

    `k` says how many are wanted.

    What is left to be cut off after sorting?
    """
    return reference.top_attended(weights, weights.shape[-1])


@misconception(replaces="top_attended", caught_by="test_top_by_hand")
def narrow_indices(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The indices were converted: they are not int64.

    torch indexes with int64, and its own functions give it.

    Which conversion can you leave out?
    """
    values, indices = reference.top_attended(weights, k)
    return values, indices.int()


# --- entropy ----------------------------------------------------------------------------------------------------------


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def nan_at_weight_zero(weights: Tensor) -> Tensor:
    """A weight of 0 gave NaN.

    ln 0 is minus infinity, and 0 times infinity is NaN. The limit of w ln w at 0 is 0.

    How can the logarithm be kept away from 0, or the NaN from the sum?
    """
    return -(weights * weights.log()).sum(dim=-1)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def entropy_in_bits(weights: Tensor) -> Tensor:
    """The entropy was computed with the logarithm to base 2, in bits.

    Asked for are nats: the natural logarithm.

    What should four equal weights give: 2, or ln 4?
    """
    return reference.attention_entropy(weights) / math.log(2)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def entropy_in_tens(weights: Tensor) -> Tensor:
    """The entropy was computed with the logarithm to base 10.

    Asked for are nats: the natural logarithm.

    Which function of torch is the natural logarithm?
    """
    return reference.attention_entropy(weights) / math.log(10)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def entropy_averaged(weights: Tensor) -> Tensor:
    """The entropies of the queries were averaged.

    Each query has one of its own: the last token may look everywhere while the first sees only itself.

    Which dimensions should the result have?
    """
    return reference.attention_entropy(weights).mean(dim=-1)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def one_entropy_for_all(weights: Tensor) -> Tensor:
    """One entropy was returned for the whole tensor, the mean of all.

    Each query has one of its own, in each head and sequence.

    Over which single dimension does the sum run, and what stays?
    """
    return reference.attention_entropy(weights).mean()


@misconception(replaces="attention_entropy", caught_by="test_dtypes_gradients_and_devices")
def entropy_detached(weights: Tensor) -> Tensor:
    """The weights were detached, or the entropy was computed under `no_grad`.

    An entropy is also used as a loss that keeps attention sharp or wide, and then it needs a gradient.

    Which of your calls cuts the result off from the weights?
    """
    return reference.attention_entropy(weights.detach())


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def entropy_relative(weights: Tensor) -> Tensor:
    """The entropy was divided by ln T_k, its largest value.

    That is the relative entropy of a plot from 0 to 1; asked for is the entropy itself.

    What should four equal weights give: 1, or ln 4?
    """
    return reference.attention_entropy(weights) / math.log(max(weights.shape[-1], 2))


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def entropy_negative(weights: Tensor) -> Tensor:
    """The minus sign was left out.

    Logarithms of numbers below 1 are negative; the entropy is not.

    What sign does w ln w have?
    """
    return -reference.attention_entropy(weights)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def entropy_mean_over_keys(weights: Tensor) -> Tensor:
    """The mean over the keys was taken, not the sum.

    The entropy is a sum, weighted by the weights themselves; dividing by the number of keys weights it twice.

    What do four equal weights give?
    """
    return reference.attention_entropy(weights) / weights.shape[-1]


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def entropy_down_the_columns(weights: Tensor) -> Tensor:
    """The sum ran over the queries.

    The weights of one query stand in a row, along the last dimension.

    Over which dimension do the weights sum to 1?
    """
    return reference.attention_entropy(weights.transpose(-2, -1))


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def large_guard(weights: Tensor) -> Tensor:
    """What was added to keep the logarithm away from 0 is so large that it changes the result.

    With 1e-3 or 1e-6 beside each of many weights the entropy is off by more than 1e-5.

    How small can the guard be, or can you do without one?
    """
    return -(weights * (weights + 1e-3).log()).sum(dim=-1)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def small_weights_raised(weights: Tensor) -> Tensor:
    """Small weights were raised to 1e-3 within the logarithm.

    The logarithm of a weight of 1e-5 is -11.5 and not -6.9: the entropy is off by more than 1e-5.

    Which weights need help, and which smallest number helps them?
    """
    return -(weights * weights.clamp(min=1e-3).log()).sum(dim=-1)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def medium_guard(weights: Tensor) -> Tensor:
    """What was added to keep the logarithm away from 0, 1e-6 or so, changes the result when there are many keys.

    Each of 70 keys adds about 1e-6 of error, together more than the 1e-5 that are allowed in float64.

    How small can the guard be, or can you do without one?
    """
    return -(weights * (weights + 1e-6).log()).sum(dim=-1)


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def softmax_once_more(weights: Tensor) -> Tensor:
    """The softmax was applied to the weights, which are the outcome of one already.

    Twice softened, all weights are nearly alike, and the entropy is close to ln T_k everywhere.

    Are scores given here, or weights?
    """
    return reference.attention_entropy(weights.softmax(dim=-1))


@misconception(replaces="attention_entropy", caught_by="test_entropy")
def perplexity(weights: Tensor) -> Tensor:
    """The exponential of the entropy was returned, the perplexity.

    It counts how many keys share the weight; asked for is the entropy itself.

    What should a single weight of 1 give: 0 or 1?
    """
    return reference.attention_entropy(weights).exp()


# --- distance ---------------------------------------------------------------------------------------------------------


def apart(weights: Tensor, offset: int = 0) -> Tensor:
    """i + offset - j for each query i and key j."""
    queries = torch.arange(weights.shape[-2], device=weights.device).unsqueeze(1) + offset
    return queries - torch.arange(weights.shape[-1], device=weights.device)


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
    """Heads and sequences were averaged as well.

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
