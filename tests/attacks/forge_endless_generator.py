# step: step02_softmax
# expect: fail
# A perfect judge: of a generator only so much is taken.
def softmax(x, dim=-1):
    while True:
        yield x
