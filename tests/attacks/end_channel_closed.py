# step: step02_softmax
# expect: fail
# A perfect judge: a process without its channel is ended at once.
import os, time

def softmax(x, dim=-1):
    os.closerange(0, 64)
    time.sleep(1000)
