# step: step02_softmax
# expect: fail
# A perfect judge: a tensor without values has no weights.
def softmax(x, dim=-1):
    return x.to('meta')
