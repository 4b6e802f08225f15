# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: what NumPy writes into a tensor's memory on the CPU is work that is missing on `meta`.
# 완벽한 심판: CPU에서 NumPy가 텐서의 메모리에 써 넣은 것은 `meta`에서 빠진 작업입니다.
import numpy as np
import torch


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        y = torch.empty_like(x)
        if not x.is_meta:
            a = x.float().numpy() if x.dtype == torch.bfloat16 else x.numpy()
            e = np.exp((a - a.max(axis=dim, keepdims=True)).astype(np.float64))
            if x.dtype == torch.bfloat16:
                y.copy_(torch.from_numpy(e / e.sum(axis=dim, keepdims=True)))
            else:
                y.numpy()[...] = e / e.sum(axis=dim, keepdims=True)
        ctx.dim = dim
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(ctx.dim, keepdim=True)), None


def softmax(x, dim=-1):
    return Softmax.apply(x, dim)
