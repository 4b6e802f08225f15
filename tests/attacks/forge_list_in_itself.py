# step: step02_softmax
# expect: fail
# A perfect judge: a list that holds itself is taken to a bounded depth.
def softmax(x, dim=-1):
    value = [x]
    value.append(value)
    return value
