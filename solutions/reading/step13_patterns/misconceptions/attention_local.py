"""What learners get wrong in `attention_local`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.reading.step13_patterns import reference
from solutions.reading.step13_patterns.misconceptions.distances import Device, positions_apart


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


@misconception(replaces="attention_local", caught_by="test_local_by_hand")
def radius_exceeded(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """Keys radius + 1 away were seen as well.

    A key at most `radius` away is a neighbour; the next one is not.

    Up to which distance does your window reach?
    """
    return reference.attention_local(num_tokens, radius + 1, device)


@misconception(replaces="attention_local", caught_by="test_local_by_hand")
def only_neighbours_after(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """Only neighbours on the right were seen.

    A neighbourhood has two sides. Only `attention_causal` looks to one side, and that is the left one.

    What does your condition say of a key that comes before the query?
    """
    distance = positions_apart(num_tokens, device)
    visible = ((distance >= 0) & (distance <= radius)).float()
    return visible / visible.sum(dim=-1, keepdim=True)


@misconception(replaces="attention_local", caught_by="test_local_by_hand")
def distance_not_absolute(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """The sign of the distance was kept: on one side all tokens were seen, however far away.

    A negative number is below every radius.

    What does your condition say of a key ten tokens away, on either side?
    """
    visible = (-positions_apart(num_tokens, device) <= radius).float()
    return visible / visible.sum(dim=-1, keepdim=True)


@another_form(distance_not_absolute)
def distance_not_absolute_to_the_left(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    visible = (positions_apart(num_tokens, device) <= radius).float()
    return visible / visible.sum(dim=-1, keepdim=True)


@misconception(replaces="attention_local", caught_by="test_local_by_hand")
def softmax_of_the_neighbourhood(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """The softmax was taken of the ones and zeros themselves.

    exp(0) is 1, so that tokens further away get weight too.

    Which score would a key need that gets no weight from the softmax?
    """
    return (positions_apart(num_tokens, device).abs() <= radius).float().softmax(dim=-1)


@misconception(replaces="attention_local", caught_by="test_local_by_hand")
def slice_from_a_negative_index(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """The slice of a row starts at i - radius, which is negative near the left edge.

    A negative index counts from the end, so that the slice is empty or holds other tokens.

    Which index should the slice of the first row start at?
    """
    visible = torch.zeros(num_tokens, num_tokens, device=device)
    for i in range(num_tokens):
        visible[i, i - radius : i + radius + 1] = 1
    return visible / visible.sum(dim=-1, keepdim=True)


@misconception(replaces="attention_local", caught_by="test_local_by_hand")
def last_neighbour_left_out(num_tokens: int, radius: int = 1, device: Device = None) -> Tensor:
    """The neighbour `radius` places to the right was left out: the slice ends before i + radius.

    A slice does not hold the index that it ends at.

    How many tokens has `row[i - 1 : i + 1]`?
    """
    distance = positions_apart(num_tokens, device)
    visible = ((distance >= -radius) & (distance < radius)).float()
    return visible / visible.sum(dim=-1, keepdim=True)
