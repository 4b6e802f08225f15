# step: step02_softmax
# expect: fail
# A perfect judge: returning NotImplemented or Ellipsis is no tensor.
def softmax(x, dim=-1):
    return NotImplemented
