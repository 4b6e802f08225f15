# step: step02_softmax
# expect: timeout
# A perfect judge: as many forks as it likes are refused.
import os

def softmax(x, dim=-1):
    while True:
        try:
            os.fork()
        except OSError:
            continue
