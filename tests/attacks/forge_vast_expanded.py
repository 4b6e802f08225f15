# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a tensor of 10**12 elements in 4 bytes is too big, and is never made.
# 완벽한 심판: 4바이트로 된 원소 10**12개의 텐서는 너무 크므로 만들지 않습니다.
import torch

def softmax(x, dim=-1):
    return torch.zeros(1).expand(10**6, 10**6)
