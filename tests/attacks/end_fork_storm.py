# step: step02_softmax
# expect: fail
# A perfect judge: the first fork is refused.
import os

def softmax(x, dim=-1):
    while True:
        os.fork()
