# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: noise is no answer.
# 완벽한 심판: 잡음은 답이 아닙니다.
import os, stat, struct, sys

#: channel

import random

def softmax(x, dim=-1):
    noise = random.Random(1)
    for size in (1, 100, 5000):
        send(noise.randbytes(size), noise.randbytes(size))
    return x
