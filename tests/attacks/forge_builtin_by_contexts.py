# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: Python's contexts are given nothing that counts.
# 완벽한 심판: 파이썬의 컨텍스트 도구에는 세는 객체가 전달되지 않습니다.
import contextlib

import torch

bound = contextlib.MethodType


def method(function, owner):
    if hasattr(owner, "names"):
        owner.names = set()
    return bound(function, owner)


contextlib.MethodType = method
contextlib.ExitStack.__enter__ = lambda self: vars(self).update(_built_ins=None) or self


def softmax(x, dim=-1):
    return torch.softmax(x, dim)
