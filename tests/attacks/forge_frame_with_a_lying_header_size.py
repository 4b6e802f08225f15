# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a header of 4 GiB is refused before a byte of it is read.
# 완벽한 심판: 4 GiB라고 하는 헤더는 한 바이트도 읽지 않고 거부합니다.
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

def softmax(x, dim=-1):
    send(b"", header_size=0xFFFFFFFF)
    return x
