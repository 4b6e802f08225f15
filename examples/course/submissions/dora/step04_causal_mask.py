import torch


def causal_mask(num_tokens, device=None):
    i = torch.arange(num_tokens, device=device)
    return i[None, :] >= i[:, None]


def masked_softmax(scores, mask):
    return scores.softmax(-1) * mask


def renormalise(weights, mask):
    kept = torch.where(mask, weights, 0.0)
    return kept / kept.sum(-1, keepdim=True)
