# step: step02_softmax
# expect: fail
# A perfect judge: nan is equal to nothing.
def softmax(x, dim=-1):
    return x * float('nan')
