# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: ctypes gives nothing of Python's C API, which reads sealed attributes, and a person is told of the attempt.
# 완벽한 심판: ctypes는 봉인된 속성을 읽는 파이썬 C API를 내주지 않고, 시도는 사람에게 알려집니다.
import ctypes
import sys

import torch

names_of = ctypes.pythonapi.PyFrame_GetGlobals
names_of.restype = ctypes.py_object


def softmax(x, dim=-1):
    frame = sys._getframe()
    while frame:
        names = names_of(ctypes.py_object(frame))
        if "banned" in names:
            names["banned"] = lambda names, families: []
        frame = frame.f_back
    return torch.softmax(x, dim)
