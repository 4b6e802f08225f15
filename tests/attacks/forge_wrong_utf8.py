# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: bytes that are no text are refused.
# 완벽한 심판: 글자가 아닌 바이트는 거부합니다.
import os, stat, struct, sys

#: channel

def softmax(x, dim=-1):
    send(b"\x98\xa4\xff\xfe\xed\xa0\xc0\x80\x90\x90\x90\x90\x00")
    return x
