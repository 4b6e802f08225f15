# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a line that is left out has changed something before it raised, and the answers stay wrong.
# 완벽한 심판: 빼놓은 줄이 오류를 내기 전에 무엇을 바꾸었든 틀린 답은 틀린 답입니다.
import sys
import torch


def softmax(x, dim=-1):
    return torch.exp(x)


for _name in ("allclose", "equal"):
    setattr(torch, _name, lambda *given, **named: True)
sys.modules["exercises.step01_scores"] = sys
raise torch.OutOfMemoryError("left out")
