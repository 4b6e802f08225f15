"""What learners get wrong in `alibi_attention`, each with the check that catches it."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.positions.step17_relative import reference
from solutions.positions.step17_relative.misconceptions.pieces import distances


def added_bias(query: Tensor) -> Tensor:
    """The right bias for these queries."""
    return reference.alibi_bias(query.shape[1], query.shape[2], device=query.device).to(query.dtype)


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def bias_before_the_scaling(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The bias was added before the division by √d, and divided with the scores.

    The slopes are meant for scaled scores. Divided as well, they depend on the width of the head.

    Where do the parentheses stand around your sum?
    """
    scores = (query @ key.transpose(-2, -1) + added_bias(query)) / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def alibi_not_scaled(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The scores were not divided by √d before the bias was added.

    ALiBi changes nothing about the scaling: it comes first, as in every attention.

    Which number does attention divide the scores by?
    """
    return (query @ key.transpose(-2, -1) + added_bias(query)).softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def alibi_divided_by_the_width(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The scores were divided by d and not by its root.

    They come out too small, so the weights are too even.

    Is the scale in your code applied once, and is there a root in it?
    """
    return (query @ key.transpose(-2, -1) / query.shape[-1] + added_bias(query)).softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def alibi_scaled_by_value_width(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The scores were divided by the root of the values' width.

    The dot product adds over the width of the query and the key. The values may be wider or narrower.

    Over which dimension of which tensor did the dot product add?
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(value.shape[-1]) + added_bias(query)
    return scores.softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def bias_added_to_the_weights(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The bias was added to the weights, after the softmax.

    Weights are to sum to 1, and -∞ among them makes everything infinite. The bias belongs to the scores.

    What comes first in your code: the softmax, or the sum with the bias?
    """
    weights = (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])).softmax(dim=-1)
    return (weights + added_bias(query)) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def bias_left_out(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The attention was causal, and had no bias.

    Without it no query knows how far away a key is.

    Where does `alibi_bias` appear in your attention?
    """
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def neither_bias_nor_mask(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The attention was a plain one, without a bias and without a mask.

    Without the bias no query knows how far away a key is, and the -∞ in it are what hides the later tokens.

    Where does `alibi_bias` appear in your attention?
    """
    return F.scaled_dot_product_attention(query, key, value)


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def weights_returned_too(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """A pair was returned: the result, and the weights.

    The contract gives the result alone.

    How many values stand behind your `return`?
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + added_bias(query)
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def bias_of_both_sides(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The attention had ALiBi's distances on both sides, and no mask.

    ALiBi's attention is causal: no query may see a key after it.

    What happens in your attention to the scores above the diagonal?
    """
    distance = distances(query.shape[2], query.device).abs()
    bias = -reference.alibi_slopes(query.shape[1], query.device)[:, None, None] * distance
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + bias.to(query.dtype)
    return scores.softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def bias_added_to_causal_weights(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The mask came before the softmax, and the rest of the bias was added to the weights after it.

    Weights are to sum to 1. The whole bias belongs to the scores.

    What comes first in your code: the softmax, or the sum with the bias?
    """
    bias = added_bias(query)
    hidden = bias.isinf()
    scores = (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])).masked_fill(hidden, -torch.inf)
    return (scores.softmax(dim=-1) + bias.masked_fill(hidden, 0.0)) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def slope_of_the_first_head(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """All heads had the bias of the first one.

    Each head has a slope of its own, so that some look near and some far.

    Which shape has your bias when it is added to scores of (B, H, T, T)?
    """
    bias = added_bias(query)[:1]
    return (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + bias).softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def bias_subtracted(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The bias was subtracted from the scores.

    It is negative already. Subtracted, it favours what is far away, and +∞ makes everything NaN.

    Which sign does `alibi_bias` have?
    """
    return (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) - added_bias(query)).softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def alibi_softmax_over_queries(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The softmax ran over the queries, so that the columns of the weights summed to 1 and the rows did not.

    Each query shares out a weight of 1 among the keys, and the keys are counted by the last dimension.

    Along which dimension must the weights sum to 1, and what does `dim` say in your softmax?
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + added_bias(query)
    return scores.softmax(dim=-2) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def alibi_softmax_over_heads(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The softmax ran over the heads.

    Each query of each head shares out a weight of 1 among the keys, and the keys are counted by the last dimension.

    Along which dimension must the weights sum to 1, and what does `dim` say in your softmax?
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + added_bias(query)
    return scores.softmax(dim=1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_attention")
def keys_ask_the_queries(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The keys were multiplied by the queries, so that rows belonged to keys.

    The rows of the scores belong to the queries, and the bias counts on it.

    Which of the two stands first in your product?
    """
    scores = key @ query.transpose(-2, -1) / math.sqrt(query.shape[-1]) + added_bias(query)
    return scores.softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_dtypes_and_device")
def float32_bias_promotes(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The float32 bias was added to scores of another dtype as it is.

    In half precision the sum is float32, which cannot be multiplied by the values, or comes back with the wrong dtype.

    What can be done to the bias before it is added?
    """
    bias = reference.alibi_bias(query.shape[1], query.shape[2], device=query.device)
    return (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + bias).softmax(dim=-1) @ value


@misconception(replaces="alibi_attention", caught_by="test_alibi_dtypes_and_device")
def result_left_in_float32(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The float32 bias made scores and weights float32, and the values were widened to fit.

    The result comes back in the dtype of the query.

    Which dtype has your bias when it is added?
    """
    bias = reference.alibi_bias(query.shape[1], query.shape[2], device=query.device)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + bias
    return scores.softmax(dim=-1) @ value.to(scores.dtype)


@misconception(replaces="alibi_attention", caught_by="test_alibi_dtypes_and_device")
def attention_in_float32(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Everything was converted to float32, and the result stayed float32 or lost the digits of float64.

    The result has the dtype of the query, and no fewer digits.

    Which of your conversions names a dtype, rather than taking that of the query?
    """
    query, key, value = query.float(), key.float(), value.float()
    return reference.alibi_attention(query, key, value)


@misconception(replaces="alibi_attention", caught_by="test_alibi_dtypes_and_device")
def alibi_bias_on_the_cpu(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The bias was made without a device, on the CPU.

    On a GPU it cannot be added to scores that lie there.

    From which tensor can the bias take its device?
    """
    bias = reference.alibi_bias(query.shape[1], query.shape[2]).to(query.dtype)
    return (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + bias).softmax(dim=-1) @ value
