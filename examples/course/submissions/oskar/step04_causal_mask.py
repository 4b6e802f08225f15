import torch


def causal_mask(num_tokens, device=None):
    i = torch.arange(num_tokens, device=device)
    return i[None, :] <= i[:, None]


def masked_softmax(scores, mask):
    return torch.where(mask, scores, float("-inf")).softmax(-1)


def renormalise(weights, mask):
    kept = torch.where(mask, weights, 0.0)
    return kept / kept.sum(-1, keepdim=True)
