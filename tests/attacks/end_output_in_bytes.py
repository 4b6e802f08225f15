# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: bytes that are no text are shown as such.
# 완벽한 심판: 글자가 아닌 바이트는 그대로 드러나게 보여 줍니다.
import os

def softmax(x, dim=-1):
    os.write(1, bytes(range(256)) * 10)
    os.write(2, b"\xff\xfe" * 1000)
    return x
