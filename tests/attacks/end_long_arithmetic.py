# step: step02_softmax
# expect: timeout
# A perfect judge: one long operation is ended in its midst.
def softmax(x, dim=-1):
    return str(3 ** (10**8)) and x
