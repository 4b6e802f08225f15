# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: torch.func works.
# 완벽한 심판: torch.func가 동작합니다.
import functools
import torch

#: honest


@functools.cache
def once():
    gradient = torch.func.grad(lambda y: y.sin().sum())(torch.ones(3))
    assert torch.allclose(gradient, torch.ones(3).cos())
    assert torch.func.vmap(lambda y: y * 2)(torch.ones(3)).sum() == 6


def softmax(x, dim=-1):
    once()
    return honest(x, dim)
