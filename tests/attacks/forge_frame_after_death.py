# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: what a process leaves in its channel when it ends is no right answer.
# 완벽한 심판: 프로세스가 종료되면서 채널에 남긴 것은 정답이 되지 않습니다.
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
    os.write(CHANNEL, encode_outcome(Outcome(value=None)) * 10)
    os._exit(0)
