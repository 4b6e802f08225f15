# step: step02_softmax
# expect: fail
# A perfect judge: its own alarm ends its own process.
import signal, time

def softmax(x, dim=-1):
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    time.sleep(1000)
