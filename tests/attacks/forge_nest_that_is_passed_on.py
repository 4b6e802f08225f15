# step: step07_heads
# expect: fail
# rests on: process and limits
# A perfect judge: an answer as deep as it can just be read is refused before it is shown, or passed on to another call.
# 완벽한 심판: 겨우 읽을 수 있을 만큼 깊은 답은 보여 주거나 다른 호출에 넘기기 전에 거부합니다.
import os, stat, struct

#: found

worker = found("grader.sandbox.worker")

for CHANNEL in range(3, 64):
    try:
        if stat.S_ISSOCK(os.fstat(CHANNEL).st_mode):
            break
    except OSError:
        continue

real_send = worker._send
state = {"merges": 0, "deep": False}


def send(answers, outcome):
    if not state.pop("deep", False):
        return real_send(answers, outcome)
    header = b"\x99" + b"\x92\xa1i\x91" * 324 + b"\xc0" + b"\xc0\x80\x90\x90\x90\x90\x00\xc0"
    os.write(CHANNEL, struct.pack("<IQ", len(header), 0) + header)


worker._send = send


def split_heads(x, num_heads):
    if tuple(x.shape) == (2, 5, 6):
        state["merges"] = 0
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


def merge_heads(x):
    """Right, but for the answer that the check sends back to split_heads."""
    if tuple(x.shape) == (2, 3, 5, 2):
        state["merges"] += 1
        state["deep"] = state["merges"] == 2
    return x.transpose(-3, -2).flatten(-2)
