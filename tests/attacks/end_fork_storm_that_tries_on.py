# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: as many forks as it likes are refused.
# 완벽한 심판: 몇 번을 시도하든 포크는 거부됩니다.
import os

def softmax(x, dim=-1):
    while True:
        try:
            os.fork()
        except OSError:
            continue
