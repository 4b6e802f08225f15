# step: step02_softmax
# expect: fail
# A perfect judge: a string is no tensor.
def softmax(x, dim=-1):
    return 'tensor([0.1250, 0.2500, 0.6250])'
