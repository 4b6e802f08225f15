# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: what is hidden from the record on the CPU is not what was done on `meta`.
# 완벽한 심판: CPU에서 기록을 피해 한 일은 `meta`에서 한 일로 볼 수 없습니다.
import torch


def softmax(x, dim=-1):
    if x.is_meta:
        return torch.empty_like(x)
    with torch._C.DisableTorchFunction():
        y = torch.exp(x - x.amax(dim, keepdim=True))
        return y / y.sum(dim, keepdim=True)
