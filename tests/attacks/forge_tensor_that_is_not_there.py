# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a tensor that the payload does not hold is none.
# 완벽한 심판: 내용에 들어 있지 않은 텐서는 텐서가 아닙니다.
import os, stat, struct, sys

for CHANNEL in range(3, 64):
    try:
        if stat.S_ISSOCK(os.fstat(CHANNEL).st_mode):
            break
    except OSError:
        continue


def send(header, payload=b"", header_size=None, payload_size=None):
    sizes = struct.pack("<IQ", len(header) if header_size is None else header_size, len(payload) if payload_size is None else payload_size)
    data = sizes + header + payload
    while data:
        data = data[os.write(CHANNEL, data):]

import msgspec

def softmax(x, dim=-1):
    send(msgspec.msgpack.encode([["t", "9", [3], "float32", "cpu", None], None, {}, [], [], [], [], 0]))
    return x
