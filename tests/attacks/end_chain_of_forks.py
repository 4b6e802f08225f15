# step: step02_softmax
# expect: fail or timeout
# rests on: process and limits
# A perfect judge: a child of a child of a child lives no longer.
# 완벽한 심판: 자식의 자식의 자식도 더 오래 살지 못합니다.
import os

def softmax(x, dim=-1):
    while True:
        try:
            if os.fork():
                os._exit(0)
        except OSError:
            os._exit(1)
