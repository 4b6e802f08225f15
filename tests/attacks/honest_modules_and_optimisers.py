# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: modules, optimisers, hooks and autograd functions work.
# 완벽한 심판: 모듈, 옵티마이저, 훅, autograd 함수가 동작합니다.
import functools
import torch
from torch import nn

#: honest


@functools.cache
def once():
    layer = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.LayerNorm(4))
    optimiser = torch.optim.AdamW(layer.parameters(), lr=1e-3)
    torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1.0)
    with torch.enable_grad():  # the caller may have switched gradients off
        layer(torch.ones(2, 3)).sum().backward()
    optimiser.step()
    torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
    layer.load_state_dict(layer.state_dict())
    torch.set_num_threads(8)
    assert (torch.randn(300, 300) @ torch.randn(300, 300)).shape == (300, 300)


def softmax(x, dim=-1):
    once()
    return honest(x, dim)
