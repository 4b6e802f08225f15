# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: the process was killed by SIGKILL.
# 완벽한 심판: 프로세스가 SIGKILL로 종료되었습니다.
import os, signal

def softmax(x, dim=-1):
    os.kill(os.getpid(), signal.SIGKILL)
