# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: no frame leads to the names of what called it.
# 완벽한 심판: 어떤 프레임도 자신을 부른 코드의 이름들로 이어지지 않습니다.
import sys

import torch


def softmax(x, dim=-1):
    frame = sys._getframe()
    while frame:
        for names in (frame.f_globals, frame.f_locals, frame.f_builtins):
            if "banned" in names:
                names["banned"] = lambda names, families: []
            if "self" in names and hasattr(names["self"], "off_limits"):
                names["self"].off_limits.clear()
        frame = frame.f_back
    return torch.softmax(x, dim)
