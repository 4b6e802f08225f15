# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: the built-in is seen where torch's own context managers have switched every mode off.
# 완벽한 심판: torch 자체의 컨텍스트 매니저로 모든 모드를 꺼도 금지된 내장 함수를 알아냅니다.
import torch
from torch.utils._python_dispatch import _disable_current_modes


def softmax(x, dim=-1):
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        return torch.softmax(x, dim)
