# step: step02_softmax
# expect: timeout
# A perfect judge: no answer within the deadline.
import threading

def softmax(x, dim=-1):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
