# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a payload of 2**63 bytes is refused before a byte of it is read.
# 완벽한 심판: 2**63바이트라고 하는 내용은 한 바이트도 읽지 않고 거부합니다.
import os, stat, struct, sys

#: channel

def softmax(x, dim=-1):
    send(b"", payload_size=2**63)
    return x
