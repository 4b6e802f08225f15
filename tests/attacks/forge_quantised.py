# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a quantised tensor is said to be one.
# 완벽한 심판: 양자화된 텐서는 그렇다고 알려 줍니다.
import torch

#: honest


def softmax(x, dim=-1):
    return torch.quantize_per_tensor(honest(x.float(), dim), 0.1, 0, torch.quint8)
