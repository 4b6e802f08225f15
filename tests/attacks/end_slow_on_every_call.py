# step: step02_softmax
# expect: pass or timeout
# A perfect judge: calls that are each in time are stopped when together they take longer than a step may.
import time

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def softmax(x, dim=-1):
    time.sleep(0.7)
    return honest(x, dim)
