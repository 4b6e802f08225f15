import torch
import torch.nn.functional as F


def dot_product_scores(query, key):
    leading, (t_q, d), t_k = query.shape[:-2], query.shape[-2:], key.shape[-2]
    query, key = query.reshape(-1, t_q, d).mT, key.reshape(-1, 1, d)
    # Each batch entry is a group of a convolution, and its keys are filters of width 1.
    scores = F.conv1d(query.reshape(1, -1, t_q), key.reshape(-1, d, 1), groups=query.shape[0])
    return scores.view(*leading, t_k, t_q).mT


def scaled_scores(query, key):
    scores = dot_product_scores(query, key)
    return scores * torch.linspace(torch.tensor(1.0), query.shape[-1], 2, dtype=scores.dtype, device=scores.device)[1] ** -0.5
