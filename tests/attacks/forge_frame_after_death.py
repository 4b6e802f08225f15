# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: what a process leaves in its channel when it ends is no right answer.
# 완벽한 심판: 프로세스가 종료되면서 채널에 남긴 것은 정답이 되지 않습니다.
import os, stat, struct, sys

#: channel

#: found

Outcome, encode_outcome = found("grader.sandbox.worker").Outcome, found("grader.sandbox.worker").encode_outcome

def softmax(x, dim=-1):
    os.write(CHANNEL, encode_outcome(Outcome(value=None)) * 10)
    os._exit(0)
