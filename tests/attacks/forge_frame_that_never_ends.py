# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: an answer whose rest never comes is too late.
# 완벽한 심판: 나머지가 오지 않는 답은 시간 초과입니다.
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

import time

def softmax(x, dim=-1):
    send(b"\x98", header_size=1000)
    time.sleep(1000)
