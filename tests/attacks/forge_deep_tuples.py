# step: step02_softmax
# expect: fail
# A perfect judge: tuples in tuples are taken to a bounded depth.
def softmax(x, dim=-1):
    value = x
    for _ in range(200_000):
        value = (value,)
    return value
