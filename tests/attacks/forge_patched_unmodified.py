# step: step02_softmax
# expect: fail
# A perfect judge: it can say that it left its input alone; wrong values stay wrong.
from grader import responder
responder._Inputs.modified = lambda self: []

def softmax(x, dim=-1):
    return x.zero_()
