"""What learners get wrong in `alibi_bias`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.positions.step17_relative import reference
from solutions.positions.step17_relative.misconceptions.pieces import Device, Names, distances, with_bias

BIAS = ("alibi_bias", "alibi_attention")


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def far_tokens_favoured() -> Names:
    """The bias grew with the distance: +slope · (i - j).

    The farther away a key is, the more is to be taken off its score.

    Which sign does the bias of a key far back have?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        right = reference.alibi_bias(num_heads, num_tokens, device)
        return torch.where(right.isinf(), right, -right)

    return with_bias(bias)


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def later_tokens_visible() -> Names:
    """Later tokens had a bias like the earlier ones, by their distance, and not -∞.

    ALiBi's attention is causal: no query may see a key after it.

    What stands above the diagonal of your bias?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        return -reference.alibi_slopes(num_heads, device)[:, None, None] * distances(num_tokens, device).abs()

    return with_bias(bias)


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def later_tokens_rewarded() -> Names:
    """Nothing was hidden: the bias was -slope · (i - j) above the diagonal too, where it is positive.

    A key after the query even gains by its distance. ALiBi's attention is causal: it gets -∞.

    What stands above the diagonal of your bias?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        return reference.alibi_slopes(num_heads, device)[:, None, None] * distances(num_tokens, device)

    return with_bias(bias)


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def zeros_above_the_diagonal() -> Names:
    """The bias of later tokens was 0.

    A bias of 0 takes nothing off: they are seen better than any earlier token.

    Which number, added to a score, makes its weight 0?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        return (reference.alibi_slopes(num_heads, device)[:, None, None] * distances(num_tokens, device)).tril()

    return with_bias(bias)


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def past_hidden() -> Names:
    """The earlier tokens were hidden and the later ones visible.

    The bias is -∞ where j > i. Rows are queries, columns are keys.

    Which of `tril` and `triu` does your code use, and on which side is the future?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        return reference.alibi_bias(num_heads, num_tokens, device).transpose(-2, -1)

    return with_bias(bias)


@another_form(past_hidden)
def past_hidden_and_future_rewarded() -> Names:
    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        distance = distances(num_tokens, device)
        made = reference.alibi_slopes(num_heads, device)[:, None, None] * distance
        return made.masked_fill(distance < 0, -torch.inf)

    return with_bias(bias)


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def own_token_hidden() -> Names:
    """Each token's own position was hidden together with the future.

    A token may look at itself. The first token has nothing else, so its softmax has no finite entry and gives NaN.

    Is the diagonal part of the past or of the future?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        return reference.alibi_bias(num_heads, num_tokens, device).masked_fill(
            distances(num_tokens, device) == 0, -torch.inf
        )

    return with_bias(bias)


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def large_number_in_place_of_infinity() -> Names:
    """Later tokens had a large negative number in place of -∞.

    The softmax may look the same, but the contract asks for -∞, which no score can make up for.

    What does `float("-inf")` do in a softmax?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        return reference.alibi_bias(num_heads, num_tokens, device).clamp(min=-1e9)

    return with_bias(bias)


@misconception(replaces="alibi_bias", caught_by="test_bias_by_hand")
def bias_without_the_query(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
    """The bias was slope · j, by the position of the key alone.

    BLOOM adds this one: it differs by one number in each row, and the softmax is the same. Here the bias itself is
    asked for, -slope · (i - j), which is 0 on the diagonal.

    What does your bias say of a token's distance to itself?
    """
    place = torch.arange(num_tokens, device=device)
    bias = reference.alibi_slopes(num_heads, device)[:, None, None] * place.expand(num_tokens, -1)
    return bias.masked_fill(distances(num_tokens, device) > 0, -torch.inf)


@another_form(bias_without_the_query)
def one_row_for_all_queries(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
    place = torch.arange(num_tokens, device=device)
    return reference.alibi_slopes(num_heads, device)[:, None, None] * place


@misconception(replaces="alibi_bias", caught_by="test_bias_by_hand")
def bias_in_double(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
    """The bias was float64.

    The contract asks for float32; a float64 bias would widen the scores.

    Which dtype does what you return have?
    """
    return reference.alibi_bias(num_heads, num_tokens, device).double()


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def slopes_on_the_keys() -> Names:
    """The slopes were laid along the keys and not along the heads.

    Without two further dimensions (H,) meets the last axis of (T, T), which are the keys.

    Which shape do the slopes need, so that they count the first axis of (H, T, T)?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        distance = distances(num_tokens, device)
        made = (reference.alibi_slopes(num_heads, device) * distance).expand(num_heads, -1, -1)
        return made.masked_fill(distance > 0, -torch.inf)

    return with_bias(bias)


@misconception(replaces=BIAS, caught_by="test_bias_by_hand")
def one_slope_for_all_heads() -> Names:
    """All heads had one and the same slope.

    Some heads are to look near and others far: each has a slope of its own.

    Where does the number of the head enter the bias?
    """

    def bias(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
        return reference.alibi_bias(num_heads, num_tokens, device)[:1].repeat(num_heads, 1, 1)

    return with_bias(bias)


@misconception(replaces="alibi_bias", caught_by="test_bias_by_hand")
def batch_dimension_in_front(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
    """The bias had a batch dimension in front: `(1, H, T, T)`.

    It is to be `(H, T, T)`; a sum spreads it over the batch by itself.

    Which line adds the dimension of size 1, and who needs it?
    """
    return reference.alibi_bias(num_heads, num_tokens, device)[None]


@misconception(replaces="alibi_bias", caught_by="test_bias_of_any_size")
def bias_on_the_cpu(num_heads: int, num_tokens: int, device: Device = None) -> Tensor:
    """The bias was made on the CPU, whatever `device` said.

    On a GPU it cannot be added to scores that lie there.

    Which of your calls that make new tensors take a `device`?
    """
    return reference.alibi_bias(num_heads, num_tokens)
