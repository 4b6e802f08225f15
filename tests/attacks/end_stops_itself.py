# step: step02_softmax
# expect: timeout
# A perfect judge: a stopped process is ended at the deadline.
import os, signal

def softmax(x, dim=-1):
    os.kill(os.getpid(), signal.SIGSTOP)
    return x
