"""What learners get wrong in `padding_mask`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import misconception


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_inverted(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask is True at the padding.

    True means "may attend" in this course, so that padding is False. Hugging Face's masks agree, those of
    `nn.MultiheadAttention` do not.

    Should a real word have True or False?
    """
    return (token_ids == pad_id)[:, None, None, :]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_over_queries(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask has the shape `(B, 1, S, 1)`: it speaks of queries.

    Padding is hidden as a key. A query that sees nothing at all has no weights.

    Which dimension of `(B, H, T_q, T_k)` should S stand in?
    """
    return (token_ids != pad_id)[:, None, :, None]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_without_heads(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask has the shape `(B, S)`.

    Beside scores of `(B, H, T_q, T_k)` its B would fall on the queries: broadcasting aligns shapes at the right.

    Which dimensions are missing between B and S?
    """
    return token_ids != pad_id


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_of_three_dimensions(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask has the shape `(B, 1, S)`.

    Beside scores of `(B, H, T_q, T_k)` its B would fall on the heads: broadcasting aligns shapes at the right.

    Which dimensions are missing between B and S?
    """
    return (token_ids != pad_id).unsqueeze(1)


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_of_pairs(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask has the shape `(B, 1, S, S)`, and hides the padding as a query too.

    A query that sees nothing at all has no weights, and in cross attention the queries are others.

    What does the mask have to say about queries?
    """
    real = token_ids != pad_id
    return (real[:, :, None] & real[:, None, :])[:, None]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_repeated(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask was repeated for every query, `(B, 1, S, S)`.

    In cross attention there are T_q queries, not S. A dimension of size 1 fits any number of them.

    How many queries are there, and who knows?
    """
    return (token_ids != pad_id)[:, None, None, :].expand(-1, -1, token_ids.shape[1], -1)


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_of_floats(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask holds numbers and not booleans.

    `~mask` fails on floats, and makes -1 and -2 of whole numbers. Masks are boolean in this course.

    Which dtype does a comparison give, before anything converts it?
    """
    return (token_ids != pad_id).float()[:, None, None, :]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_of_integers(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask holds whole numbers and not booleans.

    `~mask` fails on floats, and makes -1 and -2 of whole numbers. Masks are boolean in this course.

    Which dtype does a comparison give, before anything converts it?
    """
    return (token_ids != pad_id).long()[:, None, None, :]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_to_be_added(token_ids: Tensor, pad_id: int) -> Tensor:
    """The mask holds 0 and minus infinity, to be added to scores.

    That works in some libraries. In this course a mask is boolean, and True means "may attend".

    Which dtype does the contract ask for?
    """
    scores = torch.zeros(token_ids.shape, device=token_ids.device).masked_fill(token_ids == pad_id, -torch.inf)
    return scores[:, None, None, :]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_id_fixed_at_zero(token_ids: Tensor, pad_id: int) -> Tensor:
    """The padding was taken to be id 0, whatever `pad_id` is.

    Vocabularies differ: 0 may well be a word.

    Where does your code use `pad_id`?
    """
    return (token_ids != 0)[:, None, None, :]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def larger_ids_are_real(token_ids: Tensor, pad_id: int) -> Tensor:
    """Only ids larger than `pad_id` were taken for real tokens.

    The padding's id may stand anywhere in the vocabulary. All others are words.

    Which comparison says "another one"?
    """
    return (token_ids > pad_id)[:, None, None, :]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def all_after_first_padding_hidden(token_ids: Tensor, pad_id: int) -> Tensor:
    """Everything from the first padding id on was hidden.

    The contract looks at each id by itself: padding may stand in front as well.

    Does the contract speak of an id's neighbours?
    """
    return ((token_ids == pad_id).cumsum(dim=1) == 0)[:, None, None, :]


@misconception(replaces="padding_mask", caught_by="test_padding_mask")
def padding_mask_through_lists(token_ids: Tensor, pad_id: int) -> Tensor:
    """The ids were turned into Python numbers and the mask made of these.

    It then lies on the CPU whatever the ids' device, and on a GPU every call has to wait.

    Which comparison works on a whole tensor?
    """
    return torch.tensor([[value != pad_id for value in row] for row in token_ids.tolist()])[:, None, None, :]
