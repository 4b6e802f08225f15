# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: a stopped process is ended at the deadline.
# 완벽한 심판: 멈춰 선 프로세스도 제한 시간에 종료합니다.
import os, signal

def softmax(x, dim=-1):
    os.kill(os.getpid(), signal.SIGSTOP)
    return x
