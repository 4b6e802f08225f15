# step: step02_softmax
# expect: fail
# A perfect judge: infinity is not within any tolerance.
def softmax(x, dim=-1):
    return x * 0 + float('inf')
