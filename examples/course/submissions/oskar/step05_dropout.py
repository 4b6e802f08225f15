import torch
from torch import nn


def dropout(x, p=0.5, training=True):
    if not training:
        return x
    if p < 0 or p > 1:
        raise ValueError("p must be between 0 and 1")
    if p == 1:
        return torch.zeros_like(x)
    dropped = torch.rand(x.shape, device=x.device) < p
    return torch.where(dropped, 0.0, x / (1 - p)).to(x.dtype)


class Dropout(nn.Module):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, x):
        return dropout(x, p=self.p, training=self.training)
