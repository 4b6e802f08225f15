# step: step02_softmax
# expect: fail or timeout
# A perfect judge: a child of a child of a child lives no longer.
import os

def softmax(x, dim=-1):
    while True:
        try:
            if os.fork():
                os._exit(0)
        except OSError:
            os._exit(1)
