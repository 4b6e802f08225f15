# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a built-in is seen in an object's finaliser, whenever that runs.
# 완벽한 심판: 객체의 종료자가 언제 실행되든 그 안에서 쓴 금지된 내장 함수를 알아냅니다.
import torch

WAITING = []


#: later


class Last:
    """Goes with the frame that holds it: after the call, before the answer is sent."""

    def __del__(self):
        fill()


def softmax(x, dim=-1):
    result = Later.apply(x, dim)
    WAITING.append((result.detach(), x.detach(), dim))
    result.register_hook(lambda gradient, last=Last(): gradient) if result.requires_grad else None
    loop = [Last()]
    loop.append(loop)  # only the collector frees it
    return result
