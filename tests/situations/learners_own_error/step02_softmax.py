import torch


def softmax(x, dim=-1):
    wrong = torch.ones(7, 9)
    return x @ wrong
