# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: a tensor table nested a million deep is refused.
# 완벽한 심판: 백만 겹으로 겹친 텐서 표는 거부합니다.
import os, stat, struct, sys

#: channel

def softmax(x, dim=-1):
    table = b'{"0":' + b"[" * 900_000
    send(b"\x98\xc0\xc0\x80\x90\x90\x90\x90\x00", struct.pack("<Q", len(table)) + table)
    return x
