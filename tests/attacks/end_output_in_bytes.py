# step: step02_softmax
# expect: fail
# A perfect judge: bytes that are no text are shown as such.
import os

def softmax(x, dim=-1):
    os.write(1, bytes(range(256)) * 10)
    os.write(2, b"\xff\xfe" * 1000)
    return x
