# step: step02_softmax
# expect: fail
# A perfect judge: one number is not as many as there are scores.
def softmax(x, dim=-1):
    return x.sum()
