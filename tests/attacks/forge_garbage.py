# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: noise is no answer.
# 완벽한 심판: 잡음은 답이 아닙니다.
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

import random

def softmax(x, dim=-1):
    noise = random.Random(1)
    for size in (1, 100, 5000):
        send(noise.randbytes(size), noise.randbytes(size))
    return x
