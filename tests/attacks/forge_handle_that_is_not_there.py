# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a module that was never made is no tensor.
# 완벽한 심판: 만든 적 없는 모듈은 텐서가 아닙니다.
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
    send(msgspec.msgpack.encode([["h", -(2**62)], None, {}, [], [], [], [], 0]))
    os._exit(0)
