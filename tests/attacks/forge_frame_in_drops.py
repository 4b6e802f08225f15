# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: an answer that comes byte by byte is too late: the clock is for the whole answer.
# 완벽한 심판: 한 바이트씩 오는 답은 시간 초과입니다. 시간은 답 전체를 두고 잽니다.
import os, stat, struct, sys

#: channel

import time

def softmax(x, dim=-1):
    send(b"", header_size=100_000)
    while True:
        os.write(CHANNEL, b"\x98")
        time.sleep(0.01)
