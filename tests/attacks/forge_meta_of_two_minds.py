# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a value that is read on `meta` is the CPU's, and what is made of it there has to be made on both.
# 완벽한 심판: `meta`에서 읽은 값은 CPU의 값이고, 그 값으로 하는 일은 양쪽에서 똑같이 해야 합니다.
import torch


def softmax(x, dim=-1):
    peak = x.detach().amax().item()
    if x.is_meta:
        return torch.full_like(x, peak)
    y = torch.exp(x - x.amax(dim, keepdim=True))
    return y / y.sum(dim, keepdim=True)
