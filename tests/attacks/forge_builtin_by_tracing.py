# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: what is set to watch each call no longer watches once the answer is there.
# 완벽한 심판: 호출을 지켜보게 설정한 것은 답이 나온 뒤에는 더 지켜보지 않습니다.
import sys

import torch


def watch(frame, event, given):
    if event == "return" and isinstance(given, list):
        given.clear()
    if event == "return" and hasattr(given, "off_limits"):
        given.off_limits = []
    return watch


def softmax(x, dim=-1):
    sys.settrace(watch)
    frame = sys._getframe()
    while frame:
        try:
            frame.f_trace = watch
        except AttributeError:
            pass
        frame = frame.f_back
    return torch.softmax(x, dim)
