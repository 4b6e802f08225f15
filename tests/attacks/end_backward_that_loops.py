# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: a backward pass is on the clock.
# 완벽한 심판: 역전파에도 제한 시간이 있습니다.
import torch

class Loop(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        while True:
            pass

#: honest


def softmax(x, dim=-1):
    return Loop.apply(honest(x, dim))
