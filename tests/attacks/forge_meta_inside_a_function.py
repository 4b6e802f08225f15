# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: what a function of the learner's own calls is seen when torch's protocol calls it, too.
# 완벽한 심판: 학습자의 함수를 torch의 프로토콜로 불러도 그 안에서 부르는 것이 보입니다.
import torch
from torch.overrides import handle_torch_function


def work(x, dim=-1):
    if x.is_meta:
        return torch.empty_like(x)
    y = torch.exp(x - x.amax(dim, keepdim=True))
    return y / y.sum(dim, keepdim=True)


def softmax(x, dim=-1):
    return handle_torch_function(work, (x,), x, dim) if torch._C._is_torch_function_mode_enabled() else work(x, dim)
