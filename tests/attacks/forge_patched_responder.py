# step: step02_softmax
# expect: fail
# A perfect judge: an empty outcome earns nothing, and breaks nothing.
from grader import responder
from grader.messages import Outcome
responder.Responder.respond = lambda self, call: Outcome(value=True)

def softmax(x, dim=-1):
    return x
