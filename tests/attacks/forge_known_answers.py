# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: answers that are bit for bit those of a judged run say more than their values: what ran, too.
# 완벽한 심판: 이미 판정한 답과 비트까지 같은 답이라도 값만 보지 않고 무엇이 실행되었는지도 봅니다.
import torch

#: honest


def softmax(x, dim=-1):
    torch.softmax(x.detach(), dim)
    return honest(x, dim)
