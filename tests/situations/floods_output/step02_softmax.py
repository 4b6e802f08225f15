import torch


def softmax(x, dim=-1):
    print("y" * 1_000_000)
    weights = torch.exp(x - x.amax(dim, keepdim=True))
    return weights / weights.sum(dim, keepdim=True)
