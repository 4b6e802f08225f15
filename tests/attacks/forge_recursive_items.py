# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: answers nested a million deep are refused.
# 완벽한 심판: 백만 겹으로 겹친 답은 거부합니다.
import os, stat, struct, sys

#: channel

def softmax(x, dim=-1):
    depth = 200_000
    send(b"\x98" + b"\x92\xa1i\x91" * depth + b"\xc0" + b"\xc0\x80\x90\x90\x90\x90\x00")
    return x
