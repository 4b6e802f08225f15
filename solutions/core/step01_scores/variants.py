"""Right ways of step 1 that are written differently; each gets full marks."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import variant


@variant(
    replaces="dot_product_scores",
    trades="Each dimension has a name, so that nothing has to be transposed; below it is the same matrix product.",
)
def einsum_scores(query: Tensor, key: Tensor) -> Tensor:
    """The sum over the width, written as einsum."""
    return torch.einsum("...qd,...kd->...qk", query, key)


@variant(
    replaces="dot_product_scores",
    trades="It shows what a matrix product does, and keeps all T_q × T_k × d products in memory at once.",
)
def multiply_and_add(query: Tensor, key: Tensor) -> Tensor:
    """Every product is made, then the width is summed away."""
    return (query[..., :, None, :] * key[..., None, :, :]).sum(-1)


@variant(replaces="dot_product_scores")
def loop_over_queries(query: Tensor, key: Tensor) -> Tensor:
    """One query after the other, stacked; the layout is not contiguous."""
    columns = [(query * key[..., j, :].unsqueeze(-2)).sum(dim=-1) for j in range(key.shape[-2])]
    return torch.stack(columns).movedim(0, -1)


@variant(replaces="dot_product_scores")
def nested_loops_into_an_empty_tensor(query: Tensor, key: Tensor) -> Tensor:
    """The book's first way: two loops that fill an empty tensor, here for every batch entry at once."""
    attn_scores = query.new_empty(*query.shape[:-1], key.size(-2))
    for i in range(query.size(-2)):
        for j in range(key.size(-2)):
            attn_scores[..., i, j] = torch.linalg.vecdot(query[..., i, :], key[..., j, :])
    return attn_scores


@variant(replaces="dot_product_scores")
def flattened_bmm(query: Tensor, key: Tensor) -> Tensor:
    """All leading dimensions in one, a batched product, and back."""
    *leading, length, width = query.shape
    scores = torch.bmm(query.reshape(-1, length, width), key.reshape(-1, key.shape[-2], width).mT)
    return scores.view(*leading, length, key.shape[-2])


@variant(replaces="dot_product_scores")
def transposed_twice(query: Tensor, key: Tensor) -> Tensor:
    """Keys times queries, and the result turned around; the sum runs in another order."""
    return torch.matmul(key.flip(-1), query.flip(-1).swapaxes(-1, -2)).swapaxes(-1, -2)


@variant(replaces="dot_product_scores")
def summed_feature_by_feature(query: Tensor, key: Tensor) -> Tensor:
    """One feature after the other is added to the scores in place."""
    scores = query[..., :1] * key[..., :1].transpose(-1, -2)
    for feature in range(1, query.shape[-1]):
        scores += query[..., feature : feature + 1] * key[..., feature : feature + 1].transpose(-1, -2)
    return scores


@variant(
    replaces="scaled_scores",
    trades="It scales T × d numbers instead of T × T, less work for long sequences; the last digit may differ.",
)
def query_scaled_first(query: Tensor, key: Tensor) -> Tensor:
    """The query is scaled before the product."""
    return (query * query.size(-1) ** -0.5) @ key.transpose(-1, -2)


@variant(replaces="scaled_scores")
def fourth_root_on_both_sides(query: Tensor, key: Tensor) -> Tensor:
    """The query and the key each take half of the scale."""
    root = query.shape[-1] ** 0.25
    return torch.einsum("...id,...jd->...ij", query / root, key / root)


@variant(replaces="scaled_scores")
def root_as_a_tensor(query: Tensor, key: Tensor) -> Tensor:
    """The root is a tensor of its own, and the scores are divided in place."""
    scores = torch.matmul(query, key.mT)
    return scores.div_(torch.sqrt(torch.tensor(key.shape[-1], dtype=torch.float64, device=key.device)))


@variant(replaces="scaled_scores")
def root_in_single_precision(query: Tensor, key: Tensor) -> Tensor:
    """The tutorials' way: the root of a float32 tensor without dimensions."""
    d_k = torch.tensor(query.size(-1)).float()
    return torch.matmul(query, key.transpose(-2, -1)) / torch.sqrt(d_k)


@variant(replaces="scaled_scores")
def root_from_numpy(query: Tensor, key: Tensor) -> Tensor:
    """The root comes from numpy as a float64 scalar."""
    return query @ key.transpose(-2, -1) / np.sqrt(query.shape[-1])


@variant(replaces=("dot_product_scores", "scaled_scores"))
def each_batch_entry_alone() -> dict[str, object]:
    """A function that calls itself for each batch entry, with F.linear at the bottom, and no shared code."""

    def dot_product_scores(query: Tensor, key: Tensor) -> Tensor:
        if query.dim() == 2:
            return F.linear(query, key)
        return torch.stack([dot_product_scores(one, other) for one, other in zip(query, key, strict=True)])

    def scaled_scores(query: Tensor, key: Tensor) -> Tensor:
        if query.dim() == 2:
            return torch.addmm(query.new_zeros(()), query, key.t(), beta=0, alpha=1 / math.sqrt(query.shape[1]))
        return torch.stack([scaled_scores(one, other) for one, other in zip(query, key, strict=True)])

    return {"dot_product_scores": dot_product_scores, "scaled_scores": scaled_scores}
