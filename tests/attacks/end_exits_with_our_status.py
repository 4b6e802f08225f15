# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: the code ended its own process, with whatever status.
# 완벽한 심판: 종료 상태가 무엇이든, 코드가 자기 프로세스를 종료했습니다.
import os

def softmax(x, dim=-1):
    os._exit(70)
