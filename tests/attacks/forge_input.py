# step: step02_softmax
# expect: fail
# A perfect judge: the scores are not the weights.
def softmax(x, dim=-1):
    return x
