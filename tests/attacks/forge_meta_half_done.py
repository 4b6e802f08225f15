# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: on `meta` the same functions are called as on the CPU, and not only the same last one.
# 완벽한 심판: `meta`에서도 CPU에서와 같은 함수를 불러야 하며, 마지막 함수만 같아서는 안 됩니다.
import torch


def softmax(x, dim=-1):
    y = torch.exp(x if x.is_meta else x - x.amax(dim, keepdim=True))
    return y / (torch.ones_like(x) if x.is_meta else y.sum(dim, keepdim=True))
