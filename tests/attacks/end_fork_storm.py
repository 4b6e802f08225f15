# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: the first fork is refused.
# 완벽한 심판: 첫 포크부터 거부됩니다.
import os

def softmax(x, dim=-1):
    while True:
        os.fork()
