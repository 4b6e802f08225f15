# step: step02_softmax
# expect: pass or timeout
# rests on: process and limits
# A perfect judge: calls that are each in time are stopped when together they take longer than a step may.
# 완벽한 심판: 호출 하나하나가 제시간이어도, 합해서 단계의 제한 시간을 넘으면 멈춥니다.
import time

#: honest


def softmax(x, dim=-1):
    time.sleep(0.7)
    return honest(x, dim)
