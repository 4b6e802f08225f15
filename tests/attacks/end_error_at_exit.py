# step: step02_softmax
# expect: fail
# A perfect judge: what is registered for the exit is never run.
import atexit, os, time

atexit.register(time.sleep, 1000)

def softmax(x, dim=-1):
    return x
