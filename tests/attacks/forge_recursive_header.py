# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a header nested a million deep is refused.
# 완벽한 심판: 백만 겹으로 겹친 헤더는 거부합니다.
import os, stat, struct, sys

#: channel

def softmax(x, dim=-1):
    send(b"\x91" * 1_000_000)
    return x
