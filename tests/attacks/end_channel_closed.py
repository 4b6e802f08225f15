# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a process without its channel is ended at once.
# 완벽한 심판: 채널을 닫은 프로세스는 바로 종료합니다.
import os, time

def softmax(x, dim=-1):
    os.closerange(0, 64)
    time.sleep(1000)
