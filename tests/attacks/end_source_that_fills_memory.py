# step: step02_softmax
# expect: fail
# A perfect judge: a constant of many gigabytes is not folded into the grader.
def softmax(x, dim=-1):
    return x + len("a" * 10**11)
