# step: step02_softmax
# expect: timeout
# A perfect judge: the calls that it takes off its own channel are answered by nobody.
import os

def softmax(x, dim=-1):
    for number in range(3, 64):
        try:
            os.read(number, 1 << 20)
        except OSError:
            continue
    return x
