# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: tensors that share their bytes, or leave the payload, are refused.
# 완벽한 심판: 바이트를 나눠 쓰거나 내용을 벗어나는 텐서는 거부합니다.
import os, stat, struct, sys

#: channel

import json

def softmax(x, dim=-1):
    for offsets in ([0, 4], [-4, 0], [0, 2**62], [4, 0]):
        table = json.dumps({"0": {"dtype": "F32", "shape": [1], "data_offsets": offsets}, "1": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        send(b"\x98\xc0\xc0\x80\x90\x90\x90\x90\x00", struct.pack("<Q", len(table)) + table + bytes(4))
    return x
