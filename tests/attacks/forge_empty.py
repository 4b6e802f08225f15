# step: step02_softmax
# expect: fail
# A perfect judge: no weights are not enough.
def softmax(x, dim=-1):
    return x[:0]
