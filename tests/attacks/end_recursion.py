# step: step02_softmax
# expect: fail
# A perfect judge: softmax raised RecursionError.
def softmax(x, dim=-1):
    return softmax(x, dim)
