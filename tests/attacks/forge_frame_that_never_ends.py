# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: an answer whose rest never comes is too late.
# 완벽한 심판: 나머지가 오지 않는 답은 시간 초과입니다.
import os, stat, struct, sys

#: channel

import time

def softmax(x, dim=-1):
    send(b"\x98", header_size=1000)
    time.sleep(1000)
