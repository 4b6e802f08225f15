# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: more answers than calls are noticed.
# 완벽한 심판: 호출보다 답이 많으면 알아차립니다.
import os, stat, struct, sys

#: channel

#: found

Outcome, encode_outcome = found("grader.sandbox.worker").Outcome, found("grader.sandbox.worker").encode_outcome

def softmax(x, dim=-1):
    for _ in range(100):
        os.write(CHANNEL, encode_outcome(Outcome(value=True)))
    return x
