# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: shapes that no memory holds are refused or compared, and never made.
# 완벽한 심판: 어떤 메모리에도 담을 수 없는 모양은 거부하거나 비교만 하고, 만들지는 않습니다.
import os, stat, struct, sys

#: channel

import msgspec

def softmax(x, dim=-1):
    for shape in ([2**48] * 64, [-1], [2**70], [0] * 65, [1] * 64):
        send(msgspec.msgpack.encode([["t", None, shape, "float32", "meta", None], None, {}, [], [], [], [], 0]))
    return x
