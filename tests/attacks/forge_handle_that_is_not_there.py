# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a module that was never made is no tensor.
# 완벽한 심판: 만든 적 없는 모듈은 텐서가 아닙니다.
import os, stat, struct, sys

#: channel

import msgspec

def softmax(x, dim=-1):
    send(msgspec.msgpack.encode([["h", -(2**62)], None, {}, [], [], [], [], 0]))
    os._exit(0)
