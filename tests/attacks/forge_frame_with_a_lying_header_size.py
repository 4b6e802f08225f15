# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a header of 4 GiB is refused before a byte of it is read.
# 완벽한 심판: 4 GiB라고 하는 헤더는 한 바이트도 읽지 않고 거부합니다.
import os, stat, struct, sys

#: channel

def softmax(x, dim=-1):
    send(b"", header_size=0xFFFFFFFF)
    return x
