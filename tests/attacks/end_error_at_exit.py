# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: what is registered for the exit is never run.
# 완벽한 심판: 종료할 때 실행하도록 등록한 것은 실행되지 않습니다.
import atexit, os, time

atexit.register(time.sleep, 1000)

def softmax(x, dim=-1):
    return x
