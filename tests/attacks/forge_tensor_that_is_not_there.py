# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a tensor that the payload does not hold is none.
# 완벽한 심판: 내용에 들어 있지 않은 텐서는 텐서가 아닙니다.
import os, stat, struct, sys

#: channel

import msgspec

def softmax(x, dim=-1):
    send(msgspec.msgpack.encode([["t", "9", [3], "float32", "cpu", None], None, {}, [], [], [], [], 0]))
    return x
