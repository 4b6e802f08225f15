"""What learners get wrong in `sdpa`, each with the check that catches it."""

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.core.step10_flash import reference


@misconception(replaces="sdpa", caught_by="test_sdpa_is_causal")
def sdpa_not_causal(query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True) -> Tensor:
    """The built-in was called without saying that the attention is causal.

    Each token then attends to the later ones as well.

    Which argument of the built-in hides the future?
    """
    return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout_p if training else 0.0)


@misconception(replaces="sdpa", caught_by="test_sdpa_is_causal")
def sdpa_mask_the_other_way_round(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """The mask that the built-in was given was True where a key is to be hidden.

    For masked_fill and nn.MultiheadAttention True means hidden. For the built-in it means the opposite: may be seen.

    What does True mean in the attn_mask of F.scaled_dot_product_attention?
    """
    future = reference.future(slice(0, query.shape[-2]), slice(0, key.shape[-2]), query.device)
    rate = dropout_p if training else 0.0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=future, dropout_p=rate)


@misconception(replaces="sdpa", caught_by="test_sdpa_is_causal")
def sdpa_zeros_and_ones_added(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """The mask that the built-in was given was of zeros and ones, and not boolean.

    A mask of numbers is added to the scores: the past got 1 more than the future, and nothing was hidden.

    Which dtype does torch.ones have, and what does the built-in do with a mask of that dtype?
    """
    past = torch.ones(query.shape[-2], key.shape[-2], dtype=query.dtype, device=query.device).tril()
    rate = dropout_p if training else 0.0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=past, dropout_p=rate)


@misconception(replaces="sdpa", caught_by="test_sdpa_is_causal")
def sdpa_scaled_twice(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """The query was divided by the square root of d before the built-in was called.

    The built-in divides the scores itself, so they were divided twice.

    What does the S in SDPA stand for?
    """
    return reference.sdpa(query * query.shape[-1] ** -0.5, key, value, dropout_p, training)


@misconception(replaces="sdpa", caught_by="test_sdpa_is_causal")
def sdpa_written_by_hand(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """The attention was computed step by step, and the built-in was never called.

    The numbers are right, but sdpa is where the built-in with its fast kernels comes in.

    Which function of torch.nn.functional does all of this in one call?
    """
    future = reference.future(slice(0, query.shape[-2]), slice(0, key.shape[-2]), query.device)
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    weights = torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1)
    return F.dropout(weights, dropout_p, training) @ value


@misconception(replaces="sdpa", caught_by="test_sdpa_dropout")
def sdpa_drops_in_eval(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """dropout_p was handed to the built-in as it came, also when training was False.

    The built-in drops whenever its dropout_p is above 0. It has no way to know that the training is over.

    What should the built-in be told when training is False?
    """
    return reference.sdpa(query, key, value, dropout_p, True)


@misconception(replaces="sdpa", caught_by="test_sdpa_dropout")
def sdpa_drops_only_in_eval(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """The two cases of training changed places: the built-in was given dropout_p when training was False, and else 0.

    Dropout is there to make training harder. In use the answer should be the same every time.

    Read your condition aloud with training = True. Which rate does it choose?
    """
    return reference.sdpa(query, key, value, dropout_p, not training)


@misconception(replaces="sdpa", caught_by="test_sdpa_dropout")
def sdpa_never_drops(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """dropout_p was never handed on to the built-in.

    Its own default is 0, so no weight is ever dropped, not in training either.

    Which arguments of sdpa does the built-in need to hear about?
    """
    return reference.sdpa(query, key, value, 0.0, training)


@misconception(replaces="sdpa", caught_by="test_sdpa_dropout")
def sdpa_trains_only_when_told(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = False
) -> Tensor:
    """The default of training was False.

    The step asks for True: whoever names a rate and nothing else wants it to act.

    Where in the line of `def` does the default stand?
    """
    return reference.sdpa(query, key, value, dropout_p, training)


@misconception(replaces="sdpa", caught_by="test_halves_meta_and_inputs")
def sdpa_in_float32(query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True) -> Tensor:
    """Query, key and value were converted to float32 for the built-in, and the result back.

    A float64 input loses half of its digits on the way.

    Which conversion could you leave out?
    """
    return reference.sdpa(query.float(), key.float(), value.float(), dropout_p, training).to(query.dtype)


@misconception(replaces="sdpa", caught_by="test_sdpa_dropout")
def sdpa_drops_the_context(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, training: bool = True
) -> Tensor:
    """Dropout was applied to the context that the built-in returned.

    Dropout on the weights hides a token from a query. Dropout on the context hides single numbers of the sum instead.

    Between which two products does the dropout of attention stand, and who computes them here?
    """
    return F.dropout(reference.sdpa(query, key, value), dropout_p, training)
