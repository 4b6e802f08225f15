# step: step02_softmax
# expect: fail
# A perfect judge: the line that Python can't read.
def softmax(x, dim=-1)
    return x
