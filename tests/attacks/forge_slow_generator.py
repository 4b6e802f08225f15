# step: step02_softmax
# expect: timeout
# A perfect judge: what a generator takes its time for is on the clock.
import time

def softmax(x, dim=-1):
    while True:
        time.sleep(0.05)
        yield x
