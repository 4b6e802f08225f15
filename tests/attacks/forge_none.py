# step: step02_softmax
# expect: fail
# A perfect judge: expected a tensor, got None.
def softmax(x, dim=-1):
    return None
