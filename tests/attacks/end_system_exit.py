# step: step02_softmax
# expect: fail
# A perfect judge: softmax raised SystemExit.
def softmax(x, dim=-1):
    raise SystemExit(0)
