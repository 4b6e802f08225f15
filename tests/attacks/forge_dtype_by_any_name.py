# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a dtype is looked up in a table, not asked of torch by any name.
# 완벽한 심판: dtype은 표에서 찾으며, 아무 이름이나 torch에 묻지 않습니다.
import os, stat, struct, sys

#: channel

import msgspec

def softmax(x, dim=-1):
    for name in ("load", "Tensor", "__file__", "qint8", "bits16", "float4_e2m1fn_x2"):
        send(msgspec.msgpack.encode([["t", None, [3], name, "meta", None], None, {}, [], [], [], [], 0]))
        return x
