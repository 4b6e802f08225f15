"""What learners get wrong in `causal_mask`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.core.step04_causal_mask import reference


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand", misses_the_point=True)
def future_instead_of_past(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was True on and above the diagonal: the past was hidden, and the future was seen.

    Row i is the query and column j the key. Above the diagonal j is larger than i, so every token sees its future.

    Which triangle holds the pairs in which the key does not come later than the query?
    """
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device).triu()


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand", misses_the_point=True)
def hidden_marked_true(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was True where a position is to be hidden.

    Here True means "may attend". Some tutorials mark what they hide instead, and the two read each other inside out.

    What should stand at row 0, column 0: may the first token attend to itself?
    """
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device).triu(1)


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def own_token_hidden(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The diagonal was left out, so no token may attend to itself.

    A token may see itself and everything before it. Without the diagonal the first token sees nothing at all.

    From which diagonal on does your triangle start?
    """
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device).tril(-1)


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def one_token_ahead(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was also True one place right of the diagonal.

    Each token then sees the token after it, which is the one that the model has to predict.

    What does the second argument of `tril` move, and where does it have to stand?
    """
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device).tril(1)


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def nothing_hidden(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was True everywhere.

    Then every token may attend to every other, its future included, and nothing is masked.

    What is still to be done to the square of ones, so that one of its triangles becomes False?
    """
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device)


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def float_mask(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was made of the floats 1.0 and 0.0.

    A mask says yes or no. As a float it cannot be inverted with `~`, and it cannot pick elements.

    Which dtype has only two values, and how do you ask `torch.ones` for it?
    """
    return torch.ones(num_tokens, num_tokens, device=device).tril()


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def whole_number_mask(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was made of the whole numbers 1 and 0.

    `~` turns the whole number 1 into -2 and 0 into -1, so inverting such a mask gives nonsense without an error.

    Which dtype has only the values True and False?
    """
    return torch.ones(num_tokens, num_tokens, dtype=torch.int64, device=device).tril()


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def additive_mask(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was made to be added to the scores: 0 where attention is allowed, and minus infinity elsewhere.

    That is another convention. Here a mask is boolean, and what is done to the scores is the business of the softmax.

    Can you leave the minus infinity to `masked_softmax` and return only the answer yes or no?
    """
    return torch.full((num_tokens, num_tokens), -torch.inf, device=device).triu(1)


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def batch_and_head_dimensions_added(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask got two more dimensions of size 1 in front.

    They do no harm with four-dimensional scores, but with fewer dimensions they make the result grow.

    Which dimensions does broadcasting add by itself?
    """
    return reference.causal_mask(num_tokens, device).view(1, 1, num_tokens, num_tokens)


@misconception(replaces="causal_mask", caught_by="test_mask_of_any_length")
def cut_from_sixteen_tokens(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was cut out of a larger one of a fixed size.

    A text that is longer than this size gets a mask that is too small.

    Which argument tells you how large the mask has to be?
    """
    return reference.causal_mask(16, device)[:num_tokens, :num_tokens]


@misconception(replaces="causal_mask", caught_by="test_mask_on_its_device")
def mask_stays_on_cpu(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask was made on the CPU, whatever device was asked for.

    Scores on a GPU cannot be combined with a mask that lies in the memory of the CPU.

    What does `torch.ones` do with an argument `device`?
    """
    return reference.causal_mask(num_tokens)


@misconception(replaces="causal_mask", caught_by="test_mask_by_hand")
def batch_dimension_added(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """The mask got one more dimension, of size 1, in front.

    It does no harm with scores of three dimensions or more, but with two it makes the result grow.

    Which dimensions does broadcasting add by itself?
    """
    return reference.causal_mask(num_tokens, device).unsqueeze(0)
