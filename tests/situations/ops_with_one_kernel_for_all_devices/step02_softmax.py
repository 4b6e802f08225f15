import torch


def softmax(x, dim=-1):
    largest = torch.cummax(x, dim).values.narrow(dim, -1, 1)
    shifted = x.double() - largest.double()
    total = torch.logcumsumexp(shifted.detach().sort(dim).values, dim).narrow(dim, -1, 1).exp()
    powers = shifted.exp()
    return (powers / powers.sum(dim, keepdim=True) + 0 * total).to(x.dtype)
