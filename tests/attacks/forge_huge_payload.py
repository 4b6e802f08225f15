# step: step02_softmax
# expect: fail or timeout
# rests on: process and limits
# A perfect judge: 250 MB of zeros are read in bounded memory and time, and are no answer.
# 완벽한 심판: 0으로 채운 250 MB는 정해진 메모리와 시간 안에서 읽으며, 답이 되지 않습니다.
import os, stat, struct, sys

#: channel

def softmax(x, dim=-1):
    block = bytes(1 << 20)
    send(b"\x98\xc0\xc0\x80\x90\x90\x90\x90\x00", payload_size=250 << 20)
    for _ in range(250):
        send(block[12:])
    return x
