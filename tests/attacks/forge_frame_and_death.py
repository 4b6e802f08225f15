# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: half an answer from a process that has ended is none.
# 완벽한 심판: 끝난 프로세스가 보낸 반쪽짜리 답은 답이 아닙니다.
import os, stat, struct, sys

#: channel

def softmax(x, dim=-1):
    send(b"\x98", header_size=1000)
    os._exit(0)
