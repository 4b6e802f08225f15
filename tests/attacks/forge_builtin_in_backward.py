# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: the built-in is seen in a backward pass of one's own, too.
# 완벽한 심판: 직접 쓴 역전파에서 금지된 내장 함수를 불러도 알아냅니다.
import torch


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(context, x, dim):
        context.save_for_backward(x)
        context.dim = dim
        exponentials = (x - x.amax(dim=dim, keepdim=True)).exp()
        return exponentials / exponentials.sum(dim=dim, keepdim=True)

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        with torch.enable_grad():
            again = x.detach().requires_grad_()
            weights = torch.softmax(again, dim=context.dim)
        return torch.autograd.grad(weights, again, gradient)[0], None


def softmax(x, dim=-1):
    return Softmax.apply(x, dim)
