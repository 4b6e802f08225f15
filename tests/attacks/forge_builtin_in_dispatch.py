# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: the built-in is seen where a mode of one's own puts it in another op's place, too.
# 완벽한 심판: 직접 만든 모드로 다른 연산 자리에 금지된 내장 함수를 끼워 넣어도 알아냅니다.
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class InItsPlace(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.exp.default:
            return torch.softmax(args[0], dim=-1)
        return func(*args, **(kwargs or {}))


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        with InItsPlace():
            weights = torch.exp(x)
        context.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(context, gradient):
        (weights,) = context.saved_tensors
        return weights * (gradient - (weights * gradient).sum(dim=-1, keepdim=True))


def softmax(x, dim=-1):
    return Softmax.apply(x.movedim(dim, -1)).movedim(-1, dim)
