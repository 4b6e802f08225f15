# step: step02_softmax
# expect: fail
# A perfect judge: the process was killed by SIGABRT.
import os

def softmax(x, dim=-1):
    os.abort()
