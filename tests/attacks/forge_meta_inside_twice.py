# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a function that hands itself to torch's protocol again hides nothing by that.
# 완벽한 심판: 함수가 torch의 프로토콜에 자신을 다시 넘겨도 숨길 수 있는 것은 없습니다.
import torch
from torch.overrides import handle_torch_function


def work(x, dim=-1):
    if torch._C._is_torch_function_mode_enabled():
        return handle_torch_function(work, (x,), x, dim)
    if x.is_meta:
        return torch.empty_like(x)
    y = torch.exp(x - x.amax(dim, keepdim=True))
    return y / y.sum(dim, keepdim=True)


def softmax(x, dim=-1):
    return work(x, dim)
