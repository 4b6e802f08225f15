import torch


def softmax(x, dim=-1):
    shifted = x - x.amax(dim, keepdim=True)  # biggest entry is 0 now, exp can't overflow
    e = torch.exp(shifted)
    return e / e.sum(dim, keepdim=True)
