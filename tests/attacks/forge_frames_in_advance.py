# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: more answers than calls are noticed.
# 완벽한 심판: 호출보다 답이 많으면 알아차립니다.
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

from grader.calls.call import Outcome
from grader.calls.codec import encode_outcome

def softmax(x, dim=-1):
    for _ in range(100):
        os.write(CHANNEL, encode_outcome(Outcome(value=True)))
    return x
