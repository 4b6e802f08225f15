import torch


def softmax(x, dim=-1):
    shifted = x - x.amax(dim, keepdim=True)
    return shifted.exp() / shifted.exp().sum(dim, keepdim=True)
