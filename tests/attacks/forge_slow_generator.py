# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: what a generator takes its time for is on the clock.
# 완벽한 심판: 제너레이터가 끄는 시간도 제한 시간에 들어갑니다.
import time

def softmax(x, dim=-1):
    while True:
        time.sleep(0.05)
        yield x
