# step: step02_softmax
# expect: pass
# A perfect judge: a helper file's name may be anything.
import grader
import torch

def honest(x, dim=-1):
    exponentials = (x - x.detach().amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def softmax(x, dim=-1):
    return honest(x, dim)
