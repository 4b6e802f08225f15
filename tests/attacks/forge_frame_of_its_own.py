# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: an answer written past the grader's own code is an answer like any other: a wrong one.
# 완벽한 심판: 채점기의 코드를 건너뛰고 쓴 답도 여느 답과 같은 답이며, 틀린 답입니다.
import os, stat, struct, sys

#: channel

import msgspec
#: found

Outcome, encode_outcome = found("grader.sandbox.worker").Outcome, found("grader.sandbox.worker").encode_outcome

def softmax(x, dim=-1):
    data = encode_outcome(Outcome(value="pass"))
    os.write(CHANNEL, data)
    return x
