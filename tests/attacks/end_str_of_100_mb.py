# step: step02_softmax
# expect: fail
# A perfect judge: a long message is cut.
def softmax(x, dim=-1):
    raise ValueError("x" * (100 << 20))
