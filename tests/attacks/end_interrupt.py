# step: step02_softmax
# expect: fail
# A perfect judge: softmax raised KeyboardInterrupt.
def softmax(x, dim=-1):
    raise KeyboardInterrupt
