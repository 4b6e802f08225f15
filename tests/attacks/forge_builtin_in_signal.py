# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a built-in is seen in the handler of a signal, too.
# 완벽한 심판: 시그널 처리기 안에서 쓴 금지된 내장 함수도 알아냅니다.
import signal

import torch

WAITING = []


#: later


signal.signal(signal.SIGALRM, lambda number, frame: fill())



def softmax(x, dim=-1):
    result = Later.apply(x, dim)
    WAITING.append((result.detach(), x.detach(), dim))
    signal.setitimer(signal.ITIMER_REAL, 1e-5)
    return result
