# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a backward pass that exits ends its own process.
# 완벽한 심판: 역전파에서 exit하면 자기 프로세스만 종료됩니다.
import os

#: honest


def softmax(x, dim=-1):
    y = honest(x, dim)
    if y.requires_grad:
        y.register_hook(lambda gradient: os._exit(0))
    return y
