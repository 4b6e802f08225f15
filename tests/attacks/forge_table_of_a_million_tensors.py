# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a table of a million empty tensors is refused before it is built.
# 완벽한 심판: 빈 텐서 백만 개의 표는 만들기 전에 거부합니다.
import os, stat, struct, sys

#: channel

import json

def softmax(x, dim=-1):
    table = json.dumps({str(i): {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(100_000)}).encode()
    send(b"\x98\xc0\xc0\x80\x90\x90\x90\x90\x00", struct.pack("<Q", len(table)) + table)
    return x
