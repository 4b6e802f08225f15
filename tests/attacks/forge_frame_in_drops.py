# step: step02_softmax
# expect: timeout
# rests on: process and limits
# A perfect judge: an answer that comes byte by byte is too late: the clock is for the whole answer.
# 완벽한 심판: 한 바이트씩 오는 답은 시간 초과입니다. 시간은 답 전체를 두고 잽니다.
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
    send(b"", header_size=100_000)
    while True:
        os.write(CHANNEL, b"\x98")
        time.sleep(0.01)
