# step: step02_softmax
# expect: timeout
# A perfect judge: no answer within the deadline.
import time

def softmax(x, dim=-1):
    time.sleep(10_000)
