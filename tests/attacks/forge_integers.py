# step: step02_softmax
# expect: fail
# A perfect judge: integers are no weights.
def softmax(x, dim=-1):
    return x.long()
