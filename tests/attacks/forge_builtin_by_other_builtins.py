# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: Python's `sorted` is a learner's to replace, and not the one that the grader uses.
# 완벽한 심판: 파이썬의 `sorted`는 바꿔도 됩니다. 채점기가 쓰는 것은 다른 것입니다.
import builtins

import torch

builtins.sorted = lambda *given, **named: []
builtins.any = lambda values: False


def softmax(x, dim=-1):
    return torch.softmax(x, dim)
