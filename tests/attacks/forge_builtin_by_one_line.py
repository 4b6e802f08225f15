# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: what looks for built-ins can't be imported; the attempt is noted.
# 완벽한 심판: 내장 함수를 찾는 쪽은 불러올 수 없습니다. 시도는 기록됩니다.
import torch
try:
    from grader.calls import responder
    responder.banned = lambda names, families: []
except ImportError:
    pass


def softmax(x, dim=-1):
    return torch.softmax(x, dim)
