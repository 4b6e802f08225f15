# step: step02_softmax
# expect: fail
# A perfect judge: the process was killed by SIGKILL.
import os, signal

def softmax(x, dim=-1):
    os.kill(os.getpid(), signal.SIGKILL)
