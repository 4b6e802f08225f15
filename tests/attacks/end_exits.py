# step: step02_softmax
# expect: fail
# A perfect judge: the code ended its own process (exit status 0).
import os

def softmax(x, dim=-1):
    os._exit(0)
