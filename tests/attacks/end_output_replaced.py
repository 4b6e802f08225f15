# step: step02_softmax
# expect: fail
# A perfect judge: a standard output that fails or lies is nobody else's matter.
import sys

class Stream:
    def write(self, text): raise SystemError
    def flush(self): raise ValueError("no")

sys.stdout = sys.stderr = sys.__stdout__ = Stream()

def softmax(x, dim=-1):
    return x
