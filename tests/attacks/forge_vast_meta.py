# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: shapes beyond any memory are only compared.
# 완벽한 심판: 어떤 메모리도 넘어서는 모양은 비교만 합니다.
import torch

def softmax(x, dim=-1):
    return torch.empty(2**20, 2**20, 2**20, device='meta')
