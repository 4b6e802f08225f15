# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: torch's own error: it can't allocate.
# 완벽한 심판: 메모리를 잡을 수 없다는 torch 자신의 오류입니다.
import torch

def softmax(x, dim=-1):
    return torch.ones(1 << 34).sum() + x
